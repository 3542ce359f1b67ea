//! The TLS front. Two threads per connection, one for each direction, share the TLS state behind a mutex. A thread may
//! hold the mutex while it writes to the client, but never while it reads from a socket.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustls::crypto::{CryptoProvider, ring};
use rustls::server::{NoClientAuth, WebPkiClientVerifier, danger::ClientCertVerifier};
use rustls::{HandshakeKind, RootCertStore, ServerConfig, ServerConnection};

use super::{Identity, TestCa};

/// Maximum number of connections at one time. Further ones are closed at once.
const MAX_CONNECTIONS: usize = 64;
/// Time for which the front may wait for loopback.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time for which a connection waits for its client or server on Windows: longer than any test lets a collector hang.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// Bytes of a refused client that are read, so that the alert reaches the client before a reset does.
const MAX_DRAINED_BYTES: u64 = 1 << 20;

/// A TLS server at `https://localhost:PORT`; dropping it closes its connections and joins its threads.
pub(crate) struct TlsFront {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    accepted: Arc<AtomicUsize>,
    seen: Arc<Seen>,
    acceptor: Option<JoinHandle<()>>,
}

/// State that the connections of a front share.
#[derive(Default)]
struct Seen {
    clients: Mutex<Vec<TcpStream>>,
    handshakes: Mutex<Vec<HandshakeKind>>,
}

impl TlsFront {
    /// Uses `identity`, requests no client certificate, and forwards to `upstream`, which must be listening.
    pub(crate) fn start(identity: &Identity, upstream: SocketAddr) -> Self {
        let config = server_config(identity, Arc::new(NoClientAuth));
        Self::listen(Conduct::Forward { config, upstream })
    }

    /// Like [`start`](Self::start), but refuses a client without a certificate signed by `clients`.
    pub(crate) fn requiring_client_certificate(
        identity: &Identity,
        clients: &TestCa,
        upstream: SocketAddr,
    ) -> Self {
        let config = server_config(identity, verifier_of(clients));
        Self::listen(Conduct::Forward { config, upstream })
    }

    /// Like [`start`](Self::start), but offers only this protocol (ALPN).
    pub(crate) fn offering(protocol: &str, identity: &Identity, upstream: SocketAddr) -> Self {
        let mut config = (*server_config(identity, Arc::new(NoClientAuth))).clone();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        Self::listen(Conduct::Forward { config: Arc::new(config), upstream })
    }

    /// Like [`start`](Self::start), but offers only this protocol, and refuses a client without a certificate signed
    /// by `clients`.
    pub(crate) fn offering_to_clients_of(
        protocol: &str,
        identity: &Identity,
        clients: &TestCa,
        upstream: SocketAddr,
    ) -> Self {
        let mut config = (*server_config(identity, verifier_of(clients))).clone();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        Self::listen(Conduct::Forward { config: Arc::new(config), upstream })
    }

