//! Dates of the Gregorian calendar, and the `Retry-After` header, which may contain a date. Pure: the current time is
//! an argument.

use std::time::{Duration, SystemTime};

/// Returns the number of days from 1970-01-01 to a date, negative for earlier dates.
///
/// Internally, a year begins in March, so that a leap day is its last day.
#[must_use]
pub fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - 719_468
}

/// Returns year, month and day of a number of days since 1970-01-01.
#[must_use]
pub fn date_of(days_since_1970: i64) -> (i64, i64, i64) {
    let days = days_since_1970 + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

/// Returns the delay that a `Retry-After` header asks for, in seconds or as an HTTP date. A past date means no delay.
pub(crate) fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number above `u64::MAX` counts as the longest delay.
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(unix_seconds(text)?))?;
    Some(date.duration_since(now).unwrap_or_default())
}

/// Parses `Sun, 06 Nov 1994 08:49:37 GMT`, the only form that senders may generate (RFC 9110, section 5.6.7).
fn unix_seconds(date: &str) -> Option<u64> {
    let mut words = date.split(' ');
    words.next().filter(|weekday| weekday.len() == 4 && weekday.ends_with(','))?;
    let day: i64 = words.next()?.parse().ok().filter(|day| (1..=31).contains(day))?;
    let month = words.next()?;
    let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let month = months.iter().position(|name| *name == month)? as i64 + 1;
    let year: i64 = words.next()?.parse().ok().filter(|year| (1970..=9999).contains(year))?;
    let mut clock = words.next()?.split(':');
    let mut part = |below: i64| clock.next()?.parse::<i64>().ok().filter(|part| (0..below).contains(part));
    let (hour, minute, second) = (part(24)?, part(60)?, part(61)?);
    if words.next() != Some("GMT") || words.next().is_some() {
        return None;
    }
    u64::try_from(days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::share_of;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn days_and_dates_belong_together() {
        for (days, date) in [
            (0, (1970, 1, 1)),
            (-1, (1969, 12, 31)),
            (-719_528, (0, 1, 1)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (11_687, (2001, 12, 31)),
            (19_782, (2024, 2, 29)),
            (376_565, (3001, 1, 1)),
        ] {
            let (year, month, day) = date;
            assert_eq!((days_since_1970(year, month, day), date_of(days)), (days, date));
        }
        // An odd step reaches each day of the year.
        let step = (256 / share_of(256)).max(1) | 1;
        for days in (-800_000..800_000).step_by(step as usize) {
            let (year, month, day) = date_of(days);
            assert_eq!(days_since_1970(year, month, day), days);
        }
    }

    #[test]
    fn seconds_are_seconds() {
        assert_eq!(retry_after("2", at(0)), Some(Duration::from_secs(2)));
        assert_eq!(retry_after(" 0 ", at(0)), Some(Duration::ZERO));
        assert_eq!(retry_after("99999999999999999999999", at(0)), Some(Duration::from_secs(u64::MAX)));
    }

    #[test]
    fn dates_are_counted_from_now() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        assert_eq!(retry_after(date, at(784_111_777 - 5)), Some(Duration::from_secs(5)));
        assert_eq!(
            retry_after("Thu, 29 Feb 2024 00:00:00 GMT", at(1_709_164_799)),
            Some(Duration::from_secs(1))
        );
        assert_eq!(retry_after("Thu, 01 Jan 1970 00:00:01 GMT", at(0)), Some(Duration::from_secs(1)));
    }

    #[test]
    fn a_date_that_has_passed_means_now() {
        assert_eq!(retry_after("Sun, 06 Nov 1994 08:49:37 GMT", at(784_111_778)), Some(Duration::ZERO));
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
            assert_eq!(retry_after(text, at(0)), None, "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn reading_any_header_never_panics(text in ".{0,40}", now in 0u64..=4_000_000_000) {
            let _ = retry_after(&text, at(now));
        }
    }
}
