//! Node's http and http2, which can use unusual settings, and can close connections.

use std::path::Path;

use super::{Manner, Order, Pace, Place, Server, Transport};
use crate::Error;
use crate::process::{Recipe, text};

pub(crate) struct Node;

const MANNERS: [Manner; 4] = [
    asking("no-table", "a header table of 0"),
    asking("small-window", "windows of 1 byte"),
    asking("changing", "other settings after each request"),
    Manner {
        name: "impatient",
        what: "hangs up when idle",
        transports: &Transport::ALL,
        requests: 5,
        pace: Pace::AfterHangUp,
    },
];

/// Returns a manner with HTTP/2 settings that most servers never use.
const fn asking(name: &'static str, what: &'static str) -> Manner {
    Manner { name, what, transports: &[Transport::Grpc], requests: 40, pace: Pace::AtOnce }
}

impl Server for Node {
    fn name(&self) -> &'static str {
        "node"
    }

    fn manners(&self) -> &'static [Manner] {
        &MANNERS
    }

    fn recipe(&self, order: &Order<'_>, place: &Place<'_>) -> Result<Recipe, Error> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("servers/node/server.mjs");
        let mut arguments = vec![
            text(&script),
            order.transport.name().to_owned(),
            place.port.to_string(),
            text(place.book),
            "--manner".to_owned(),
            order.manner.to_owned(),
        ];
        if let Some(identity) = order.identity {
            arguments.extend(["--identity".to_owned(), text(&identity.certificate), text(&identity.key)]);
        }
        Ok(Recipe {
            program: "node".into(),
            arguments,
            variables: Vec::new(),
            log: place.folder.join("log.txt"),
        })
    }
}