    /// Like [`start`](Self::start) with TLS 1.2 only, and requests a certificate signed by `clients`. `is_required`
    /// tells whether a client without one is refused. A client may choose HTTP/2.
    pub(crate) fn over_tls_1_2(
        identity: &Identity,
        clients: &TestCa,
        is_required: bool,
        upstream: SocketAddr,
    ) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(clients.der()).expect("the authority is a certificate");
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
        let verifier = if is_required { verifier } else { verifier.allow_unauthenticated() };
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS12])
            .expect("the provider knows TLS 1.2")
            .with_client_cert_verifier(verifier.build().expect("there is an authority to trust"))
            .with_single_cert(identity.chain(), identity.key())
            .expect("certificate and key belong together");
        config.alpn_protocols = vec![b"h2".to_vec()];
        Self::listen(Conduct::Forward { config: Arc::new(config), upstream })
    }

    /// Accepts TCP connections, holds them open, and never answers the ClientHello.
    pub(crate) fn stalling() -> Self {
        Self::listen(Conduct::Stall)
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self) -> String {
        format!("https://localhost:{}", self.port())
    }

    /// Returns the number of TCP connections so far, which includes retries of a client.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// Returns the kinds of the handshakes that were followed by data, in order.
    pub(crate) fn handshakes(&self) -> Vec<HandshakeKind> {
        self.seen.handshakes.lock().expect("nobody panics with it").clone()
    }

    /// Closes all connections, as a server does with idle connections.
    pub(crate) fn hang_up(&self) {
        for client in self.seen.clients.lock().expect("nobody panics with it").drain(..) {
            let _ = client.shutdown(Shutdown::Both);
        }
    }

    fn listen(conduct: Conduct) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let stopping = Arc::new(AtomicBool::new(false));
        let accepted = Arc::new(AtomicUsize::new(0));
        let seen = Arc::new(Seen::default());
        let acceptor = thread::spawn({
            let (stopping, accepted, seen) =
                (Arc::clone(&stopping), Arc::clone(&accepted), Arc::clone(&seen));
            move || accept(&listener, &conduct, &stopping, &accepted, &seen)
        });
        Self { address, stopping, accepted, seen, acceptor: Some(acceptor) }
    }
}

impl Drop for TlsFront {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        // The acceptor waits for a connection. This connection wakes the acceptor, which then reads the flag.
        let woken = TcpStream::connect_timeout(&self.address, PATIENCE).is_ok();
        if let Some(acceptor) = self.acceptor.take().filter(|_| woken) {
            let panicked = acceptor.join().is_err();
            assert!(!panicked || thread::panicking(), "the TLS front panicked");
        }
    }
}

enum Conduct {
    Forward { config: Arc<ServerConfig>, upstream: SocketAddr },
    Stall,
}

/// An open connection. A drop of the front shuts these sockets.
struct Connection {
    sockets: Vec<TcpStream>,
    thread: Option<JoinHandle<()>>,
}

fn accept(
    listener: &TcpListener,
    conduct: &Conduct,
    stopping: &AtomicBool,
    accepted: &AtomicUsize,
    seen: &Arc<Seen>,
) {
    let mut connections: Vec<Connection> = Vec::new();
    for client in listener.incoming() {
        if stopping.load(Ordering::SeqCst) {
            break;
        }
        accepted.fetch_add(1, Ordering::SeqCst);
        connections.retain(|open| !open.thread.as_ref().is_some_and(JoinHandle::is_finished));
        if connections.len() < MAX_CONNECTIONS {
            connections.extend(client.and_then(|client| open(client, conduct, seen)));
        }
    }
    for connection in connections {
        for socket in &connection.sockets {
            let _ = socket.shutdown(Shutdown::Both);
        }
        if let Some(thread) = connection.thread {
            thread.join().expect("a connection of the TLS front panicked");
        }
    }
}

fn open(client: TcpStream, conduct: &Conduct, seen: &Arc<Seen>) -> io::Result<Connection> {
    match conduct {
        Conduct::Stall => Ok(Connection { sockets: vec![client], thread: None }),
        Conduct::Forward { config, upstream } => {
            let upstream = TcpStream::connect_timeout(upstream, PATIENCE)?;
            // Disables Nagle's algorithm, which would delay forwarded pieces until earlier ones are acknowledged.
            client.set_nodelay(true)?;
            upstream.set_nodelay(true)?;
            if cfg!(windows) {
                // On Windows, `shutdown` of a socket does not wake a thread that is blocked in reading or writing the
                // socket.
                for socket in [&client, &upstream] {
                    socket.set_read_timeout(Some(MAX_WAIT))?;
                    socket.set_write_timeout(Some(MAX_WAIT))?;
                }
            }
            let tls = ServerConnection::new(Arc::clone(config)).map_err(io::Error::other)?;
            let sockets = vec![client.try_clone()?, upstream.try_clone()?];
            seen.clients.lock().expect("nobody panics with it").push(client.try_clone()?);
            let seen = Arc::clone(seen);
            let thread = thread::spawn(move || forward(tls, &client, &upstream, &seen));
            Ok(Connection { sockets, thread: Some(thread) })
        }
    }
}

