//! Hand-over from a dead process to the next one.

use std::cell::RefCell;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc;
use std::thread;

use super::lane::NOW_MS;
use super::*;
use crate::process::{watch, with_fork_lock};
use crate::record::wire::encode_field;
use crate::record::{
    Chunk, Resource, Scope, SlotHeader, SpanHead, SpanId, SpanKind, SpanRecord, TraceId, Value,
};
use crate::tests::stride;

mod left_to_entries;
mod recovery;

impl PartialEq<String> for Note {
    fn eq(&self, message: &String) -> bool {
        self.message == *message
    }
}

impl std::ops::Deref for Note {
    type Target = str;

    fn deref(&self) -> &str {
        &self.message
    }
}

const SLOTS: usize = 4;
/// An empty `Resource`, as field 1 of `ResourceSpans`.
const RESOURCE: &[u8] = &[0x0a, 0x00];
/// Offset of the first entry in a segment of the exporter `otlp`.
const ENTRIES_AT: usize = 18;

/// A directory that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("standpipe-spool-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Directory::open(&path).unwrap();
        Self(path)
    }

    fn settings(&self) -> SpoolSettings {
        SpoolSettings { directory: Some(self.0.clone()), ..SpoolSettings::default() }
    }

    fn open(&self) -> Spool {
        self.open_as("otlp")
    }

    fn open_as(&self, exporter: &str) -> Spool {
        Spool::open(&self.settings(), exporter, RESOURCE, SLOTS, 1).unwrap().unwrap()
    }

    /// Opens the spool of an exporter `otlp` of another service.
    fn open_of(&self, service: &str) -> Spool {
        let mut resource = Resource::default();
        resource.set("service.name", Value::Str(service));
        Spool::open(&self.settings(), "otlp", &resource.field(), SLOTS, 1).unwrap().unwrap()
    }

    /// Opens the spool like `standpipe drain`.
    fn open_to_drain(&self) -> Spool {
        let settings = SpoolSettings { drains: true, ..self.settings() };
        Spool::open(&settings, "otlp", RESOURCE, 0, 1).unwrap().unwrap()
    }

    /// Leaves the files of a process that died with these requests on disk.
    fn leave(&self, exporter: &str, requests: &[&[u8]]) {
        let mut spool = self.open_as(exporter);
        requests.iter().for_each(|body| spool.append(Signal::Logs, 10, &[body], &|_, _| ()).unwrap());
    }

    /// Leaves the files of a process that died with a record in its queue.
    fn leave_chunk(&self, is_sealed: bool) {
        let spool = self.open();
        let mut chunk = Chunk::with_capacity(Signal::Logs, 0);
        chunk.move_to(spool.recorder().take(Signal::Logs, 0).unwrap());
        chunk.append(&Arc::new(Scope::new(Signal::Logs, "shop", "")), &record(), 1);
        if is_sealed {
            chunk.seal(|bytes| checksum([bytes]));
        }
        spool.recorder().close();
    }

    /// Leaves the files of a process that died with an open span, and with an ended span that is in the queue and still
    /// has its place.
    fn leave_open_and_ended_span(&self) {
        let settings = SpoolSettings { open_spans: true, ..self.settings() };
        let spool = Spool::open(&settings, "otlp", RESOURCE, SLOTS, 1).unwrap().unwrap();
        let scope = Arc::new(Scope::new(Signal::Traces, "shop", ""));
        let [_open, mut ended] = [1, 2].map(|id| {
            let mut span = SpanRecord::default();
            span.limit(&Default::default(), usize::MAX);
            span.copy_to(vec![spool.recorder().take_open_span().unwrap()]);
            span.set_scope(&scope);
            span.begin(&SpanHead {
                trace_id: TraceId([id; 16]),
                span_id: SpanId([id; 8]),
                parent: None,
                parent_is_remote: false,
                trace_flags: 1,
                trace_state: "",
                name: "checkout",
                kind: SpanKind::Internal,
                start: 10,
            });
            span
        });
        let mut chunk = Chunk::with_capacity(Signal::Traces, 0);
        chunk.move_to(spool.recorder().take(Signal::Traces, 0).unwrap());
        chunk.append(&scope, ended.finish(30).unwrap(), 1);
        let path = self.file(".recorder");
        let at_its_death = fs::read(&path).unwrap();
        drop((_open, ended, chunk, spool));
        fs::write(path, at_its_death).unwrap();
    }

    /// Changes bytes of a file.
    fn edit(&self, end: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(self.file(end)).unwrap();
        change(&mut bytes);
        fs::write(self.file(end), bytes).unwrap();
    }

    fn names(&self) -> Vec<String> {
        let names = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Returns the only file with this suffix.
    fn file(&self, end: &str) -> PathBuf {
        let names = self.names();
        let mut names = names.iter().filter(|name| name.ends_with(end));
        let (Some(name), None) = (names.next(), names.next()) else { panic!("{:?}", self.names()) };
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns a framed log record with only a trace id.
fn record() -> Vec<u8> {
    let (mut record, mut frame) = (Vec::new(), Vec::new());
    encode_field(0x4a, &[7; 16], &mut record);
    encode_field(0x12, &record, &mut frame);
    frame
}

/// Delivers all requests of a signal. Returns their bodies.
fn drain(spool: &mut Spool) -> Vec<Vec<u8>> {
    drain_signal(spool, Signal::Logs)
}

fn drain_signal(spool: &mut Spool, signal: Signal) -> Vec<Vec<u8>> {
    let mut bodies = Vec::new();
    while let Some(request) = spool.next(signal).unwrap() {
        bodies.push(request.body);
        spool.settle(signal).unwrap();
    }
    bodies
}

#[test]
fn a_long_name_is_stored_and_compared_as_far_as_there_is_room() {
    let name = "ü".repeat(200);
    assert_eq!(Owner::new(&name, "").service.chars().count(), 127);
    assert_eq!(Owner::new("", &format!("x{name}")).exporter.len(), 255);
    let folder = Folder::new("long-name");
    folder.leave(&name, &[b"body"]);
    assert_eq!(folder.open_as("other").take_notes().len(), 1);
    assert_eq!(drain(&mut folder.open_as(&name)), [b"body"]);
}

#[test]
fn a_slash_at_the_end_gets_no_symbolic_link_past_the_check() {
    let folder = Folder::new("slash");
    let link = folder.0.join("link");
    symlink(&folder.0, &link).unwrap();
    for end in ["", "/", "//", "/.", "/./"] {
        let path = PathBuf::from(format!("{}{end}", link.display()));
        let refusal = Directory::open(&path).expect_err(end).to_string();
        assert!(refusal.contains("it is a symbolic link"), "{end}: {refusal}");
        Directory::open(&PathBuf::from(format!("{}{end}", folder.0.display()))).expect(end);
    }
}

#[test]
fn what_another_exporter_has_left_is_reported_with_advice() {
    let folder = Folder::new("other-exporter");
    folder.leave("b", &[b"body"]);
    let path = folder.file(".recorder");
    let expected = format!(
        "{}: left by exporter \"b\" of service \"\", which delivers it at its next start, or run standpipe drain; give each \
         service a directory",
        path.display()
    );
    assert_eq!(folder.open_as("a").take_notes(), [expected]);
}

#[test]
fn a_recorder_under_another_name_is_left_alone() {
    let folder = Folder::new("renamed");
    folder.leave("otlp", &[b"body"]);
    let (copy, renamed) = (folder.0.join("00000000000000aa.recorder"), "00000000000000bb.recorder");
    let original = folder.file(".recorder");
    fs::copy(&original, &copy).unwrap();
    let mut spool = folder.open();
    assert_eq!(spool.take_notes(), [format!("{}: left alone: it is a copy, or was renamed", copy.display())]);
    assert_eq!(drain(&mut spool), [b"body"], "the original");
    drop(spool);
    fs::rename(&copy, folder.0.join(renamed)).unwrap();
    let notes = folder.open().take_notes();
    assert!(notes.len() == 1 && notes[0].ends_with("it is a copy, or was renamed"), "{notes:?}");
    assert!(folder.names().contains(&renamed.to_owned()) && !original.exists(), "{:?}", folder.names());
}

#[test]
fn leaves_files_that_are_no_recorders_alone_and_removes_incomplete_ones() {
    let folder = Folder::new("no-recorder");
    let write = |name: &str, bytes: &[u8]| fs::write(folder.0.join(name), bytes).unwrap();
    write("notes.recorder", b"hello");
    write("00000000000000AA.recorder", b"");
    write("+0000000000000aa.recorder", b"");
    write("0000000000000001.recorder", b"hello");
    let mut page = vec![0; 10_000];
    page[4095] = 1;
    write("0000000000000002.recorder", &page);
    write("0000000000000005.recorder", &[&b"SPFLIGHT"[..], &2u32.to_ne_bytes(), &[0; 4084]].concat());
    write("+0000000000000aa.new", b"");
    let left_alone = folder.names();
    write("0000000000000003.new", b"");
    write("0000000000000004.new", &[0; 10_000]);
    let mut spool = folder.open();
    let mut notes = spool.take_notes();
    notes.sort();
    let note = |name: &str, why| format!("{}: left alone: {why}", folder.0.join(name).display());
    let expected = [
        note("0000000000000001.recorder", "it is not a flight recorder"),
        note("0000000000000002.recorder", "it is not a flight recorder"),
        note("0000000000000005.recorder", "its layout has the version 2, which this program does not know"),
    ];
    assert_eq!(notes, expected);
    spool.close();
    assert_eq!(folder.names(), left_alone);
}

#[test]
fn what_is_left_has_a_lock_and_no_descriptor() {
    let folder = Folder::new("descriptors");
    (0..3).for_each(|_| folder.leave("b", &[b"body"]));
    let holder = folder.open_as("b");
    assert_eq!(holder.orphans.len(), 3);
    let is_ours = |path: &Path| path.starts_with(&folder.0);
    let open =
        fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    assert_eq!(open.filter(|path| is_ours(path)).collect::<Vec<_>>(), Vec::<PathBuf>::new());
    assert_eq!(folder.open_as("b").orphans.len(), 0, "they are locked");
    drop(holder);
    assert_eq!(folder.open_as("b").orphans.len(), 3);
}

#[test]
fn a_backup_by_links_hinders_no_delivery_and_keeps_nothing_alive() {
    let folder = Folder::new("links");
    folder.leave("otlp", &[b"body"]);
    let recorder = folder.file(".recorder");
    let backup = Folder::new("links-backup");
    for path in [&recorder, &folder.file(".segment")] {
        fs::hard_link(path, backup.0.join(path.file_name().unwrap())).unwrap();
    }
    let file = fs::File::open(&recorder).unwrap();
    let mut spool = folder.open();
    assert_eq!(drain(&mut spool), [b"body"]);
    assert!(!directory::is_at(&recorder, &file).unwrap(), "its name is gone");
}

#[test]
fn an_inspection_changes_nothing_though_a_span_that_has_ended_has_its_place_still() {
    let folder = Folder::new("inspected");
    folder.leave_open_and_ended_span();
    let before = fs::read(folder.file(".recorder")).unwrap();
    let found = inspect(&folder.0).unwrap();
    assert!(fs::read(folder.file(".recorder")).unwrap() == before);
    assert_eq!((found[0].records(), found[0].open_spans, found[0].is_running), (2, 1, false), "{found:?}");
    let mut spool = folder.open();
    for what in ["the chunk", "the span that was open"] {
        assert_eq!(spool.next(Signal::Traces).unwrap().unwrap().records, 1, "{what}");
        spool.settle(Signal::Traces).unwrap();
    }
    assert!(spool.next(Signal::Traces).unwrap().is_none());
}

#[test]
fn what_seems_to_be_damaged_in_use_is_no_problem_before_its_process_has_ended() {
    let folder = Folder::new("inspected-in-use");
    let mut spool = folder.open();
    spool.tick(Instant::now());
    // An invalid state of a slot, as an inspection may read it while the slot is being reused.
    folder.edit(".recorder", |bytes| bytes[2 * 4096..][..4].fill(0));
    let found = inspect(&folder.0).unwrap();
    assert_eq!((found[0].is_running, &found[0].problems[..]), (true, &[][..]));
    drop(spool);
    let found = inspect(&folder.0).unwrap();
    let [problem] = &found[0].problems[..] else { panic!("{found:?}") };
    assert!(problem.starts_with(&format!("{}.recorder: 1 damaged place: ", found[0].id)), "{problem}");
}

fn of_logs(dropped: [Dropped; Signal::COUNT]) -> Dropped {
    dropped[Signal::Logs as usize]
}

#[test]
fn what_is_damaged_is_counted_reported_and_kept() {
    let folder = Folder::new("damaged");
    folder.leave("otlp", &[b"first", b"second", b"third"]);
    let (segment, recorder) = (folder.file(".segment"), folder.file(".recorder"));
    // The body of the second entry.
    folder.edit(".segment", |bytes| bytes[ENTRIES_AT + 2 * 32 + 5] ^= 1);
    let mut spool = folder.open();
    assert_eq!(spool.take_notes(), Vec::<String>::new(), "of requests, only the headers are read");
    assert_eq!(drain(&mut spool), [&b"first"[..], b"third"]);
    let offset = ENTRIES_AT + 37;
    let words = format!(
        "1 damaged place of 38 bytes at offset {offset}: 10 records are lost; the file will be kept as *.damaged"
    );
    assert_eq!(spool.take_notes(), [format!("{}: {words}", segment.display())]);
    assert_eq!(of_logs(spool.take_damaged()), Dropped { own: 0, of_others: 10 });
    assert_eq!(of_logs(spool.take_damaged()), Dropped::default());
    spool.close();
    let kept = format!("{}.damaged", segment.file_name().unwrap().to_str().unwrap());
    assert_eq!(folder.names(), [&*kept]);
    assert!(!recorder.exists());
    assert_eq!(folder.open().take_notes(), Vec::<String>::new(), "it was reported");
    let found = inspect(&folder.0).unwrap();
    let [problem] = &found.iter().find(|instance| kept.starts_with(&instance.id)).unwrap().problems[..]
    else {
        panic!("{found:?}")
    };
    assert!(problem.starts_with(&kept), "{problem}");
}

#[test]
fn damage_of_a_header_and_of_this_process_is_reported_as_well() {
    let folder = Folder::new("damaged-header");
    folder.leave("otlp", &[b"first", b"second"]);
    folder.edit(".segment", |bytes| bytes[ENTRIES_AT] ^= 1);
    let segment = folder.file(".segment");
    let mut spool = folder.open();
    let notes = spool.take_notes();
    let words = format!(
        "1 damaged place of 37 bytes at offset {ENTRIES_AT}: an unknown number of records is lost; the file will be kept as *.damaged"
    );
    assert!(notes.iter().any(|note| *note == format!("{}: {words}", segment.display())), "{notes:?}");
    assert!(notes.len() == 2 && notes[0].contains("-*.segment: 10 records are lost: "), "{notes:?}");
    assert_eq!(of_logs(spool.take_damaged()), Dropped { own: 0, of_others: 10 });
    assert_eq!(drain(&mut spool), [b"second"]);
    spool.append(Signal::Logs, 7, &[b"own"], &|_, _| ()).unwrap();
    folder.edit(".segment", |bytes| bytes[ENTRIES_AT + 32] ^= 1);
    assert_eq!(drain(&mut spool), Vec::<Vec<u8>>::new());
    assert_eq!(of_logs(spool.take_damaged()), Dropped { own: 7, of_others: 0 });
    assert_eq!(spool.take_notes().len(), 1);
    spool.close();
    assert_eq!(folder.names().iter().filter(|name| name.ends_with(".segment.damaged")).count(), 2);
}

#[test]
fn reports_a_removed_segment_as_removed_and_counts_its_records() {
    let folder = Folder::new("removed");
    let mut spool = folder.open();
    for body in [b"1", b"2"] {
        spool.append(Signal::Logs, 7, &[body], &|_, _| ()).unwrap();
    }
    let segment = folder.file(".segment");
    fs::remove_file(&segment).unwrap();
    spool.sync_if_due(Instant::now() + TICK_INTERVAL);
    assert_eq!(drain(&mut spool), Vec::<Vec<u8>>::new());
    assert_eq!(of_logs(spool.take_damaged()), Dropped { own: 14, of_others: 0 });
    let words = "another program has removed the file: 14 records are lost";
    assert_eq!(spool.take_notes(), [format!("{}: {words}", segment.display())]);
}

#[test]
fn gives_each_signal_its_part_whatever_another_one_or_another_process_has_left() {
    let folder = Folder::new("shares");
    let settings = SpoolSettings { bytes: 1 << 20, ..folder.settings() };
    let body = vec![0; 100 << 10];
    let fill = |spool: &mut Spool, signal| {
        (0..20).take_while(|_| spool.append(signal, 1, &[&body], &|_, _| ()).is_ok()).count()
    };
    let open = || Spool::open(&settings, "otlp", RESOURCE, SLOTS, 2).unwrap().unwrap();
    let mut spool = open();
    assert_eq!([Signal::Logs, Signal::Traces].map(|signal| fill(&mut spool, signal)), [5, 5]);
    spool.next(Signal::Traces).unwrap().unwrap();
    spool.settle(Signal::Traces).unwrap();
    drop(spool);
    let mut spool = open();
    let more = [Signal::Logs, Signal::Traces].map(|signal| fill(&mut spool, signal));
    assert_eq!(more, [0, 0], "all of what was left is still there");
    assert_eq!(drain_signal(&mut spool, Signal::Traces).len(), 4);
    let [logs, traces] = [Signal::Logs, Signal::Traces].map(|signal| fill(&mut spool, signal));
    assert!(logs == 0 && traces >= 4, "{logs} logs, {traces} traces");
}

#[test]
fn the_end_of_an_append_that_was_under_way_is_no_damage() {
    let folder = Folder::new("cut");
    folder.leave("otlp", &[b"first"]);
    folder.edit(".segment", |bytes| bytes.extend_from_within(ENTRIES_AT..ENTRIES_AT + 4));
    let segment = folder.file(".segment");
    let words = "4 bytes of an incomplete request";
    let found = inspect(&folder.0).unwrap();
    let name = segment.file_name().unwrap().to_str().unwrap();
    assert_eq!(found[0].problems, [format!("{name}: {words}")]);
    let mut spool = folder.open();
    assert_eq!(spool.take_notes(), [format!("{}: {words}", segment.display())]);
    drop(spool);
    // The previous process has reported these bytes and removed them from the file.
    let mut spool = folder.open();
    assert_eq!(spool.take_notes(), Vec::<String>::new());
    assert_eq!(inspect(&folder.0).unwrap()[0].problems, Vec::<String>::new());
    assert_eq!(drain(&mut spool), [b"first"]);
    assert_eq!(of_logs(spool.take_damaged()), Dropped::default());
    spool.close();
    assert_eq!(folder.names(), Vec::<String>::new());
}

#[test]
fn a_recorder_with_damage_is_kept_whole() {
    let folder = Folder::new("damaged-recorder");
    folder.leave_chunk(true);
    let (recorder, slot_headers) = (folder.file(".recorder"), 2 * 4096);
    // A damaged state of another slot, which does not show whether that slot is free.
    folder.edit(".recorder", |bytes| {
        bytes[slot_headers + size_of::<SlotHeader>()..][..4].fill(0);
        bytes[slot_headers + 4096 + Chunk::SLOT_BYTES..][..4].copy_from_slice(b"data");
    });
    let mut whole = fs::read(&recorder).unwrap();
    let mut spool = folder.open();
    let words = "1 damaged place: 0 records lost, and an unknown number of records in 4096 bytes; the file will be kept as \
                 *.damaged";
    assert_eq!(spool.take_notes(), [format!("{}: {words}", recorder.display())]);
    assert_eq!(drain(&mut spool).len(), 1);
    spool.close();
    // The file is unchanged, except for the slot that was delivered.
    whole[slot_headers..][..4].copy_from_slice(&crate::record::FREE.to_ne_bytes());
    assert!(fs::read(folder.file(".recorder.damaged")).unwrap() == whole);
    assert_eq!(folder.names().len(), 1);
}

#[test]
fn what_nothing_proves_after_another_boot_is_reported_and_removed() {
    let folder = Folder::new("unproven");
    folder.leave_chunk(false);
    let (directory, recorder) = (Directory::open(&folder.0).unwrap(), folder.file(".recorder"));
    let search = Search { directory, wanted: None, limits: Limits::NONE, boot_id: [7; 16] };
    let (mut orphans, notes) = search.take_over_all().unwrap();
    assert_eq!((orphans.len(), notes.len()), (1, 0));
    assert_eq!(orphans[0].next(Signal::Logs).unwrap(), None);
    let mut notes = Vec::new();
    tidy(&mut orphans, &mut notes);
    let words = "1 chunk may not have reached the disk before the system ended, and cannot be delivered";
    assert_eq!(notes, [format!("{}: {words}", recorder.display())]);
    assert_eq!((orphans.len(), folder.names()), (0, vec![]));
}

#[test]
fn what_others_have_left_is_removed_when_the_last_of_it_was_too_old_or_damaged() {
    let folder = Folder::new("settled");
    folder.leave("otlp", &[b"body"]);
    let old = SpoolSettings { age: Some(Duration::ZERO), ..folder.settings() };
    let mut spool = Spool::open(&old, "otlp", RESOURCE, SLOTS, 1).unwrap().unwrap();
    // Repeated, because the clock may still show the time at which the request was written, and then the request is
    // not too old yet.
    while of_logs(spool.expire()) == Dropped::default() {}
    spool.close();
    assert_eq!(folder.names(), Vec::<String>::new());
    folder.leave_chunk(true);
    folder.edit(".recorder", |bytes| {
        let data_at = 3 * 4096;
        bytes[data_at + 1] ^= 1;
    });
    let mut spool = folder.open();
    assert!(spool.has_pending(Signal::Logs));
    assert!(spool.next(Signal::Logs).unwrap().is_none());
    spool.close();
    assert!(folder.file(".recorder.damaged").exists() && folder.names().len() == 1, "{:?}", folder.names());
}

#[test]
fn what_was_in_the_queue_of_a_process_is_not_too_old_because_that_ran_for_long() {
    let folder = Folder::new("ran-for-long");
    let age = SpoolSettings::default().age.unwrap().as_millis() as u64;
    let end = now_ms();
    NOW_MS.set(Some(end - 2 * age));
    folder.leave_chunk(true);
    NOW_MS.set(Some(end));
    let mut spool = folder.open();
    assert!(spool.next(Signal::Logs).unwrap().is_some());
    for (now, is_too_old) in [(end, false), (end + age, false), (end + age + 1, true)] {
        NOW_MS.set(Some(now));
        assert_eq!(spool.is_too_old(Signal::Logs), is_too_old, "{}", now - end);
    }
}

#[test]
fn a_clock_that_is_set_forward_makes_nothing_older() {
    let folder = Folder::new("clock");
    let age = SpoolSettings::default().age.unwrap();
    let (age_ms, today) = (age.as_millis() as u64, now_ms());
    NOW_MS.set(Some(today - age_ms - 1));
    folder.leave("otlp", &[b"of last week"]);
    // The system boots with a clock that begins at 1970.
    NOW_MS.set(Some(1000));
    folder.leave("otlp", &[b"first", b"second"]);
    NOW_MS.set(Some(2000));
    folder.leave_chunk(true);
    let mut spool = folder.open();
    spool.append(Signal::Logs, 10, &[b"own"], &|_, _| ()).unwrap();
    assert_eq!(spool.next(Signal::Logs).unwrap().unwrap().body, b"first");
    let at = Instant::now();
    assert_eq!(spool.tick(at).map(of_logs), Some(Dropped::default()));
    NOW_MS.set(Some(today));
    let dropped = spool.tick(at + TICK_INTERVAL).map(of_logs);
    assert_eq!(dropped, Some(Dropped { own: 0, of_others: 10 }), "that of last week alone");
    assert!(!spool.is_too_old(Signal::Logs));
    // All entries continue to age.
    NOW_MS.set(Some(today + age_ms));
    let dropped = spool.tick(at + TICK_INTERVAL + age).map(of_logs);
    assert_eq!(dropped, Some(Dropped { own: 10, of_others: 10 }), "one is in hand");
    assert!(spool.is_too_old(Signal::Logs));
    spool.settle(Signal::Logs).unwrap();
    assert_eq!(spool.next(Signal::Logs).unwrap().unwrap().records, 1, "of the queue");
    assert!(spool.is_too_old(Signal::Logs));
}

#[test]
fn reports_a_segment_of_another_version_and_leaves_it() {
    let folder = Folder::new("left-alone");
    folder.leave("otlp", &[b"body"]);
    folder.edit(".segment", |bytes| {
        bytes[4] = 9;
        bytes[8] ^= 1;
    });
    let left_alone = folder.names();
    let words = "its layout has the version 9, which this program does not know";
    let mut spool = folder.open();
    let path = folder.file(".segment");
    assert_eq!(spool.take_notes(), [format!("{}: left alone: {words}", path.display())]);
    spool.close();
    assert_eq!(folder.names(), left_alone);
}

#[test]
fn reports_a_recorder_that_cannot_be_set_aside() {
    let folder = Folder::new("removal");
    folder.open().tick(Instant::now());
    let recorder = folder.file(".recorder");
    fs::write(&recorder, "").unwrap();
    fs::create_dir(recorder.with_extension("recorder.damaged")).unwrap();
    let notes = folder.open().take_notes();
    let expected = format!("{}: it cannot be removed: ", recorder.display());
    assert!(notes.len() == 2 && notes[1].starts_with(&expected), "{notes:?}");
}

/// A forked child that does nothing. Dropping this ends the child.
struct Child(libc::pid_t);

impl Child {
    #[allow(unsafe_code)]
    fn fork() -> Self {
        // SAFETY: the child only waits for a signal, and its alarm bounds this wait
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::alarm(60);
                libc::pause();
                libc::_exit(1);
            }
            assert!(child > 0, "{}", io::Error::last_os_error());
            Self(child)
        }
    }
}

