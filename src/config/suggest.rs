//! "Did you mean": the known word that is nearest to an unknown one.

/// Words longer than this are not compared: no known one is, and the comparison is quadratic.
const LONGEST: usize = 64;

/// Advice for an unknown word, if a person could have meant a known one.
pub(super) fn did_you_mean(word: &str, known: &[&str]) -> Option<String> {
    nearest(word, known).map(|meant| format!("did you mean {meant:?}?"))
}

/// The nearest of the known words, if a person could have meant it.
pub(super) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    // a third of the letters may be wrong: enough for slips of the hand, too few for another word
    within(word, known, |letters| letters / 3).or_else(|| longer(word, known))
}

/// The same where most words that are not known are meant so: only one or two letters may be wrong.
pub(super) fn slip<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    within(word, known, |_| 2)
}

/// A word that only goes on too long, like `warning` for `warn`.
fn longer<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let begins = |known: &&str| {
        known.len() >= 4 && word.get(..known.len()).is_some_and(|start| start.eq_ignore_ascii_case(known))
    };
    known.iter().copied().filter(begins).max_by_key(|known| known.len())
}

fn within<'k>(word: &str, known: &[&'k str], most_steps: fn(usize) -> usize) -> Option<&'k str> {
    let letters: Vec<char> = word.chars().take(LONGEST + 1).map(|c| c.to_ascii_lowercase()).collect();
    if letters.len() > LONGEST {
        return None;
    }
    let steps_to = |candidate: &'k str| {
        let most = most_steps(letters.len().max(candidate.len()));
        distance(&letters, candidate, most).map(|steps| (steps, candidate))
    };
    known.iter().copied().filter_map(steps_to).min().map(|(_, best)| best)
}

/// How many letters must be inserted, removed, replaced or swapped with their neighbour; `None` if more than `most`,
/// which is mostly seen after a few letters.
fn distance(word: &[char], candidate: &str, most: usize) -> Option<usize> {
    let candidate: Vec<char> = candidate.chars().map(|c| c.to_ascii_lowercase()).collect();
    if word.len().abs_diff(candidate.len()) > most {
        return None;
    }
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=candidate.len()).collect();
    for (row, &letter) in word.iter().enumerate() {
        let mut current = Vec::with_capacity(last.len());
        current.push(row + 1);
        for (column, &wanted) in candidate.iter().enumerate() {
            let replaced = last[column] + usize::from(letter != wanted);
            let mut steps = replaced.min(last[column + 1] + 1).min(current[column] + 1);
            let swapped = row > 0 && column > 0 && letter == candidate[column - 1] && word[row - 1] == wanted;
            if swapped {
                steps = steps.min(before_last[column - 1] + 1);
            }
            current.push(steps);
        }
        // a swap goes on from the row before
        if last.iter().chain(&current).all(|steps| *steps > most) {
            return None;
        }
        before_last = std::mem::replace(&mut last, current);
    }
    Some(last[candidate.len()]).filter(|steps| *steps <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 6] = ["endpoint", "timeout", "throttle", "lossy", "enable.log-exporter", "DROP"];

    #[test]
    fn slips_of_the_hand_are_recognised() {
        for (word, meant) in [
            ("endpont", "endpoint"),
            ("endpiont", "endpoint"),
            ("Timeout", "timeout"),
            ("drpo", "DROP"),
            ("trottle", "throttle"),
            ("losy", "lossy"),
            ("enable-log-exporter", "enable.log-exporter"),
        ] {
            assert_eq!(nearest(word, &KNOWN), Some(meant), "{word:?}");
        }
    }

    #[test]
    fn a_slip_is_one_or_two_letters_in_a_word_of_any_length() {
        assert_eq!(slip("enable.lgo-exporte", &KNOWN), Some("enable.log-exporter"));
        assert_eq!(slip("enable.log-expo", &KNOWN), None);
        assert_eq!(nearest("enable.log-expo", &KNOWN), Some("enable.log-exporter"));
    }

    #[test]
    fn as_many_letters_as_may_be_wrong_may_be_too_many() {
        assert_eq!(slip("lossy-and", &KNOWN), None);
        assert_eq!(slip("lossyxy", &KNOWN), Some("lossy"));
        assert_eq!(nearest("lossyxy", &KNOWN), Some("lossy"));
    }

    #[test]
    fn other_words_are_left_alone() {
        for word in ["", "colour", "x", "url", &"e".repeat(1_000_000)] {
            assert_eq!(nearest(word, &KNOWN), None, "{:?}", word.get(..8));
        }
        assert_eq!(nearest("word", &[]), None);
    }
}
