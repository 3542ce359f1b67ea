//! A series on its way into a table: what it needs is made before a lock is taken.

use std::sync::Arc;

use super::{Buckets, Form, Node, Series, Slot, overflow};
use crate::record::{AttributeSet, Pattern};

/// A set of attributes whose series is looked for, and what was made for it so far. To be dropped when no lock is held.
pub(in crate::metrics) struct Wanted {
    pub(super) attributes: AttributeSet,
    pub(super) hash: u64,
    /// Whether it is the series of all the rest that is asked for.
    pub(super) is_overflow: bool,
    pub(super) made: Made,
}

/// What an addition to a table is made of.
#[derive(Default)]
pub(super) struct Made {
    pub(super) series: Option<Arc<Series>>,
    /// Where it will be found, unless it is the one without attributes.
    pub(super) node: Option<Box<Node>>,
    pub(super) overflow: Option<Arc<Series>>,
    pub(super) buckets: Option<Buckets>,
    pub(super) list: Option<Vec<Arc<Series>>>,
}

/// What must be made for a series before it can be added.
pub(in crate::metrics) enum Missing {
    Buckets { limit: usize, seed: u64 },
    List { longer_than: usize },
    Overflow { form: Form },
    Series { is_patterned: bool, form: Form },
}

impl Wanted {
    pub(in crate::metrics) fn new(attributes: AttributeSet, seed: u64) -> Self {
        let (hash, is_overflow) = (attributes.hash_of(seed), attributes == overflow());
        Self { attributes, hash, is_overflow, made: Made::default() }
    }

    /// Makes what was missing.
    pub(in crate::metrics) fn make(&mut self, missing: Missing) {
        match missing {
            Missing::Buckets { limit, seed } => {
                let pattern = Arc::new(Pattern::of(&self.attributes, seed));
                self.made.buckets = Some(Buckets::new(pattern, limit));
            }
            Missing::List { longer_than } => {
                self.made.list = Some(Vec::with_capacity(2 * longer_than + 4));
            }
            Missing::Overflow { form } => {
                self.made.overflow = Some(Series::new(overflow(), 0, false, &form));
            }
            Missing::Series { is_patterned, form } => {
                let series = Series::new(self.attributes.clone(), self.hash, is_patterned, &form);
                self.made.node = (!self.attributes.is_empty())
                    .then(|| Box::new(Node { series: Arc::clone(&series), next: Slot::new() }));
                self.made.series = Some(series);
            }
        }
    }
}
