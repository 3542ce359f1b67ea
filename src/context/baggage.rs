//! Baggage: keys and values that travel with a request, in the header of W3C Baggage. Reading never fails: a malformed
//! member is left out and does not affect the others.

use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::num::NonZeroU64;
use std::sync::Arc;

use super::ContextGuard;

pub(super) const BAGGAGE: &str = "baggage";

/// Maximum number of members, and of bytes in the header. W3C Baggage requires that at least this much is propagated.
const MAX_MEMBERS: usize = 64;
const MAX_BYTES: usize = 8192;

/// Keys and values that travel with a request from process to process, such as the user or the test that sent it.
///
/// Each thread has a current baggage, which [`Context`](crate::Context) passes to other threads and processes. A clone
/// is cheap, and a change creates a new baggage:
///
/// ```
/// use standpipe::Baggage;
///
/// let _entered = Baggage::current().with("user.id", "4711").enter();
/// // in all functions that this thread calls
/// assert_eq!(Baggage::current().get("user.id"), Some("4711"));
/// ```
///
/// Every server that is called can read the baggage, so it must not contain secrets. Its values are not added to spans
/// unless [`Config::baggage_attributes`](crate::Config::baggage_attributes) names their keys.
///
/// # Limits
///
/// A baggage has at most 64 members, and its header at most 8,192 bytes. W3C Baggage requires every implementation to
/// propagate at least this much. A member that does not fit is left out as a whole.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Baggage {
    /// Members with distinct keys; `None` if there are no members, so that an empty baggage needs no allocation.
    members: Option<Arc<[Member]>>,
}

#[derive(Clone, PartialEq, Eq)]
struct Member {
    key: Box<str>,
    value: Box<str>,
    /// The whole member in the form of the header.
    encoded: Box<str>,
}

impl Baggage {
    /// Creates a baggage without members.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the baggage that this thread has [entered](Self::enter), or an empty baggage.
    pub fn current() -> Self {
        let current = CURRENT.try_with(|stack| Some(stack.try_borrow().ok()?.last()?.1.clone()));
        current.ok().flatten().unwrap_or_default()
    }

    /// Makes this baggage current on this thread until the guard is dropped. The thread's current span does not change.
    pub fn enter(&self) -> ContextGuard {
        ContextGuard::none().and_baggage(self)
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        Some(&self.member(key)?.value)
    }

    /// Returns the properties of a key's member as they are written in the header, such as `ttl=3;public`. The text is
    /// empty if the member has no properties.
    pub fn metadata(&self, key: &str) -> &str {
        self.member(key).map_or("", Member::metadata)
    }

    /// Returns all keys with their values, in the order of the header.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.members().iter().map(|member| (&*member.key, &*member.value))
    }

    /// Returns whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_none()
    }

    /// Returns a copy with this value for the key, as the last member. An earlier value of the key is replaced.
    ///
    /// The value may be any text. The key must be an HTTP token, like the name of a header; otherwise the copy is
    /// unchanged. A member that would exceed the [limits](Self#limits) is left out, and so is the key's earlier value.
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

    /// Like [`with`](Self::with), and also sets the member's properties, such as `ttl=3;public`. Malformed properties
    /// are left out.
    #[must_use]
    pub fn with_metadata(&self, key: &str, value: &str, metadata: &str) -> Self {
        match Member::new(key, value, metadata) {
            Some(member) => self.changed(|members| replace(members, member)),
            None => self.clone(),
        }
    }

    /// Returns a copy without this key.
    #[must_use]
    pub fn without(&self, key: &str) -> Self {
        self.changed(|members| members.retain(|member| *member.key != *key))
    }

    /// Reads a `baggage` header. Malformed members are left out. If a key occurs twice, the last value counts. If a
    /// request has several `baggage` headers, join them with commas.
    ///
    /// Reading stops at the first member that exceeds the [limits](Self#limits). Malformed members and repeated keys
    /// count towards the limits.
    pub fn from_header(header: &str) -> Self {
        let (mut members, mut end) = (Vec::new(), 0);
        let is_within = |text: &&str| {
            end += text.len() + 1;
            // `end` counts a comma after each member, but the last member has none.
            end - 1 <= MAX_BYTES
        };
        let texts = header.split(',').take(MAX_MEMBERS).take_while(is_within);
        texts.filter_map(Member::parse).for_each(|member| replace(&mut members, member));
        Self::of(members)
    }

    /// Returns the `baggage` header, or an empty text if there are no members.
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

