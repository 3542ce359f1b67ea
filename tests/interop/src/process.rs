//! Servers as child processes: started, waited for, and ended by process id. Each is killed when its owner is dropped.

use std::fs::OpenOptions;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::Error;

/// Maximum time for a server to listen, or to end.
const MAX_WAIT: Duration = Duration::from_secs(60);
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// The command that starts a server. It can be used several times.
pub(crate) struct Recipe {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) variables: Vec<(&'static str, String)>,
    /// File to which the server's output is written.
    pub(crate) log: PathBuf,
}

/// How a server is ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Kills the server at once.
    Kill,
    /// Asks the server to end. It may complete requests that it has begun.
    Ask,
}

/// A running server.
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts the server and waits until it listens on the port.
    pub(crate) fn start(recipe: &Recipe, port: u16) -> Result<Self, Error> {
        let log = OpenOptions::new().create(true).append(true).open(&recipe.log)?;
        let child = Command::new(&recipe.program)
            .args(&recipe.arguments)
            .envs(recipe.variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .map_err(|error| format!("{}: {error}", recipe.program.display()))?;
        let mut process = Self { child, log: recipe.log.clone() };
        process.wait_for(port)?;
        Ok(process)
    }

    fn wait_for(&mut self, port: u16) -> Result<(), Error> {
        let deadline = Instant::now() + MAX_WAIT;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        while TcpStream::connect_timeout(&address, BETWEEN_LOOKS).is_err() {
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("the server ended with {status}: {}", self.last_words()).into());
            }
            if Instant::now() > deadline {
                return Err(format!("the server does not listen: {}", self.last_words()).into());
            }
            thread::sleep(BETWEEN_LOOKS);
        }
        Ok(())
    }

    /// Ends the server and waits until its process has ended.
    pub(crate) fn end(mut self, ending: Ending) -> Result<(), Error> {
        if ending == Ending::Kill {
            self.child.kill()?;
        } else {
            let id = self.child.id().to_string();
            let asked = Command::new("kill").args(["-TERM", &id]).status()?;
            if !asked.success() {
                return Err(format!("kill -TERM {id}: {asked}").into());
            }
        }
        self.wait().map(drop)
    }

    fn wait(&mut self) -> Result<ExitStatus, Error> {
        let deadline = Instant::now() + MAX_WAIT;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            if Instant::now() > deadline {
                return Err(format!("the server does not end: {}", self.last_words()).into());
            }
            thread::sleep(BETWEEN_LOOKS);
        }
    }

    fn last_words(&self) -> String {
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        said.trim_end().lines().last().unwrap_or("it said nothing").to_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The server may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port of this machine without a listener.
pub(crate) fn free_port() -> Result<u16, Error> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// A path as an argument.
pub(crate) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
