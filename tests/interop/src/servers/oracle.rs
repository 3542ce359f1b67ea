//! Python's grpcio with the OTLP messages. It reports every malformed field.

use std::path::Path;

use super::{Order, Place, Server, Transport};
use crate::Error;
use crate::process::{Recipe, text};

pub(crate) struct Oracle;

impl Server for Oracle {
    fn name(&self) -> &'static str {
        "oracle"
    }

    fn can_refuse_large(&self, transport: Transport) -> bool {
        transport == Transport::Grpc
    }

    fn recipe(&self, order: &Order<'_>, place: &Place<'_>) -> Result<Recipe, Error> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("servers/oracle/server.py");
        let mut arguments = vec![
            // Do not write compiled files next to the sources.
            "-B".to_owned(),
            text(&script),
            order.transport.name().to_owned(),
            place.port.to_string(),
            text(place.book),
            text(&place.folder.join("complaints.txt")),
            order.largest.bytes().to_string(),
        ];
        if let Some(identity) = order.identity {
            arguments.extend([text(&identity.certificate), text(&identity.key)]);
        }
        let program = place.tools.join("oracle/bin/python");
        Ok(Recipe { program, arguments, variables: Vec::new(), log: place.folder.join("log.txt") })
    }
}
