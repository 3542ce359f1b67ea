use super::*;

/// A directory that is removed at the end of the test.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("standpipe-file-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap()
    }

    fn transport(&self, name: &str) -> FileTransport {
        let settings = FileSettings { path: self.0.join(name), ..FileSettings::default() };
        FileTransport { line: b"{}\n".to_vec(), ..FileTransport::new(settings) }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns the time at which a file that is created now will be this many seconds old.
fn after(seconds: u64) -> SystemTime {
    SystemTime::now() + Duration::from_secs(seconds)
}

#[test]
fn renames_a_file_that_is_too_old_and_keeps_the_newest() {
    let directory = Directory::new("old");
    for foreign in ["otlp.jsonl.notes", "otlp.jsonl.20260131T235959", "x.jsonl.20260131T235959.123456789Z"] {
        fs::write(directory.0.join(foreign), "").unwrap();
    }
    let mut file = directory.transport("otlp.jsonl");
    file.settings.age = Some(Duration::from_secs(3600));
    file.settings.backups = 2;
    for seconds in [0, 1800, 3700, 5000, 7500, 9000, 12_000] {
        file.append(after(seconds)).unwrap();
    }
    let names = directory.names();
    assert_eq!(names.len(), 6, "{names:?}");
    let rotated = |name: &&String| name.starts_with("otlp.jsonl.2") && name.ends_with('Z');
    assert_eq!(names.iter().filter(rotated).count(), 2, "{names:?}");
    assert!(directory.0.join("otlp.jsonl.20260131T235959").exists(), "{names:?}");
}

#[test]
fn says_that_a_file_that_may_be_written_cannot_be_renamed() {
    let directory = Directory::new("stuck");
    let mut file = directory.transport("otlp.jsonl");
    file.settings.bytes = 1;
    let now = SystemTime::now();
    file.append(now).unwrap();
    fs::create_dir(file.rotated_path(now)).unwrap();
    let error = file.append(now).unwrap_err().to_string();
    assert!(error.starts_with("rotate: "), "{error}");
    assert_eq!(directory.read("otlp.jsonl"), "{}\n");
}

#[test]
fn names_a_renamed_file_by_the_time() {
    let directory = Directory::new("names");
    let time = UNIX_EPOCH + Duration::new(1_769_903_999, 42);
    let expected = directory.0.join("otlp.jsonl.20260131T235959.000000042Z");
    assert_eq!(directory.transport("otlp.jsonl").rotated_path(time), expected);
}

#[test]
fn renames_a_file_before_a_line_would_make_it_too_large() {
    let directory = Directory::new("large");
    let mut file = directory.transport("otlp.jsonl");
    file.settings.bytes = 7;
    (0..5).for_each(|_| file.append(SystemTime::now()).unwrap());
    // A line that is longer than the maximum size of a file gets a separate file.
    file.line = b"{\"resourceSpans\":[]}\n".to_vec();
    (0..2).for_each(|_| file.append(SystemTime::now()).unwrap());
    let texts: Vec<String> = directory.names().iter().map(|name| directory.read(name)).collect();
    let long = "{\"resourceSpans\":[]}\n";
    // The current file has the shortest name, and the others are in the order of time.
    assert_eq!(texts, [long, "{}\n{}\n", "{}\n{}\n", "{}\n", long]);
}

#[test]
fn ends_the_line_that_another_process_has_not_finished() {
    let directory = Directory::new("torn");
    fs::write(directory.0.join("otlp.jsonl"), "{\"resource").unwrap();
    let file = directory.transport("otlp.jsonl");
    (0..2).for_each(|_| file.append(SystemTime::now()).unwrap());
    assert_eq!(directory.read("otlp.jsonl"), "{\"resource\n{}\n{}\n");
}

#[cfg(unix)]
#[test]
fn appends_without_the_lock_of_a_suspended_process_but_renames_nothing() {
    let directory = Directory::new("locked");
    let mut file = directory.transport("otlp.jsonl");
    file.settings.bytes = 1;
    let other = LockedFile::open(&file.settings.path).unwrap();
    (0..2).for_each(|_| file.append(SystemTime::now()).unwrap());
    assert_eq!(directory.read("otlp.jsonl"), "{}\n{}\n");
    drop(other);
    file.append(SystemTime::now()).unwrap();
    assert_eq!((directory.names().len(), directory.read("otlp.jsonl")), (2, "{}\n".to_owned()));
}
