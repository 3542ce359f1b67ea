//! Standpipe with default settings.

use crate::support::calls;
use crate::{Contender, case};

pub(crate) const CONTENDER: Contender =
    Contender { name: "standpipe", cases: &case::ALL, note: "all defaults", start: calls::start };
