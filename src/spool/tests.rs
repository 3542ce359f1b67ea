//! What one process leaves in a directory, and the next one makes of it.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::*;
use recorder::stored_name;

const SLOTS: usize = 4;
/// An empty `Resource`, as field 1 of `ResourceSpans`.
const RESOURCE: &[u8] = &[0x0a, 0x00];

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
        Spool::open(&self.settings(), exporter, RESOURCE, SLOTS).unwrap().unwrap()
    }

    /// What a process leaves that dies with these requests on disk.
    fn leave(&self, exporter: &str, requests: &[&[u8]]) {
        let mut spool = self.open_as(exporter);
        requests.iter().for_each(|body| spool.append(Signal::Logs, 10, &[body]).unwrap());
    }

    fn names(&self) -> Vec<String> {
        let names = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// The only file whose name ends like this.
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

/// Delivers all of a signal, and returns the bodies.
fn drain(spool: &mut Spool) -> Vec<Vec<u8>> {
    let mut bodies = Vec::new();
    while let Some(request) = spool.next(Signal::Logs).unwrap() {
        bodies.push(request.body);
        spool.settle(Signal::Logs).unwrap();
    }
    bodies
}

#[test]
fn a_long_name_is_stored_and_compared_as_far_as_there_is_room() {
    let name = "ü".repeat(200);
    assert_eq!(stored_name(&name).chars().count(), 127);
    assert_eq!(stored_name(&format!("x{name}")).len(), 255);
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
        "{}: left by an exporter \"b\": one of that name delivers it, or standpipe drain",
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
    assert_eq!(spool.take_notes(), [format!("{}: left alone: it is a copy or renamed", copy.display())]);
    assert_eq!(drain(&mut spool), [b"body"], "the original");
    drop(spool);
    fs::rename(&copy, folder.0.join(renamed)).unwrap();
    let notes = folder.open().take_notes();
    assert!(notes.len() == 1 && notes[0].ends_with("it is a copy or renamed"), "{notes:?}");
    assert!(folder.names().contains(&renamed.to_owned()) && !original.exists(), "{:?}", folder.names());
}

#[test]
fn what_is_no_recorder_is_left_alone_and_what_was_never_used_is_removed() {
    let folder = Folder::new("no-recorder");
    let write = |name: &str, bytes: &[u8]| fs::write(folder.0.join(name), bytes).unwrap();
    write("notes.recorder", b"hello");
    write("00000000000000AA.recorder", b"");
    write("+0000000000000aa.recorder", b"");
    write("0000000000000001.recorder", b"hello");
    let mut page = vec![0; 10_000];
    page[4095] = 1;
    write("0000000000000002.recorder", &page);
    let left_alone = folder.names();
    write("0000000000000003.recorder", b"");
    write("0000000000000004.recorder", &[0; 10_000]);
    write("0000000000000005.recorder", &[&b"SPFLIGHT\x01\0\0\0"[..], &[0; 4084]].concat());
    let mut spool = folder.open();
    let mut notes = spool.take_notes();
    notes.sort();
    let note =
        |name: &str| format!("{}: left alone: it is no flight recorder", folder.0.join(name).display());
    assert_eq!(notes, [note("0000000000000001.recorder"), note("0000000000000002.recorder")]);
    spool.close();
    assert_eq!(folder.names(), left_alone);
}

#[test]
fn what_is_left_has_a_lock_and_no_descriptor() {
    let folder = Folder::new("descriptors");
    (0..3).for_each(|_| folder.leave("b", &[b"body"]));
    let holder = folder.open_as("b");
    assert_eq!(holder.estates.len(), 3);
    let is_ours = |path: &Path| path.starts_with(&folder.0);
    let open =
        fs::read_dir("/proc/self/fd").unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    assert_eq!(open.filter(|path| is_ours(path)).collect::<Vec<_>>(), Vec::<PathBuf>::new());
    assert_eq!(folder.open_as("b").estates.len(), 0, "they are locked");
    drop(holder);
    assert_eq!(folder.open_as("b").estates.len(), 3);
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
