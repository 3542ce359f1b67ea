//! Ids of traces and spans, and the random numbers for new ids. Each thread has its own generator, so a new id needs
//! no lock and no system call.

use std::cell::Cell;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::str::FromStr;
use std::sync::Mutex;
use std::time::SystemTime;

use crate::process;

/// The id of a trace: sixteen bytes, not all zero.
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

/// The id of a span within its trace: eight bytes, not all zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SpanId(pub(crate) [u8; 8]);

/// The reason why a text or bytes are not a valid trace or span id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidId {
    /// A trace id has 32 hexadecimal digits, a span id 16.
    Length,
    /// A character is not a hexadecimal digit.
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
        Self((u128::from(high) << 64 | u128::from(low)).to_be_bytes())
    }
}

impl SpanId {
    #[inline]
    pub(crate) fn random() -> Self {
        Self(random_non_zero().to_be_bytes())
    }
}

/// Makes the ids of new spans and traces in place of random numbers. Set by
/// [`Config::id_generator`](crate::Config::id_generator).
///
/// An id of zeros is invalid and cannot be made: [`SpanId::from_bytes`] refuses it. If a method panics, a random id is
/// used.
pub trait IdGenerator: Send + Sync {
    /// Returns the id of a new trace.
    fn trace_id(&self) -> TraceId;

    /// Returns the id of a new span.
    fn span_id(&self) -> SpanId;

    /// Returns whether at least the last seven bytes of each trace id are random. If they are, `traceparent` says so,
    /// and other programs may sample by the id.
    fn is_random(&self) -> bool {
        false
    }
}

macro_rules! bytes_and_text {
    ($($id:ident, $len:literal;)*) => {
        $(impl $id {
            /// Returns the id with these bytes.
            ///
            /// # Errors
            /// Returns [`InvalidId::AllZero`] if all bytes are zero.
            pub fn from_bytes(bytes: [u8; $len]) -> Result<Self, InvalidId> {
                let id = Self(bytes);
                if id.is_valid() { Ok(id) } else { Err(InvalidId::AllZero) }
            }

            /// Returns the bytes as they are sent.
            pub fn to_bytes(self) -> [u8; $len] {
                self.0
            }

            /// Returns whether the id is valid, that is, not all zero.
            pub fn is_valid(self) -> bool {
                self.0 != [0; $len]
            }
        }

        /// Parses hexadecimal digits, in lower or upper case.
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

/// Value of [`SEEDED`] before the first seed. No process has this fork generation, so [`random`] seeds the generator.
const UNSEEDED: u32 = u32::MAX;

thread_local! {
    /// State of this thread's xoroshiro128++ generator.
    static RANDOM: Cell<[u64; 2]> = const { Cell::new([0; 2]) };
    /// Fork generation in which the generator was seeded. A child seeds its own anew, so that it does not repeat the
    /// parent's ids.
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

/// Returns 64 random bits. Not suitable for secrets.
#[inline]
pub(crate) fn random() -> u64 {
    if SEEDED.get() != process::generation() {
        seed();
    }
    let [first, mut second] = RANDOM.get();
    // xoroshiro128++ 1.0 by Blackman and Vigna, with its published constants.
    let number = first.wrapping_add(second).rotate_left(17).wrapping_add(first);
    second ^= first;
    RANDOM.set([first.rotate_left(49) ^ second ^ (second << 21), second.rotate_left(28)]);
    number
}

/// Seeds the generator of this thread with the hash keys of `RandomState`, which the standard library gets from the
/// operating system. After a fork these are the parent's, so the process id and the time are mixed in.
#[cold]
#[inline(never)]
fn seed() {
    let generation = process::generation();
    let keys = RandomState::new();
    let salt = (process::id(), generation, std::thread::current().id(), SystemTime::now());
    // `| 1`: from a state of all zeros, the generator would return only zeros.
    RANDOM.set([keys.hash_one((&salt, 0)), keys.hash_one((&salt, 1)) | 1]);
    SEEDED.set(generation);
}

/// Fork generation and random bits of [`instance_id`]. Locked only under the fork lock, so that no child is forked
/// while another thread holds this mutex: the child could never lock it.
static INSTANCE: Mutex<Option<(u32, [u64; 2])>> = Mutex::new(None);

/// Returns the id of this process: a random UUID (version 4). All `Telemetry` values of a process have the same
/// id, and a forked child has its own.
pub(crate) fn instance_id() -> String {
    // Installs the fork handlers: without them, a child would not notice the fork, and would keep this id.
    process::watch();
    let bits = process::with_locked(&INSTANCE, |known| match *known {
        Some((generation, bits)) if generation == process::generation() => bits,
        _ => known.insert((process::generation(), [random(), random()])).1,
    });
    let [high, low] = bits.unwrap_or_else(|| [random(), random()]);
    // RFC 9562: version 4 in the 13th digit, variant `10` in the highest bits of the second half.
    let (high, low) = (high & !0xf000 | 0x4000, low >> 2 | 1 << 63);
    let hex = format!("{high:016x}{low:016x}");
    let [a, b, c, d, e] = [0..8, 8..12, 12..16, 16..20, 20..32].map(|digits| &hex[digits]);
    format!("{a}-{b}-{c}-{d}-{e}")
}

#[cfg(test)]
pub(crate) use tests::seed_random;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Seeds the generator of this thread, for reproducible tests.
    pub(crate) fn seed_random(seed: u64) {
        RANDOM.set([seed, !seed]);
        SEEDED.set(process::generation());
        // The first numbers of similar seeds are similar, so they are skipped.
        for _ in 0..16 {
            random();
        }
    }

    #[test]
    fn an_instance_id_is_a_random_uuid_that_the_process_keeps() {
        let id = instance_id();
        assert_eq!(std::thread::spawn(instance_id).join().unwrap(), id);
        let parts: Vec<&str> = id.split('-').collect();
        assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert!(id.bytes().all(|b| b == b'-' || b.is_ascii_digit() || (b'a'..=b'f').contains(&b)), "{id}");
        assert!(parts[2].starts_with('4') && parts[3].starts_with(['8', '9', 'a', 'b']), "{id}");
    }

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
