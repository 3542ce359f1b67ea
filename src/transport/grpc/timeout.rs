//! How long a server may take, as gRPC writes it.

use std::time::Duration;

pub(super) const NAME: &str = "grpc-timeout";
/// Of the number in front of the unit.
const MOST: u128 = 99_999_999;

/// At most eight digits and a unit, the finest that has room; never nothing.
pub(super) fn text(left: Duration) -> String {
    let units = [(left.as_micros(), 'u'), (left.as_millis(), 'm'), (u128::from(left.as_secs()), 'S')];
    match units.into_iter().find(|(count, _)| *count <= MOST) {
        Some((count, unit)) => format!("{}{unit}", count.max(1)),
        None => format!("{}H", u128::from(left.as_secs() / 3600).min(MOST)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_out_has_at_most_eight_digits_and_is_never_nothing() {
        for (left, expected) in [
            (Duration::ZERO, "1u"),
            (Duration::from_nanos(999), "1u"),
            (Duration::from_micros(1_500), "1500u"),
            (Duration::from_secs(10), "10000000u"),
            (Duration::from_micros(99_999_999), "99999999u"),
            (Duration::from_secs(100), "100000m"),
            (Duration::from_secs(100_000), "100000S"),
            (Duration::from_secs(99_999_999), "99999999S"),
            (Duration::from_secs(360_000_000), "100000H"),
            (Duration::MAX, "99999999H"),
        ] {
            assert_eq!(text(left), expected, "{left:?}");
        }
    }
}
