//! "Did you mean".

/// The candidate that a mistyped word most likely meant.
///
/// Case and the choice between `-` and `_` are ignored. A word is close when at most a third of it is
/// wrong (Damerau-Levenshtein), or when one of the two contains the other, as in `deny` for `denylist`.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.to_ascii_lowercase().replace('_', "-");
    let word = plain(word);
    let closeness = |candidate: &'a str| {
        let name = plain(candidate);
        let longer = name.len().max(word.len());
        let shorter = name.len().min(word.len());
        // The distance is at least the difference in length: a word of a megabyte is not compared.
        if (longer - shorter) * 3 <= longer {
            let distance = strsim::osa_distance(&name, &word);
            if distance * 3 <= longer {
                return Some((distance, candidate));
            }
        }
        let contained = shorter >= 4 && (name.contains(&word) || word.contains(&name));
        contained.then_some((longer, candidate))
    };
    let closest = candidates.into_iter().filter_map(closeness).min();
    closest.map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let words = ["role", "whitelist", "denylist", "max_iterations"];
        for (word, expected) in [
            ("whitelst", Some("whitelist")),
            ("Role", Some("role")),
            ("roel", Some("role")),
            ("rol", Some("role")),
            ("deny", Some("denylist")),
            ("files-whitelist", Some("whitelist")),
            ("max-iterations", Some("max_iterations")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, words), expected, "{word}");
        }
    }
}
