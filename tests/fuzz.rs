//! The fuzz targets hold for what they start from: seeds, what once broke them, and those cut short
//! anywhere. Running them against libFuzzer is `fuzz/run`'s.

#[path = "../fuzz/src/lib.rs"]
mod targets;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

type Target = fn(&[u8]);

/// Each target and the directories that hold inputs for it, besides its own seeds.
const TARGETS: [(&str, Target, &[&str]); 5] = [
    ("hook_payload", targets::hook_payload::run, &["payloads"]),
    ("ledger_line", targets::ledger_line::run, &[]),
    ("message", targets::message::run, &[]),
    ("scope", targets::scope::run, &[]),
    ("task_file", targets::task_file::run, &["tasks"]),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(below: &Path) -> Vec<PathBuf> {
    let entries = walkdir::WalkDir::new(below).sort_by_file_name().into_iter();
    let entries = entries.map(|entry| entry.expect("readable"));
    let files = entries.filter(|entry| entry.file_type().is_file());
    files.map(|entry| entry.into_path()).collect()
}

#[test]
fn targets_hold_for_their_seeds_cut_anywhere() {
    for (name, run, more) in TARGETS {
        let seeds = files(&root().join("fuzz/seeds").join(name));
        assert!(!seeds.is_empty(), "{name} has no seeds");
        for seed in seeds {
            let bytes = fs::read(&seed).expect("readable");
            (0..=bytes.len()).for_each(|end| run(&bytes[..end]));
        }
        let fixtures = root().join("fixtures");
        for fixture in more.iter().flat_map(|place| files(&fixtures.join(place))) {
            run(&fs::read(&fixture).expect("readable"));
        }
    }
}

/// What a dev-dependency turns on in tests alone would hide that the shipped program reads numbers otherwise.
#[test]
fn the_shipped_program_keeps_the_numbers_of_a_message() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("readable");
    let json = manifest
        .lines()
        .find(|line| line.starts_with("serde_json ="))
        .expect("a dependency");
    assert!(json.contains("\"float_roundtrip\""), "{json}");
}

#[test]
fn every_target_is_built_documented_and_tested() {
    let names: BTreeSet<_> = TARGETS
        .iter()
        .map(|(name, ..)| (*name).to_owned())
        .collect();
    let stems = |place: &str| -> BTreeSet<String> {
        let files = files(&root().join(place)).into_iter();
        let stems = files.map(|file| file.file_stem().expect("a name").to_string_lossy().into());
        stems.filter(|stem: &String| stem != "lib").collect()
    };
    assert_eq!(stems("fuzz/fuzz_targets"), names);
    assert_eq!(stems("fuzz/src"), names);
    let manifest = include_str!("../fuzz/Cargo.toml");
    let page = include_str!("../docs/fuzzing.md");
    for name in names {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
        assert!(page.contains(&format!("| `{name}` |")), "{name}");
    }
}
