//! One program: built, weighed and run.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, io};

use standpipe::receiver::Receiver;

use crate::support::table::{mebibytes, whole};
use crate::support::{Error, process};

/// Crates for async code; those with a dash and more behind the name are of the same family.
const ASYNC: [&str; 10] =
    ["async", "futures", "h2", "hyper", "pollster", "reqwest", "smol", "tokio", "tonic", "tower"];

/// How long a program may take for its span.
pub(super) const SPAN_TIMEOUT: Duration = Duration::from_secs(20);

/// Where programs are built, and how many ways.
pub(super) struct Scales {
    pub(super) target: PathBuf,
    /// Where they are built from nothing, if they are.
    pub(super) cold: Option<PathBuf>,
    pub(super) smoke: bool,
}

/// A program with one set of features.
pub(super) struct Package<'p> {
    /// From the folder of the benchmark.
    pub(super) folder: String,
    /// The name of the package, and so of the program.
    pub(super) program: &'p str,
    pub(super) features: &'p str,
    /// Whether it is also built from nothing, where there is time for that.
    pub(super) is_built_cold: bool,
    /// Whether what it sends has come, and is what it should be.
    pub(super) has_sent: fn(&Receiver) -> bool,
}

/// What a program weighs, as tables show it.
pub(super) struct Weight {
    pub(super) crates: String,
    pub(super) async_crates: String,
    /// The names of those that are there for the sake of async code.
    pub(super) asynchronous: Vec<String>,
    pub(super) release: String,
    pub(super) small: String,
    pub(super) threads: String,
    /// Memory when it has sent its span and has nothing to do.
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

    /// Standpipe's own program that sends one span.
    pub(super) fn hello_standpipe(features: &str) -> Package<'_> {
        let (folder, program) = ("hello/standpipe".to_owned(), "hello-standpipe");
        Package { folder, program, features, is_built_cold: false, has_sent: |_| true }
    }

    /// Builds it with the small profile, and leaves in what tells its functions apart.
    pub(super) fn build_with_symbols(&self, target: &Path) -> Result<PathBuf, Error> {
        let mut cargo = self.cargo("build");
        // names of the newer form have the types of generic code
        cargo.env("RUSTFLAGS", "-C symbol-mangling-version=v0").env("CARGO_PROFILE_SMALL_STRIP", "none");
        self.build_by(cargo, "small", target)
    }

    /// A command of cargo in its folder, with its features.
    fn cargo(&self, command: &str) -> Command {
        let mut cargo = Command::new("cargo");
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(&self.folder);
        cargo.current_dir(folder).args([command, "--locked", "--features", self.features]);
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
        self.build_by(self.cargo("build"), profile, target)
    }

    fn build_by(&self, mut cargo: Command, profile: &str, target: &Path) -> Result<PathBuf, Error> {
        cargo.args(["--quiet", "--profile", profile, "--target-dir"]).arg(target);
        if !cargo.status()?.success() {
            return Err(format!("{} [{}]: the build failed", self.folder, self.features).into());
        }
        Ok(target.join(profile).join(self.program))
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

    /// Runs the program, which must send its span, and says how many threads and how many bytes of memory it has then.
    fn run(&self, program: &Path) -> Result<(usize, u64), Error> {
        let receiver = Receiver::start()?;
        let mut child = Command::new(program)
            .env("ENDPOINT", receiver.endpoint())
            .env("GRPC_ENDPOINT", receiver.grpc_endpoint())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        // it says a line when it has nothing more to do
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("the program has no standard output")?)
            .read_line(&mut line)?;
        let threads = fs::read_dir(format!("/proc/{}/task", child.id()))?.count();
        let resident = process::resident_of(child.id())?;
        // it ends when its input does
        drop(child.stdin.take());
        if !child.wait()?.success() || !(self.has_sent)(&receiver) {
            return Err(format!("{} [{}]: its span did not arrive", self.folder, self.features).into());
        }
        Ok((threads, resident))
    }
}

/// The names of those that are there for the sake of async code.
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
