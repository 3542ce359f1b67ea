//! Examples that cargo has built.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;
use std::{env, fs};

/// Returns the program of an example, which cargo puts next to the tests.
pub(crate) fn program(example: &str) -> PathBuf {
    built(example, &format!("{example}{}", env::consts::EXE_SUFFIX))
}

/// The shared library of an example.
pub(crate) fn library(example: &str) -> PathBuf {
    built(example, &format!("{}{example}{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX))
}

/// Returns the path of a built file. `cargo test` builds the file, but `cargo test --test programs` does not. If the
/// file is missing or outdated, this function builds the example.
fn built(example: &str, file: &str) -> PathBuf {
    static BUILDS: Mutex<()> = Mutex::new(());
    let test = env::current_exe().expect("a test knows its own program");
    let folder = test.parent().and_then(Path::parent).expect("it is in target/debug/deps");
    let built = folder.join("examples").join(file);
    // A test that failed while it held the lock has left nothing incomplete.
    let _one_at_a_time = BUILDS.lock().unwrap_or_else(PoisonError::into_inner);
    if !is_up_to_date(&built) {
        build(example, folder);
    }
    assert!(is_up_to_date(&built), "{} is not what cargo has built", built.display());
    built
}

/// Returns whether the file exists and is not older than its sources, as listed by cargo.
fn is_up_to_date(program: &Path) -> bool {
    let Some(built) = changed(program) else { return false };
    let sources = fs::read_to_string(program.with_extension("d")).unwrap_or_default();
    !sources.split_whitespace().skip(1).any(|path| changed(Path::new(path)).is_some_and(|at| at > built))
}

/// Builds an example with the profile and the target of the tests. Both are read from the names of cargo's folders.
fn build(example: &str, folder: &Path) {
    let profile = match folder.file_name().and_then(OsStr::to_str) {
        Some("debug") | None => "test",
        Some(name) => name,
    };
    // If a target was given, the profile's folder is in the target's folder, which has no `.rustc_info.json`.
    let asked = folder.parent().filter(|parent| !parent.join(".rustc_info.json").exists());
    let target = asked.and_then(Path::file_name).map(|target| [OsStr::new("--target"), target]);
    let cargo = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--locked", "--example", example, "--profile", profile])
        .args(target.into_iter().flatten())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(cargo.expect("cargo can be started").success(), "the example cannot be built");
}

fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|metadata| metadata.modified()).ok()
}
