//! Node's http2, which can ask unusual settings of its clients.

use std::path::Path;

use super::{Order, Place, Server};
use crate::Error;
use crate::process::{Recipe, text};

pub(crate) struct Node;

impl Server for Node {
    fn name(&self) -> &'static str {
        "node"
    }

    fn settings(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("no-table", "a header table of 0"),
            ("small-window", "windows of 1 byte"),
            ("changing", "other settings after each request"),
        ]
    }

    fn recipe(&self, order: &Order<'_>, place: &Place<'_>) -> Result<Recipe, Error> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("servers/node/server.mjs");
        let mut arguments = vec![
            text(&script),
            order.transport.name().to_owned(),
            place.port.to_string(),
            text(place.book),
            "--settings".to_owned(),
            order.settings.to_owned(),
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
