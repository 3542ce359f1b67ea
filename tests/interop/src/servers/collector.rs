//! The OpenTelemetry Collector, alone between the program and the sink.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Manner, Order, Pace, Place, Server, Transport, USUAL};
use crate::Error;
use crate::process::{Recipe, free_port, text};

pub(crate) struct Collector;

impl Server for Collector {
    fn name(&self) -> &'static str {
        "collector"
    }

    fn passes_on(&self) -> bool {
        true
    }

    fn can_refuse_large(&self, _transport: Transport) -> bool {
        true
    }

    fn reads_files(&self) -> bool {
        true
    }

    fn listens_on_unix_sockets(&self) -> bool {
        true
    }

    fn manners(&self) -> &'static [Manner] {
        const SHORT_LIVED: Manner = Manner {
            name: "short-lived",
            what: "connections live 0.2 s",
            transports: &[Transport::Grpc],
            requests: 50,
            pace: Pace::Every(Duration::from_millis(20)),
        };
        &[SHORT_LIVED]
    }

    fn recipe(&self, order: &Order<'_>, place: &Place<'_>) -> Result<Recipe, Error> {
        let mut arguments = vec!["--config".to_owned(), text(&configuration("alone.yaml"))];
        // The Collector listens for both transports; only one is used.
        let (port, other) = (place.port.to_string(), free_port()?.to_string());
        let (http, grpc) = match order.transport {
            Transport::Http => (port, other),
            Transport::Grpc => (other, port),
        };
        let mut variables = vec![("HTTP_PORT", http), ("GRPC_PORT", grpc), ("SINK", place.sink.to_owned())];
        variables.push(("LINES", text(&place.folder.join("lines.jsonl*"))));
        variables.push(("SOCKETS", text(place.folder)));
        variables.push(("LARGEST_MIB", order.largest.mebibytes().to_string()));
        variables.push(("LARGEST_BYTES", order.largest.bytes().to_string()));
        if order.transport == Transport::Grpc {
            arguments.extend(["--config".to_owned(), text(&configuration("grpc-sink.yaml"))]);
        }
        if order.manner != USUAL {
            arguments
                .extend(["--config".to_owned(), text(&configuration(&format!("{}.yaml", order.manner)))]);
        }
        if let Some(identity) = order.identity {
            arguments.extend(["--config".to_owned(), text(&configuration("tls.yaml"))]);
            variables.push(("CERTIFICATE", text(&identity.certificate)));
            variables.push(("KEY", text(&identity.key)));
        }
        let program = place.tools.join("collector/collector");
        Ok(Recipe { program, arguments, variables, log: place.folder.join("log.txt") })
    }
}

fn configuration(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("servers/collector").join(name)
}
