//! An encrypted connection over a socket that somebody else has.

#[cfg(test)]
mod tests;

use std::io::{self, ErrorKind, Read, Write};

use rustls::pki_types::ServerName;

use super::{Handshakes, Secured};
use crate::config::TlsSettings;

/// Begins sessions with one server, in one protocol.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    handshakes: Handshakes,
    name: ServerName<'static>,
}

impl Connector {
    /// # Errors
    /// What is wrong with the certificates or the host's name, in words.
    pub(crate) fn new(settings: &TlsSettings, host: &str, protocol: &[u8]) -> Result<Self, String> {
        let handshakes = Handshakes::new(settings, Some(protocol))?;
        let name = ServerName::try_from(host.to_owned())
            // the host may have been put in from elsewhere: it is not shown
            .map_err(|_| "no certificate can be for this host".to_owned())?;
        Ok(Self { handshakes, name })
    }

    /// The same for another process, with which nothing is shared that has a lock.
    pub(crate) fn afresh(&self) -> Self {
        Self { handshakes: self.handshakes.afresh(), name: self.name.clone() }
    }

    /// Shakes hands, and verifies who is there.
    pub(crate) fn connect<W: Read + Write>(&self, wire: &mut W) -> io::Result<Session> {
        self.handshakes.connect(self.name.clone(), wire).map(Session)
    }
}

/// An encrypted connection to a verified server.
#[derive(Debug)]
pub(crate) struct Session(Secured);

impl Session {
    /// The protocol that both agreed on.
    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        self.0.connection.alpn_protocol()
    }

    /// Gives 0 when the server has left, in good order or not.
    pub(crate) fn read<W: Read + Write>(&mut self, wire: &mut W, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.connection.reader().read(into) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                done => return done,
            }
            self.0.connection.read_tls(wire)?;
            let processed = self.0.connection.process_new_packets();
            let processed =
                processed.map_err(|error| self.0.explain(io::Error::new(ErrorKind::InvalidData, error)));
            // an alert for the server, or an answer to its key update
            let told = self.flush(wire);
            processed.and(told)?;
        }
    }

    pub(crate) fn write_all<W: Write>(&mut self, wire: &mut W, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let taken = self.0.connection.writer().write(bytes)?;
            bytes = &bytes[taken..];
            self.flush(wire)?;
        }
        Ok(())
    }

    fn flush<W: Write>(&mut self, wire: &mut W) -> io::Result<()> {
        while self.0.connection.wants_write() {
            self.0.connection.write_tls(wire)?;
        }
        Ok(())
    }
}