impl Drop for Child {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: calls on a child of this process
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

/// Runs `work`, and forks a child while `work` uses the disk. Panics if another thread would have to wait for the fork
/// lock meanwhile.
fn forked_meanwhile<T>(work: impl FnOnce() -> T) -> (T, Child) {
    watch();
    let forked = Rc::new(RefCell::new(None));
    let child = Rc::clone(&forked);
    faults::set(Some(Box::new(move || {
        child.borrow_mut().get_or_insert_with(|| {
            let (sender, caller) = mpsc::channel();
            thread::spawn(move || with_fork_lock(|| sender.send(())));
            caller.recv_timeout(Duration::from_secs(10)).expect("no caller waits for the disk");
            Child::fork()
        });
        false
    })));
    let result = work();
    faults::set(None);
    let child = forked.take().expect("it uses the disk");
    (result, child)
}

#[test]
fn no_caller_waits_for_the_disk_and_a_child_that_is_forked_meanwhile_keeps_no_lock() {
    let folder = Folder::new("fork-lock");
    let (mut spool, _child) = forked_meanwhile(|| folder.open());
    folder.leave("otlp", &[b"body"]);
    let ((), _child) = forked_meanwhile(|| spool.search_again());
    assert_eq!(spool.orphans.len(), 1);
    drop(spool);
    assert_eq!(folder.open().orphans.len(), 1);
    assert_eq!(folder.names().len(), 2, "a spool that was never used leaves nothing: {:?}", folder.names());
    let exporter = crate::Exporter::http("http://127.0.0.1:9").spool(&folder.0).queue_bytes(1 << 20);
    let config = crate::Config::new().exporter(exporter);
    drop(forked_meanwhile(|| crate::Telemetry::start(config).unwrap()));
}
