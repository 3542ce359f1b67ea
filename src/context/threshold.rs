//! Consistent probability sampling: the sampling threshold and the randomness of a trace, in the member `ot` of its
//! `tracestate`, as in `ot=th:c;rv:6e6d1a75832a2f`.
//!
//! A trace is sampled if its randomness, a number of 56 bits, is not below the threshold. The randomness is `rv` or,
//! without `rv`, the last 56 bits of the trace id.

use std::sync::Arc;

use super::TraceState;
use crate::record::TraceId;

/// Number of possible values of the randomness.
const ALL: u64 = 1 << 56;
const DIGITS: usize = 14;
/// Number of significant hexadecimal digits of a threshold: the specification's default.
const PRECISION: i32 = 4;
/// Maximum length of the value of `ot`, as OpenTelemetry defines it.
const MAX_VALUE_BYTES: usize = 256;

/// The fields of a `tracestate` that samplers read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct OtFields {
    pub(crate) threshold: Option<u64>,
    pub(crate) randomness: Option<u64>,
}

impl OtFields {
    /// Reads the fields of `ot`. Malformed fields count as absent.
    pub(crate) fn read(state: &str) -> Self {
        let mut read = Self::default();
        let ot = state.split(',').find_map(|member| member.strip_prefix("ot=")).unwrap_or_default();
        for field in ot.split(';') {
            match field.split_once(':') {
                Some(("th", digits)) if digits.len() <= DIGITS => {
                    let shift = 4 * (DIGITS - digits.len());
                    read.threshold = number(digits).map(|number| number << shift);
                }
                Some(("rv", digits)) if digits.len() == DIGITS => read.randomness = number(digits),
                _ => {}
            }
        }
        read
    }
}

/// Reads lower-case hexadecimal digits.
fn number(digits: &str) -> Option<u64> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    digits.bytes().all(is_digit).then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

/// Returns the randomness of a trace whose `tracestate` has no `rv`.
pub(crate) fn randomness(TraceId(id): TraceId) -> u64 {
    u128::from_be_bytes(id) as u64 & (ALL - 1)
}

/// Returns the threshold that samples this share of all traces, rounded; `None` if the share rounds to zero.
pub(crate) fn threshold(ratio: f64) -> Option<u64> {
    // The product is exact, because the factor is a power of two.
    let kept = (ratio.clamp(0.0, 1.0) * ALL as f64).round() as u64;
    if kept == 0 {
        return None;
    }
    // `ratio` is between 2^(exponent - 1) and 2^exponent. A small ratio has a threshold near the maximum, with
    // `-exponent / 4` leading digits `f`, which do not count towards the precision.
    let exponent = kept.ilog2() as i32 - 55;
    let digits = (PRECISION + (-exponent).div_euclid(4)).clamp(1, DIGITS as i32);
    let unit = 1 << (4 * (DIGITS as i32 - digits));
    Some((ALL - kept + unit / 2) / unit * unit)
}

