//! The fingerprint of a composition: canonical, and sensitive to what matters.

use super::globs;
use git_agent::domain::work::dna::Dna;
use proptest::prelude::*;
use sha2::{Digest, Sha256};

fn named(names: &[String]) -> Vec<git_agent::domain::paths::glob::Glob> {
    globs(&names.iter().map(String::as_str).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_is_the_hash_of_canonical_json(task in any::<String>(), name in "[a-zé\"]{1,6}") {
        // serde_json sorts the keys of a map and escapes as RFC 8785 does.
        let json = serde_json::json!({
            "whitelist": [name],
            "task": task.replace("\r\n", "\n").replace('\r', "\n").trim(),
            "role": "explorer",
            "denylist": ["a", "b"],
        });
        let hex: String = Sha256::digest(json.to_string())
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let dna = Dna::of("explorer", &task, &named(&[name]), &globs(&["b", "a"]));
        prop_assert_eq!(dna.as_str(), format!("sha256:{hex}"));
    }

    #[test]
    fn order_repeats_and_line_ends_do_not_matter(
        lines in prop::collection::vec("[a-z ]{0,12}", 1..4),
        names in prop::collection::vec("[a-z]{1,6}", 1..5),
    ) {
        let whitelist = named(&names);
        let mut shuffled = whitelist.clone();
        shuffled.reverse();
        shuffled.extend_from_slice(&whitelist);
        prop_assert_eq!(
            Dna::of("r", &lines.join("\n"), &whitelist, &shuffled),
            Dna::of("r", &lines.join("\r\n"), &shuffled, &whitelist)
        );
    }

    #[test]
    fn every_part_matters(part in 0usize..4, other in "[b-z]{1,6}") {
        let mut parts = ["a"; 4];
        let dna = |parts: [&str; 4]| {
            Dna::of(parts[0], parts[1], &globs(&[parts[2]]), &globs(&[parts[3]]))
        };
        let before = dna(parts);
        parts[part] = &other;
        prop_assert_ne!(before, dna(parts));
    }
}
