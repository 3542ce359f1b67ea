//! Parses times as people and programs write them. Pure: the current time is an argument.

use std::time::{Duration, SystemTime};

use serde_json::Value as Json;
use standpipe::shared::calendar::days_since_1970;

use super::log::as_text;
use crate::cli::text;

/// Parses a time: RFC 3339, a number since 1970, `-5s` (relative to now), or `now`.
pub(super) fn parse(word: &str, now: SystemTime) -> Result<SystemTime, String> {
    if word == "now" {
        return Ok(now);
    }
    let ago = || {
        let age = text::duration(word.strip_prefix('-')?).ok()?;
        Some(nanos(now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()) - nanos(age))
    };
    let since_1970 =
        ago().or_else(|| number(word).map(nanos)).or_else(|| rfc3339(word)).ok_or_else(|| {
            format!("{word:?} is not a time: write 2026-11-17T14:00:00Z, seconds since 1970, -5s, or now")
        })?;
    // OTLP times are unsigned 64-bit nanoseconds since 1970.
    match u64::try_from(since_1970) {
        Ok(since_1970) => Ok(SystemTime::UNIX_EPOCH + Duration::from_nanos(since_1970)),
        Err(_) => Err(format!("{word:?} cannot be sent: OTLP times range from 1970-01-01 to 2554-07-21")),
    }
}

fn nanos(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX)
}

/// Parses the value of an option.
pub(super) fn parse_now(word: &str) -> Result<SystemTime, String> {
    parse(word, SystemTime::now())
}

/// Parses a JSON string or number.
pub(super) fn of_json(json: &Json, now: SystemTime) -> Result<SystemTime, String> {
    parse(&as_text(json), now)
}

/// Parses a time since 1970: seconds with decimals; from 12 digits on, ms; from 15 on, µs; from 18 on, ns.
fn number(word: &str) -> Option<Duration> {
    let (whole, decimals) = word.split_once('.').unwrap_or((word, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !are_digits(whole) || !are_digits(decimals) {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    Some(match whole {
        0..100_000_000_000 => Duration::from_secs(whole) + fraction(decimals)?,
        100_000_000_000..100_000_000_000_000 => Duration::from_millis(whole),
        100_000_000_000_000..100_000_000_000_000_000 => Duration::from_micros(whole),
        _ => Duration::from_nanos(whole),
    })
}

/// Parses the digits after a decimal point as a fraction of a second, truncated to nanoseconds.
fn fraction(digits: &str) -> Option<Duration> {
    let nanos = format!("{:0<9}", digits.get(..9).unwrap_or(digits));
    nanos.parse().ok().map(Duration::from_nanos)
}

/// Parses `2026-11-17T14:00:00.5+01:00`. Returns nanoseconds since 1970, negative for earlier times.
fn rfc3339(word: &str) -> Option<i128> {
    let (date, time) = word.split_at_checked(10)?;
    let time = time.strip_prefix(['T', 't', ' '])?;
    let (time, offset) = time.split_at(time.find(['Z', 'z', '+', '-'])?);
    let (time, decimals) = time.split_once('.').unwrap_or((time, ""));
    let [year, month, day] = parts(date, '-')?;
    let [hour, minute, second] = parts(time, ':')?;
    let [hours_ahead, minutes_ahead] = match offset {
        "Z" | "z" => [0, 0],
        _ => parts(offset.strip_prefix(['+', '-'])?, ':')?,
    };
    let is_date = (1..=12).contains(&month) && (1..=days_of(year, month)).contains(&day);
    let is_time = hour < 24 && minute < 60 && second < 61 && hours_ahead < 24 && minutes_ahead < 60;
    if !is_date || !is_time || !decimals.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let ahead = hours_ahead * 3600 + minutes_ahead * 60;
    let ahead = if offset.starts_with('-') { -ahead } else { ahead };
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - ahead;
    Some(i128::from(seconds) * 1_000_000_000 + nanos(fraction(decimals)?))
}

fn parts<const N: usize>(text: &str, separator: char) -> Option<[i64; N]> {
    let numbers = text.split(separator).map(|part| part.parse::<u16>().ok().map(i64::from));
    numbers.collect::<Option<Vec<_>>>()?.try_into().ok()
}

fn days_of(year: i64, month: i64) -> i64 {
    let (next_year, next) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    days_since_1970(next_year, next, 1) - days_since_1970(year, month, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanos(word: &str) -> Option<u128> {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        parse(word, now).ok()?.duration_since(SystemTime::UNIX_EPOCH).ok().map(|since| since.as_nanos())
    }

    #[test]
    fn moments_are_read_in_all_forms() {
        for (word, expected) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00.25Z", 951_825_600_250_000_000),
            ("2026-11-17T14:00:00+01:30", 1_794_918_600_000_000_000),
            ("2026-11-17 14:00:00-00:30", 1_794_925_800_000_000_000),
            ("1700000000", 1_700_000_000_000_000_000),
            ("1700000000.00000010099", 1_700_000_000_000_000_100),
            ("1700000000123", 1_700_000_000_123_000_000),
            ("1700000000123456", 1_700_000_000_123_456_000),
            ("1700000000123456700", 1_700_000_000_123_456_700),
            ("-250ms", 999_750_000_000),
            ("-5s", 995_000_000_000),
            ("now", 1_000_000_000_000),
        ] {
            assert_eq!(nanos(word), Some(expected), "{word}");
        }
    }

    #[test]
    fn refuses_times_that_otlp_cannot_hold() {
        assert_eq!(nanos("2554-07-21T23:34:33.709551615Z"), Some(u128::from(u64::MAX)));
        for word in [
            "0001-01-01T00:00:00Z",
            "1969-12-31T23:59:59.999999999Z",
            "2554-07-21T23:34:33.709551616Z",
            "9999-12-31T23:59:59Z",
            "18446744074",
            "-1001s",
        ] {
            let error = parse(word, SystemTime::UNIX_EPOCH + Duration::from_secs(1_000)).unwrap_err();
            assert!(
                error.contains("cannot be sent: OTLP times range from 1970-01-01 to 2554-07-21"),
                "{error}"
            );
        }
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for word in [
            "",
            "later",
            "2026-11-17",
            "2026-13-01T00:00:00Z",
            "2026-11-17T25:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-12-32T00:00:00Z",
            "2026-11-17T14:00:00+99:99",
            "1.2.3",
            "-5",
            "ü-11-17T14:00:00Z",
        ] {
            assert!(nanos(word).is_none() || word == "-5", "{word}");
        }
        assert!(of_json(&Json::Null, SystemTime::UNIX_EPOCH).is_err());
    }
}
