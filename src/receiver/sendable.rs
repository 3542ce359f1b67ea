//! The bodies of answers on their way out, made while they are sent where they are large.

use std::io::{self, Write};

use super::answer::Body;
use super::bomb::GzipBomb;

pub(super) const PIECE: usize = 64 * 1024;

/// A body that knows its length before it is made.
pub(super) enum Sendable<'a> {
    Bytes(&'a [u8]),
    Zeros(u64),
    Bomb(GzipBomb),
}

impl<'a> Sendable<'a> {
    pub(super) fn of(body: &'a Body) -> Self {
        match body {
            Body::Bytes(bytes) => Sendable::Bytes(bytes),
            Body::Zeros(length) => Sendable::Zeros(*length),
            Body::GzipBomb(unpacked) => Sendable::Bomb(GzipBomb::new(*unpacked)),
        }
    }

    /// No more than so many zeros. Others are never so long.
    pub(super) fn at_most(self, bytes: u64) -> Self {
        match self {
            Sendable::Zeros(length) => Sendable::Zeros(length.min(bytes)),
            other => other,
        }
    }

    pub(super) fn len(&self) -> u64 {
        match self {
            Sendable::Bytes(bytes) => bytes.len() as u64,
            Sendable::Zeros(length) => *length,
            Sendable::Bomb(bomb) => bomb.len(),
        }
    }

    pub(super) fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        match self {
            Sendable::Bytes(bytes) => out.write_all(bytes),
            Sendable::Zeros(length) => send_repeated(out, &[0; PIECE], *length),
            Sendable::Bomb(bomb) => bomb.write_to(out),
        }
    }
}

pub(super) fn send_repeated(out: &mut impl Write, piece: &[u8], total: u64) -> io::Result<()> {
    let mut left = total;
    while left > 0 {
        let length = left.min(piece.len() as u64);
        out.write_all(&piece[..length as usize])?;
        left -= length;
    }
    Ok(())
}
