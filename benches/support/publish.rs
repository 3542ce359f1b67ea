//! Writes tables into `benches/README.md`, and from there into the excerpts of `README.md`.
//!
//! The place of a table is between the comments `<!-- figures: NAME -->` and `<!-- end of figures -->`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, thread};

use super::table::Table;
use super::{Error, arguments};

/// File with the tables of all benchmarks.
const FULL: &str = "benches/README.md";
const END: &str = "<!-- end of figures -->";

/// Checks that `benches/README.md` has a place for each table, before anything is measured.
///
/// Does nothing without `--readme`.
pub(crate) fn prepare(names: &[&str]) -> Result<(), Error> {
    if arguments::is_for_readme() {
        let text = fs::read_to_string(root()?.join(FULL))?;
        for name in names {
            place(&text, name)?;
        }
    }
    Ok(())
}

/// Writes the table to its place in `benches/README.md`. Does nothing without `--readme`.
pub(crate) fn table(name: &str, table: &Table) -> Result<(), Error> {
    markdown(name, &table.markdown())
}

/// Writes Markdown to the place of a table in `benches/README.md`. Does nothing without `--readme`.
pub(crate) fn markdown(name: &str, content: &str) -> Result<(), Error> {
    if !arguments::is_for_readme() {
        return Ok(());
    }
    let (path, readme) = (root()?.join(FULL), root()?.join("README.md"));
    let content = format!("{content}\n{}\n", origin()?);
    let full = replace(&fs::read_to_string(&path)?, name, &content)?;
    fs::write(&path, &full)?;
    fs::write(&readme, excerpts(&fs::read_to_string(&readme)?, &full)?)?;
    println!("{FULL}: wrote the figures \"{name}\"");
    Ok(())
}

/// Returns `text` with the current figures in every table that follows an `<!-- excerpt: NAME -->`.
///
/// The figures are those of the table NAME in `full`. An excerpt keeps its rows and columns.
///
/// # Errors
/// Returns an error if the table, a row or a column is missing in `full`.
pub(crate) fn excerpts(text: &str, full: &str) -> Result<String, Error> {
    let mut name = None;
    let mut columns: Vec<&str> = Vec::new();
    let mut lines = Vec::new();
    for line in text.split_inclusive('\n') {
        let begun = line.trim().strip_prefix("<!-- excerpt: ").and_then(|rest| rest.strip_suffix(" -->"));
        name = begun.or(name);
        match (name, cells(line)) {
            (Some(_), Some(header)) if columns.is_empty() => columns = header,
            (Some(name), Some(row)) if !row[0].starts_with("---") => {
                let found = row_of(full, name, row[0], &columns)?;
                lines.push(format!("| {} |\n", found.join(" | ")));
                continue;
            }
            (Some(_), None) if !columns.is_empty() => (name, columns) = (None, Vec::new()),
            _ => {}
        }
        lines.push(line.to_owned());
    }
    Ok(lines.concat())
}

/// Returns the cells of a row of a table, in the order of `columns`.
fn row_of<'f>(full: &'f str, name: &str, label: &str, columns: &[&str]) -> Result<Vec<&'f str>, Error> {
    let (begin, end) = place(full, name)?;
    let mut rows = full[begin..end].lines().filter_map(cells);
    let header = rows.next().unwrap_or_default();
    let row =
        rows.find(|row| row[0] == label).ok_or_else(|| format!("{FULL}: {name} has no row {label:?}"))?;
    let cell = |(index, column): (usize, &&str)| {
        // The first column describes the rows, and its header may differ between table and excerpt.
        let place = if index == 0 { Some(0) } else { header.iter().position(|known| known == column) };
        let cell = place.and_then(|place| row.get(place).copied());
        cell.ok_or_else(|| format!("{FULL}: {name} has no column {column:?}").into())
    };
    columns.iter().enumerate().map(cell).collect()
}

/// Returns the cells of a row, or `None` if the line does not belong to a table.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split('|').map(str::trim).collect())
}

/// Returns `text` with `content` in the place of a table.
///
/// # Errors
/// Returns an error if there is no such place.
pub(crate) fn replace(text: &str, name: &str, content: &str) -> Result<String, Error> {
    let (begin, end) = place(text, name)?;
    Ok(format!("{}\n\n{}\n\n{}", &text[..begin], content.trim_matches('\n'), &text[end..]))
}

/// Returns the range between the two comments of a place.
fn place(text: &str, name: &str) -> Result<(usize, usize), Error> {
    let begin = format!("<!-- figures: {name} -->");
    let missing = |what: &str| {
        format!(
            "{FULL}: there is no {what}; the figures \"{name}\" go between {begin} and {END}, each on a line of its own"
        )
    };
    let from = text.find(&begin).ok_or_else(|| missing(&begin))? + begin.len();
    let rest = &text[from..];
    let length = rest.find(END).ok_or_else(|| missing(END))?;
    if rest[..length].contains("<!-- figures: ") {
        return Err(missing(&format!("{END} after {begin}")).into());
    }
    Ok((from, from + length))
}

/// Returns a line that names the machine, the compiler and the command of this run.
fn origin() -> Result<String, Error> {
    let cores = thread::available_parallelism()?;
    let output = Command::new("rustc").arg("--version").output()?;
    let version = String::from_utf8(output.stdout)?;
    let compiler = version.split(" (").next().unwrap_or_default().trim();
    let system = match env::consts::OS {
        "linux" => "Linux",
        other => other,
    };
    Ok(format!(
        "<sub>{cores} cores, {} {system}, {compiler}: `{}`</sub>",
        env::consts::ARCH.replace('_', "-"),
        command()
    ))
}

/// Returns the command of this run.
fn command() -> String {
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let (program, separator) = match env!("CARGO_PKG_NAME") {
        "standpipe" => (concat!("cargo bench --bench ", env!("CARGO_CRATE_NAME")), " -- "),
        _ => ("benches/peers/run", " "),
    };
    format!("{program}{separator}{}", arguments.join(" "))
}

/// Returns the root of the repository: the nearest ancestor of this crate that contains the file with all tables.
fn root() -> Result<PathBuf, Error> {
    let mut folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let found = folders.find(|folder| folder.join(FULL).exists());
    found
        .map(Path::to_path_buf)
        .ok_or_else(|| format!("no folder above the benchmarks contains {FULL}").into())
}
