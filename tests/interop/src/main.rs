//! Runs standpipe against real servers and prints one table. The script `run` builds and installs the servers and
//! starts this program.

mod cases;
mod compare;
mod growing;
mod identity;
mod process;
mod program;
mod prometheus;
mod propagation;
mod relay;
mod sampling;
mod seen;
mod servers;
mod showcase;
mod table;

use std::path::PathBuf;
use std::process::ExitCode;
use std::{env, fs};

use cases::Environment;
use identity::Identity;
use servers::Transport;
use table::{Outcome, Row, Table};

type Error = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    match Arguments::read().and_then(|arguments| run(&arguments)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

/// Runs everything. Returns whether all cases passed.
fn run(arguments: &Arguments) -> Result<bool, Error> {
    fs::create_dir_all(&arguments.scratch)?;
    let environment = Environment {
        tools: &arguments.tools,
        scratch: &arguments.scratch,
        identity: &Identity::make(&arguments.scratch)?,
        quick: arguments.quick,
    };
    let mut table = Table::default();
    for server in servers::ALL {
        if arguments.can(server.name(), &mut table) {
            let run = |&transport| cases::run(server, transport, &environment, &mut table);
            arguments.transports.iter().for_each(run);
        }
    }
    if arguments.can(growing::NAME, &mut table) {
        arguments.transports.iter().for_each(|&transport| growing::run(transport, &environment, &mut table));
    }
    if arguments.can(propagation::NAME, &mut table) {
        propagation::run(&environment, &mut table);
        sampling::run(&environment, &mut table);
    }
    if arguments.can(prometheus::NAME, &mut table) {
        prometheus::run(&environment, &mut table);
    }
    println!("\n{table}");
    Ok(!table.has_failed())
}

/// The arguments of this program.
struct Arguments {
    tools: PathBuf,
    scratch: PathBuf,
    quick: bool,
    transports: Vec<Transport>,
    servers: Vec<String>,
    /// Servers that could not be installed, as `server: reason`.
    skipped: Vec<String>,
    failed: Vec<String>,
}

impl Arguments {
    fn read() -> Result<Self, Error> {
        let mut read = Self {
            tools: PathBuf::new(),
            scratch: PathBuf::new(),
            quick: false,
            transports: Vec::new(),
            servers: Vec::new(),
            skipped: Vec::new(),
            failed: Vec::new(),
        };
        let mut arguments = env::args().skip(1);
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument}: what?"));
            match argument.as_str() {
                "--tools" => read.tools = value()?.into(),
                "--scratch" => read.scratch = value()?.into(),
                "--skip" => read.skipped.push(value()?),
                "--fail" => read.failed.push(value()?),
                "--quick" => read.quick = true,
                "http" => read.transports.push(Transport::Http),
                "grpc" => read.transports.push(Transport::Grpc),
                _ => read.servers.push(argument),
            }
        }
        if read.transports.is_empty() {
            read.transports = Transport::ALL.to_vec();
        }
        Ok(read)
    }

    /// Returns whether this server was requested and is installed. If it is requested but missing, adds the reason to
    /// the table.
    fn can(&self, server: &'static str, table: &mut Table) -> bool {
        if !self.servers.iter().any(|wanted| wanted == server) {
            return false;
        }
        if let Some(outcome) = self.missing(server) {
            table.push(Row { server, transport: "", what: "everything".to_owned(), outcome });
            return false;
        }
        true
    }

    /// Returns the reason why a server is missing, if it is.
    fn missing(&self, server: &str) -> Option<Outcome> {
        let reason = |all: &[String]| {
            let of_server = |text: &String| Some(text.strip_prefix(server)?.strip_prefix(": ")?.to_owned());
            all.iter().find_map(of_server)
        };
        reason(&self.failed).map(Outcome::Failed).or_else(|| reason(&self.skipped).map(Outcome::Skipped))
    }
}
