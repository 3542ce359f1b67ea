//! The owner's next start delivers segments whatever happened to the recorder, and counts a provable loss.

use super::*;

const REQUESTS: usize = 20;
const RECORDS: u64 = 100;
/// Name of the case in which the recorder is removed instead of changed.
const MISSING: &str = "missing";

impl Folder {
    /// Leaves the files of a process that died with 2,000 records on disk.
    fn leave_2000(&self) {
        let mut spool = self.open();
        let append = |number| spool.append(Signal::Logs, RECORDS, &[&[number; 5]], &|_, _| ()).unwrap();
        (0..REQUESTS as u8).for_each(append);
    }

    /// Returns the bytes of all files, by name.
    fn image(&self) -> Vec<(String, Vec<u8>)> {
        let read = |name: String| (name.clone(), fs::read(self.0.join(name)).unwrap());
        self.names().into_iter().map(read).collect()
    }

    /// Replaces all files by these.
    fn restore(&self, image: &[(String, Vec<u8>)]) {
        self.names().iter().for_each(|name| fs::remove_file(self.0.join(name)).unwrap());
        image.iter().for_each(|(name, bytes)| fs::write(self.0.join(name), bytes).unwrap());
    }
}

/// Delivers all log records. Returns the numbers of delivered and damaged ones.
fn deliver(spool: &mut Spool) -> (u64, u64) {
    let mut delivered = 0;
    while let Some(request) = spool.next(Signal::Logs).unwrap() {
        assert!(!request.is_own);
        delivered += request.records;
        spool.settle(Signal::Logs).unwrap();
    }
    (delivered, of_logs(spool.take_damaged()).of_others)
}

#[test]
fn delivers_every_record_in_segments_whatever_happened_to_the_recorder() {
    let folder = Folder::new("whatever-happened");
    folder.leave_2000();
    let (image, recorder) = (folder.image(), folder.file(".recorder"));
    type Change = fn(&mut Vec<u8>);
    let cases: [(&str, Change, &str, bool); 9] = [
        ("damaged", |bytes| bytes[80] ^= 1, "", false),
        ("header damaged", |bytes| bytes[20] ^= 3, "its header is damaged", true),
        ("cut in the header", |bytes| bytes.truncate(100), "is cut off", true),
        ("cut behind it", |bytes| bytes.truncate(5000), "is cut off", true),
        ("truncated", Vec::clear, "empty or zeroed", true),
        ("zeroed", |bytes| bytes.fill(0), "empty or zeroed", true),
        ("of another version", |bytes| bytes[8] ^= 7, "left alone: its layout", false),
        ("replaced", |bytes| *bytes = b"{}".to_vec(), "not a flight recorder", false),
        (MISSING, |_| (), "is missing", false),
    ];
    for (case, change, words, is_kept) in cases {
        folder.restore(&image);
        match case {
            MISSING => fs::remove_file(&recorder).unwrap(),
            _ => folder.edit(".recorder", change),
        }
        let mut spool = folder.open();
        let notes = spool.take_notes();
        assert_eq!(notes.len(), usize::from(!words.is_empty()), "{case}: {notes:?}");
        assert!(notes.iter().all(|note| note.contains(words)), "{case}: {notes:?}");
        assert_eq!(deliver(&mut spool), (2000, 0), "{case}");
        spool.close();
        let has_kept = folder.names().iter().any(|name| name.ends_with(".recorder.damaged"));
        assert_eq!(has_kept, is_kept, "{case}: {:?}", folder.names());
        assert!(
            !folder.names().iter().any(|name| name.ends_with(".segment")),
            "{case}: {:?}",
            folder.names()
        );
    }
}

#[test]
fn takes_no_segments_of_a_live_process_whose_recorder_was_removed() {
    let folder = Folder::new("live");
    let mut lives = folder.open();
    lives.append(Signal::Logs, 10, &[b"body"], &|_, _| ()).unwrap();
    fs::remove_file(folder.file(".recorder")).unwrap();
    let found = inspect(&folder.0).unwrap();
    assert_eq!((found[0].is_running, &found[0].problems[..]), (true, &[][..]));
    let mut other = folder.open();
    assert_eq!((deliver(&mut other), other.take_notes()), ((0, 0), vec![]));
    other.close();
    drop(lives);
    assert_eq!(inspect(&folder.0).unwrap()[0].exporter.as_deref(), Some("otlp"));
    assert_eq!(deliver(&mut folder.open()), (10, 0));
}

#[test]
fn leaves_segments_of_an_unknown_owner_to_drain() {
    let folder = Folder::new("unknown-owner");
    folder.leave_2000();
    fs::remove_file(folder.file(".recorder")).unwrap();
    folder.edit(".segment", |bytes| bytes[ENTRIES_AT - 1] ^= 1);
    let mut spool = folder.open();
    let notes = spool.take_notes();
    let words = "left alone: its header, which names the owner, is damaged: standpipe drain delivers it";
    assert_eq!(notes, [format!("{}: {words}", folder.file(".segment").display())]);
    assert_eq!(deliver(&mut spool), (0, 0));
    spool.close();
    let mut drain = folder.open_to_drain();
    assert_eq!(deliver(&mut drain), (2000, 0));
    drain.close();
    assert!(folder.file(".segment.damaged").exists() && folder.names().len() == 1, "{:?}", folder.names());
}

