//! The program under test: standpipe, with a configuration file like that of a user.

use std::fmt::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use standpipe::{Config, Ledger, Problem, ProblemKind, Telemetry};

use crate::Error;
use crate::identity::Identity;
use crate::servers::Transport;

/// Longer than any delivery here takes. A case that needs all of it fails.
pub(crate) const BUDGET: Duration = Duration::from_secs(120);

/// Configuration of the program.
#[derive(Clone, Copy)]
pub(crate) struct Setup<'a> {
    pub(crate) transport: Transport,
    pub(crate) to: To<'a>,
    pub(crate) identity: Option<&'a Identity>,
    pub(crate) gzip: bool,
    pub(crate) signals: Signals,
    /// Additional lines in the table of the spans' exporter.
    pub(crate) more: &'static str,
}

/// Where the program sends.
#[derive(Clone, Copy)]
pub(crate) enum To<'a> {
    Port(u16),
    UnixSocket(&'a Path),
    /// Writes files with a limit of 4 KiB instead of sending, so that the exporter rotates them.
    File(&'a Path),
}

/// What the program exports.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signals {
    Spans,
    /// All three signals; metrics with delta or cumulative temporality.
    All {
        delta: bool,
    },
}

/// A running program, and the problems reported to it.
pub(crate) struct Program {
    pub(crate) telemetry: Telemetry,
    problems: Arc<Mutex<Vec<Problem>>>,
}

impl Program {
    pub(crate) fn start(setup: &Setup<'_>) -> Result<Self, Error> {
        let problems = Arc::new(Mutex::new(Vec::new()));
        let heard = problems.clone();
        let config = Config::from_toml_str(&setup.to_toml())?
            .service_name("interop")
            .resource("deployment.environment.name", "test")
            .resource("host.cpu.count", 2)
            .resource("service.instance.id", "first")
            .on_problem(move |problem| {
                if let Ok(mut heard) = heard.lock() {
                    heard.push(problem.clone());
                }
            });
        if let Some(diagnostic) = config.diagnostics().first() {
            return Err(diagnostic.to_string().into());
        }
        Ok(Self { telemetry: Telemetry::start(config)?, problems })
    }

    /// Shuts down. Returns an error if a record was lost or a problem was reported.
    pub(crate) fn finish(&self) -> Result<Ledger, Error> {
        self.finish_in_spite_of(&[])
    }

    /// Like [`finish`](Self::finish), but ignores problems of these kinds.
    pub(crate) fn finish_in_spite_of(&self, expected: &[ProblemKind]) -> Result<Ledger, Error> {
        let ledger = self.telemetry.shutdown(BUDGET);
        let total = ledger.total();
        let problems = self.problems.lock().map_err(|_| "the hook panicked")?;
        let shown = |problems: &[&Problem]| {
            let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
            texts.join("; ")
        };
        if ledger.lost() > 0 || total.delivered + total.superseded != total.accepted {
            let problems = shown(&problems.iter().collect::<Vec<_>>());
            return Err(format!("{}: {problems}", ledger.to_string().replace('\n', ", ")).into());
        }
        let unexpected: Vec<_> =
            problems.iter().filter(|problem| !expected.contains(&problem.kind)).collect();
        match unexpected.is_empty() {
            true => Ok(ledger),
            false => Err(format!("all is delivered, but: {}", shown(&unexpected)).into()),
        }
    }
}

impl Setup<'_> {
    fn to_toml(self) -> String {
        let mut toml = String::from("[tracer.otel]\ntype = \"open-telemetry\"\n");
        toml.push_str(&self.connection());
        toml.push_str("throttle = \"0s\"\nretry-first-delay = \"20ms\"\nretry-max-delay = \"200ms\"\n");
        toml.push_str(self.more);
        if let Signals::All { delta } = self.signals {
            let temporality = if delta { "delta" } else { "cumulative" };
            toml.push_str("level = \"trace\"\nenable.log-exporter = true\n\n[metrics.open-telemetry]\n");
            toml.push_str(&self.connection());
            // Writing to a string cannot fail.
            let _ = writeln!(toml, "temporality = \"{temporality}\"");
        }
        toml
    }

    fn connection(&self) -> String {
        let scheme = if self.identity.is_some() { "https" } else { "http" };
        let endpoint = match self.to {
            To::Port(port) => format!("{scheme}://127.0.0.1:{port}"),
            To::UnixSocket(path) => format!("unix:{}", path.display()),
            To::File(file) => {
                return format!(
                    "transport = \"file\"\nfile = {}\nfile-bytes = \"4 KiB\"\nfile-backups = 100\n",
                    quoted(file)
                );
            }
        };
        let mut toml = format!(
            "transport = \"{}\"\nendpoint = \"{endpoint}\"\nproxy = \"off\"\ncompression = \"{}\"\n",
            self.transport.name(),
            if self.gzip { "gzip" } else { "none" },
        );
        if let Some(identity) = self.identity {
            let _ = writeln!(toml, "ca-file = {}", quoted(&identity.authority));
        }
        toml
    }
}

/// Returns a TOML literal string, in which a backslash is not an escape.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display())
}
