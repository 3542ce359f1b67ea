//! What was probably meant.

/// `unknown option "--colour"; did you mean "--color"?`
pub(crate) fn unknown(what: &str, word: &str, known: &[&str]) -> String {
    match closest(word, known) {
        Some(meant) => format!("unknown {what} {word:?}; did you mean {meant:?}?"),
        None => format!("unknown {what} {word:?}"),
    }
}

/// The known word that a typing mistake or two could have made into `word`.
fn closest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    // Nothing this long is a typing mistake, and the distance takes the square of the length.
    let word: Vec<char> = word.chars().take(32).collect();
    let near = known.iter().map(|&candidate| (distance(&word, candidate), candidate));
    near.filter(|&(distance, candidate)| distance <= candidate.len().div_ceil(3))
        .min()
        .map(|(_, found)| found)
}

/// How many letters have to be added, removed or replaced.
fn distance(word: &[char], candidate: &str) -> usize {
    let mut row: Vec<usize> = (0..=word.len()).collect();
    for (number, letter) in candidate.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = number + 1;
        for (column, &other) in word.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[word.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_mended_and_anything_else_left_alone() {
        let known = ["stalwart", "tracetest"];
        assert_eq!(closest("stalwert", &known), Some("stalwart"));
        assert_eq!(closest("tractest", &known), Some("tracetest"));
        assert_eq!(closest("prometheus", &known), None);
        assert_eq!(closest(&"x".repeat(1_000_000), &known), None);
    }
}