/// Removes the member with the same key, and appends `member` if it fits.
fn replace(members: &mut Vec<Member>, member: Member) {
    members.retain(|known| known.key != member.key);
    // A comma follows each of the other members.
    let others: usize = members.iter().map(|known| known.encoded.len() + 1).sum();
    if members.len() < MAX_MEMBERS && others + member.encoded.len() <= MAX_BYTES {
        members.push(member);
    }
}

impl Member {
    /// Creates a member, or returns `None` if the key is not a token.
    fn new(key: &str, value: &str, metadata: &str) -> Option<Self> {
        if !is_token(key) {
            return None;
        }
        let mut encoded = format!("{key}=");
        encode(value, &mut encoded);
        write_metadata(metadata, &mut encoded);
        Some(Self { key: key.into(), value: value.into(), encoded: encoded.into() })
    }

    /// Parses `key = value ; property …`, or returns `None` if the text is malformed.
    fn parse(text: &str) -> Option<Self> {
        let (pair, metadata) = text.split_once(';').unwrap_or((text, ""));
        let (key, value) = pair.split_once('=')?;
        let value = trim(value).as_bytes();
        let is_valid = value.iter().copied().all(is_octet);
        is_valid.then(|| Self::new(trim(key), &decode_percent(value), metadata)).flatten()
    }

    fn metadata(&self) -> &str {
        // Semicolons in the value are percent-encoded, so the first semicolon ends the value.
        self.encoded.split_once(';').map_or("", |(_, metadata)| metadata)
    }
}

/// Appends the valid properties, `key` or `key=value`, without white space. Leaves out malformed ones.
fn write_metadata(text: &str, encoded: &mut String) {
    for property in text.split(';') {
        let mut parts = property.splitn(2, '=').map(trim);
        let (key, value) = (parts.next().unwrap_or_default(), parts.next());
        if is_token(key) && value.unwrap_or_default().bytes().all(is_octet) {
            encoded.extend([";", key]);
            encoded.extend(value.into_iter().flat_map(|value| ["=", value]));
        }
    }
}

fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

/// Returns whether the text is an HTTP token, as keys must be.
fn is_token(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(allowed)
}

/// Returns whether a value may contain this byte. White space, quotes, commas, semicolons and backslashes are excluded.
fn is_octet(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b',' | b';' | b'\\')
}

fn encode(value: &str, encoded: &mut String) {
    for byte in value.bytes() {
        // Some readers decode a plus as a space, as in HTML forms, so it is encoded.
        if is_octet(byte) && !matches!(byte, b'%' | b'+') {
            encoded.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
}

/// Decodes percent-encoding. A percent sign without two hexadecimal digits stays, and invalid UTF-8 becomes U+FFFD, as
/// W3C Baggage demands.
pub fn decode_percent(value: &[u8]) -> String {
    let hex = |digit: u8| char::from(digit).to_digit(16);
    let (mut bytes, mut rest) = (Vec::with_capacity(value.len()), value);
    while let [first, ..] = rest {
        let escaped = match rest {
            [b'%', high, low, ..] => hex(*high).zip(hex(*low)),
            _ => None,
        };
        let (byte, len) = escaped.map_or((*first, 1), |(high, low)| ((high << 4 | low) as u8, 3));
        bytes.push(byte);
        rest = &rest[len..];
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

thread_local! {
    /// Stack of entered baggage, with ids. The last entry is current.
    static CURRENT: RefCell<Vec<(NonZeroU64, Baggage)>> = const { RefCell::new(Vec::new()) };
}

/// Returns whether this thread has entered a baggage, even an empty one.
pub(super) fn is_entered() -> bool {
    CURRENT.try_with(|stack| stack.try_borrow().is_ok_and(|stack| !stack.is_empty())).unwrap_or_default()
}

/// Id of an entry in this thread's stack.
#[derive(Debug)]
pub(super) struct Entered(pub(super) NonZeroU64);

/// Pushes a baggage onto the thread's stack. Returns `None` while the thread ends, or if the program's allocator calls
/// this function while the stack grows.
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
    /// Removes the baggage from the stack, wherever it is, because guards may be dropped in any order.
    pub(super) fn leave(self) {
        let _ = CURRENT.try_with(|stack| {
            if let Ok(mut stack) = stack.try_borrow_mut() {
                stack.retain(|(id, _)| *id != self.0);
            }
        });
    }
}
