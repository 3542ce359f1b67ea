//! Where the bytes of a small program are: by crate, by module of standpipe, and by section of the file.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use object::{Object, ObjectSection, ObjectSymbol, SectionFlags, elf};

use super::package::Package;
use crate::support::Error;
use crate::support::table::{Table, tenths};

/// The features of the programs, and their names.
const PROGRAMS: [(&str, &str); 3] = [("", "without features"), ("file", "TOML file"), ("usual", "default")];

/// Their generic code counts as that of the crate that it is made for.
const LIBRARIES: [&str; 4] = ["alloc", "core", "hashbrown", "std"];

/// Crates with less in every program are put together.
const MIN_BYTES: u64 = 4 << 10;
const SMALL_CRATES: &str = "smaller crates";
const OTHERS: &str = "no Rust: start-up code, assembly";

/// What sections are for, by the beginnings of their names; the first that fits counts.
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

/// Bytes of each program, by the name of a row.
type Rows = BTreeMap<String, [u64; PROGRAMS.len()]>;

/// Builds the programs with their symbols, and prints where their bytes are.
pub(super) fn measure(target: &Path) -> Result<(), Error> {
    let (mut crates, mut modules, mut sections) = (Rows::new(), Rows::new(), Rows::new());
    for (column, (features, name)) in PROGRAMS.into_iter().enumerate() {
        eprintln!("map: standpipe, {name}");
        let file = fs::read(Package::hello_standpipe(features).build_with_symbols(target)?)?;
        let program = match object::File::parse(&*file) {
            Ok(program @ object::File::Elf64(_)) => program,
            _ => {
                println!("map SKIPPED: it reads 64-bit ELF files, and programs here are no such files");
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
    print("by crate", put_small_together(crates));
    print("standpipe by module", modules);
    print("by section", sections);
    println!("  the size profile, unstripped: what has a symbol, and what is in the stripped file");
    println!("  generic code of {} counts as its user's", LIBRARIES.join(", "));
    Ok(())
}

/// Whether the section is in memory, and has bytes in the file.
fn is_loaded<'d>(section: &impl ObjectSection<'d>) -> bool {
    let is_allocated = matches!(
        section.flags(),
        SectionFlags::Elf { sh_flags } if sh_flags & u64::from(elf::SHF_ALLOC) != 0
    );
    is_allocated && section.file_range().is_some()
}

/// The crate that a symbol belongs to, and the module if the crate is standpipe.
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

fn put_small_together(crates: Rows) -> Rows {
    let mut kept = Rows::new();
    for (name, bytes) in crates {
        let is_small = bytes.iter().all(|bytes| *bytes < MIN_BYTES);
        let sum = kept.entry(if is_small { SMALL_CRATES.to_owned() } else { name }).or_default();
        sum.iter_mut().zip(bytes).for_each(|(sum, bytes)| *sum += bytes);
    }
    kept
}

/// The largest first, and all together last.
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
