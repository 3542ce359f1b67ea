//! Which values travel along with a request? Its baggage: a list of keys and values in the header of W3C Baggage. Reading
//! never fails, as what is wrong with one member costs no other.

use std::cell::RefCell;
use std::fmt;
use std::fmt::Write as _;
use std::num::NonZeroU64;
use std::sync::Arc;

use super::ContextGuard;

pub(super) const BAGGAGE: &str = "baggage";

/// Most members and bytes of a baggage: what every participant has to propagate.
const MAX_MEMBERS: usize = 64;
const MAX_BYTES: usize = 8192;

/// Keys and values that travel along with a request, from process to process: who a request is for, or what it tests.
///
/// A thread has a current one, which [`Context`](crate::Context) carries further. A clone is cheap, and a change gives a new
/// baggage:
///
/// ```
/// use standpipe::Baggage;
///
/// let _entered = Baggage::current().with("user.id", "4711").enter();
/// // in all that this thread calls
/// assert_eq!(Baggage::current().get("user.id"), Some("4711"));
/// ```
///
/// Every server that is called can read it: it is no place for secrets. The values are on no span unless
/// [`Config::baggage_attributes`](crate::Config::baggage_attributes) names their keys.
///
/// # Limits
///
/// A baggage has at most 64 members and 8,192 bytes as a header, which W3C Baggage obliges everyone to propagate. A member
/// that does not fit beside those before it is left out as a whole.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Baggage {
    /// No two of the same key; `None` if there is none.
    members: Option<Arc<[Member]>>,
}

#[derive(Clone, PartialEq, Eq)]
struct Member {
    key: Box<str>,
    value: Box<str>,
    /// The whole member, as the header has it.
    encoded: Box<str>,
}

impl Baggage {
    /// A baggage without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// This thread's baggage; empty unless one was [entered](Self::enter).
    pub fn current() -> Self {
        let current = CURRENT.try_with(|stack| Some(stack.try_borrow().ok()?.last()?.1.clone()));
        current.ok().flatten().unwrap_or_default()
    }

    /// Makes this the thread's baggage until the guard is dropped, and leaves the thread in its span.
    pub fn enter(&self) -> ContextGuard {
        ContextGuard::none().and_baggage(self)
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        Some(&self.member(key)?.value)
    }

    /// The properties of the member with this key, as the header has them, such as `ttl=3;public`; empty if there are none.
    pub fn metadata(&self, key: &str) -> &str {
        self.member(key).map_or("", Member::metadata)
    }

    /// All keys with their values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.members().iter().map(|member| (&*member.key, &*member.value))
    }

    /// Whether it has no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_none()
    }

    /// The same with this value for the key, instead of any other, as the last member.
    ///
    /// The value may be any text. A key is a token as HTTP has it, like the name of a header; with any other key the baggage
    /// stays as it is. A member that would exceed the [limits](Self#limits) is left out, and so is the key's former value.
    ///
    /// ```
    /// use standpipe::Baggage;
    ///
    /// let baggage = Baggage::new().with("shop.country", "SE").with("user.name", "Åsa, 7");
    /// assert_eq!(baggage.header(), "shop.country=SE,user.name=%C3%85sa%2C%207");
    /// assert_eq!(Baggage::from_header(&baggage.header()), baggage);
    /// ```
    #[must_use]
    pub fn with(&self, key: &str, value: &str) -> Self {
        self.with_metadata(key, value, "")
    }

    /// As [`with`](Self::with), with properties in the form of the header, such as `ttl=3;public`. Those that are not of that
    /// form are left out.
    #[must_use]
    pub fn with_metadata(&self, key: &str, value: &str, metadata: &str) -> Self {
        match Member::new(key, value, metadata) {
            Some(member) => self.changed(|members| replace(members, member)),
            None => self.clone(),
        }
    }

    /// The same without this key.
    #[must_use]
    pub fn without(&self, key: &str) -> Self {
        self.changed(|members| members.retain(|member| *member.key != *key))
    }

    /// Reads a `baggage` header. Members that are not of its form, or exceed the [limits](Self#limits), are left out; of a
    /// key that is there twice the last value counts. Several headers are one list: join them with commas.
    pub fn from_header(header: &str) -> Self {
        let mut members = Vec::new();
        for member in header.split(',').filter_map(Member::parse) {
            replace(&mut members, member);
        }
        Self::of(members)
    }

    /// The `baggage` header; empty if there are no members.
    pub fn header(&self) -> String {
        let members: Vec<&str> = self.members().iter().map(|member| &*member.encoded).collect();
        members.join(",")
    }

    fn of(members: Vec<Member>) -> Self {
        Self { members: (!members.is_empty()).then(|| members.into()) }
    }

    fn changed(&self, change: impl FnOnce(&mut Vec<Member>)) -> Self {
        let mut members = self.members().to_vec();
        change(&mut members);
        Self::of(members)
    }

    fn members(&self) -> &[Member] {
        self.members.as_deref().unwrap_or_default()
    }

    fn member(&self, key: &str) -> Option<&Member> {
        self.members().iter().find(|member| *member.key == *key)
    }
}

