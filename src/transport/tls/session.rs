//! An encrypted connection over a socket that somebody else has.

#[cfg(test)]
mod tests;

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use super::Certificates;
use crate::config::TlsSettings;

/// Begins sessions with one server, in one protocol.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Connector {
    /// # Errors
    /// What is wrong with the certificates or the host's name, in words.
    pub(crate) fn new(settings: &TlsSettings, host: &str, protocol: &[u8]) -> Result<Self, String> {
        let mut config = Certificates::read(settings)?.config()?;
        config.alpn_protocols = vec![protocol.to_vec()];
        let name = ServerName::try_from(host.to_owned())
            // the host may have been put in from elsewhere: it is not shown
            .map_err(|_| "no certificate can be for this host".to_owned())?;
        Ok(Self { config: Arc::new(config), name })
    }

    /// The same without a memory of sessions, which has a lock: a child that was forked while its parent held it would
    /// wait for it for ever.
    pub(crate) fn afresh(&self) -> Self {
        let mut config = ClientConfig::clone(&self.config);
        config.resumption = Resumption::default();
        Self { config: Arc::new(config), name: self.name.clone() }
    }

    /// Shakes hands, and verifies who is there.
    pub(crate) fn connect<W: Read + Write>(&self, wire: &mut W) -> io::Result<Session> {
        let connection = ClientConnection::new(Arc::clone(&self.config), self.name.clone());
        let mut session = Session(connection.map_err(io::Error::other)?);
        while session.0.is_handshaking() {
            session.0.complete_io(wire)?;
        }
        Ok(session)
    }
}

/// An encrypted connection to a verified server.
#[derive(Debug)]
pub(crate) struct Session(ClientConnection);

impl Session {
    /// The protocol that both agreed on.
    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        self.0.alpn_protocol()
    }

    /// Gives 0 when the server has left, in good order or not.
    pub(crate) fn read<W: Read + Write>(&mut self, wire: &mut W, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.reader().read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                done => return done,
            }
            self.0.read_tls(wire)?;
            let processed =
                self.0.process_new_packets().map_err(|error| io::Error::new(ErrorKind::InvalidData, error));
            // an alert for the server, or an answer to its key update
            let told = self.flush(wire);
            processed.and(told)?;
        }
    }

    pub(crate) fn write_all<W: Write>(&mut self, wire: &mut W, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let taken = self.0.writer().write(bytes)?;
            bytes = &bytes[taken..];
            self.flush(wire)?;
        }
        Ok(())
    }

    fn flush<W: Write>(&mut self, wire: &mut W) -> io::Result<()> {
        while self.0.wants_write() {
            self.0.write_tls(wire)?;
        }
        Ok(())
    }
}
