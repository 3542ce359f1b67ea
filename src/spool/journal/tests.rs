mod disk;
mod model;

use super::*;
use crate::spool::segment::{MAGIC, MAX_BODY_LEN};
use disk::{Disk, Fault};

const LIMITS: Limits =
    Limits { bytes: 1 << 20, age: Duration::from_secs(1), segment_bytes: 1 << 16, sync: SpoolSync::Never };

fn open(disk: &Disk) -> (Journal<Disk>, Found) {
    open_with(disk, LIMITS)
}

fn open_with(disk: &Disk, limits: Limits) -> (Journal<Disk>, Found) {
    Journal::open(disk.clone(), limits).expect("nothing fails")
}

/// Returns the number of pending entries and records.
fn pending<S: Storage>(journal: &Journal<S>, signal: Signal) -> (usize, u64) {
    (journal.pending(signal), journal.records()[signal as usize])
}

impl<S: Storage> Journal<S> {
    fn take_all_damage(&mut self) -> Damage {
        self.take_damage().into_values().fold(Damage::default(), |sum, damage| Damage {
            places: sum.places + damage.places,
            offset: damage.offset,
            bytes: sum.bytes + damage.bytes,
            records: array::from_fn(|signal| sum.records[signal] + damage.records[signal]),
            is_gone: sum.is_gone || damage.is_gone,
        })
    }
}

impl Journal<Disk> {
    fn append_text(&mut self, signal: Signal, text: &str) {
        self.append(signal, text.len() as u64, &[text.as_bytes()], 0, |_| ()).expect("there is room");
    }

    /// Takes all entries and marks them as done.
    fn drain(&mut self, signal: Signal) -> Vec<Entry> {
        let mut entries = Vec::new();
        while let Some(entry) = self.next(signal).expect("nothing fails") {
            entries.push(entry);
            self.done(signal).expect("nothing fails");
        }
        entries
    }

    fn drain_texts(&mut self, signal: Signal) -> Vec<String> {
        let text = |entry: Entry| String::from_utf8(entry.body).expect("it was text");
        self.drain(signal).into_iter().map(text).collect()
    }
}

#[test]
fn each_signal_has_its_own_order_and_one_entry_in_hand() {
    let (mut journal, _) = open(&Disk::default());
    for (signal, text) in [(Signal::Traces, "a"), (Signal::Logs, "bc"), (Signal::Traces, "def")] {
        journal.append(signal, 7, &[text.as_bytes(), b"", b"!"], 42, |_| ()).expect("there is room");
    }
    let first = journal.next(Signal::Traces).expect("it is read").expect("it is there");
    assert_eq!(first, Entry { signal: Signal::Traces, records: 7, time_ms: 42, body: b"a!".to_vec() });
    assert_eq!(journal.next(Signal::Traces).expect("no read"), None, "one is in hand");
    assert_eq!(pending(&journal, Signal::Traces), (2, 14));
    journal.put_back(Signal::Traces);
    assert_eq!(journal.next(Signal::Traces).expect("it is read"), Some(first));
    journal.done(Signal::Traces).expect("it is marked");
    journal.done(Signal::Traces).expect("none is in hand");
    assert_eq!(pending(&journal, Signal::Traces), (1, 7));
    assert_eq!(journal.drain_texts(Signal::Traces), ["def!"]);
    assert_eq!(journal.drain_texts(Signal::Logs), ["bc!"]);
    assert_eq!(journal.drain_texts(Signal::Metrics), Vec::<String>::new());
}

#[test]
fn the_bytes_of_all_segments_are_kept_to_the_byte() {
    let entry = HEADER_LEN as u64 + 10;
    for (bytes, fit) in [(3 * entry - 1, 2), (3 * entry, 3), (3 * entry + 1, 3)] {
        let disk = Disk::default();
        let (mut journal, _) = open_with(&disk, Limits { bytes, segment_bytes: entry, ..LIMITS });
        let mut append = || journal.append(Signal::Logs, 1, &[b"ten bytes."], 0, |_| ()).is_ok();
        assert_eq!((0..5).filter(|_| append()).count(), fit);
        assert_eq!((disk.lens().len(), disk.bytes()), (fit, fit as u64 * entry), "one segment each");
        journal.next(Signal::Logs).expect("it is read").expect("it is there");
        journal.done(Signal::Logs).expect("it is removed");
        assert!(journal.append(Signal::Logs, 1, &[b"ten bytes."], 0, |_| ()).is_ok(), "there is room again");
    }
}

