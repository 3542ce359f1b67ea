//! The footprint of programs: crates, size, threads, memory and build time.
//!
//! Each program is a package in its own workspace, so that cargo does not unify features across programs. Each
//! program is run, and its span must arrive.

mod hello;
mod map;
mod migration;
mod package;

use std::path::Path;

use self::package::Scales;
use crate::support::{Error, publish};

/// Argument that selects these tables.
pub(crate) const NAME: &str = "footprint";
/// Argument that also times builds from scratch, which take minutes.
pub(crate) const COLD: &str = "--cold";

/// Argument that shows where the bytes of small programs are, instead of the tables.
pub(crate) const MAP: &str = "--map";

/// Names of the tables in `benches/README.md`.
const HELLO: &str = "hello";
const MIGRATION: &str = "migration";

/// Builds programs with their symbols, and prints where their bytes are.
pub(crate) fn map() -> Result<(), Error> {
    map::measure(&Path::new(env!("CARGO_MANIFEST_DIR")).join("target").join("map"))
}

/// Measures and prints both tables. A smoke run has fewer programs and no builds for size.
pub(crate) fn measure(smoke: bool, cold: bool) -> Result<(), Error> {
    publish::prepare(&[HELLO, MIGRATION])?;
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("target");
    let scales = Scales { target: target.join("programs"), cold: cold.then(|| target.join("cold")), smoke };
    hello::measure(&scales)?;
    migration::measure(&scales)
}

/// Prints the notes below the last table.
fn print_notes(asynchronous: &[String]) {
    println!("  crates: all but the program itself, once for each version; sizes are stripped");
    println!("  small: opt-level \"z\", fat LTO, one codegen unit, panic = \"abort\"");
    println!("  cold: a release build from nothing, processor time of all compilers together");
    println!("  async ones:");
    for note in asynchronous {
        println!("    {note}");
    }
}
