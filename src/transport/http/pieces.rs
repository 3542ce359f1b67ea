//! A body that lies in pieces, read as one: from where the records are, straight into ureq's buffer.

use std::io::{Read, Result};

#[derive(Debug)]
pub(super) struct Pieces<'a> {
    pub(super) rest: &'a [&'a [u8]],
    /// What of the first piece is read already.
    pub(super) read: usize,
}

impl Read for Pieces<'_> {
    /// Fills `into` as far as there is something: each call is one write to the connection.
    fn read(&mut self, mut into: &mut [u8]) -> Result<usize> {
        let room = into.len();
        while let Some((first, rest)) = self.rest.split_first() {
            let count = (first.len() - self.read).min(into.len());
            let (now, later) = into.split_at_mut(count);
            now.copy_from_slice(&first[self.read..self.read + count]);
            into = later;
            self.read += count;
            if self.read < first.len() {
                break;
            }
            (self.rest, self.read) = (rest, 0);
        }
        Ok(room - into.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_read_as_one_whatever_the_buffers_are() {
        let pieces: [&[u8]; 5] = [b"ab", b"", b"cdefg", b"h", b""];
        for room in 1..10 {
            let (mut body, mut into) = (Pieces { rest: &pieces, read: 0 }, vec![0; room]);
            let mut all = Vec::new();
            loop {
                match body.read(&mut into).unwrap() {
                    0 => break,
                    count => all.extend_from_slice(&into[..count]),
                }
                assert!(all.len() % room == 0 || all.len() == 8, "buffers are filled: {room}");
            }
            assert_eq!(all, b"abcdefgh");
        }
    }
}