#[test]
fn takes_no_room_and_no_segments_of_another_signal_that_is_never_done() {
    let entry = HEADER_LEN as u64 + 10;
    let disk = Disk::default();
    let (mut journal, _) = open_with(&disk, Limits { bytes: 3 * entry, segment_bytes: 2 * entry, ..LIMITS });
    let append =
        |journal: &mut Journal<Disk>, signal| journal.append(signal, 1, &[b"ten bytes."], 0, |_| ()).is_ok();
    for _ in 0..5 {
        append(&mut journal, Signal::Logs);
        assert!(append(&mut journal, Signal::Traces), "logs have used up their own room");
        assert_eq!(journal.drain(Signal::Traces).len(), 1);
        assert_eq!(journal.bytes_of(Signal::Traces), 0, "an entry that is done takes no room");
    }
    assert!(!append(&mut journal, Signal::Logs));
    assert_eq!((journal.pending(Signal::Logs), disk.bytes()), (3, 3 * entry));
}

#[test]
fn a_body_that_is_too_long_finds_no_room() {
    let (mut journal, _) = open_with(&Disk::default(), Limits { bytes: u64::MAX, ..LIMITS });
    let body = vec![0; MAX_BODY_LEN as usize + 1];
    assert!(
        matches!(journal.append(Signal::Logs, 1, &[&body], 0, |_| ()), Err(error) if error.kind() == StorageFull)
    );
}

#[test]
fn an_append_that_failed_hides_no_other_and_leaves_no_file_of_its_own() {
    let disk = Disk::default();
    let (mut journal, _) = open(&disk);
    journal.append_text(Signal::Logs, "first");
    for effect in (0..=u8::MAX).rev() {
        // The first fault leaves a partial entry at the end of the segment. After it, each append first creates a
        // segment, and then its second call, the write, fails.
        disk.arm(Fault { after: u8::from(effect < u8::MAX), effect });
        match journal.append(Signal::Logs, 1, &[b"lost"], 0, |_| ()) {
            Err(error) => assert_eq!(error.to_string(), "a fault"),
            other => panic!("{other:?}"),
        }
        assert_eq!(disk.lens().len(), 1);
    }
    journal.append_text(Signal::Logs, "second");
    drop(journal);
    let (mut journal, found) = open(&disk);
    assert!(found.left_alone.is_empty());
    assert_eq!(journal.drain_texts(Signal::Logs), ["first", "second"]);
    assert!(disk.lens().is_empty());
}

#[test]
fn an_entry_that_cannot_be_read_stays_and_one_that_has_changed_does_not() {
    let disk = Disk::default();
    let (mut journal, _) = open(&disk);
    journal.append_text(Signal::Logs, "first");
    journal.append_text(Signal::Logs, "second");
    disk.arm(Fault { after: 0, effect: 0 });
    journal.next(Signal::Logs).expect_err("the read fails");
    assert_eq!(journal.pending(Signal::Logs), 2);
    disk.edit(0, |bytes| bytes[HEADER_LEN] ^= 1);
    assert_eq!(journal.drain_texts(Signal::Logs), ["second"]);
    let (bytes, records) = (HEADER_LEN as u64 + 5, [0, 5, 0]);
    let damage = Damage { places: 1, offset: 0, bytes, records, is_gone: false };
    assert_eq!((journal.take_all_damage(), journal.take_all_damage()), (damage, Damage::default()));
    assert_eq!((disk.lens(), disk.aside()), (vec![], vec![0]), "what is damaged is kept");
}

#[test]
fn an_entry_that_can_never_be_read_is_damage_and_holds_up_no_other_for_good() {
    let disk = Disk::default();
    let (mut journal, _) = open(&disk);
    ["first", "second"].iter().for_each(|text| journal.append_text(Signal::Logs, text));
    let body = HEADER_LEN as u64 + 2;
    disk.spoil(0, body, libc::EMFILE);
    for _ in 0..2 * MAX_FAILED_READS {
        journal.next(Signal::Logs).expect_err("it may be read when the process has descriptors again");
    }
    disk.spoil(0, body, libc::EIO);
    // The next process finds both entries.
    let (mut journal, found) = open(&disk);
    assert!(found.left_alone.is_empty(), "{found:?}");
    for _ in 1..MAX_FAILED_READS {
        journal.next(Signal::Logs).expect_err("it cannot be read");
        assert_eq!(journal.pending(Signal::Logs), 2);
    }
    assert_eq!(journal.drain_texts(Signal::Logs), ["second"]);
    assert_eq!(journal.take_all_damage().records, [0, 5, 0]);
    assert_eq!((disk.lens(), disk.aside()), (vec![], vec![0]), "what is damaged is kept");
}

