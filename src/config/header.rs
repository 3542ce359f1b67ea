//! Which headers may be sent. No message repeats a value, nor a name that may be part of one.

use super::error::Fault;

/// Headers that frame or describe the body; only the transport knows what to write there.
const RESERVED: [&str; 5] =
    ["connection", "content-encoding", "content-length", "content-type", "transfer-encoding"];

/// Written by gRPC itself, or without a meaning in HTTP/2.
const RESERVED_BY_GRPC: [&str; 5] = ["host", "keep-alive", "proxy-connection", "te", "upgrade"];
/// What all of gRPC's own begin with.
const GRPC: &str = "grpc-";

/// No collector wants more, and a request must stay one that servers take.
const MOST: usize = 128;

/// No request can carry a longer value. It is not even looked at: there may be hundreds, each a whole file.
const LONGEST_VALUE: usize = 64 << 10;
const TOO_LONG: &str = "is longer than 64 KiB";

/// Checks how many there are, before any of them is looked at.
pub(super) fn check_count(count: usize) -> Result<(), Fault> {
    if count <= MOST {
        return Ok(());
    }
    Err(Fault::new(format!("{count} headers"), format!("write at most {MOST}")))
}

/// Splits `Name: value` at the first colon and trims both.
pub(super) fn split(line: &str) -> Result<(&str, &str), Fault> {
    match line.split_once(':') {
        Some((name, value)) => Ok((trim(name), trim(value))),
        None => Err(Fault::new("header without a colon", "write it like \"Name: value\"")),
    }
}

/// Takes off the white space that HTTP ignores. Line breaks stay: they are for [`check`] to refuse.
pub(super) fn trim(text: &str) -> &str {
    text.trim_matches([' ', '\t'])
}

/// Checks one header; `number` counts from 1 and stands for the name when that cannot be shown.
pub(super) fn check(number: usize, name: &str, value: &str) -> Result<(), Fault> {
    if name.is_empty() {
        return Err(Fault::new(format!("header {number} has no name"), "write it like \"Name: value\""));
    }
    if let Some(stray) = name.chars().find(|c| !is_name_character(*c)) {
        // half a secret may have come before a colon: only the one character is shown
        return Err(Fault::new(
            format!("header {number} has {stray:?} in its name"),
            "names are letters, digits and -",
        ));
    }
    if RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved)) {
        return Err(Fault::new(
            format!("header {name:?} is not yours to set"),
            "remove it: standpipe writes it",
        ));
    }
    if value.is_empty() {
        return Err(Fault::new(
            format!("header {name:?} has no value"),
            "write the value or remove the header",
        ));
    }
    if value.len() > LONGEST_VALUE {
        return Err(Fault::new(format!("value of header {name:?} {TOO_LONG}"), "write a shorter one"));
    }
    check_value(value).map_err(|problem| {
        Fault::new(format!("value of header {name:?} {problem}"), "write printable ASCII in one line")
    })
}

/// Checks what only gRPC cannot carry: there headers are metadata.
pub(super) fn check_metadata(name: &str) -> Result<(), Fault> {
    if !is_reserved_by_grpc(name) {
        return Ok(());
    }
    let what = format!("header {name:?} is not yours to set over gRPC");
    Err(Fault::new(what, "remove it: standpipe writes what is needed"))
}

pub(crate) fn is_reserved_by_grpc(name: &str) -> bool {
    let is_of_grpc = name.get(..GRPC.len()).is_some_and(|start| start.eq_ignore_ascii_case(GRPC));
    is_of_grpc || RESERVED_BY_GRPC.iter().any(|reserved| name.eq_ignore_ascii_case(reserved))
}

/// What may stand in the value of a header; the reason continues "the value …".
pub(super) fn check_value(value: &str) -> Result<(), &'static str> {
    if value.len() > LONGEST_VALUE {
        return Err(TOO_LONG);
    }
    // one character each: the standard library searches for that with a few instructions per word
    if value.contains('\r') || value.contains('\n') {
        return Err("holds a line break");
    }
    if !value.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~')) {
        return Err("holds a character that headers cannot carry");
    }
    Ok(())
}

fn is_name_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_split_at_its_first_colon_and_trimmed() {
        assert_eq!(split("Authorization: Basic a:b"), Ok(("Authorization", "Basic a:b")));
        assert_eq!(split(" X-Scope\t:\tone "), Ok(("X-Scope", "one")));
        assert_eq!(split("Authorization: x\r\n"), Ok(("Authorization", "x\r\n")));
        assert_eq!(split("Bearer hunter2").expect_err("no colon").what, "header without a colon");
    }

    #[test]
    fn headers_that_cannot_be_sent_are_refused_without_showing_the_value() {
        for (name, value, what) in [
            ("", "hunter2", "header 3 has no name"),
            ("Bearer hunter2", "x", "header 3 has ' ' in its name"),
            ("Näme", "x", "header 3 has 'ä' in its name"),
            ("X\r\nY", "x", "header 3 has '\\r' in its name"),
            ("content-LENGTH", "5", "header \"content-LENGTH\" is not yours to set"),
            ("Authorization", "", "header \"Authorization\" has no value"),
            ("Authorization", "hunter2\r\nX: y", "value of header \"Authorization\" holds a line break"),
            ("Authorization", "hunter2\n", "value of header \"Authorization\" holds a line break"),
            ("A", "hünter2", "value of header \"A\" holds a character that headers cannot carry"),
            ("A", "hunter2\0", "value of header \"A\" holds a character that headers cannot carry"),
        ] {
            assert_eq!(check(3, name, value).expect_err(what).what, what);
        }
        assert_eq!(check(1, "Authorization", "Bearer <place_auth_here>\t=~"), Ok(()));
        let full = "x".repeat(LONGEST_VALUE);
        assert_eq!(check(1, "A", &full), Ok(()));
        let fault = check(1, "A", &(full + "\n")).expect_err("too long");
        assert_eq!(fault.what, "value of header \"A\" is longer than 64 KiB");
    }
}
