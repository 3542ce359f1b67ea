//! What a program weighs before and after it moves to standpipe: its crates, its size, its threads, its build.
//!
//! The programs are those below `migration`: whole packages, each a workspace of its own, so that the features of one
//! are not those of another. Each is run, and its span must arrive.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, io};

use standpipe::receiver::Receiver;

use crate::support::table::{Table, whole};
use crate::support::{Error, process};

/// The name of the table.
pub(crate) const NAME: &str = "footprint";
/// The same with builds from nothing, which take minutes.
pub(crate) const COLD: &str = "--cold";

/// Below `migration`, as the table shows them.
const PROGRAMS: [(&str, &str); 4] = [
    ("tracing/before", "tracing: tracing-opentelemetry, opentelemetry-otlp"),
    ("tracing/after", "tracing: standpipe"),
    ("opentelemetry/before", "OpenTelemetry SDK: opentelemetry-otlp"),
    ("opentelemetry/after", "OpenTelemetry SDK: standpipe"),
];

/// Crates for async code; those with a dash and more behind the name are of the same family.
const ASYNC: [&str; 10] =
    ["async", "futures", "h2", "hyper", "pollster", "reqwest", "smol", "tokio", "tonic", "tower"];

/// How long a program may take for its span.
const PATIENCE: Duration = Duration::from_secs(20);

/// A program with one set of features.
struct Variant {
    folder: PathBuf,
    has_tls: bool,
}

/// Measures and prints the table; a smoke run has no variants and no small build.
pub(crate) fn measure(smoke: bool, cold: bool) -> Result<(), Error> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let head =
        ["one span, sent", "crates", "async ones", "release KiB", "small KiB", "threads", "cold CPU s", ""];
    let (mut table, mut notes) = (Table::new(head), Vec::new());
    for has_tls in [false, true].into_iter().filter(|has_tls| !(smoke && *has_tls)) {
        for (folder, name) in PROGRAMS {
            let name = format!("{name}{}", if has_tls { ", TLS" } else { "" });
            let variant = Variant { folder: home.join("migration").join(folder), has_tls };
            let crates = variant.crates()?;
            let asynchronous = asynchronous(&crates);
            let target = home.join("target/migration");
            let release = variant.build("release", &target)?;
            let threads = run(&release)?;
            let small = match smoke {
                true => "SKIPPED".to_owned(),
                false => kibibytes(&variant.build("small", &target)?)?,
            };
            let cold = match cold {
                true => whole(variant.build_cold(&home.join("target/cold"))?.as_secs_f64()),
                false => "–".to_owned(),
            };
            let counts = [crates.len(), asynchronous.len(), threads].map(|count| count.to_string());
            let [crates, async_crates, threads] = counts;
            if !asynchronous.is_empty() {
                notes.push(format!("{name}: {}", asynchronous.join(" ")));
            }
            table.row([name, crates, async_crates, kibibytes(&release)?, small, threads, cold]);
        }
    }
    table.print("footprint: the same program before and after");
    println!("  crates: all but the program itself, once for each version; sizes are stripped");
    println!("  small: opt-level \"z\", fat LTO, one codegen unit, panic = \"abort\"");
    println!("  cold: a release build from nothing, processor time of all compilers together");
    println!("  async ones:");
    for note in notes {
        println!("    {note}");
    }
    Ok(())
}

impl Variant {
    /// A command of cargo in its folder, with its features.
    fn cargo(&self, command: &str) -> Command {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(&self.folder).args([command, "--locked"]);
        if self.has_tls {
            cargo.args(["--features", "tls"]);
        }
        cargo
    }

    /// Names and versions of what it is made of, itself left out.
    fn crates(&self) -> Result<Vec<String>, Error> {
        let output = self.cargo("tree").args(["--edges", "normal", "--prefix", "none"]).output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        let name_and_version = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
        // the first is the program itself
        let mut crates: Vec<_> =
            String::from_utf8(output.stdout)?.lines().skip(1).map(name_and_version).collect();
        crates.sort_unstable();
        crates.dedup();
        Ok(crates)
    }

    /// Builds it with this profile, and says where the program is.
    fn build(&self, profile: &str, target: &Path) -> Result<PathBuf, Error> {
        let mut cargo = self.cargo("build");
        cargo.args(["--quiet", "--profile", profile, "--target-dir"]).arg(target);
        if !cargo.status()?.success() {
            return Err(format!("{}: it cannot be built", self.folder.display()).into());
        }
        let name = self.folder.file_name().ok_or("a program without a name")?;
        Ok(target.join(profile).join(name))
    }

    /// Processor time of a build from nothing.
    fn build_cold(&self, target: &Path) -> Result<Duration, Error> {
        match fs::remove_dir_all(target) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let before = process::children_cpu_time()?;
        self.build("release", target)?;
        let spent = process::children_cpu_time()? - before;
        fs::remove_dir_all(target)?;
        Ok(spent)
    }
}

/// Runs the program, which must send its span, and says how many threads it has.
fn run(program: &Path) -> Result<usize, Error> {
    let receiver = Receiver::start()?;
    let mut child = Command::new(program)
        .env("ENDPOINT", receiver.endpoint())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().ok_or("a program that says nothing")?).read_line(&mut line)?;
    let threads = fs::read_dir(format!("/proc/{}/task", child.id()))?.count();
    // it ends when its input does
    drop(child.stdin.take());
    let is_well = child.wait()?.success();
    if !is_well || !receiver.wait_for_spans(1, PATIENCE) || !is_what_was_sent(&receiver) {
        return Err(format!("{}: its span did not arrive", program.display()).into());
    }
    Ok(threads)
}

/// One span, with its field and its event.
fn is_what_was_sent(receiver: &Receiver) -> bool {
    match receiver.spans().as_slice() {
        [received] => {
            let (span, has_event) = (&received.span, received.span.events.len() == 1);
            span.name == "checkout" && received.attribute("order.id").is_some() && has_event
        }
        _ => false,
    }
}

/// The names of those that are there for the sake of async code.
fn asynchronous(crates: &[String]) -> Vec<&str> {
    let is_of = |name: &str, family: &str| {
        name.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let names = crates.iter().filter_map(|name_and_version| name_and_version.split(' ').next());
    names.filter(|name| ASYNC.iter().any(|family| is_of(name, family))).collect()
}

fn kibibytes(file: &Path) -> Result<String, Error> {
    Ok(whole(fs::metadata(file)?.len() as f64 / 1024.0))
}