#[test]
fn segments_that_vanish_or_shrink_under_it_are_damage() {
    let disk = Disk::default();
    let (mut journal, _) = open_with(&disk, Limits { segment_bytes: 1, ..LIMITS });
    ["first", "second", "third"].iter().for_each(|text| journal.append_text(Signal::Logs, text));
    disk.edit(0, |bytes| bytes.truncate(HEADER_LEN + 4));
    disk.clone().retire(1, false).expect("it is there");
    assert_eq!(journal.drain_texts(Signal::Logs), ["third"]);
    assert_eq!((journal.take_all_damage().records, journal.bytes()), ([0, 11, 0], 0));
}

#[test]
fn a_removal_that_failed_is_made_up_for_and_disturbs_no_sync() {
    for effect in [0, u8::MAX] {
        let disk = Disk::default();
        let (mut journal, _) = open(&disk);
        journal.append_text(Signal::Logs, "body");
        assert!(journal.next(Signal::Logs).expect("it is read").is_some());
        disk.arm(Fault { after: 0, effect });
        journal.done(Signal::Logs).expect("it is marked, if it is still there");
        assert!(journal.bytes() > 0, "it may still take room");
        journal.sync().expect("there is nothing to sync");
        journal.expire(0);
        assert_eq!((journal.bytes(), disk.bytes()), (0, 0));
    }
}

#[test]
fn sets_segments_without_an_entry_aside_and_uses_no_number_again() {
    let disk = Disk::default();
    disk.edit(3, |bytes| bytes.extend(b"something else"));
    disk.edit(4, |bytes| bytes.extend([0; 500]));
    disk.edit(5, |_| {});
    let (mut journal, found) = open(&disk);
    assert!(found.left_alone.is_empty(), "{found:?}");
    let damage = journal.take_damage().into_iter().map(|(id, damage)| (id, damage.to_string()));
    let words = |bytes| {
        format!(
            "1 damaged place of {bytes} bytes at offset 0: an unknown number of records is lost; the file will be kept as *.damaged"
        )
    };
    assert_eq!(damage.collect::<Vec<_>>(), [(3, words(14)), (4, words(500))]);
    assert_eq!(disk.aside(), [3, 4]);
    journal.append_text(Signal::Logs, "8 bytes.");
    assert_eq!(disk.lens(), [(6, 40)], "an empty one is gone, and no number is used again");
}

#[test]
fn a_file_that_is_too_long_is_not_searched() {
    let disk = Disk::default();
    disk.edit(0, |bytes| *bytes = vec![0; MAX_SEGMENT_BYTES as usize + 1]);
    let (_, found) = open(&disk);
    assert_eq!(found.left_alone[0].1.to_string(), "it is longer than a segment can be");
}

#[test]
fn numbers_that_are_used_up_are_an_error() {
    let disk = Disk::default();
    let header = Header::new(Signal::Logs, 1, 0, &[]).expect("it is short");
    disk.edit(u64::MAX, |bytes| bytes.extend(header.encode(Place { segment: u64::MAX, offset: 0 })));
    let (mut journal, _) = open(&disk);
    assert!(
        matches!(journal.append(Signal::Logs, 1, &[], 0, |_| ()), Err(error) if error.kind() != StorageFull)
    );
}

#[test]
fn entries_expire_by_age_though_the_clock_was_set_back() {
    let disk = Disk::default();
    let (mut journal, _) = open(&disk);
    for (signal, now_ms) in
        [(Signal::Logs, 9000), (Signal::Logs, 2000), (Signal::Logs, 3000), (Signal::Traces, 2000)]
    {
        journal.append(signal, now_ms, &[b"body"], now_ms, |_| ()).expect("there is room");
    }
    assert_eq!(journal.expire(3000), [0; 3], "just old enough to be sent");
    let in_hand = journal.next(Signal::Traces).expect("it is read");
    assert!(in_hand.is_some());
    assert_eq!(journal.expire(3001), [0, 2000, 0], "one is in hand");
    journal.put_back(Signal::Traces);
    assert_eq!(journal.expire(3001), [2000, 0, 0]);
    drop(journal);
    let (mut journal, _) = open(&disk);
    assert_eq!(pending(&journal, Signal::Logs), (2, 12_000));
    assert_eq!(journal.expire(u64::MAX), [0, 12_000, 0]);
    assert!(disk.lens().is_empty());
}

