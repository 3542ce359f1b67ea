//! Builds, measures and runs one program.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, io};

use standpipe::receiver::Receiver;

use crate::support::table::{mebibytes, whole};
use crate::support::{Error, process};

/// Names of crates for async code. Crates with such a name as a prefix, like `tokio-util`, also count.
const ASYNC: [&str; 10] =
    ["async", "futures", "h2", "hyper", "pollster", "reqwest", "smol", "tokio", "tonic", "tower"];

/// Time within which the span of a program must arrive.
pub(super) const SPAN_TIMEOUT: Duration = Duration::from_secs(20);

/// Target directories, and the extent of the measurement.
pub(super) struct Scales {
    pub(super) target: PathBuf,
    /// Target directory of builds from scratch, if they are measured.
    pub(super) cold: Option<PathBuf>,
    pub(super) smoke: bool,
}

/// A program with one set of features.
pub(super) struct Package<'p> {
    /// Path relative to the folder of the benchmark.
    pub(super) folder: String,
    /// Name of the package, and of its executable.
    pub(super) program: &'p str,
    pub(super) features: &'p str,
    /// Whether a build from scratch is measured, if `Scales::cold` is set.
    pub(super) is_built_cold: bool,
    /// Returns whether the expected telemetry has arrived.
    pub(super) has_sent: fn(&Receiver) -> bool,
}

/// Footprint of a program, formatted for the tables.
pub(super) struct Weight {
    pub(super) crates: String,
    pub(super) async_crates: String,
    /// Names of the crates for async code.
    pub(super) asynchronous: Vec<String>,
    pub(super) release: String,
    pub(super) small: String,
    pub(super) threads: String,
    /// Memory after the span has been sent, while the program waits.
    pub(super) idle: String,
    pub(super) cold: String,
}

impl Package<'_> {
    pub(super) fn weigh(&self, scales: &Scales) -> Result<Weight, Error> {
        eprintln!("footprint: {} [{}]", self.folder, self.features);
        let crates = self.crates()?;
        let asynchronous = asynchronous(&crates);
        let release = self.build("release", &scales.target)?;
        let (threads, resident) = self.run(&release)?;
        let small = match scales.smoke {
            true => "SKIPPED".to_owned(),
            false => kibibytes(&self.build("small", &scales.target)?)?,
        };
        let cold = match scales.cold.as_ref().filter(|_| self.is_built_cold) {
            Some(target) => whole(self.build_cold(target)?.as_secs_f64()),
            None => "–".to_owned(),
        };
        Ok(Weight {
            crates: crates.len().to_string(),
            async_crates: asynchronous.len().to_string(),
            asynchronous,
            release: kibibytes(&release)?,
            small,
            threads: threads.to_string(),
            idle: mebibytes(resident),
            cold,
        })
    }

    /// Returns the program of standpipe that sends one span.
    pub(super) fn hello_standpipe(features: &str) -> Package<'_> {
        let (folder, program) = ("hello/standpipe".to_owned(), "hello-standpipe");
        Package { folder, program, features, is_built_cold: false, has_sent: |_| true }
    }

    /// Builds the program with the profile `small`, but with symbols.
    pub(super) fn build_with_symbols(&self, target: &Path) -> Result<PathBuf, Error> {
        let mut cargo = self.cargo("build");
        // The v0 mangling contains the type arguments of generic code.
        cargo.env("RUSTFLAGS", "-C symbol-mangling-version=v0").env("CARGO_PROFILE_SMALL_STRIP", "none");
        self.build_by(cargo, "small", target)
    }

    /// Returns a cargo command for the package and its features.
    fn cargo(&self, command: &str) -> Command {
        let mut cargo = Command::new("cargo");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(&self.folder);
        cargo.current_dir(folder).args([command, "--locked", "--features", self.features]);
        // These builds are stripped. Other release builds are not, because callgrind needs the names of functions.
        cargo.env("CARGO_PROFILE_RELEASE_STRIP", "true");
        cargo
    }

    /// Returns names and versions of the crates in the program, without the program itself.
    fn crates(&self) -> Result<Vec<String>, Error> {
        let output = self.cargo("tree").args(["--edges", "normal", "--prefix", "none"]).output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
        let name_and_version = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
        // The first line is the program itself.
        let mut crates: Vec<_> =
            String::from_utf8(output.stdout)?.lines().skip(1).map(name_and_version).collect();
        crates.sort_unstable();
        crates.dedup();
        Ok(crates)
    }

    /// Builds the program with this profile, and returns the path of the executable.
    fn build(&self, profile: &str, target: &Path) -> Result<PathBuf, Error> {
        self.build_by(self.cargo("build"), profile, target)
    }

    fn build_by(&self, mut cargo: Command, profile: &str, target: &Path) -> Result<PathBuf, Error> {
        cargo.args(["--quiet", "--profile", profile, "--target-dir"]).arg(target);
        if !cargo.status()?.success() {
            return Err(format!("{} [{}]: the build failed", self.folder, self.features).into());
        }
        Ok(target.join(profile).join(self.program))
    }

    /// Returns the processor time of a build from an empty target directory.
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

    /// Runs the program, and returns its threads and its memory in bytes after its span has been sent.
    ///
    /// Fails if the span does not arrive.
    fn run(&self, program: &Path) -> Result<(usize, u64), Error> {
        let receiver = Receiver::start()?;
        let mut child = Command::new(program)
            .env("ENDPOINT", receiver.endpoint())
            .env("GRPC_ENDPOINT", receiver.grpc_endpoint())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        // The program prints a line after its span has been sent.
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("the program has no standard output")?)
            .read_line(&mut line)?;
        let threads = fs::read_dir(format!("/proc/{}/task", child.id()))?.count();
        let resident = process::resident_of(child.id())?;
        // The program ends at the end of its standard input.
        drop(child.stdin.take());
        if !child.wait()?.success() || !(self.has_sent)(&receiver) {
            return Err(format!("{} [{}]: its span did not arrive", self.folder, self.features).into());
        }
        Ok((threads, resident))
    }
}

/// Returns the names of the crates for async code.
fn asynchronous(crates: &[String]) -> Vec<String> {
    let is_of = |name: &str, family: &str| {
        name.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let names = crates.iter().filter_map(|name_and_version| name_and_version.split(' ').next());
    names.filter(|name| ASYNC.iter().any(|family| is_of(name, family))).map(str::to_owned).collect()
}

fn kibibytes(file: &Path) -> Result<String, Error> {
    Ok(whole(fs::metadata(file)?.len() as f64 / 1024.0))
}
