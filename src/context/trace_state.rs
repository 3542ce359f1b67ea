//! The `tracestate` of W3C Trace Context: entries of the tracing systems that a trace has passed.

use std::sync::Arc;

/// Maximum number of entries. A header with more entries is discarded.
const MAX_ENTRIES: usize = 32;
/// Maximum length of the header. W3C Trace Context asks every system to propagate at least this much.
const MAX_BYTES: usize = 512;
/// If a list is too long, entries longer than this are removed before all others.
const LONG_ENTRY: usize = 128;

/// The entries of a `tracestate` header, in order: the most recently changed one first.
///
/// A clone is cheap, and a change creates a new list:
///
/// ```
/// use standpipe::{SpanContext, TraceState};
///
/// let state = TraceState::from_header("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE");
/// let state = state.insert("shop", "7").update("congo", "u").remove("rojo");
/// assert_eq!((state.header(), state.get("shop")), ("congo=u,shop=7", Some("7")));
/// let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
/// let context = SpanContext::from_traceparent(parent).unwrap().with_state(state);
/// assert_eq!(context.tracestate(), "congo=u,shop=7");
/// ```
///
/// # Limits
///
/// A list has at most 32 entries and, as a header, 512 bytes. If a new entry would be the 33rd, the last entry is
/// removed. If the header would be longer, whole entries are removed: first those of more than 128 bytes, then others,
/// both from the end. A new entry is no exception.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct TraceState(pub(super) Option<Arc<str>>);

impl TraceState {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a header. If a request has several `tracestate` headers, join them with commas. The list is empty if the
    /// header is malformed, repeats a key, or has more than 32 entries, as the standard demands.
    pub fn from_header(header: &str) -> Self {
        let entries = header.split(',').map(|entry| entry.trim_matches([' ', '\t']));
        // Takes one entry more than allowed, to detect a header with too many entries.
        let entries: Vec<&str> = entries.filter(|entry| !entry.is_empty()).take(MAX_ENTRIES + 1).collect();
        let is_valid = |(index, entry): (usize, &&str)| {
            let is_new = entries[..index].iter().all(|known| key_of(known) != key_of(entry));
            is_new && entry.split_once('=').is_some_and(|(key, value)| is_key(key) && is_value(value))
        };
        let is_list = entries.len() <= MAX_ENTRIES && entries.iter().enumerate().all(is_valid);
        if is_list { Self::of(entries) } else { Self::new() }
    }

    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    /// Returns all keys with their values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries().filter_map(|entry| entry.split_once('='))
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns a copy with this value for the key, as the first entry. An earlier value of the key is replaced.
    ///
    /// A key has at most 256 lower-case letters, digits and characters of `_-*/@`, and starts with a letter or a digit.
    /// A value has 1 to 256 printable ASCII characters without comma and equals sign, and does not end with a space.
    /// With any other key or value, the copy is unchanged.
    #[must_use]
    pub fn insert(&self, key: &str, value: &str) -> Self {
        if !is_key(key) || !is_value(value) {
            return self.clone();
        }
        let first = format!("{key}={value}");
        Self::of([&*first].into_iter().chain(self.without(key)).collect())
    }

    /// Like [`insert`](Self::insert), but the copy is unchanged if the key has no value.
    #[must_use]
    pub fn update(&self, key: &str, value: &str) -> Self {
        if self.get(key).is_some() { self.insert(key, value) } else { self.clone() }
    }

    /// Returns a copy without this key.
    #[must_use]
    pub fn remove(&self, key: &str) -> Self {
        Self::of(self.without(key).collect())
    }

    /// Returns the header, or an empty text if there are no entries.
    pub fn header(&self) -> &str {
        self.0.as_deref().unwrap_or_default()
    }

    fn entries(&self) -> impl Iterator<Item = &str> {
        self.header().split(',').filter(|entry| !entry.is_empty())
    }

    fn without(&self, key: &str) -> impl Iterator<Item = &str> {
        self.entries().filter(move |entry| key_of(entry) != key)
    }

    /// Makes a list of valid entries, as many as the limits allow.
    fn of(mut entries: Vec<&str>) -> Self {
        entries.truncate(MAX_ENTRIES);
        let mut bytes = entries.iter().map(|entry| entry.len() + 1).sum::<usize>();
        // `bytes` counts a comma after each entry, but the last entry has none.
        while bytes > MAX_BYTES + 1 {
            let long = entries.iter().rposition(|entry| entry.len() > LONG_ENTRY);
            bytes -= entries.remove(long.unwrap_or(entries.len() - 1)).len() + 1;
        }
        Self((!entries.is_empty()).then(|| entries.join(",").into()))
    }
}

fn key_of(entry: &str) -> &str {
    entry.split('=').next().unwrap_or_default()
}

fn is_key(key: &str) -> bool {
    let starts_well = key.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/' | b'@');
    starts_well && key.len() <= 256 && key.bytes().all(allowed)
}