#[test]
fn syncs_come_as_the_policy_has_it() {
    let start = Instant::now();
    let syncs = |sync| {
        let disk = Disk::default();
        let (mut journal, _) = open_with(&disk, Limits { sync, ..LIMITS });
        [0, 500, 999, 1000, 1999].map(|millis| {
            journal.append_text(Signal::Logs, "body");
            for _ in 0..2 {
                journal.sync_if_due(start + Duration::from_millis(millis)).expect("nothing fails");
            }
            disk.syncs()
        })
    };
    assert_eq!(syncs(SpoolSync::EveryBatch), [1, 2, 3, 4, 5]);
    assert_eq!(syncs(SpoolSync::EverySecond), [1, 1, 1, 2, 2]);
    assert_eq!(syncs(SpoolSync::Never), [0; 5]);
}

#[test]
fn a_sync_that_failed_stays_due_and_holds_up_no_other() {
    let disk = Disk::default();
    let (mut journal, _) =
        open_with(&disk, Limits { segment_bytes: 1, sync: SpoolSync::EveryBatch, ..LIMITS });
    ["first", "second"].iter().for_each(|text| journal.append_text(Signal::Logs, text));
    disk.arm(Fault { after: 0, effect: 0 });
    journal.sync_if_due(Instant::now()).expect_err("the first one fails");
    assert_eq!(disk.syncs(), 1);
    journal.sync_if_due(Instant::now()).expect("nothing fails");
    assert_eq!(disk.syncs(), 2);
}

const TEXTS: [(Signal, &str); 5] = [
    (Signal::Traces, "a first request"),
    (Signal::Logs, "a second one, somewhat longer"),
    (Signal::Logs, ""),
    (Signal::Metrics, "short"),
    (Signal::Traces, "the last request of the segment"),
];

/// Returns a segment with these entries of several signals, as another version may have written it, and the range of
/// each entry.
fn segment() -> (Vec<u8>, Vec<(u64, u64)>) {
    let mut image = Vec::new();
    let extents = TEXTS.map(|(signal, text)| {
        let offset = image.len() as u64;
        let header = Header::new(signal, text.len() as u64, 0, &[text.as_bytes()]).expect("it is short");
        image.extend(header.encode(Place { segment: 0, offset }));
        image.extend(text.as_bytes());
        (offset, image.len() as u64)
    });
    (image, extents.to_vec())
}

/// Returns the delivered entries of a segment in any order, and the damage found.
fn delivered(image: &[u8]) -> (Vec<(Signal, String)>, Damage) {
    let disk = Disk::default();
    disk.edit(0, |bytes| bytes.extend(image));
    let (mut journal, found) = open(&disk);
    let texts =
        Signal::ALL.map(|signal| journal.drain_texts(signal).into_iter().map(move |text| (signal, text)));
    let mut damage = journal.take_all_damage();
    damage.places += found.left_alone.len() as u64;
    let is_kept = damage.places > 0 && found.left_alone.is_empty();
    assert_eq!(!disk.aside().is_empty(), is_kept, "what is damaged is kept");
    (texts.into_iter().flatten().collect(), damage)
}

fn expect(is_intact: impl Fn(usize) -> bool) -> Vec<(Signal, String)> {
    let of = |signal| (0..TEXTS.len()).filter(move |index| TEXTS[*index].0 == signal);
    let intact = Signal::ALL.into_iter().flat_map(of).filter(|index| is_intact(*index));
    intact.map(|index| (TEXTS[index].0, TEXTS[index].1.to_owned())).collect()
}

#[test]
fn a_changed_byte_costs_the_entry_it_is_in_and_no_other() {
    let (image, extents) = segment();
    for (index, (start, end)) in extents.into_iter().enumerate() {
        for at in start..end {
            for change in (0..8).map(|bit| 1 << bit).chain([0xff]) {
                let mut image = image.clone();
                image[at as usize] ^= change;
                let is_mark = at - start == MARK;
                let expected = expect(|other| other != index || is_mark);
                let damage = if is_mark { (0, 0) } else { (1, end - start) };
                let (texts, found) = delivered(&image);
                assert_eq!(texts, expected, "byte {at} by {change:#x}");
                assert_eq!((found.places, found.bytes), damage, "byte {at} by {change:#x}");
            }
        }
    }
}

