//! Pure: what an HTTP status means for a batch, and which statuses are retryable. A collector sends one over HTTP; over gRPC
//! a proxy in front of the collector may.

use std::time::Duration;

use super::Verdict;

/// The statuses after which the same batch is sent again. OTLP names these four and says that no other may be retried.
pub(super) const RETRYABLE: [u16; 4] = [429, 502, 503, 504];

/// What a status other than success asks of the exporter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatusClass {
    TryLater,
    TooLarge,
    NotTaken,
    Refused,
}

impl StatusClass {
    pub(super) fn of(status: u16) -> Self {
        match status {
            status if RETRYABLE.contains(&status) => Self::TryLater,
            413 => Self::TooLarge,
            // Each signal has a path of its own: this one is unknown there, takes no POST, or is not built in.
            404 | 405 | 501 => Self::NotTaken,
            _ => Self::Refused,
        }
    }

    /// `after` is the delay that the server asked for; only a retry uses it.
    pub(super) fn verdict(self, after: Option<Duration>, reason: String) -> Verdict {
        match self {
            Self::TryLater => Verdict::TryLater { after, reason },
            Self::TooLarge => Verdict::TooLarge { reason },
            Self::NotTaken => Verdict::NotTaken { reason },
            Self::Refused => Verdict::Refused { reason },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_otlp_does_not_name_is_not_tried_again() {
        let retried: Vec<u16> =
            (0..1000).filter(|status| StatusClass::of(*status) == StatusClass::TryLater).collect();
        assert_eq!(retried, [429, 502, 503, 504]);
        let refused: Vec<u16> =
            (400..600).filter(|status| StatusClass::of(*status) == StatusClass::Refused).collect();
        assert_eq!(refused.len(), 200 - retried.len() - [413].len() - [404, 405, 501].len());
    }

    #[test]
    fn a_delay_is_kept_only_for_what_is_tried_again() {
        let after = Some(Duration::from_secs(7));
        let later = Verdict::TryLater { after, reason: "why".to_owned() };
        assert_eq!(StatusClass::TryLater.verdict(after, "why".to_owned()), later);
        let refused = Verdict::Refused { reason: "why".to_owned() };
        assert_eq!(StatusClass::Refused.verdict(after, "why".to_owned()), refused);
    }
}
