//! The bodies of answers on their way out, made while they are sent where they are large.

use std::io::{self, Write};

use flate2::{Compress, Compression, Crc, FlushCompress};

use super::answer::Body;

const BLOCK: usize = 1 << 20;
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
/// An empty final block.
const END_OF_STREAM: [u8; 2] = [3, 0];
const CHECKSUM_AND_LENGTH: usize = 8;
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

    /// No more than `bytes` zeros. Others are never as long.
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

/// A gzip stream that is small on the wire and huge when unpacked: zeros, in whole mebibytes, as one gzip member. They
/// are never unpacked here.
pub(super) struct GzipBomb {
    block: Vec<u8>,
    blocks: u64,
}

impl GzipBomb {
    /// At least `unpacked` bytes when unpacked.
    pub(super) fn new(unpacked: u64) -> Self {
        let mut block = Vec::with_capacity(BLOCK / 64);
        // a full flush ends on a byte and forgets the window: the same bytes can follow again and again.
        // It cannot fail: the output has room for sixteen times what zeros compress to.
        let _ = Compress::new(Compression::best(), false).compress_vec(
            &vec![0; BLOCK],
            &mut block,
            FlushCompress::Full,
        );
        Self { block, blocks: unpacked.div_ceil(BLOCK as u64) }
    }

    /// Length on the wire.
    pub(super) fn len(&self) -> u64 {
        let frame = HEADER.len() + END_OF_STREAM.len() + CHECKSUM_AND_LENGTH;
        self.blocks * self.block.len() as u64 + frame as u64
    }

    pub(super) fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        let mut block_checksum = Crc::new();
        block_checksum.update(&vec![0; BLOCK]);
        let mut checksum = Crc::new();
        out.write_all(&HEADER)?;
        for _ in 0..self.blocks {
            out.write_all(&self.block)?;
            checksum.combine(&block_checksum);
        }
        out.write_all(&END_OF_STREAM)?;
        out.write_all(&checksum.sum().to_le_bytes())?;
        out.write_all(&checksum.amount().to_le_bytes())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn a_bomb_is_valid_gzip_a_thousand_times_smaller_than_its_content() {
        let bomb = GzipBomb::new(3 * BLOCK as u64 - 1);
        let mut wire = Vec::new();
        bomb.write_to(&mut wire).unwrap();
        assert_eq!(wire.len() as u64, bomb.len());
        assert!(wire.len() < 3 * BLOCK / 500);
        let mut unpacked = Vec::new();
        GzDecoder::new(&wire[..]).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked.len(), 3 * BLOCK);
    }
}
