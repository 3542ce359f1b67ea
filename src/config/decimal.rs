//! Decimal numbers: `12.5`, `1e-3`, `inf`.
//!
//! The standard library reads any of them to the last bit, and brings tables of 10 KiB for those of hundreds of digits.
//! What a configuration holds, shares and times, takes a division.

/// With so many digits there is no room for another one.
const FULL: u64 = 10u64.pow(18);
/// The most places that a division of whole numbers can shift.
const MOST_PLACES: u64 = 19;

/// What the text says, if it is a number: the nearest that there is for up to 19 digits and as many places.
pub(super) fn parse(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_word = |word: &str| unsigned.eq_ignore_ascii_case(word);
    let size = match unsigned {
        _ if is_word("inf") || is_word("infinity") => f64::INFINITY,
        _ if is_word("nan") => f64::NAN,
        _ => Digits::parse(unsigned)?.value(),
    };
    Some(if text.starts_with('-') { -size } else { size })
}

/// A number before it is one: digits times a power of ten.
struct Digits {
    digits: u64,
    power: i64,
    /// Whether there was more behind the last digit than zeros.
    is_cut: bool,
}

impl Digits {
    fn parse(text: &str) -> Option<Self> {
        let (number, power) = match text.split_once(['e', 'E']) {
            Some((number, power)) => (number, power.parse().ok()?),
            None => (text, 0),
        };
        let (whole, places) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && places.is_empty() {
            return None;
        }
        let mut found = Self { digits: 0, power, is_cut: false };
        found.power = found.power.saturating_sub_unsigned(places.len() as u64);
        for byte in whole.bytes().chain(places.bytes()) {
            let digit = u64::from(byte.checked_sub(b'0').filter(|digit| *digit <= 9)?);
            if found.digits < FULL {
                found.digits = 10 * found.digits + digit;
            } else {
                found.power = found.power.saturating_add(1);
                found.is_cut |= digit > 0;
            }
        }
        Some(found)
    }

    fn value(&self) -> f64 {
        let places = self.power.unsigned_abs();
        match self.digits {
            0 => 0.0,
            digits if self.power >= 0 => digits as f64 * power_of_ten(places),
            _ if places <= MOST_PLACES => self.divided(places),
            digits => digits as f64 / power_of_ten(places),
        }
    }

    /// Divides whole numbers, with far more bits than the result can hold: so it is rounded once.
    fn divided(&self, places: u64) -> f64 {
        let shift = self.digits.leading_zeros() + 63;
        let dividend = u128::from(self.digits) << shift;
        let divisor = (0..places).fold(1, |power: u128, _| power * 10);
        let quotient = dividend / divisor;
        // the last bit only says that there is a rest, and which way to round
        let has_rest = self.is_cut || quotient * divisor != dividend;
        (quotient | u128::from(has_rest)) as f64 / (1u128 << shift) as f64
    }
}

fn power_of_ten(power: u64) -> f64 {
    // beyond are only nothing and infinity
    (0..power.min(400)).fold(1.0, |size, _| size * 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_configuration_are_what_the_standard_library_reads() {
        let words = ["inf", "-inf", "+INF", "infinity", "1e400", "-1e400", "1e-400", "0e9", "-0", "0.0"];
        let sizes =
            ["5.", ".5", "+1", "-12.5", "1E3", "1e+3", "100", "33.333333333333336", "0.1", "1e22", "9e-7"];
        let long =
            ["0.30000000000000004", "0.1234567890123456789", "1234567890.123456789", "0.09999999999999999"];
        for text in words.into_iter().chain(sizes).chain(long) {
            assert_eq!(parse(text), text.parse().ok(), "{text}");
        }
        assert!(parse("nan").is_some_and(f64::is_nan));
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (digits, places) = ((state >> (state % 60)) % 10u64.pow(19), (state >> 7) % 20);
            let text = format!("{digits}e-{places}");
            assert_eq!(parse(&text), text.parse().ok(), "{text}");
        }
    }

    #[test]
    fn digits_beyond_the_last_bit_change_little() {
        for text in
            ["0.33333333333333333333333333333333333333333", "123456789012345678901234567890", "1.5e-30"]
        {
            let (own, exact) = (parse(text).expect(text), text.parse::<f64>().expect(text));
            assert!((own - exact).abs() <= exact * 1e-15, "{text}: {own}");
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for text in [
            "", "+", "-", ".", "e5", "1e", "1e5.0", "1.2.3", "--1", "+-1", "1_000", "0x1", "½", "1 ", " 1",
            "infin",
        ] {
            assert_eq!(parse(text), None, "{text:?}");
            assert!(text.parse::<f64>().is_err(), "{text:?}");
        }
    }
}
