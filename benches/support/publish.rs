//! Puts what a benchmark has found into the README, between two comments that say what belongs there:
//! `<!-- figures: NAME -->` and `<!-- end of figures -->`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, thread};

use super::table::Table;
use super::{Error, arguments};

const END: &str = "<!-- end of figures -->";

/// Makes sure that all these tables have a place in the README, if they are to go there: before anything is measured.
///
/// # Errors
/// When one has none.
pub(crate) fn prepare(names: &[&str]) -> Result<(), Error> {
    if arguments::is_for_readme() {
        let text = fs::read_to_string(readme()?)?;
        for name in names {
            place(&text, name)?;
        }
    }
    Ok(())
}

/// Writes the table to its place in the README, if the benchmark was started with `--readme`.
///
/// # Errors
/// When there is no such place, or the file cannot be written.
pub(crate) fn table(name: &str, table: &Table) -> Result<(), Error> {
    markdown(name, &table.markdown())
}

/// The same for something that is Markdown already.
///
/// # Errors
/// When there is no such place, or the file cannot be written.
pub(crate) fn markdown(name: &str, content: &str) -> Result<(), Error> {
    if !arguments::is_for_readme() {
        return Ok(());
    }
    let path = readme()?;
    let text = fs::read_to_string(&path)?;
    let content = format!("{content}\n{}\n", origin()?);
    fs::write(&path, replace(&text, name, &content)?)?;
    println!("README.md: the figures \"{name}\" are written");
    Ok(())
}

/// The text with this content at the place of this name, and everything else as it was.
///
/// # Errors
/// When there is no such place.
pub(crate) fn replace(text: &str, name: &str, content: &str) -> Result<String, Error> {
    let (begin, end) = place(text, name)?;
    Ok(format!("{}\n\n{}\n\n{}", &text[..begin], content.trim_matches('\n'), &text[end..]))
}

/// From behind the first comment to before the second.
fn place(text: &str, name: &str) -> Result<(usize, usize), Error> {
    let begin = format!("<!-- figures: {name} -->");
    let missing = |what: &str| {
        format!(
            "README.md: there is no {what}; the figures \"{name}\" go between {begin} and {END}, each on a line of its own"
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

/// On what kind of machine, by which compiler and which command it was made.
fn origin() -> Result<String, Error> {
    let cores = thread::available_parallelism()?;
    let said = Command::new("rustc").arg("--version").output()?;
    let version = String::from_utf8(said.stdout)?;
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

/// What was typed.
fn command() -> String {
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let (program, separator) = match env!("CARGO_PKG_NAME") {
        "standpipe" => (concat!("cargo bench --bench ", env!("CARGO_CRATE_NAME")), " -- "),
        _ => ("benches/peers/run", " "),
    };
    format!("{program}{separator}{}", arguments.join(" "))
}

/// The nearest one above this crate: the workspace of the peers has none of its own.
fn readme() -> Result<PathBuf, Error> {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let found = folders.map(|folder| folder.join("README.md")).find(|path| path.exists());
    found.ok_or_else(|| "there is no README.md above the benchmarks".into())
}
