//! What programs weigh: their crates, their size, their threads, their memory, their build.
//!
//! The programs are whole packages, each a workspace of its own, so that the features of one are not those of another.
//! Each is run, and its span must arrive.

mod hello;
mod map;
mod migration;
mod package;

use std::path::Path;

use self::package::Scales;
use crate::support::{Error, publish};

/// The name of the tables.
pub(crate) const NAME: &str = "footprint";
/// The same with builds from nothing, which take minutes.
pub(crate) const COLD: &str = "--cold";

/// Instead, where the bytes of small programs are.
pub(crate) const MAP: &str = "--map";

/// By their names in `benches/README.md`.
const HELLO: &str = "hello";
const MIGRATION: &str = "migration";

/// Builds programs with their symbols, and prints where their bytes are.
pub(crate) fn map() -> Result<(), Error> {
    map::measure(&Path::new(env!("CARGO_MANIFEST_DIR")).join("target").join("map"))
}

/// Measures and prints both tables; a smoke run has few programs and no small builds.
pub(crate) fn measure(smoke: bool, cold: bool) -> Result<(), Error> {
    publish::prepare(&[HELLO, MIGRATION])?;
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("target");
    let scales = Scales { target: target.join("programs"), cold: cold.then(|| target.join("cold")), smoke };
    hello::measure(&scales)?;
    migration::measure(&scales)
}

/// Below the last of the tables.
fn print_notes(asynchronous: &[String]) {
    println!("  crates: without the program itself; a crate in two versions counts twice; sizes: stripped");
    println!("  small: opt-level \"z\", fat LTO, one codegen unit, panic = \"abort\"");
    println!("  cold: processor time of a release build from an empty target directory");
    println!("  async ones:");
    for note in asynchronous {
        println!("    {note}");
    }
}