fn is_value(value: &str) -> bool {
    let printable = |byte: u8| matches!(byte, 0x20..=0x7e) && byte != b',' && byte != b'=';
    !value.is_empty() && value.len() <= 256 && value.bytes().all(printable) && !value.ends_with(' ')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(header: &str) -> String {
        TraceState::from_header(header).header().to_owned()
    }

    /// Returns an entry of this length.
    fn entry(key: &str, length: usize) -> String {
        format!("{key}={}", "x".repeat(length - key.len() - 1))
    }

    #[test]
    fn reads_a_header_in_normal_form_or_not_at_all() {
        let long = format!("a={}", "x".repeat(257));
        for (header, kept) in [
            ("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE", "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"),
            (" a=1 ,, b=2\t", "a=1,b=2"),
            ("tenant@system=x", "tenant@system=x"),
            ("0a= 1", "0a= 1"),
            ("", ""),
            (",,", ""),
            ("a", ""),
            ("a=", ""),
            ("a=1,a=2", ""),
            ("a=1=2", ""),
            ("A=1", ""),
            ("_a=1", ""),
            ("a=ü", ""),
            (&long, ""),
        ] {
            assert_eq!(read(header), kept, "{header}");
        }
    }

    #[test]
    fn discards_a_header_of_33_entries_and_reads_one_of_32() {
        let entries = |count: usize| (0..count).map(|n| format!("k{n}=v")).collect::<Vec<_>>().join(",");
        assert_eq!(read(&entries(32)), entries(32));
        assert_eq!(read(&entries(33)), "");
    }

    #[test]
    fn puts_changed_entries_first_and_keeps_the_order_of_the_others() {
        let state = TraceState::from_header("a=1,b=2,c=3");
        for (changed, expected) in [
            (state.insert("d", "4"), "d=4,a=1,b=2,c=3"),
            (state.insert("c", "5"), "c=5,a=1,b=2"),
            (state.update("b", "6"), "b=6,a=1,c=3"),
            (state.update("d", "4"), "a=1,b=2,c=3"),
            (state.remove("a"), "b=2,c=3"),
            (state.remove("d"), "a=1,b=2,c=3"),
            (state.remove("a").remove("b").remove("c"), ""),
            (TraceState::new().insert("a", "1"), "a=1"),
        ] {
            assert_eq!((changed.header(), changed.is_empty()), (expected, expected.is_empty()));
        }
        assert_eq!((state.get("b"), state.get("d")), (Some("2"), None));
        assert_eq!(state.iter().collect::<Vec<_>>(), [("a", "1"), ("b", "2"), ("c", "3")]);
    }

    #[test]
    fn ignores_a_change_with_an_invalid_key_or_value() {
        let state = TraceState::from_header("a=1");
        let long = "x".repeat(257);
        for (key, value) in [
            ("", "1"),
            ("B", "1"),
            ("b,c", "1"),
            (&long, "1"),
            ("b", ""),
            ("b", "1,c=2"),
            ("b", "ü"),
            ("b", "1 "),
            ("b", &long),
        ] {
            assert_eq!(state.insert(key, value), state, "{key}={value}");
        }
        assert_eq!(state.update("a", "="), state);
    }

    #[test]
    fn drops_the_rightmost_entry_when_a_33rd_is_inserted() {
        let full = (0..32).fold(TraceState::new(), |state, n| state.insert(&format!("k{n}"), "v"));
        let more = full.insert("new", "v");
        assert_eq!((more.iter().count(), more.get("new"), more.get("k0")), (32, Some("v"), None));
        assert_eq!((more.get("k1"), full.get("k0")), (Some("v"), Some("v")));
    }

    #[test]
    fn keeps_512_bytes_and_removes_whole_entries_above() {
        let join = |entries: &[&str]| entries.join(",");
        let [long, longer] = [entry("long", 129), entry("longer", 200)];
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|key| entry(key, 127));
        // 128 + 3 · 127 + 3 commas
        let exact = join(&[&entry("a", 128), &b, &c, &d]);
        assert_eq!((exact.len(), read(&exact)), (512, exact.clone()));
        // One byte more: no entry is longer than 128 bytes, so the last one is removed.
        let above = join(&[&entry("a", 128), &entry("b", 128), &c, &d]);
        assert_eq!((above.len(), read(&above)), (513, above[..above.len() - 128].to_owned()));
        // Entries over 128 bytes are removed first, from the end, and only as many as necessary.
        assert_eq!(read(&join(&[&long, &a, &longer, &b])), join(&[&long, &a, &b]));
        assert_eq!(read(&join(&[&longer, &a, &long, &b])), join(&[&longer, &a, &b]));
        assert_eq!(read(&join(&[&long, &a, &b, &c, &d])), join(&[&a, &b, &c, &d]));
        let inserted = TraceState::from_header(&join(&[&a, &b, &c, &d])).insert("new", "v");
        assert_eq!(inserted.header(), join(&["new=v", &a, &b, &c]));
    }

    proptest! {
        #[test]
        fn any_changes_keep_a_valid_list_with_the_last_change_first(
            header in ".{0,80}",
            changes in proptest::collection::vec(("[a-z]{1,2}", "[!-~]{0,140}", any::<bool>()), 0..40),
        ) {
            let mut state = TraceState::from_header(&header);
            for (key, value, removes) in &changes {
                let changed = if *removes { state.remove(key) } else { state.insert(key, value) };
                if *removes {
                    prop_assert_eq!(changed.get(key), None);
                } else if is_value(value) && changed.get(key).is_some() {
                    prop_assert_eq!(changed.iter().next(), Some((&**key, &**value)));
                }
                prop_assert!(changed.header().len() <= MAX_BYTES && changed.iter().count() <= MAX_ENTRIES);
                prop_assert_eq!(TraceState::from_header(changed.header()), changed.clone());
                state = changed;
            }
        }
    }
}
