//! The first words of HTTP/2, and what comes back.

use std::io::{self, ErrorKind};

use crate::transport::Conversation;

/// What every client says first, then settings that change nothing.
const GREETING: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00";
/// The head of a frame: by then it is clear what the peer speaks.
const ENOUGH: usize = 9;

/// The first bytes of the answer; none if the peer closes without one.
///
/// # Errors
/// When nothing came before the connection broke or its time was up.
pub(super) fn greet(stream: &mut dyn Conversation) -> io::Result<Vec<u8>> {
    // a peer that hangs up may have said why before: what it says tells more than that it could not be told
    let _ = stream.write_all(GREETING).and_then(|()| stream.flush());
    let mut answer = Vec::new();
    let mut piece = [0; ENOUGH];
    while answer.len() < ENOUGH {
        match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if answer.is_empty() => return Err(error),
            Err(_) => break,
        }
    }
    Ok(answer)
}
