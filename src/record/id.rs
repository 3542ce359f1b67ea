//! What names a trace and a span, and where do new ids come from? From a generator that each thread has of its own.

use std::cell::Cell;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::str::FromStr;
use std::time::SystemTime;

use crate::process;

/// Sixteen bytes that name a trace; all zero is no valid id.
///
/// ```
/// use standpipe::TraceId;
///
/// let id: TraceId = "4bf92f3577b34da6a3ce929d0e0e4736".parse().unwrap();
/// assert_eq!(id.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
/// assert_eq!(TraceId::from_bytes(id.to_bytes()), Ok(id));
/// assert!("4bf92f35".parse::<TraceId>().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TraceId(pub(crate) [u8; 16]);

/// Eight bytes that name a span within its trace; all zero is no valid id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpanId(pub(crate) [u8; 8]);

/// Why something is no id of a trace or a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidId {
    /// A trace id has 32 hexadecimal digits, a span id 16.
    Length,
    /// A character is no hexadecimal digit.
    Digit,
    /// All bytes are zero.
    AllZero,
}

impl fmt::Display for InvalidId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InvalidId::Length => "not 32 digits of a trace id, nor 16 of a span id",
            InvalidId::Digit => "not a hexadecimal digit",
            InvalidId::AllZero => "all zero",
        })
    }
}

impl std::error::Error for InvalidId {}

impl TraceId {
    pub(crate) fn random() -> Self {
        let (high, low) = (random_non_zero(), random_non_zero());
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&high.to_be_bytes());
        bytes[8..].copy_from_slice(&low.to_be_bytes());
        Self(bytes)
    }
}

impl SpanId {
    #[inline]
    pub(crate) fn random() -> Self {
        Self(random_non_zero().to_be_bytes())
    }
}

macro_rules! bytes_and_text {
    ($($id:ident, $len:literal;)*) => {
        $(impl $id {
            /// The id with these bytes.
            ///
            /// # Errors
            /// [`InvalidId::AllZero`].
            pub fn from_bytes(bytes: [u8; $len]) -> Result<Self, InvalidId> {
                let id = Self(bytes);
                if id.is_valid() { Ok(id) } else { Err(InvalidId::AllZero) }
            }

            /// The bytes as they are sent.
            pub fn to_bytes(self) -> [u8; $len] {
                self.0
            }

            /// False for an id of zeros, which names nothing.
            pub fn is_valid(self) -> bool {
                self.0 != [0; $len]
            }
        }

        /// Reads hexadecimal digits, as the id is displayed; upper case is accepted.
        impl FromStr for $id {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Self::from_bytes(from_hex(text)?)
            }
        }

        impl fmt::Display for $id {
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
bytes_and_text! {
    TraceId, 16;
    SpanId, 8;
}

/// Reads exactly `2 * LEN` hexadecimal digits, in lower or upper case.
pub(crate) fn from_hex<const LEN: usize>(text: &str) -> Result<[u8; LEN], InvalidId> {
    if text.chars().count() != 2 * LEN {
        return Err(InvalidId::Length);
    }
    let mut bytes = [0; LEN];
    for (index, digit) in text.chars().enumerate() {
        let value = digit.to_digit(16).ok_or(InvalidId::Digit)?;
        bytes[index / 2] = bytes[index / 2] << 4 | value as u8;
    }
    Ok(bytes)
}

/// No process is this many forks away from the first one.
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
    let salt = (process::id(), generation, std::thread::current().id(), SystemTime::now());
    RANDOM.set([keys.hash_one((&salt, 0)), keys.hash_one((&salt, 1)) | 1]);
    SEEDED.set(generation);
}

/// Makes the numbers of this thread the same after every call with the same seed.
#[cfg(test)]
pub(crate) fn seed_random(seed: u64) {
    RANDOM.set([seed, !seed]);
    SEEDED.set(process::generation());
    // numbers of similar seeds are similar at first
    for _ in 0..16 {
        random();
    }
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

    #[test]
    fn ids_are_read_from_text_and_bytes() {
        assert_eq!("0001AB03040506ff".parse(), Ok(SpanId([0, 1, 0xab, 3, 4, 5, 6, 0xff])));
        let trace_id = TraceId::random();
        assert_eq!(
            (trace_id.to_string().parse(), TraceId::from_bytes(trace_id.0)),
            (Ok(trace_id), Ok(trace_id))
        );
        for (text, expected) in [
            ("", InvalidId::Length),
            ("0001ab03040506f", InvalidId::Length),
            ("0001ab03040506ff0", InvalidId::Length),
            ("0001ab03040506fg", InvalidId::Digit),
            ("+001ab03040506ff", InvalidId::Digit),
            ("0001ab0304050水水", InvalidId::Length),
            ("0001ab03040506f水", InvalidId::Digit),
            ("0000000000000000", InvalidId::AllZero),
        ] {
            assert_eq!(text.parse::<SpanId>(), Err(expected), "{text}");
        }
        assert_eq!(TraceId::from_bytes([0; 16]), Err(InvalidId::AllZero));
    }
}