/// Forwards both directions until each has ended. Errors end the connection; TLS reports them to the client.
fn forward(mut tls: ServerConnection, client: &TcpStream, upstream: &TcpStream, seen: &Seen) {
    tls.set_buffer_limit(None);
    let tls = Mutex::new(tls);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ = encrypt(&tls, upstream, client);
        });
        if decrypt(&tls, client, upstream, seen).is_err() {
            let _ = upstream.shutdown(Shutdown::Both);
            linger(client);
        }
        let _ = upstream.shutdown(Shutdown::Write);
    });
    let _ = client.shutdown(Shutdown::Both);
}

fn decrypt(
    tls: &Mutex<ServerConnection>,
    mut client: &TcpStream,
    mut upstream: &TcpStream,
    seen: &Seen,
) -> io::Result<()> {
    let mut ciphertext = [0; 16 * 1024];
    let mut is_noted = false;
    loop {
        let length = client.read(&mut ciphertext)?;
        if length == 0 {
            return Ok(());
        }
        let mut plaintext = Vec::new();
        {
            let mut tls = tls.lock().expect("the other direction does not panic");
            let mut unread = &ciphertext[..length];
            while !unread.is_empty() {
                tls.read_tls(&mut unread)?;
                let state = tls.process_new_packets();
                // Sends the handshake's answer, or the alert that names the cause of a failure.
                flush(&mut tls, client)?;
                let ready = state.map_err(io::Error::other)?.plaintext_bytes_to_read();
                let start = plaintext.len();
                plaintext.resize(start + ready, 0);
                tls.reader().read_exact(&mut plaintext[start..])?;
            }
            if !plaintext.is_empty() && !is_noted {
                seen.handshakes.lock().expect("nobody panics with it").extend(tls.handshake_kind());
                is_noted = true;
            }
        }
        upstream.write_all(&plaintext)?;
    }
}

fn encrypt(tls: &Mutex<ServerConnection>, mut upstream: &TcpStream, client: &TcpStream) -> io::Result<()> {
    let mut plaintext = [0; 16 * 1024];
    loop {
        let length = upstream.read(&mut plaintext)?;
        let mut tls = tls.lock().expect("the other direction does not panic");
        match length {
            0 => tls.send_close_notify(),
            _ => tls.writer().write_all(&plaintext[..length])?,
        }
        flush(&mut tls, client)?;
        if length == 0 {
            return client.shutdown(Shutdown::Write);
        }
    }
}

fn flush(tls: &mut ServerConnection, mut client: &TcpStream) -> io::Result<()> {
    while tls.wants_write() {
        tls.write_tls(&mut client)?;
    }
    Ok(())
}

/// Ends the sending side. Then reads the client's remaining bytes, up to limits of time and size.
fn linger(client: &TcpStream) {
    let _ = client.shutdown(Shutdown::Write);
    let _ = client.set_read_timeout(Some(PATIENCE));
    let _ = io::copy(&mut client.take(MAX_DRAINED_BYTES), &mut io::sink());
}

fn verifier_of(clients: &TestCa) -> Arc<dyn ClientCertVerifier> {
    let mut roots = RootCertStore::empty();
    roots.add(clients.der()).expect("the authority is a certificate");
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
        .build()
        .expect("there is an authority to trust")
}

fn server_config(identity: &Identity, verifier: Arc<dyn ClientCertVerifier>) -> Arc<ServerConfig> {
    let config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("the provider knows TLS 1.2 and 1.3")
        .with_client_cert_verifier(verifier)
        .with_single_cert(identity.chain(), identity.key())
        .expect("certificate and key belong together");
    Arc::new(config)
}

/// Every configuration names this provider, so that no test depends on a process-wide default.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}
