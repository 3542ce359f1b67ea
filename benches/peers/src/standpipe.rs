//! The crate itself, with everything as it is by default.

use crate::support::calls;
use crate::{Contender, case};

pub(crate) const CONTENDER: Contender =
    Contender { name: "standpipe", cases: &case::ALL, note: "all defaults", start: calls::start };
