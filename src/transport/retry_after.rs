//! Pure: what a `Retry-After` header asks for.

use std::time::{Duration, SystemTime};

/// Seconds or an HTTP date; a date that has passed means now. `None` for what makes no sense.
pub(crate) fn parse(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // more digits than fit are a long time, too
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(unix_seconds(text)?))?;
    Some(date.duration_since(now).unwrap_or_default())
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`, the one form that may be sent today.
fn unix_seconds(date: &str) -> Option<u64> {
    let mut words = date.split(' ');
    words.next().filter(|weekday| weekday.len() == 4 && weekday.ends_with(','))?;
    let day: u64 = words.next()?.parse().ok().filter(|day| (1..=31).contains(day))?;
    let month = words.next()?;
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months.iter().position(|name| *name == month)? as u64 + 1;
    let year: u64 = words.next()?.parse().ok().filter(|year| (1970..=9999).contains(year))?;
    let mut clock = words.next()?.split(':');
    let mut part = |below: u64| clock.next()?.parse::<u64>().ok().filter(|part| *part < below);
    let (hour, minute, second) = (part(24)?, part(60)?, part(61)?);
    if words.next() != Some("GMT") || words.next().is_some() {
        return None;
    }
    Some(days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// Counted with years that begin in March, so that a leap day is a year's last.
fn days_since_1970(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month < 3 { (year - 1, month + 9) } else { (year, month - 3) };
    let days_before_month = (month * 153 + 2) / 5;
    year * 365 + year / 4 - year / 100 + year / 400 + days_before_month + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn seconds_are_seconds() {
        assert_eq!(parse("2", at(0)), Some(Duration::from_secs(2)));
        assert_eq!(parse(" 0 ", at(0)), Some(Duration::ZERO));
        assert_eq!(parse("99999999999999999999999", at(0)), Some(Duration::from_secs(u64::MAX)));
    }

    #[test]
    fn dates_are_counted_from_now() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(parse(date, at(784_111_777 - 5)), Some(Duration::from_secs(5)));
        assert_eq!(parse("Thu, 29 Feb 2024 00:00:00 GMT", at(1_709_164_799)), Some(Duration::from_secs(1)));
        assert_eq!(parse("Thu, 01 Jan 1970 00:00:01 GMT", at(0)), Some(Duration::from_secs(1)));
    }

    #[test]
    fn a_date_that_has_passed_means_now() {
        assert_eq!(parse("Sun, 06 Nov 1994 08:49:37 GMT", at(784_111_778)), Some(Duration::ZERO));
    }

    #[test]
    fn nonsense_is_ignored() {
        for text in [
            "",
            "-5",
            "abc",
            "1e12",
            "2.5",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 25:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nuv 1994 08:49:37 GMT",
            "Sun, 06 Nov 0000 08:49:37 GMT",
        ] {
            assert_eq!(parse(text, at(0)), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn parsing_anything_never_panics(text in ".{0,40}", now in 0u64..=4_000_000_000) {
            let _ = parse(&text, at(now));
        }
    }
}
