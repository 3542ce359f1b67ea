//! One of several Collectors, with a configuration that the project ships.

use std::path::Path;

use crate::Error;
use crate::process::{Ending, Process, Recipe, free_port, text};

/// A Collector that can be stopped, and restarted on the same port.
pub(super) struct Collector {
    recipe: Recipe,
    process: Option<Process>,
    port: u16,
}

impl Collector {
    /// Starts a Collector with these configurations; later ones override earlier ones. `variables` receives the port.
    pub(super) fn start(
        tools: &Path,
        log: &Path,
        configurations: &[&str],
        variables: impl Fn(u16) -> Result<Vec<(&'static str, String)>, Error>,
    ) -> Result<Self, Error> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("growing");
        let arguments =
            configurations.iter().flat_map(|name| ["--config".to_owned(), text(&folder.join(name))]);
        let port = free_port()?;
        let recipe = Recipe {
            program: tools.join("collector/collector"),
            arguments: arguments.collect(),
            variables: variables(port)?,
            log: log.to_owned(),
        };
        let process = Some(Process::start(&recipe, port)?);
        Ok(Self { recipe, process, port })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Kills the Collector at once.
    pub(super) fn kill(&mut self) -> Result<(), Error> {
        self.process.take().map_or(Ok(()), |process| process.end(Ending::Kill))
    }

    pub(super) fn start_again(&mut self) -> Result<(), Error> {
        self.process = Some(Process::start(&self.recipe, self.port)?);
        Ok(())
    }
}