impl fmt::Debug for Baggage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Baggage({:?})", self.header())
    }
}

/// Puts a member at the end if it fits there, and takes away the one that had its key.
fn replace(members: &mut Vec<Member>, member: Member) {
    members.retain(|known| known.key != member.key);
    let comma = usize::from(!members.is_empty());
    if members.len() < MAX_MEMBERS && bytes(members) + comma + member.encoded.len() <= MAX_BYTES {
        members.push(member);
    }
}

/// Of these members as a header.
fn bytes(members: &[Member]) -> usize {
    members.iter().map(|member| member.encoded.len()).sum::<usize>() + members.len().saturating_sub(1)
}

impl Member {
    /// `None` if the key is no token.
    fn new(key: &str, value: &str, metadata: &str) -> Option<Self> {
        if !is_token(key) {
            return None;
        }
        let mut encoded = format!("{key}=");
        encode(value, &mut encoded);
        write_metadata(metadata, &mut encoded);
        Some(Self { key: key.into(), value: value.into(), encoded: encoded.into() })
    }

    /// `None` if it is not `key = value ; property …`.
    fn parse(text: &str) -> Option<Self> {
        let (pair, metadata) = text.split_once(';').unwrap_or((text, ""));
        let (key, value) = pair.split_once('=')?;
        let value = trim(value);
        value
            .bytes()
            .all(is_octet)
            .then(|| Self::new(trim(key), &decode_percent(value.as_bytes()), metadata))
            .flatten()
    }

    fn metadata(&self) -> &str {
        // a value has its semicolons encoded
        self.encoded.split_once(';').map_or("", |(_, metadata)| metadata)
    }
}

/// Adds the properties that are of the form `key` or `key=value`, without white space.
fn write_metadata(text: &str, encoded: &mut String) {
    for property in text.split(';') {
        let (key, value) = match property.split_once('=') {
            Some((key, value)) => (trim(key), Some(trim(value))),
            None => (trim(property), None),
        };
        if is_token(key) && value.unwrap_or_default().bytes().all(is_octet) {
            encoded.extend([";", key]);
            encoded.extend(value.into_iter().flat_map(|value| ["=", value]));
        }
    }
}

fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

/// What keys are made of, as HTTP has it.
fn is_token(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(allowed)
}

/// What values are made of: neither white space nor quotes, commas, semicolons or backslashes.
fn is_octet(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b';' | b'\\')
}

fn encode(value: &str, encoded: &mut String) {
    for byte in value.bytes() {
        // some readers take a plus for a space, as forms have it
        if is_octet(byte) && !matches!(byte, b'%' | b'+') {
            encoded.push(char::from(byte));
        } else {
            // writing to a String cannot fail
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
}

/// A percent sign without two digits stands for itself; what is not UTF-8 then becomes U+FFFD, as the standard demands.
pub(crate) fn decode_percent(value: &[u8]) -> String {
    let hex = |digit: u8| char::from(digit).to_digit(16);
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value;
    while let [first, after @ ..] = rest {
        let escaped = match rest {
            [b'%', high, low, ..] => hex(*high).zip(hex(*low)),
            _ => None,
        };
        match escaped {
            Some((high, low)) => {
                bytes.push((high << 4 | low) as u8);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

thread_local! {
    /// What this thread has entered; the last one is current.
    static CURRENT: RefCell<Vec<(NonZeroU64, Baggage)>> = const { RefCell::new(Vec::new()) };
}

/// Proof that a baggage is on this thread's stack, until it leaves.
#[derive(Debug)]
pub(super) struct Entered(NonZeroU64);

/// Makes a baggage the thread's current one. `None` while the thread ends, or if the program's allocator is called for
/// the stack's own storage.
pub(super) fn enter(baggage: &Baggage) -> Option<Entered> {
    let entered = CURRENT.try_with(|stack| {
        let mut stack = stack.try_borrow_mut().ok()?;
        let id = stack.last().map_or(NonZeroU64::MIN, |(last, _)| last.saturating_add(1));
        stack.push((id, baggage.clone()));
        Some(Entered(id))
    });
    entered.ok().flatten()
}

impl Entered {
    #[cfg(feature = "ffi")]
    pub(super) fn into_number(self) -> u64 {
        self.0.get()
    }

    #[cfg(feature = "ffi")]
    pub(super) fn from_number(number: u64) -> Option<Self> {
        NonZeroU64::new(number).map(Self)
    }

    /// Takes the baggage off the stack, wherever it stands: guards may end in any order.
    pub(super) fn leave(self) {
        let _ = CURRENT.try_with(|stack| {
            if let Ok(mut stack) = stack.try_borrow_mut() {
                stack.retain(|(id, _)| *id != self.0);
            }
        });
    }
}

#[cfg(test)]
mod tests;
