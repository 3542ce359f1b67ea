//! Invariants of every `Retry-After` header.

use std::time::{Duration, SystemTime};

use crate::calendar::retry_after;

/// Time at which the header is read. A later date in the header is a delay.
const NOW: u64 = 1_800_000_000;

pub fn check(text: &str) {
    let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    let pause = retry_after(text, at(NOW));
    assert_eq!(pause, retry_after(&format!(" {text}\t"), at(NOW)), "white space around it changes it");
    let later = retry_after(text, at(NOW + 1));
    assert_eq!(pause.is_some(), later.is_some(), "whether it makes sense depends on the time");
    let (Some(pause), Some(later)) = (pause, later) else { return };
    let is_date = text.contains("GMT");
    match is_date {
        true => assert_eq!(later, pause.saturating_sub(Duration::from_secs(1)), "a date comes nearer"),
        false => assert_eq!(later, pause, "seconds are counted from now"),
    }
}
