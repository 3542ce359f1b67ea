//! rotel, a collector written in Rust, between the program and the sink.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Order, Place, Server, Transport};
use crate::Error;
use crate::process::{Ending, Recipe, free_port, text};

pub(crate) struct Rotel;

impl Server for Rotel {
    fn name(&self) -> &'static str {
        "rotel"
    }

    fn lacks_tls(&self) -> Option<&'static str> {
        Some("rotel does not listen with TLS")
    }

    fn passes_on(&self) -> bool {
        true
    }

    fn can_refuse_large(&self, transport: Transport) -> bool {
        transport == Transport::Grpc
    }

    /// rotel confirms records that are only in memory, and sends them when it is asked to end.
    fn ending(&self) -> Ending {
        Ending::Ask
    }

    fn recipe(&self, order: &Order<'_>, place: &Place<'_>) -> Result<Recipe, Error> {
        let (port, other) = (place.port, free_port()?);
        let (http, grpc) = match order.transport {
            Transport::Http => (port, other),
            Transport::Grpc => (other, port),
        };
        let arguments = [
            "start",
            "--otlp-http-endpoint",
            &format!("127.0.0.1:{http}"),
            "--otlp-grpc-endpoint",
            &format!("127.0.0.1:{grpc}"),
            "--otlp-grpc-max-recv-msg-size-mib",
            &order.largest.mebibytes().to_string(),
            "--exporter",
            "otlp",
            "--otlp-exporter-protocol",
            order.transport.name(),
            "--otlp-exporter-endpoint",
            place.sink,
            "--pid-file",
            &text(&place.folder.join("pid")),
            "--log-file",
            &text(&place.folder.join("rotel.log")),
        ];
        let arguments = arguments.map(str::to_owned).to_vec();
        // In the package, the program is next to the Python files.
        let program = find(place.tools)?;
        Ok(Recipe { program, arguments, variables: Vec::new(), log: place.folder.join("log.txt") })
    }
}

fn find(tools: &Path) -> Result<PathBuf, Error> {
    for python in fs::read_dir(tools.join("rotel/lib"))? {
        let program = python?.path().join("site-packages/rotel/rotel-agent");
        if program.is_file() {
            return Ok(program);
        }
    }
    Err("rotel's package has no rotel-agent".into())
}
