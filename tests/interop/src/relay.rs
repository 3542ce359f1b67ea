//! A relay on loopback that forwards bytes and counts connections, because not every server can report them.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::Error;

pub(crate) struct Relay {
    port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    connections: AtomicUsize,
    closed_by_server: AtomicUsize,
    is_over: AtomicBool,
}

impl Relay {
    /// Starts a relay to this port.
    pub(crate) fn start(to: u16) -> Result<Self, Error> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let state = Arc::new(State::default());
        let shared = state.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if shared.is_over.load(Ordering::SeqCst) {
                    return;
                }
                shared.connections.fetch_add(1, Ordering::SeqCst);
                // If the server is stopped, the client's connection is closed, as it would be without a relay.
                let _ = connect(client, to, &shared);
            }
        });
        Ok(Self { port, state })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the number of connections so far.
    pub(crate) fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }

    /// Returns the number of connections that the server has closed, and whose end was forwarded to the client.
    pub(crate) fn closed_by_server(&self) -> usize {
        self.state.closed_by_server.load(Ordering::SeqCst)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::SeqCst);
        // Wakes the listener, which then sees the flag.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

fn connect(client: TcpStream, to: u16, state: &Arc<State>) -> io::Result<()> {
    let server = TcpStream::connect((Ipv4Addr::LOCALHOST, to))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = (client.try_clone()?, client);
    let (from_server, to_server) = (server.try_clone()?, server);
    thread::spawn(move || pass_on(from_client, to_server));
    let state = state.clone();
    thread::spawn(move || {
        pass_on(from_server, to_client);
        state.closed_by_server.fetch_add(1, Ordering::SeqCst);
    });
    Ok(())
}

fn pass_on(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    // When one side ends, the end is forwarded to the other side.
    let _ = to.shutdown(Shutdown::Write);
}
