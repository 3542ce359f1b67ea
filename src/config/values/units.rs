//! How do files spell durations and sizes? One whole number and one unit.

use std::time::Duration;

use crate::config::error::Fault;
use crate::config::text::shortened;

const EXAMPLE: &str = "write a whole number and one unit (d, h, m, s or ms), like \"90s\"";

/// A shorter duration is plausible only with its unit: seconds were probably meant.
pub(crate) const MIN_PLAUSIBLE: Duration = Duration::from_millis(100);

/// Reads `5s`, `5 S`, `100ms` or, as milliseconds, `250`. A fault's `what` continues "the value …".
pub(crate) fn parse_duration(text: &str) -> Result<Duration, Fault> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        let what = if unit.starts_with('-') { "is negative" } else { "is not a duration" };
        return Err(Fault::new(what, EXAMPLE));
    }
    let unit = unit.trim_start();
    let Some(millis_per_unit) = millis_per(unit) else {
        return Err(unknown_unit(text, unit));
    };
    let millis = number.parse::<u64>().ok().and_then(|count| count.checked_mul(millis_per_unit));
    millis.map(Duration::from_millis).ok_or_else(|| Fault::new("is too long", "write at most 365d"))
}

/// Reads a duration as Go spells it: `1m30s`, `1.5h`, `300ms`. A fault's `what` continues "the value …".
pub(crate) fn parse_go_duration(text: &str) -> Result<Duration, Fault> {
    const EXAMPLE: &str = "write numbers with their units (h, m, s or ms), like 10s or 1m30s";
    let malformed = || Fault::new("is not a duration", EXAMPLE);
    let too_long = || Fault::new("is too long", "write at most 8760h");
    if text.starts_with('-') {
        return Err(Fault::new("is negative", EXAMPLE));
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(malformed());
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let letters = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let number: f64 = number.parse().map_err(|_| malformed())?;
        if unit.is_empty() {
            return Err(Fault::new("has no unit", format!("write \"{}s\" for seconds", shortened(text))));
        }
        let seconds =
            number * seconds_per_go(unit).ok_or_else(|| Fault::new("has an unknown unit", EXAMPLE))?;
        let part = Duration::try_from_secs_f64(seconds).map_err(|_| too_long())?;
        total = total.checked_add(part).ok_or_else(too_long)?;
        rest = after;
    }
    Ok(total)
}

fn seconds_per_go(unit: &str) -> Option<f64> {
    match unit {
        "ns" => Some(1e-9),
        "us" | "µs" | "μs" => Some(1e-6),
        "ms" => Some(1e-3),
        "s" => Some(1.0),
        "m" => Some(60.0),
        "h" => Some(3_600.0),
        _ => None,
    }
}

/// The shortest spelling that [`parse_duration`] would read back; what is finer than a millisecond cannot be spelled.
pub(crate) fn show_duration(duration: Duration) -> String {
    let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if Duration::from_millis(millis) != duration {
        return format!("{duration:?}");
    }
    match millis {
        0 => "0s".to_owned(),
        _ if millis % 86_400_000 == 0 => format!("{}d", millis / 86_400_000),
        _ if millis % 3_600_000 == 0 => format!("{}h", millis / 3_600_000),
        _ if millis % 60_000 == 0 => format!("{}m", millis / 60_000),
        _ if millis % 1_000 == 0 => format!("{}s", millis / 1_000),
        _ => format!("{millis}ms"),
    }
}

fn millis_per(unit: &str) -> Option<u64> {
    match unit.to_ascii_lowercase().as_str() {
        "" | "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    }
}

fn unknown_unit(text: &str, unit: &str) -> Fault {
    if unit.starts_with(['.', ',']) {
        return Fault::new("is a fraction", "write a whole number of a smaller unit, like \"1500ms\"");
    }
    match sum_of_parts(text) {
        Some(total) => Fault::new("has more than one unit", format!("write \"{}\"", show_duration(total))),
        None => Fault::new("has an unknown unit", EXAMPLE),
    }
}

/// What `1m30s` adds up to, for the advice only.
fn sum_of_parts(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let unit_at = rest.find(|c: char| !c.is_ascii_digit())?;
        let after = &rest[unit_at..];
        let next_number = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
        let unit = after[..next_number].trim();
        if unit.is_empty() {
            return None;
        }
        let count = rest[..unit_at].parse::<u64>().ok()?;
        total = total.checked_add(Duration::from_millis(count.checked_mul(millis_per(unit)?)?))?;
        rest = &after[next_number..];
    }
    Some(total)
}

/// Reads `4096`, `64 KiB`, `4MiB` or `1 gib`. A fault's `what` continues "the value …".
///
/// `KB` and `MB` are refused: some readers take them for 1000, some for 1024, and a limit should not be guessed.
pub(crate) fn parse_size(text: &str) -> Result<u64, Fault> {
    const EXAMPLE: &str = "write a whole number and KiB, MiB or GiB, like \"16 MiB\"";
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    if number.is_empty() {
        return Err(Fault::new("is not a size", EXAMPLE));
    }
    let unit = unit.trim_start().to_ascii_lowercase();
    let bytes_per_unit: u64 = match unit.as_str() {
        "" | "b" => 1,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "k" | "kb" => return Err(Fault::new("may mean 1000 or 1024", "write KiB for 1024 bytes")),
        "m" | "mb" => return Err(Fault::new("may mean 1000² or 1024²", "write MiB for 1024² bytes")),
        "g" | "gb" => return Err(Fault::new("may mean 1000³ or 1024³", "write GiB for 1024³ bytes")),
        _ if unit.starts_with(['.', ',']) => {
            return Err(Fault::new(
                "is a fraction",
                "write a whole number of a smaller unit, like \"1536 KiB\"",
            ));
        }
        _ => return Err(Fault::new("has an unknown unit", EXAMPLE)),
    };
    let bytes = number.parse::<u64>().ok().and_then(|count| count.checked_mul(bytes_per_unit));
    bytes.ok_or_else(|| Fault::new("is too large", EXAMPLE))
}

