//! A proxy's part in a tunneled connection.

use std::io::{self, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::thread;

/// Forwards all bytes between a client, whose request was read, and the server, until both have ended. The server
/// receives `first` before the client's bytes.
pub(crate) fn join(
    mut from_client: BufReader<TcpStream>,
    server: SocketAddr,
    first: &[u8],
) -> io::Result<()> {
    let mut to_client = from_client.get_ref().try_clone()?;
    let mut upstream = TcpStream::connect(server)?;
    upstream.write_all(first)?;
    let mut from_upstream = upstream.try_clone()?;
    let back = thread::spawn(move || {
        // Errors are ignored: they end the connection, too.
        let _ = io::copy(&mut from_upstream, &mut to_client);
        let _ = to_client.shutdown(Shutdown::Write);
    });
    let _ = io::copy(&mut from_client, &mut upstream);
    let _ = upstream.shutdown(Shutdown::Write);
    let _ = back.join();
    Ok(())
}
