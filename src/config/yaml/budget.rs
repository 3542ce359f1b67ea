//! How much a document may become. Aliases let a short text stand for an endless tree.

/// Values and keys of a document, those that aliases repeat and those kept for aliases included. A hundred times what
/// any configuration needs, and read in a few hundredths of a second.
const MAX_VALUES: usize = 20_000;
/// Bytes of their text: one long text must not be repeated without end either.
const MAX_TEXT: usize = 4 << 20;

/// What a part of the tree weighs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Weight {
    pub(super) values: usize,
    pub(super) text: usize,
    /// Levels of lists and tables in it, itself included.
    pub(super) levels: usize,
}

impl Weight {
    pub(super) fn of_text(text: &str) -> Self {
        Self { values: 1, text: text.len(), levels: 0 }
    }

    /// A list or a table without anything in it.
    pub(super) fn of_collection() -> Self {
        Self { values: 1, text: 0, levels: 1 }
    }

    /// Puts a part into a list or a table. Cannot overflow: parts are within the budget.
    pub(super) fn put_in(&mut self, part: Weight) {
        self.values += part.values;
        self.text += part.text;
        self.levels = self.levels.max(part.levels + 1);
    }
}

/// What is left for the rest of a document.
#[derive(Debug)]
pub(super) struct Budget {
    values: usize,
    text: usize,
}

impl Budget {
    pub(super) fn new() -> Self {
        Self { values: MAX_VALUES, text: MAX_TEXT }
    }

    /// To be asked before anything is made, so that nothing is made beyond it.
    ///
    /// # Errors
    ///
    /// What is too much.
    pub(super) fn charge(&mut self, weight: Weight) -> Result<(), String> {
        let values = self.values.checked_sub(weight.values);
        self.values = values.ok_or_else(|| format!("more than {MAX_VALUES} values"))?;
        let text = self.text.checked_sub(weight.text);
        self.text = text.ok_or_else(|| format!("more than {} MiB of text", MAX_TEXT >> 20))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_spent_to_the_last_value_and_byte_and_no_further() {
        let mut budget = Budget::new();
        assert_eq!(budget.charge(Weight { values: MAX_VALUES - 1, text: MAX_TEXT, levels: 9 }), Ok(()));
        assert_eq!(budget.charge(Weight { values: 1, text: 0, levels: 0 }), Ok(()));
        let refused = budget.charge(Weight { values: 1, text: 0, levels: 0 });
        assert_eq!(refused, Err("more than 20000 values".to_owned()));
        let refused = budget.charge(Weight { values: 0, text: 1, levels: 0 });
        assert_eq!(refused, Err("more than 4 MiB of text".to_owned()));
    }

    #[test]
    fn a_collection_weighs_what_is_in_it_and_one_level_more() {
        let mut inner = Weight::of_collection();
        inner.put_in(Weight::of_text("four"));
        let mut outer = Weight::of_collection();
        outer.put_in(inner);
        outer.put_in(Weight::of_text("x"));
        assert_eq!(outer, Weight { values: 4, text: 5, levels: 2 });
    }
}