/// In the largest unit that needs no fraction.
pub(crate) fn show_size(bytes: u64) -> String {
    match bytes {
        0 => "0".to_owned(),
        _ if bytes % (1 << 30) == 0 => format!("{} GiB", bytes >> 30),
        _ if bytes % (1 << 20) == 0 => format!("{} MiB", bytes >> 20),
        _ if bytes % (1 << 10) == 0 => format!("{} KiB", bytes >> 10),
        _ => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_spells_several_units_and_fractions() {
        for (text, millis) in [
            ("10s", 10_000),
            ("1m30s", 90_000),
            ("1.5h", 5_400_000),
            ("300ms", 300),
            (".5s", 500),
            ("2h0m1s", 7_201_000),
            ("1000us", 1),
            ("1000000ns", 1),
            ("0", 0),
        ] {
            assert_eq!(parse_go_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for (text, what) in [
            ("", "is not a duration"),
            ("10", "has no unit"),
            ("1m30", "has no unit"),
            ("-1s", "is negative"),
            ("1d", "has an unknown unit"),
            ("1 s", "has an unknown unit"),
            ("1S", "has an unknown unit"),
            ("s", "is not a duration"),
            ("1.2.3s", "is not a duration"),
            ("99999999999999999999999h", "is too long"),
        ] {
            assert_eq!(parse_go_duration(text).expect_err(text).what, what, "{text}");
        }
    }

    #[test]
    fn one_number_and_one_unit_in_any_case_is_a_duration() {
        for (text, millis) in [
            ("0", 0),
            ("250", 250),
            ("250ms", 250),
            ("250 Ms", 250),
            ("5s", 5_000),
            ("5 S", 5_000),
            ("2m", 120_000),
            ("3H", 10_800_000),
            ("1d", 86_400_000),
            (" 007s ", 7_000),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text:?}");
        }
    }

    #[test]
    fn anything_else_is_refused_with_the_reason() {
        for (text, what, fix) in [
            ("1m30s", "has more than one unit", "write \"90s\""),
            ("1h30m", "has more than one unit", "write \"90m\""),
            ("1s 500ms", "has more than one unit", "write \"1500ms\""),
            ("1.5s", "is a fraction", "write a whole number of a smaller unit, like \"1500ms\""),
            ("-1s", "is negative", EXAMPLE),
            ("", "is not a duration", EXAMPLE),
            ("s", "is not a duration", EXAMPLE),
            ("soon", "is not a duration", EXAMPLE),
            ("5w", "has an unknown unit", EXAMPLE),
            ("5us", "has an unknown unit", EXAMPLE),
            ("5 ", "", ""),
            ("99999999999999999999s", "is too long", "write at most 365d"),
            ("18446744073709551615d", "is too long", "write at most 365d"),
        ] {
            match parse_duration(text) {
                Ok(_) => assert!(what.is_empty(), "{text:?} was read"),
                Err(fault) => assert_eq!(fault, Fault::new(what, fix), "{text:?}"),
            }
        }
    }

    #[test]
    fn what_is_shown_is_read_back_as_the_same() {
        for millis in [0, 1, 999, 1_000, 1_500, 59_000, 60_000, 90_000, 3_600_000, 86_400_000, 129_600_000] {
            let duration = Duration::from_millis(millis);
            assert_eq!(parse_duration(&show_duration(duration)), Ok(duration), "{}", show_duration(duration));
        }
        assert_eq!(show_duration(Duration::from_micros(1_500)), "1.5ms");
    }

    #[test]
    fn a_number_with_a_binary_unit_is_a_size() {
        for (text, bytes) in
            [("4096", 4_096), ("64 KiB", 65_536), ("4MiB", 4 << 20), ("1 gib", 1 << 30), ("12 B", 12)]
        {
            assert_eq!(parse_size(text), Ok(bytes), "{text:?}");
            assert_eq!(parse_size(&show_size(bytes)), Ok(bytes), "{text:?}");
        }
    }

    #[test]
    fn decimal_units_fractions_and_nonsense_are_refused() {
        for (text, what) in [
            ("1 KB", "may mean 1000 or 1024"),
            ("1M", "may mean 1000² or 1024²"),
            ("1GB", "may mean 1000³ or 1024³"),
            ("1.5MiB", "is a fraction"),
            ("1 TiB", "has an unknown unit"),
            ("-1", "is not a size"),
            ("", "is not a size"),
            ("99999999999999999999", "is too large"),
            ("18446744073709551615 GiB", "is too large"),
        ] {
            assert_eq!(parse_size(text).expect_err(text).what, what, "{text:?}");
        }
    }
}
