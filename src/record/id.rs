//! Trace and span ids, and where new ones come from.

use std::cell::Cell;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::time::SystemTime;

use crate::process;

/// Sixteen bytes that name a trace; all zero is no valid id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct TraceId(pub [u8; 16]);

/// Eight bytes that name a span within its trace; all zero is no valid id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct SpanId(pub [u8; 8]);

impl TraceId {
    pub(crate) fn random() -> Self {
        let (high, low) = (random_non_zero(), random_non_zero());
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&high.to_be_bytes());
        bytes[8..].copy_from_slice(&low.to_be_bytes());
        Self(bytes)
    }

    /// Whether it names a trace at all.
    pub fn is_valid(self) -> bool {
        self.0 != [0; 16]
    }
}

impl SpanId {
    #[inline]
    pub(crate) fn random() -> Self {
        Self(random_non_zero().to_be_bytes())
    }

    /// Whether it names a span at all.
    pub fn is_valid(self) -> bool {
        self.0 != [0; 8]
    }
}

macro_rules! lower_hex {
    ($($id:ident)*) => {
        $(impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{self}")
            }
        })*
    };
}
lower_hex!(TraceId SpanId);

/// No process is that far from the first one.
const UNSEEDED: u32 = u32::MAX;

thread_local! {
    /// Xoroshiro128++ of this thread.
    static RANDOM: Cell<[u64; 2]> = const { Cell::new([0; 2]) };
    /// The process generation that it was seeded in.
    static SEEDED: Cell<u32> = const { Cell::new(UNSEEDED) };
}

#[inline]
fn random_non_zero() -> u64 {
    loop {
        let number = random();
        if number != 0 {
            return number;
        }
    }
}

/// 64 random bits; not for secrets.
#[inline]
pub(crate) fn random() -> u64 {
    if SEEDED.get() != process::generation() {
        seed();
    }
    let [first, mut second] = RANDOM.get();
    let number = first.wrapping_add(second).rotate_left(17).wrapping_add(first);
    second ^= first;
    RANDOM.set([first.rotate_left(49) ^ second ^ (second << 21), second.rotate_left(28)]);
    number
}

/// The operating system's randomness comes with the hash keys of std; after a fork those are the
/// parent's, so the process and the time are mixed in.
#[cold]
#[inline(never)]
fn seed() {
    let generation = process::generation();
    let keys = RandomState::new();
    let salt = (std::process::id(), generation, std::thread::current().id(), SystemTime::now());
    RANDOM.set([keys.hash_one((&salt, 0)), keys.hash_one((&salt, 1)) | 1]);
    SEEDED.set(generation);
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_of_several_threads_are_all_different() {
        let threads: Vec<_> = (0..8)
            .map(|_| std::thread::spawn(|| (0..10_000).map(|_| SpanId::random()).collect::<Vec<_>>()))
            .collect();
        let ids: HashSet<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        assert_eq!(ids.len(), 80_000);
    }

    #[test]
    fn every_bit_of_an_id_varies() {
        let (mut ones, mut zeros) = ([0u8; 16], [0u8; 16]);
        for _ in 0..1000 {
            for (index, byte) in TraceId::random().0.into_iter().enumerate() {
                ones[index] |= byte;
                zeros[index] |= !byte;
            }
        }
        assert_eq!((ones, zeros), ([0xff; 16], [0xff; 16]));
    }

    #[test]
    fn ids_read_as_lower_case_hex() {
        assert_eq!(SpanId([0, 1, 0xab, 3, 4, 5, 6, 0xff]).to_string(), "0001ab03040506ff");
    }
}
