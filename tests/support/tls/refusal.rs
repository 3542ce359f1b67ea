//! Ways in which TLS 1.2 servers refuse a client without a certificate: rustls implements only one of them.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

/// The alert of rustls, in TLS 1.2 as in TLS 1.3: fatal, certificate required.
const CERTIFICATE_REQUIRED: &[u8] = b"\x15\x03\x03\x00\x02\x02\x74";
/// The alert of OpenSSL in TLS 1.2.
pub(crate) const HANDSHAKE_FAILURE: u8 = 40;
/// The alert with which Go and Java refuse a client without a certificate.
pub(crate) const BAD_CERTIFICATE: u8 = 42;

/// More than a test needs.
const MAX_CONNECTIONS: usize = 64;

/// Forwards to a TLS 1.2 server, and replaces its alert by another one or by none. Runs until the process ends.
pub(crate) fn refusing_with(alert: Option<u8>, server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound listener has an address");
    thread::spawn(move || {
        for client in listener.incoming().take(MAX_CONNECTIONS).flatten() {
            // Errors of a connection are ignored: both ends notice them.
            let _ = lead(client, server, alert);
        }
    });
    address
}

fn lead(client: TcpStream, server: SocketAddr, alert: Option<u8>) -> io::Result<()> {
    let server = TcpStream::connect(server)?;
    let (from_client, to_server) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut &from_client, &mut &to_server);
        let _ = to_server.shutdown(Shutdown::Write);
    });
    thread::spawn(move || pass_on(&server, &client, alert));
    Ok(())
}

fn pass_on(mut server: &TcpStream, mut client: &TcpStream, alert: Option<u8>) {
    let mut piece = [0; 16 << 10];
    while let Ok(length @ 1..) = server.read(&mut piece) {
        let said = &mut piece[..length];
        let refusal = said.windows(CERTIFICATE_REQUIRED.len()).position(|part| part == CERTIFICATE_REQUIRED);
        match (refusal, alert) {
            (Some(at), Some(alert)) => said[at + CERTIFICATE_REQUIRED.len() - 1] = alert,
            (Some(_), None) => break,
            (None, _) => {}
        }
        if client.write_all(said).is_err() {
            break;
        }
    }
    let _ = client.shutdown(Shutdown::Write);
}
