//! tonic, the gRPC server of the Rust world.

use super::{Order, Place, Server, Transport};
use crate::Error;
use crate::process::{Recipe, text};

pub(crate) struct Tonic;

impl Server for Tonic {
    fn name(&self) -> &'static str {
        "tonic"
    }

    fn lacks_transport(&self, transport: Transport) -> Option<&'static str> {
        (transport == Transport::Http).then_some("tonic speaks gRPC only")
    }

    fn can_refuse_large(&self, _transport: Transport) -> bool {
        true
    }

    fn recipe(&self, order: &Order<'_>, place: &Place<'_>) -> Result<Recipe, Error> {
        let mut arguments = vec![place.port.to_string(), text(place.book), order.largest.bytes().to_string()];
        if let Some(identity) = order.identity {
            arguments.extend([text(&identity.certificate), text(&identity.key)]);
        }
        // Built together with this program.
        let program = std::env::current_exe()?.with_file_name("tonic-server");
        Ok(Recipe { program, arguments, variables: Vec::new(), log: place.folder.join("log.txt") })
    }
}
