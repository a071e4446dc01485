//! The fuzz targets hold for what they start from: seeds, what once broke them, and those cut short
//! anywhere. Running them against libFuzzer is `fuzz/run`'s.

#[path = "../fuzz/src/lib.rs"]
mod targets;

use crate::support::TestRepo;
use git_agent::domain::value::oid::Oid;
use git_agent::git::changes::PlainIndex;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

type Target = fn(&[u8]);

/// Each target and the directories that hold inputs for it, besides its own seeds.
const TARGETS: [(&str, Target, &[&str]); 7] = [
    ("admin_files", targets::admin_files::run, &[]),
    ("hook_payload", targets::hook_payload::run, &["payloads"]),
    ("index", targets::index::run, &[]),
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
    fs::remove_dir_all(targets::admin_files::place()).expect("removed");
}

/// What a dev-dependency turns on in tests alone would hide that the shipped program reads numbers otherwise.
#[test]
fn the_shipped_program_keeps_the_numbers_of_a_message() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("readable");
    let json =
        manifest.lines().find(|line| line.starts_with("serde_json =")).expect("a dependency");
    assert!(json.contains("\"float_roundtrip\""), "{json}");
}

#[test]
fn every_target_is_built_documented_and_tested() {
    let names: BTreeSet<_> = TARGETS.iter().map(|(name, ..)| (*name).to_owned()).collect();
    let stems = |place: &str| -> BTreeSet<String> {
        let files = files(&root().join(place)).into_iter();
        let stems = files.map(|file| file.file_stem().expect("a name").to_string_lossy().into());
        stems.filter(|stem: &String| stem != "lib").collect()
    };
    assert_eq!(stems("fuzz/fuzz_targets"), names);
    assert_eq!(stems("fuzz/src"), names);
    let manifest = include_str!("../fuzz/Cargo.toml");
    let page = include_str!("../fuzz/README.md");
    let nightly = include_str!("../.github/workflows/nightly.yml");
    let nightly = nightly.lines().find(|line| line.contains("target: ["));
    for name in names {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
        assert!(page.contains(&format!("| `{name}` |")), "{name}");
        assert!(nightly.is_some_and(|line| line.contains(&name)), "{name}");
    }
}

/// Whatever of an index is read, git reads as well, where it reads it at all: seeds, and those with one bit turned.
#[test]
fn an_index_is_read_as_git_lists_it() {
    let repo = TestRepo::empty();
    let (mut alike, mut turned) = (0, 0);
    for seed in files(&root().join("fuzz/seeds/index")) {
        let bytes = fs::read(&seed).expect("readable");
        alike += usize::from(is_read_alike(&repo, &bytes));
        let step = (bytes.len() / 6).max(1);
        for at in (turned % 7..bytes.len()).step_by(step) {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1 << (at % 8);
            turned += usize::from(is_read_alike(&repo, &bytes));
        }
    }
    assert!(alike >= 10 && turned >= 20, "{alike} and {turned}");
}

/// The tree of an index that is read through a buffer is that of the whole, or unknown: with any bit turned, and with any
/// end cut off.
#[test]
fn the_tree_that_an_index_knows_is_the_same_however_it_is_read() {
    let repo = TestRepo::empty();
    for number in 0..900 {
        repo.write(&format!("d{}/{number}/{:0>60}", number % 7, "name"), "text\n");
    }
    repo.commit_all("many");
    let long = fs::read(repo.path().join(".git/index")).expect("readable");
    let seeds = files(&root().join("fuzz/seeds/index")).into_iter();
    let seeds = seeds.map(|seed| fs::read(seed).expect("readable"));
    let require_same = |bytes: &[u8]| -> bool {
        let known = PlainIndex::known_tree(bytes);
        if known.is_some() {
            let whole = PlainIndex::parse(bytes).expect("read as a whole too");
            assert_eq!(known, whole.tree(), "{}", bytes.escape_ascii());
        }
        known.is_some()
    };
    let mut known = 0;
    for bytes in seeds.chain([long]) {
        known += usize::from(require_same(&bytes));
        for at in (0..bytes.len()).step_by(bytes.len().div_ceil(300)) {
            require_same(&bytes[..at]);
            let mut turned = bytes.clone();
            turned[at] ^= 1 << (at % 8);
            require_same(&turned);
        }
    }
    assert!(known >= 3, "only {known} of the seeds have a known tree");
    let tree = Oid::from_hex(&repo.git(["write-tree"])).expect("an oid");
    let long = fs::read(repo.path().join(".git/index")).expect("readable");
    assert_eq!(PlainIndex::known_tree(&long), Some(tree));
}

/// Checks that we read what git does; whether both read it.
fn is_read_alike(repo: &TestRepo, bytes: &[u8]) -> bool {
    let Some(index) = PlainIndex::parse(bytes) else {
        return false;
    };
    fs::write(repo.path().join(".git/index"), bytes).expect("written");
    let mut git = std::process::Command::new("git");
    git.args(["ls-files", "--stage", "--debug", "-z"]);
    let listed = git.current_dir(repo.path()).output().expect("git runs");
    if !listed.status.success() {
        return false;
    }
    let ours: Vec<_> = index.entries().map(|(path, (_, oid))| (path.to_owned(), oid)).collect();
    let shown = bytes.escape_ascii();
    assert_eq!(ours, entries_of(&listed.stdout), "{shown}");
    true
}

/// What git lists, without what only intends to be added, and each path in conflict once. After the path, NUL and
/// five lines about the entry, of which the last ends in its flags.
fn entries_of(listed: &[u8]) -> Vec<(Vec<u8>, Oid)> {
    let mut entries: Vec<(Vec<u8>, Oid)> = Vec::new();
    let mut rest = listed;
    while let Some(end) = rest.iter().position(|&byte| byte == 0) {
        let (head, after) = (&rest[..end], &rest[end + 1..]);
        let mut lines = after.splitn(6, |&byte| byte == b'\n');
        let flags = String::from_utf8_lossy(lines.nth(4).expect("five lines"));
        let (_, flags) = flags.split_once("flags: ").expect("flags");
        let flags = u32::from_str_radix(flags.trim(), 16).expect("a number");
        rest = lines.next().unwrap_or_default();
        let tab = head.iter().position(|&byte| byte == b'\t').expect("a tab");
        let words = String::from_utf8_lossy(&head[..tab]);
        let words: Vec<&str> = words.split(' ').collect();
        let path = head[tab + 1..].to_vec();
        let is_merged = words[2] == "0";
        if is_merged && flags & 0x2000_0000 != 0
            || entries.last().is_some_and(|(last, _)| *last == path)
        {
            continue;
        }
        let oid = Oid::from_hex(words[1]).expect("an oid");
        entries.push((path, if is_merged { oid } else { Oid::ZERO }));
    }
    entries
}
