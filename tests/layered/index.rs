//! What is tracked in a layer: told by the base as long as no git has written another index.

use super::{ORACLE, id, oracle, repo, run, spawn};
use crate::support::TestRepo;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// Everything that the upper directory can say of tracked files, without git.
const EDITS: &str = "echo more >> lib/b.txt; chmod +x lib/c.txt; touch lib/d.txt; rm docs/a.md; rm -r lib/deep; echo file > lib/deep; \
    rm lib/a.txt; mkdir lib/a.txt; echo inside > lib/a.txt/inside; rm -r docs; mkdir docs; echo again > docs/b.md; ln -sf lib/b.txt link; \
    echo new > new.txt; echo left > left.out; mkdir -p one/two; echo deep > one/two/three";

fn index_inode(repo: &TestRepo, spawned: &Value) -> u64 {
    let admin = format!(".git/worktrees/agent-{}", id(spawned));
    let index = repo.path().join(admin).join("index");
    fs::metadata(index).expect("an index").ino()
}

#[test]
fn the_base_tells_the_same_of_tracked_files_as_an_index_of_their_own() {
    let repo = repo("");
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    let base = fs::read_dir(repo.path().join(".git/agents/bases")).expect("bases");
    let base = base.map(|entry| entry.expect("read").path().join("index"));
    let of_base: Vec<u64> = base
        .map(|index| fs::metadata(index).expect("an index").ino())
        .collect();
    run(&repo, &spawned, EDITS);
    let look = || {
        let verdict = repo.agent(&["verify", id(&spawned), "--format", "json"]);
        let verdict: Value = serde_json::from_slice(&verdict.stdout).expect("a verdict");
        let diff = repo.agent_json(&["diff", id(&spawned)]);
        (verdict["tree"].clone(), diff["changes"].clone())
    };
    assert_eq!(of_base, [index_inode(&repo, &spawned)]);
    let by_base = look();
    // This git writes its own.
    let printed = run(&repo, &spawned, &format!("git status --short; {ORACLE}"));
    assert_ne!(of_base, [index_inode(&repo, &spawned)]);
    assert_eq!(look(), by_base);
    assert_eq!(by_base.0, oracle(&printed));
}

#[test]
fn an_agent_over_a_base_made_before_its_index_was_noted_is_read_by_its_own() {
    let repo = repo("");
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    run(&repo, &spawned, EDITS);
    let before = repo.agent_json(&["diff", id(&spawned)])["changes"].clone();
    let record = super::layer(&repo, &spawned).join("record");
    let text = fs::read_to_string(&record).expect("a record");
    let mut noted: Value = serde_json::from_str(&text).expect("JSON");
    let index = noted.as_object_mut().expect("an object").remove("index");
    assert!(index.is_some(), "{text}");
    fs::write(&record, noted.to_string()).expect("written");
    let after = repo.agent_json(&["diff", id(&spawned)])["changes"].clone();
    assert_eq!(after, before);
}

/// The copies of the base's files of rules are not looked into as long as they are just that.
#[test]
fn every_change_of_a_file_of_rules_is_seen() {
    let repo = repo("");
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    for script in [
        "true",
        "touch lib/.gitignore",
        "chmod +x lib/.gitignore",
        "chmod -x lib/.gitignore; echo more >> lib/.gitignore",
        "printf '*.tmp\\n' > lib/.gitignore",
        "touch -r lib/.gitignore old; printf '*.out\\n' > lib/.gitignore; touch -r old lib/.gitignore; rm old",
        "printf '*.tmp\\n' > lib/.gitignore",
        "rm lib/.gitignore",
        "printf '*.tmp\\n' > lib/.gitignore; echo x > lib/x.tmp",
        "echo none > lib/.gitignore; git add lib; printf '*.tmp\\n' > lib/.gitignore",
        "rm lib/.gitignore; ln -s a.txt lib/.gitignore",
        "rm lib/.gitignore; mkdir lib/.gitignore; echo x > lib/.gitignore/x",
        "rm -r lib; git checkout -q -- lib",
    ] {
        let printed = run(&repo, &spawned, &format!("{script}; {ORACLE}"));
        let verdict = repo.agent(&["verify", id(&spawned), "--format", "json"]);
        let verdict: Value = serde_json::from_slice(&verdict.stdout).expect("a verdict");
        assert_eq!(verdict["tree"], oracle(&printed), "{script}: {verdict:#}");
    }
}
