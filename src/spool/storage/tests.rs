use std::env;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use super::*;

pub(crate) mod faults {
    use std::cell::RefCell;
    use std::io;

    type Fails = Box<dyn Fn() -> bool>;

    thread_local! {
        static FAILS: RefCell<Option<Fails>> = const { RefCell::new(None) };
    }

    /// Sets a function that decides before each storage call of this thread whether the call fails.
    pub(crate) fn set(fails: Option<Fails>) {
        FAILS.set(fails);
    }

    pub(in crate::spool) fn strike() -> io::Result<()> {
        let fails = FAILS.with_borrow(|fails| fails.as_ref().is_some_and(|fails| fails()));
        if fails { Err(io::Error::from_raw_os_error(libc::EIO)) } else { Ok(()) }
    }
}

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = env::temp_dir().join(format!("standpipe-storage-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a temporary directory can be made");
        Self(path)
    }

    fn files(&self) -> Files {
        Files::new(&self.0, "a-b")
    }

    fn list(&self) -> Vec<(u64, Result<u64, String>)> {
        let mut list = self.files().segments().expect("it can be listed");
        list.sort_by_key(|(number, _)| *number);
        list.into_iter().map(|(number, len)| (number, len.map_err(|error| error.to_string()))).collect()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[allow(unsafe_code)]
fn make_fifo(path: &Path) {
    let path = CString::new(path.as_os_str().as_bytes()).expect("no zero is in it");
    // SAFETY: the pointer is that of a string which outlives the call
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
}

#[test]
fn segments_are_files_for_their_user_alone() {
    let directory = Directory::new("files");
    let mut files = directory.files();
    files.create(7).expect("it is new");
    assert_eq!(files.create(7).expect_err("it exists").kind(), io::ErrorKind::AlreadyExists);
    files.append(7, &[b"", b"ab", b"", b"cd"]).expect("there is room");
    files.append(7, &[b"", b""]).expect("nothing is to be done");
    files.append(7, &[b"e"]).expect("there is room");
    let start = files.header_len();
    files.write_byte(7, start + 1, b'B').expect("it is there");
    files.sync(7).expect("it is there");
    assert_eq!(directory.list(), [(7, Ok(start + 5))]);
    let mut buffer = [0; 4];
    files.read(7, start + 1, &mut buffer).expect("it is there");
    assert_eq!(&buffer, b"Bcde");
    assert_eq!(
        files.read(7, start + 2, &mut buffer).expect_err("it ends").kind(),
        io::ErrorKind::UnexpectedEof
    );
    let metadata = fs::metadata(directory.0.join("a-b-7.segment")).expect("so it is named");
    assert_eq!(metadata.mode() & 0o777, 0o600);
    files.retire(7, false).expect("it is there");
    assert_eq!(directory.list(), []);
}

#[test]
fn more_pieces_than_one_call_takes_are_written_in_order() {
    let directory = Directory::new("pieces");
    let mut files = directory.files();
    files.create(0).expect("it is new");
    let body: Vec<u8> = (0..=u8::MAX).cycle().take(100_000).collect();
    let pieces: Vec<&[u8]> = body.chunks(7).collect();
    files.append(0, &pieces).expect("there is room");
    let mut read = vec![0; body.len()];
    files.read(0, files.header_len(), &mut read).expect("it is there");
    assert!(read == body);
}

#[test]
fn files_of_other_names_are_not_seen() {
    let directory = Directory::new("names");
    for name in [
        "a-b-1.segment.bad",
        "a-b-01.segment",
        "a-b-+1.segment",
        "a-b-.segment",
        "a-1.segment",
        "x-1.segment",
    ] {
        fs::write(directory.0.join(name), "x").expect("there is room");
    }
    fs::write(directory.0.join("a-b-18446744073709551615.segment"), "x").expect("there is room");
    assert_eq!(directory.list(), [(u64::MAX, Ok(1))]);
}

#[test]
fn what_was_planted_in_the_place_of_a_segment_is_refused() {
    let directory = Directory::new("planted");
    let path = |number: u64| directory.files().path(number);
    let other = directory.0.join("other");
    fs::write(&other, "not to be touched").expect("there is room");
    symlink(&other, path(0)).expect("a link can be made");
    symlink(directory.0.join("nothing"), path(1)).expect("a link can be made");
    fs::create_dir(path(2)).expect("a directory can be made");
    make_fifo(&path(3));
    let refused = |number| (number, Err("it is not a regular file".to_owned()));
    assert_eq!(directory.list(), (0..4).map(refused).collect::<Vec<_>>());
    let mut files = directory.files();
    for number in 0..4 {
        files.create(number).expect_err("it exists");
        files.append(number, &[b"x"]).expect_err("it is refused");
        files.write_byte(number, 0, b'x').expect_err("it is refused");
        files.read(number, 0, &mut [0]).expect_err("it is refused");
        files.sync(number).expect_err("it is refused");
    }
    assert_eq!(fs::read(other).expect("it is there"), b"not to be touched");
    assert!(!directory.0.join("nothing").exists());
}

#[test]
fn a_backup_by_links_is_no_reason_to_refuse_a_segment() {
    let directory = Directory::new("links");
    let mut files = directory.files();
    files.create(0).expect("it is new");
    fs::hard_link(files.path(0), directory.0.join("backup")).expect("a link can be made");
    files.append(0, &[b"body"]).expect("there is room");
    assert_eq!(directory.list(), [(0, Ok(files.header_len() + 4))]);
}

#[test]
fn lists_the_segments_of_one_owner_that_no_other_process_uses() {
    let directory = Directory::new("owners");
    let (shop, bank) = (Owner::new("shop", "otlp"), Owner::new("bank", "otlp"));
    let open = |owner: Option<&Owner>, wanted: Option<&Owner>| Files {
        owner: owner.cloned(),
        wanted: wanted.cloned(),
        ..directory.files()
    };
    let numbers = |files: &mut Files| {
        let mut listed = files.list().expect("it can be listed");
        listed.sort_by_key(|(number, _)| *number);
        let range = |range: io::Result<Range<u64>>| range.map_err(|error| error.to_string());
        listed.into_iter().map(|(number, listed)| (number, range(listed))).collect::<Vec<_>>()
    };
    let mut lives = open(Some(&shop), None);
    lives.create(0).expect("it is new");
    let mut dies = open(Some(&bank), None);
    [1, 2, 3].iter().for_each(|number| dies.create(*number).expect("it is new"));
    drop(dies);
    let len = open(Some(&bank), None).header_len();
    let cut = OpenOptions::new().write(true).open(lives.path(2)).expect("it is there");
    cut.set_len(len - 1).expect("it can be cut");
    cut.write_all_at(b"\x09", 4).expect("it can be written");
    let damaged = OpenOptions::new().write(true).open(lives.path(3)).expect("it is there");
    damaged.write_all_at(b"!", len - 1).expect("it can be written");
    let other_version = || Err("its layout has the version 9, which this program does not know".to_owned());
    let by_bank = "left by exporter \"otlp\" of service \"bank\", which delivers it at its next start, or run standpipe \
                   drain; give each service a directory";
    let unknown = "its header, which names the owner, is damaged: standpipe drain delivers it";
    let expected = [(1, Err(by_bank.to_owned())), (2, other_version()), (3, Err(unknown.to_owned()))];
    assert_eq!(numbers(&mut open(None, Some(&shop))), expected, "the first is in use");
    let known = [(1, Ok(len..len)), (2, other_version()), (3, Ok(0..len))];
    assert_eq!(
        numbers(&mut open(Some(&bank), Some(&bank))),
        known,
        "the recorder names the owner of the last"
    );
    let mut drains = open(None, None);
    assert_eq!(numbers(&mut drains), known);
    assert_eq!(numbers(&mut open(None, None)), [(2, other_version())], "the others are locked");
}