/// Replaces or removes the threshold in a `tracestate`. The member `ot` becomes the first one, because W3C Trace
/// Context demands this of a changed member.
pub(crate) fn with_threshold(state: Option<Arc<str>>, threshold: Option<u64>) -> Option<Arc<str>> {
    let state = TraceState(state);
    let others = state.get("ot").unwrap_or_default().split(';');
    let others = others.filter(|field| !field.is_empty() && !field.starts_with("th:"));
    let digits = threshold.map(|threshold| format!("{threshold:0DIGITS$x}"));
    let field = digits.map(|digits| match digits.trim_end_matches('0') {
        "" => "th:0".to_owned(),
        digits => format!("th:{digits}"),
    });
    let ot = field.as_deref().into_iter().chain(others).collect::<Vec<_>>().join(";");
    match ot.len() {
        0 => state.remove("ot").0,
        1..=MAX_VALUE_BYTES => state.insert("ot", &ot).0,
        // There is no room for the threshold, so `ot` keeps only its other fields.
        _ => with_threshold(state.0, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the digits of a threshold as they are sent.
    fn digits(ratio: f64) -> String {
        let state = with_threshold(None, threshold(ratio));
        state.as_deref().unwrap_or_default().trim_start_matches("ot=th:").to_owned()
    }

    #[test]
    fn thresholds_have_the_digits_of_the_specification() {
        for (ratio, expected) in [
            (1.0, "0"),
            (0.99, "028f"),
            (0.9, "199a"),
            (0.75, "4"),
            (2.0 / 3.0, "5555"),
            (0.5, "8"),
            (1.0 / 3.0, "aaab"),
            (0.25, "c"),
            (0.2, "cccd"),
            (0.1, "e666"),
            (0.05, "f3333"),
            (0.01, "fd70a"),
            (0.001, "ffbe77"),
            (1e-4, "fff9724"),
            (1e-5, "ffff583a"),
            (1e-6, "ffffef39"),
            // As in the specification's example, the threshold is rounded to zero, which samples everything.
            (0.999_999, "0"),
            (1.0 / (1_u64 << 56) as f64, "ffffffffffffff"),
            (7.5, "0"),
            (0.0, ""),
            (1e-18, ""),
            (-1.0, ""),
            (f64::NAN, ""),
        ] {
            assert_eq!(digits(ratio), expected, "{ratio}");
        }
    }

    #[test]
    fn fields_are_read_from_the_left_and_only_if_they_are_valid() {
        let rv = 0x6e_6d1a_7583_2a2f;
        for (state, th, randomness) in [
            ("", None, None),
            ("ot=th:c", Some(0xc0_0000_0000_0000), None),
            ("rojo=1,ot=rv:6e6d1a75832a2f;th:028f", Some(0x02_8f00_0000_0000), Some(rv)),
            ("ot=th:0;x:y", Some(0), None),
            ("ot=th:ffffffffffffff", Some(0xff_ffff_ffff_ffff), None),
            ("ot=th:fffffffffffffff;rv:6e6d1a75832a2", None, None),
            ("ot=th:C;rv:6E6D1A75832A2F", None, None),
            ("ot=th:;rv", None, None),
            ("xot=th:c", None, None),
        ] {
            assert_eq!(OtFields::read(state), OtFields { threshold: th, randomness }, "{state}");
        }
        let id = TraceId(0x4bf92f3577b34da6_a36e6d1a75832a2f_u128.to_be_bytes());
        assert_eq!(randomness(id), rv);
    }

    #[test]
    fn a_threshold_is_set_or_removed_and_everything_else_is_kept() {
        let half = Some(1 << 55);
        let long = format!("ot=x:{}", "y".repeat(252));
        let many = (0..32).map(|number| format!("k{number}=v")).collect::<Vec<_>>().join(",");
        for (state, threshold, expected) in [
            ("", half, "ot=th:8"),
            ("", None, ""),
            ("rojo=1", half, "ot=th:8,rojo=1"),
            ("rojo=1,ot=rv:6e6d1a75832a2f;th:c;x:y", half, "ot=th:8;rv:6e6d1a75832a2f;x:y,rojo=1"),
            ("rojo=1,ot=th:c", None, "rojo=1"),
            ("ot=th:c", None, ""),
            ("ot=th:c;rv:6e6d1a75832a2f", None, "ot=rv:6e6d1a75832a2f"),
            (&long, half, &long),
            (&many, half, &format!("ot=th:8,{}", &many[..many.len() - ",k31=v".len()])),
        ] {
            assert_eq!(
                with_threshold(Some(state.into()), threshold).as_deref().unwrap_or_default(),
                expected,
                "{state}"
            );
        }
        let full = format!("a={},b={},c=d", "x".repeat(247), "y".repeat(256));
        assert_eq!(full.len(), 512);
        // To make room, the last member that is longer than 128 bytes is removed.
        let expected = format!("ot=th:8,a={},c=d", "x".repeat(247));
        assert_eq!(with_threshold(Some(full.into()), half).as_deref(), Some(&*expected));
    }
}