#[test]
fn leaves_records_of_another_service_in_place_and_reports_them() {
    let folder = Folder::new("services");
    let mut shop = folder.open_of("shop");
    shop.append(Signal::Logs, 10, &[b"body"], &|_, _| ()).unwrap();
    drop(shop);
    let image = folder.image();
    let found = &inspect(&folder.0).unwrap()[0];
    let owner = (found.service.as_deref(), found.exporter.as_deref());
    assert_eq!(owner, (Some("shop"), Some("otlp")));
    for has_recorder in [true, false] {
        if !has_recorder {
            fs::remove_file(folder.file(".recorder")).unwrap();
        }
        let mut bank = folder.open_of("bank");
        assert_eq!(deliver(&mut bank), (0, 0));
        let notes = bank.take_notes();
        let words = "left by exporter \"otlp\" of service \"shop\", which delivers it at its next start, or run standpipe";
        assert!(notes.len() == 1 && notes[0].contains(words), "{notes:?}");
        bank.close();
        assert_eq!(folder.names().len(), 1 + usize::from(has_recorder), "nothing has changed");
    }
    folder.restore(&image);
    assert_eq!(deliver(&mut folder.open_of("shop")), (10, 0));
}

/// A change of the only segment.
type Change = Box<dyn Fn(&mut Vec<u8>)>;

#[test]
fn counts_every_record_of_a_segment_that_is_not_delivered() {
    let folder = Folder::new("not-delivered");
    folder.leave("otlp", &[b"first", b"second", b"third"]);
    let image = folder.image();
    let len = fs::metadata(folder.file(".segment")).unwrap().len() as usize;
    let cuts = (0..len).map(|end| {
        (format!("cut at {end}"), Box::new(move |bytes: &mut Vec<u8>| bytes.truncate(end)) as Change)
    });
    let flips = (0..len).flat_map(|at| [1u8, 0x10, 0xff].map(|bits| (at, bits))).map(|(at, bits)| {
        (format!("byte {at} by {bits:#x}"), Box::new(move |bytes: &mut Vec<u8>| bytes[at] ^= bits) as Change)
    });
    let zeros: Change = Box::new(|bytes| bytes.fill(0));
    for (case, change) in cuts.chain(flips).step_by(stride()).chain([("zeroed".to_owned(), zeros)]) {
        folder.restore(&image);
        folder.edit(".segment", &change);
        let mut spool = folder.open();
        let (delivered, damaged) = deliver(&mut spool);
        assert_eq!(delivered + damaged, 30, "{case}: {delivered} delivered");
        assert!(damaged == 0 || !spool.take_notes().is_empty(), "{case}");
        spool.close();
        let (mut next, names) = (folder.open(), folder.names());
        assert_eq!((deliver(&mut next), next.take_notes()), ((0, 0), vec![]), "{case}: {names:?}");
    }
    folder.restore(&image);
    fs::remove_file(folder.file(".segment")).unwrap();
    let found = inspect(&folder.0).unwrap();
    let words = "30 records are lost: files were removed, cut off or damaged";
    assert_eq!(found[0].problems, [format!("{}-*.segment: {words}", found[0].id)]);
    let mut spool = folder.open();
    assert_eq!(deliver(&mut spool), (0, 30), "removed");
    let notes = spool.take_notes();
    assert!(notes.len() == 1 && notes[0].contains("30 records are lost: files were removed"), "{notes:?}");
}

#[test]
fn counts_the_records_of_a_cut_entry_that_no_recorder_has() {
    let folder = Folder::new("cut-and-missing");
    folder.leave("otlp", &[b"first", b"second"]);
    fs::remove_file(folder.file(".recorder")).unwrap();
    folder.edit(".segment", |bytes| bytes.truncate(bytes.len() - 1));
    let mut spool = folder.open();
    assert_eq!(deliver(&mut spool), (10, 10));
    assert!(spool.take_notes().iter().any(|note| note.contains("10 records are lost")));
}

#[test]
fn counts_no_loss_when_the_process_died_between_an_entry_and_its_note() {
    let folder = Folder::new("not-noted");
    folder.leave("otlp", &[b"first", b"second"]);
    recorder::note_spooled(&folder.file(".recorder"), [0, 10, 0]).unwrap();
    let mut spool = folder.open();
    assert_eq!((deliver(&mut spool), spool.take_notes()), ((20, 0), vec![]));
}

#[test]
fn reports_a_blank_recorder_once_and_keeps_it() {
    for bytes in [0, 10_000] {
        let folder = Folder::new("blank");
        folder.leave_chunk(true);
        let recorder = folder.file(".recorder");
        fs::write(&recorder, vec![0; bytes]).unwrap();
        let words = "the flight recorder is empty or zeroed: an unknown number of queued records is lost; the file will be kept \
                     as *.damaged";
        let mut spool = folder.open();
        assert_eq!(spool.take_notes(), [format!("{}: {words}", recorder.display())]);
        spool.close();
        assert!(folder.file(".recorder.damaged").exists());
        assert_eq!(folder.open().take_notes(), Vec::<String>::new());
    }
}

#[test]
fn delivers_the_queue_though_a_bit_of_the_first_page_or_the_resource_is_flipped() {
    // In this order: magic, version, slots, length of the resource, checksum, boot id, owner, padding, resource.
    for at in [1, 9, 21, 25, 29, 45, 100, 2475, 4097] {
        let folder = Folder::new("corrected");
        folder.leave_chunk(true);
        let recorder = folder.file(".recorder");
        let mut bytes = fs::read(&recorder).unwrap();
        bytes[at] ^= 4;
        fs::write(&recorder, bytes).unwrap();
        assert_eq!(deliver(&mut folder.open()), (1, 0), "byte {at}");
    }
}
