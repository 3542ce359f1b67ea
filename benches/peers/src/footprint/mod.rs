//! Measures the footprint of programs: crates, file size, threads, memory and build time.
//!
//! Each program is a package that is built alone, so that cargo does not unify its features with those of the others.
//! Each program is run, and its span must arrive.

mod hello;
mod map;
mod migration;
mod package;

use std::path::Path;

use self::package::Scales;
use crate::support::{Error, publish};

/// Argument that selects these tables.
pub(crate) const NAME: &str = "footprint";
/// Argument that selects these tables with builds from an empty target directory, which take minutes.
pub(crate) const COLD: &str = "--cold";

/// Argument that selects the map of the bytes of small programs.
pub(crate) const MAP: &str = "--map";

/// Names of the tables in `benches/README.md`.
const HELLO: &str = "hello";
const MIGRATION: &str = "migration";

/// Prints how many bytes of small programs belong to each crate, module and section.
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

/// Prints the notes below a table.
fn print_notes(asynchronous: &[String]) {
    println!("  crates: without the program itself; a crate in two versions counts twice; sizes: stripped");
    println!("  small: opt-level \"z\", fat LTO, one codegen unit, panic = \"abort\"");
    println!("  cold: processor time of a release build from an empty target directory");
    println!("  async ones:");
    for note in asynchronous {
        println!("    {note}");
    }
}
