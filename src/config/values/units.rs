//! Parses and formats durations and sizes: a whole number and one unit.

use std::time::Duration;

use crate::config::error::Fault;
use crate::config::text::shortened;

const EXAMPLE: &str = "write a whole number and one unit (d, h, m, s or ms), like \"90s\"";

/// Shortest duration that is plausible without a unit. For smaller numbers, seconds were probably meant.
pub(crate) const MIN_PLAUSIBLE: Duration = Duration::from_millis(100);

/// Parses `5s`, `5 S`, `100ms` or `250`, which is milliseconds. The message of a fault continues the sentence "the
/// value …".
pub(crate) fn parse_duration(text: &str) -> Result<Duration, Fault> {
    let text = text.trim();
    let (number, unit) = split_number(text);
    if number.is_empty() {
        let what = if unit.starts_with('-') { "is negative" } else { "is not a duration" };
        return Fault::err(what, EXAMPLE);
    }
    let fix = "write a whole number of a smaller unit, like \"1500ms\"";
    Fault::unless(!unit.starts_with(['.', ',']), "is a fraction", fix)?;
    let Some(millis_per_unit) = millis_per(unit) else {
        return Err(match sum_of_parts(text) {
            Some(sum) => Fault::new("has more than one unit", format!("write \"{}\"", show_duration(sum))),
            None => Fault::new("has an unknown unit", EXAMPLE),
        });
    };
    let millis = number.parse::<u64>().ok().and_then(|count| count.checked_mul(millis_per_unit));
    millis.map(Duration::from_millis).ok_or_else(|| Fault::new("is too long", "write at most 365d"))
}

/// Splits text after its leading digits, and removes the space between number and unit.
fn split_number(text: &str) -> (&str, &str) {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    (number, unit.trim_start())
}

/// Returns the sum of a duration with several units, such as `1m30s`, for the advice.
fn sum_of_parts(text: &str) -> Option<Duration> {
    let (mut rest, mut total) = (text, 0_u64);
    while !rest.is_empty() {
        let (number, after) = split_number(rest);
        let (unit, after) = after.split_at(after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len()));
        let per_unit = millis_per(unit.trim()).filter(|_| !unit.trim().is_empty())?;
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(per_unit)?)?;
        rest = after;
    }
    Some(Duration::from_millis(total))
}

/// Units of durations in milliseconds, largest first.
const MILLIS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
/// Units of sizes in bytes, largest first.
const BYTES: [(&str, u64); 4] = [(" GiB", 1 << 30), (" MiB", 1 << 20), (" KiB", 1 << 10), ("", 1)];

fn millis_per(unit: &str) -> Option<u64> {
    let unit = if unit.is_empty() { "ms" } else { unit };
    MILLIS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)).map(|(_, millis)| *millis)
}

/// Formats a number in the largest unit that needs no fraction.
fn show_in(units: &[(&str, u64)], number: u64) -> String {
    let fitting = units.iter().find(|(_, size)| number % size == 0);
    fitting.map_or_else(|| number.to_string(), |(unit, size)| format!("{}{unit}", number / size))
}

/// Formats a duration in the syntax of [`parse_duration`], or in that of `Debug` if it is not a whole number of
/// milliseconds.
pub(crate) fn show_duration(duration: Duration) -> String {
    match millis(duration) {
        millis if Duration::from_millis(millis) != duration => format!("{duration:?}"),
        0 => "0s".to_owned(),
        millis => show_in(&MILLIS, millis),
    }
}

/// Returns whole milliseconds.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Formats a number of bytes in the syntax of [`parse_size`].
pub(crate) fn show_size(bytes: u64) -> String {
    if bytes == 0 { "0".to_owned() } else { show_in(&BYTES, bytes) }
}

/// Parses a duration in Go's syntax: `1m30s`, `1.5h`, `300ms`. The message of a fault continues the sentence "the value
/// …".
pub(crate) fn parse_go_duration(text: &str) -> Result<Duration, Fault> {
    const EXAMPLE: &str = "write numbers with their units (h, m, s or ms), like 10s or 1m30s";
    let malformed = || Fault::new("is not a duration", EXAMPLE);
    let too_long = || Fault::new("is too long", "write at most 8760h");
    Fault::unless(!text.starts_with('-'), "is negative", EXAMPLE)?;
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    Fault::unless(!rest.is_empty(), "is not a duration", EXAMPLE)?;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let letters = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let number: f64 = number.parse().map_err(|_| malformed())?;
        let seconds = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3.6e3,
            "" => return Fault::err("has no unit", format!("write \"{}s\" for seconds", shortened(text))),
            _ => return Fault::err("has an unknown unit", EXAMPLE),
        };
        let part = Duration::try_from_secs_f64(number * seconds).map_err(|_| too_long())?;
        total = total.checked_add(part).ok_or_else(too_long)?;
        rest = after;
    }
    Ok(total)
}

/// Parses `4096`, `64 KiB`, `4MiB` or `1 gib`. The message of a fault continues the sentence "the value …".
///
/// `KB` and `MB` are refused, because some programs interpret them as powers of 1000 and others as powers of 1024.
pub(crate) fn parse_size(text: &str) -> Result<u64, Fault> {
    const EXAMPLE: &str = "write a whole number and KiB, MiB or GiB, like \"16 MiB\"";
    let (number, unit) = split_number(text.trim());
    Fault::unless(!number.is_empty(), "is not a size", EXAMPLE)?;
    let fix = "write a whole number of a smaller unit, like \"1536 KiB\"";
    Fault::unless(!unit.starts_with(['.', ',']), "is a fraction", fix)?;
    let unit = unit.to_ascii_lowercase();
    let bytes_per_unit: u64 = match unit.as_str() {
        "" | "b" => 1,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        "gib" => 1 << 30,
        "k" | "kb" => return Fault::err("may mean 1000 or 1024", "write KiB for 1024 bytes"),
        "m" | "mb" => return Fault::err("may mean 1000² or 1024²", "write MiB for 1024² bytes"),
        "g" | "gb" => return Fault::err("may mean 1000³ or 1024³", "write GiB for 1024³ bytes"),
        _ => return Fault::err("has an unknown unit", EXAMPLE),
    };
    let bytes = number.parse::<u64>().ok().and_then(|count| count.checked_mul(bytes_per_unit));
    bytes.ok_or_else(|| Fault::new("is too large", EXAMPLE))
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
