//! The ways in which servers of TLS 1.2 refuse a client without a certificate: rustls has only one of them.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::thread;

/// What rustls says, in TLS 1.2 as in TLS 1.3: fatal, certificate required.
const CERTIFICATE_REQUIRED: &[u8] = b"\x15\x03\x03\x00\x02\x02\x74";
/// What OpenSSL says instead in TLS 1.2.
pub(crate) const HANDSHAKE_FAILURE: u8 = 40;
/// What Go and Java say.
pub(crate) const BAD_CERTIFICATE: u8 = 42;

/// More than a test needs.
const MAX_CONNECTIONS: usize = 64;

/// Leads to a server of TLS 1.2, which refuses with another alert, or with none at all. It ends with the process.
pub(crate) fn refusing_with(alert: Option<u8>, server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
    let address = listener.local_addr().expect("a bound listener has an address");
    thread::spawn(move || {
        for client in listener.incoming().take(MAX_CONNECTIONS).flatten() {
            // a connection that breaks is for its ends to notice
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