#[test]
fn damage_is_counted_once_and_its_segment_kept_over_restarts() {
    let (mut image, extents) = segment();
    // Damages the first of the two requests with traces, in its body.
    image[extents[0].1 as usize - 1] ^= 1;
    let disk = Disk::default();
    disk.edit(0, |bytes| bytes.extend(image));
    let (mut journal, _) = open(&disk);
    assert!(journal.next(Signal::Traces).expect("it is read").is_some(), "the second");
    assert_eq!(journal.take_all_damage().records, [15, 0, 0]);
    let (mut journal, _) = open(&disk);
    Signal::ALL.iter().for_each(|signal| drop(journal.drain(*signal)));
    assert_eq!(journal.take_all_damage(), Damage::default());
    assert_eq!((disk.lens(), disk.aside()), (vec![], vec![0]));
}

#[test]
fn damage_in_two_places_is_counted_as_two() {
    let (mut image, extents) = segment();
    [1, 3].iter().for_each(|index: &usize| image[extents[*index].0 as usize] ^= 1);
    let (texts, damage) = delivered(&image);
    assert_eq!(texts, expect(|index| index != 1 && index != 3));
    assert_eq!(damage.places, 2);
}

/// The segment is larger than the scan's window, so that entries of all lengths cross the window's borders.
#[test]
fn a_long_segment_is_found_whole_and_with_a_hole() {
    let disk = Disk::default();
    let (mut journal, _) = open_with(&disk, Limits { segment_bytes: 1 << 20, ..LIMITS });
    let texts: Vec<String> = (0..2000).map(|index| format!("{index} {}", "x".repeat(index % 97))).collect();
    let mut ends = Vec::new();
    for text in &texts {
        journal.append_text(Signal::Logs, text);
        ends.push(disk.bytes() as usize);
    }
    let hole = 20_000..60_000;
    let is_intact = |index: &usize| ends[*index] <= hole.start || *index > 0 && ends[*index - 1] >= hole.end;
    let intact: Vec<_> = (0..2000).filter(is_intact).map(|index| texts[index].clone()).collect();
    assert_eq!(open(&disk).0.pending(Signal::Logs), 2000);
    disk.edit(0, |bytes| bytes[hole.clone()].fill(MAGIC[0]));
    let (mut journal, _) = open(&disk);
    assert_eq!(journal.take_all_damage().places, 1);
    assert_eq!(journal.drain_texts(Signal::Logs), intact);
}

#[test]
fn a_segment_that_was_cut_gives_all_entries_before_the_cut() {
    let (image, extents) = segment();
    for len in 0..=image.len() as u64 {
        let whole = extents.iter().filter(|(_, end)| *end <= len).count();
        let left = len - extents[..whole].last().map_or(0, |(_, end)| *end);
        let (texts, damage) = delivered(&image[..len as usize]);
        assert_eq!(texts, expect(|index| index < whole), "{len}");
        assert_eq!(damage, Damage::default(), "a process that dies leaves that: {len}");
        let disk = Disk::default();
        disk.edit(0, |bytes| bytes.extend(&image[..len as usize]));
        let expected = if left > 0 { vec![(0, left)] } else { vec![] };
        assert_eq!(open(&disk).1.cut, expected, "{len}");
    }
}

#[test]
fn bytes_that_were_lost_or_added_in_the_middle_cost_what_has_moved() {
    let (image, extents) = segment();
    let start = extents[1].0 as usize;
    let without = [&image[..start], &image[start + 1..]].concat();
    let with = [&image[..start], b"\xf5", &image[start..]].concat();
    for image in [without, with] {
        let (texts, damage) = delivered(&image);
        assert_eq!(texts, expect(|index| index < 1));
        assert_eq!((damage.places, damage.bytes), (1, (image.len() - start) as u64));
    }
}

#[test]
fn the_copy_of_a_segment_in_a_damaged_request_is_no_request() {
    let (image, _) = segment();
    let disk = Disk::default();
    let (mut journal, _) = open(&disk);
    journal.append(Signal::Logs, 1, &[&image], 0, |_| ()).expect("there is room");
    journal.append_text(Signal::Logs, "next");
    disk.edit(0, |bytes| bytes[20] ^= 1);
    let (mut journal, _) = open(&disk);
    assert_eq!(Signal::ALL.map(|signal| journal.drain_texts(signal).concat()), ["", "next", ""]);
    assert_eq!(journal.take_all_damage().places, 1);
}
