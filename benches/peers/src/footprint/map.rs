//! Maps the bytes of small programs to crates, modules of standpipe, and sections of the file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use object::{Object, ObjectSection, ObjectSymbol, SectionFlags, elf};

use super::package::Package;
use crate::support::Error;
use crate::support::table::{Table, tenths};

/// Features and names of the programs.
const PROGRAMS: [(&str, &str); 3] = [("", "without features"), ("file", "TOML file"), ("usual", "default")];

/// Crates whose generic code is attributed to the crate that instantiates it.
const LIBRARIES: [&str; 4] = ["alloc", "core", "hashbrown", "std"];

/// Crates that are smaller than this in every program share one row.
const MIN_BYTES: u64 = 4 << 10;
const SMALL_CRATES: &str = "smaller crates";
const OTHERS: &str = "not Rust: start-up code, assembly";

/// Prefixes of section names, with the content of these sections. The first matching prefix counts.
const SECTIONS: [(&str, &str); 9] = [
    (".text", "code"),
    (".rodata", "constants"),
    (".data.rel.ro", "constants with addresses"),
    (".eh_frame", "unwind tables"),
    (".gcc_except_table", "unwind tables"),
    (".rela", "relocations"),
    (".relr", "relocations"),
    (".data", "variables"),
    ("", "other"),
];

/// Bytes in each program, by the name of the row.
type Rows = BTreeMap<String, [u64; PROGRAMS.len()]>;

/// Builds the programs with symbols, and prints the tables.
pub(super) fn measure(target: &Path) -> Result<(), Error> {
    let (mut crates, mut modules, mut sections) = (Rows::new(), Rows::new(), Rows::new());
    for (column, (features, name)) in PROGRAMS.into_iter().enumerate() {
        eprintln!("map: standpipe, {name}");
        let file = fs::read(Package::hello_standpipe(features).build_with_symbols(target)?)?;
        let program = match object::File::parse(&*file) {
            Ok(program @ object::File::Elf64(_)) => program,
            _ => {
                println!("map SKIPPED: it reads only 64-bit ELF files, and this system has another format");
                return Ok(());
            }
        };
        for symbol in program.symbols().filter(|symbol| symbol.is_definition()) {
            let is_in_file = |index| program.section_by_index(index).is_ok_and(|section| is_loaded(&section));
            if symbol.section_index().is_some_and(is_in_file) {
                let (owner, module) = owner_of(symbol.name().unwrap_or_default());
                crates.entry(owner).or_default()[column] += symbol.size();
                if let Some(module) = module {
                    modules.entry(module).or_default()[column] += symbol.size();
                }
            }
        }
        for section in program.sections().filter(is_loaded) {
            let name = section.name().unwrap_or_default();
            let known = SECTIONS.iter().find(|(beginning, _)| name.starts_with(beginning));
            let kind = known.map_or("other", |(_, kind)| kind);
            sections.entry(kind.to_owned()).or_default()[column] += section.size();
        }
    }
    print("by crate", combine_small(crates));
    print("standpipe by module", modules);
    print("by section", sections);
    println!(
        "  profile `small`; by crate and by module: bytes with a symbol; by section: bytes in the stripped file"
    );
    println!("  generic code of {} is attributed to the crate that instantiates it", LIBRARIES.join(", "));
    Ok(())
}

/// Returns whether the section is loaded from the file into memory.
fn is_loaded<'d>(section: &impl ObjectSection<'d>) -> bool {
    let is_allocated = matches!(
        section.flags(),
        SectionFlags::Elf { sh_flags } if sh_flags & u64::from(elf::SHF_ALLOC) != 0
    );
    is_allocated && section.file_range().is_some()
}

/// Returns the crate that a symbol belongs to, and the module if the crate is standpipe.
fn owner_of(symbol: &str) -> (String, Option<String>) {
    let Ok(name) = rustc_demangle::try_demangle(symbol) else { return (OTHERS.to_owned(), None) };
    let name = format!("{name:#}");
    let paths = || {
        let words = name.split(|character: char| !(character.is_alphanumeric() || "_:".contains(character)));
        words.filter_map(|word| word.trim_matches(':').split_once("::"))
    };
    let is_library = |(owner, _): &(&str, &str)| LIBRARIES.contains(owner);
    let Some((owner, rest)) = paths().find(|path| !is_library(path)).or_else(|| paths().next()) else {
        return ("core".to_owned(), None);
    };
    let module = rest.split("::").next().unwrap_or_default();
    (owner.to_owned(), (owner == "standpipe").then(|| format!("standpipe::{module}")))
}

fn combine_small(crates: Rows) -> Rows {
    let mut kept = Rows::new();
    for (name, bytes) in crates {
        let is_small = bytes.iter().all(|bytes| *bytes < MIN_BYTES);
        let sum = kept.entry(if is_small { SMALL_CRATES.to_owned() } else { name }).or_default();
        sum.iter_mut().zip(bytes).for_each(|(sum, bytes)| *sum += bytes);
    }
    kept
}

/// Prints the rows, the largest first, and their sum last.
fn print(title: &str, rows: Rows) {
    let [none, file, default] = PROGRAMS.map(|(_, name)| name);
    let mut table = Table::new([title, none, file, default, ""]);
    let mut rows: Vec<_> = rows.into_iter().collect();
    rows.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let sum = |column: usize| rows.iter().map(|(_, bytes)| bytes[column]).sum();
    rows.push(("together".to_owned(), std::array::from_fn(sum)));
    for (name, bytes) in rows {
        let [none, file, default] = bytes.map(|bytes| tenths(bytes as f64 / 1024.0));
        table.row([name, none, file, default]);
    }
    table.print(&format!("map, {title}: KiB"));
}
