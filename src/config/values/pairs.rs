//! How is a list like `name=value,other=value` read? Its values are percent-encoded, and no message repeats one.

use crate::config::error::Fault;
use crate::config::{Secret, header};

/// They are sent with every request; collectors keep far fewer.
pub(in crate::config) const MAX_ATTRIBUTES: usize = 1_000;

/// The headers of a list; of a name given twice the last value counts. What they may hold is judged later.
pub(in crate::config) fn headers(text: &str) -> Result<Vec<(String, Secret)>, Fault> {
    if text.trim_start().starts_with(['"', '\'']) {
        return Err(Fault::new("has quotes around it", "remove them"));
    }
    let pairs: Vec<&str> = pieces(text).collect();
    header::check_count(pairs.len())?;
    let mut headers: Vec<(String, Secret)> = Vec::with_capacity(pairs.len());
    for (index, pair) in pairs.into_iter().enumerate() {
        let number = index + 1;
        let Some((name, value)) = pair.split_once('=') else {
            return Err(Fault::new(format!("header {number} has no ="), "write it like name=value"));
        };
        let name = header::trim(name);
        if name.is_empty() {
            return Err(Fault::new(format!("header {number} has no name"), "write it like name=value"));
        }
        // the = of a token in base 64 separates nothing
        if value.bytes().all(|byte| byte == b'=') && !header::is_like_a_name(name) {
            let what = format!("header {number} is a value without a name");
            return Err(Fault::new(what, "write it like name=value"));
        }
        let value = decoded(header::trim(value)).map_err(|fault| {
            // only a name that is one may be shown
            match header::check(number, name, "x") {
                Ok(()) => {
                    let what = format!("value of {} {}", header::called(number, name), fault.what);
                    fault.saying(what)
                }
                Err(fault) => fault,
            }
        })?;
        headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        headers.push((name.to_owned(), Secret::new(value)));
    }
    Ok(headers)
}

/// The attributes of a list: all of them or none.
pub(in crate::config) fn attributes(text: &str) -> Result<Vec<(String, String)>, Fault> {
    let count = pieces(text).count();
    if count > MAX_ATTRIBUTES {
        return Err(Fault::new(format!("{count} attributes"), format!("write at most {MAX_ATTRIBUTES}")));
    }
    pieces(text)
        .enumerate()
        .map(|(index, pair)| {
            let numbered = |fault: Fault| {
                let what = format!("attribute {} {}", index + 1, fault.what);
                fault.saying(what)
            };
            let missing = |what: &'static str| numbered(Fault::new(what, "write it like key=value"));
            let (key, value) = pair.split_once('=').ok_or_else(|| missing("has no ="))?;
            let decode = |text: &str| decoded(text.trim()).map_err(numbered);
            match decode(key)? {
                key if key.is_empty() => Err(missing("has no key")),
                key => Ok((key, decode(value)?)),
            }
        })
        .collect()
}

/// Commas at the end, or two in a row, hold nothing between them.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(header::trim).filter(|piece| !piece.is_empty())
}

/// A fault's `what` continues "the value …".
fn decoded(text: &str) -> Result<String, Fault> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => hex_byte(rest.next(), rest.next()).ok_or_else(|| {
                Fault::new("has a % without two hexadecimal digits behind it", "write %25 for a percent sign")
            })?,
            _ => byte,
        });
    }
    String::from_utf8(bytes)
        .map_err(|_| Fault::new("is not UTF-8 when it is decoded", "encode the bytes of UTF-8"))
}

fn hex_byte(high: Option<u8>, low: Option<u8>) -> Option<u8> {
    let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}
