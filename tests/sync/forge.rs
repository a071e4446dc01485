//! What a forge merged while this clone did not look: by squash, rebase and merge commit, and what came after it.

use super::{Hub, agent, branch_of, json, spawn, tip};
use crate::support::agent::describe;
use crate::support::{TestRepo, git_in};
use git_agent::domain::Oid;
use git_agent::git::Repo;
use git_agent::store::landing::commit_change;
use serde_json::Value;
use std::path::{Path, PathBuf};

const MAIN: &str = "refs/heads/main";

/// A clone with one agent for each way in which a forge merges, and the clone in which the forge does so.
pub(super) struct Forge {
    pub(super) hub: Hub,
    pub(super) clone: PathBuf,
    elsewhere: PathBuf,
    /// Name, id and branch of each agent.
    pub(super) agents: Vec<(&'static str, String, String)>,
}

/// The ways; each `-built` one is followed by a commit in the same file, so that merging again conflicts.
pub(super) const WAYS: [&str; 5] = ["squash", "rebase", "merge", "squash-built", "rebase-built"];

impl Forge {
    /// Agents with two commits each, pushed by `sync`; `open` is one whose work was not merged.
    pub(super) fn new() -> Forge {
        let hub = Hub::new(2);
        let [clone, elsewhere] = [0, 1].map(|n| hub.clones[n].clone());
        for way in WAYS {
            std::fs::write(clone.join(format!("src/{way}.rs")), "// begun\n").expect("written");
        }
        git_in(&clone, ["add", "--all"]);
        git_in(&clone, ["commit", "--quiet", "-m", "begun"]);
        git_in(&clone, ["push", "--quiet", "origin", "main"]);
        let ways = WAYS.into_iter().chain(["open"]);
        let agents = ways.map(|way| {
            let spawned = spawn(&clone, &["--no-bundle", &format!("--name={way}")]);
            let worktree = PathBuf::from(spawned["worktree_abspath"].as_str().expect("a path"));
            for text in ["// begun\none\n", "// begun\none\ntwo\n"] {
                std::fs::write(worktree.join(format!("src/{way}.rs")), text).expect("written");
                json(&clone, &["commit", way, "-m", "work"]);
            }
            let id = spawned["agent_id"].as_str().expect("an id").to_owned();
            (way, id, branch_of(&spawned))
        });
        let agents = agents.collect();
        json(&clone, &["sync"]);
        Forge { hub, clone, elsewhere, agents }
    }

    /// Merges what is to be merged, each in its way, and pushes main.
    pub(super) fn merge_all(&self) {
        let forge = |words: &[&str]| git_in(&self.elsewhere, words);
        forge(&["fetch", "--quiet", "origin"]);
        forge(&["checkout", "--quiet", "-B", "main", "origin/main"]);
        for (way, _, branch) in &self.agents {
            let work = branch.replace("refs/heads", "refs/remotes/origin");
            match way.split_once('-').map_or(*way, |(way, _)| way) {
                "squash" => {
                    forge(&["merge", "--quiet", "--squash", &work]);
                    forge(&["commit", "--quiet", "-m", "Work (#1)"]);
                }
                "rebase" => {
                    forge(&["checkout", "--quiet", "--detach", &work]);
                    forge(&["rebase", "--quiet", "main"]);
                    forge(&["checkout", "--quiet", "-B", "main"]);
                }
                "merge" => drop(forge(&["merge", "--quiet", "--no-ff", "-m", "Merge", &work])),
                _ => continue,
            }
            if way.ends_with("-built") {
                let file = self.elsewhere.join(format!("src/{way}.rs"));
                std::fs::write(file, "built upon\n").expect("written");
                forge(&["commit", "--quiet", "--all", "-m", "later"]);
            }
        }
        forge(&["push", "--quiet", "origin", "main"]);
    }
}

/// The rows of `list` by name.
fn listed(clone: &Path) -> Vec<(String, Value)> {
    let list = json(clone, &["list"]);
    let rows = list["agents"].as_array().expect("rows").clone();
    let named = rows.into_iter();
    named.map(|row| (row["name"].as_str().expect("a name").to_owned(), row)).collect()
}

#[test]
fn work_that_a_forge_merged_is_known_before_and_after_a_pull() {
    let forge = Forge::new();
    let clone = &forge.clone;
    forge.merge_all();
    for step in ["fetch", "pull"] {
        git_in(clone, [step, "--quiet", "origin", "main"]);
        let has_it = if step == "pull" { MAIN } else { "refs/remotes/origin/main" };
        for (name, row) in listed(clone) {
            let target = row["landed_on"]["ref"].as_str();
            let expected = (name != "open").then_some(has_it);
            assert_eq!(target, expected, "{step} {name}: {row:#}");
        }
        let before = tip(clone, MAIN);
        for (way, ..) in &forge.agents {
            let planned = json(clone, &["merge", way, "--dry-run"]);
            let expected = if *way == "open" { "planned" } else { "already-merged" };
            assert_eq!(planned["outcome"], expected, "{step} {way}: {planned:#}");
            // What has to be done is said, and only where something has.
            let warnings = planned["warnings"].to_string();
            let is_advised = warnings.contains("git pull");
            assert_eq!(is_advised, step == "fetch" && *way != "open", "{warnings}");
        }
        assert_eq!(tip(clone, MAIN), before);
        let swept = json(clone, &["gc"]);
        for item in swept["agents"].as_array().expect("agents") {
            let open = &forge.agents.last().expect("one").1;
            let expected = if item["agent_id"] == open.as_str() { "keep" } else { "remove" };
            assert_eq!(item["action"], expected, "{step}: {item:#}");
        }
    }
    // What is not committed has not landed.
    let worktree = json(clone, &["path", "squash"])["worktree_abspath"].clone();
    let worktree = worktree.as_str().expect("a path");
    std::fs::write(Path::new(worktree).join("src/more.rs"), "more\n").expect("written");
    let (_, row) = listed(clone).remove(0);
    assert_eq!(row.get("landed_on"), None, "{row:#}");
    let planned = json(clone, &["merge", "squash", "--dry-run"]);
    assert_eq!(planned["outcome"], "planned", "{planned:#}");
    // A landing of what was merged writes that down and moves nothing.
    let before = tip(clone, MAIN);
    let merged = json(clone, &["merge", "rebase"]);
    assert_eq!(merged["outcome"], "already-merged", "{merged:#}");
    assert_eq!(tip(clone, MAIN), before);
    let output = agent(clone, &["gc", "--yes"]);
    assert!(output.status.success(), "{}", describe(&output));
    let left: Vec<_> = listed(clone).into_iter().map(|(name, _)| name).collect();
    assert_eq!(left, ["squash", "open"]);
    let kept = tip(clone, "refs/heads/main");
    assert_eq!(kept, forge.hub.remote_tip(MAIN));
}

#[test]
fn what_a_forge_merged_is_pulled_and_not_landed_anew() {
    let forge = Forge::new();
    forge.merge_all();
    git_in(&forge.clone, ["fetch", "--quiet", "origin", "main"]);
    for way in ["squash", "rebase", "merge"] {
        let merged = json(&forge.clone, &["merge", way]);
        assert_eq!(merged["outcome"], "already-merged", "{merged:#}");
        let again = agent(&forge.clone, &["merge", way]);
        assert_eq!(again.status.code(), Some(3), "{way}");
        let said = describe(&again);
        assert!(said.contains("run git pull") && !said.contains("git agent undo"), "{said}");
    }
}

/// The branches of agents that the remote has.
fn there(forge: &Forge) -> Vec<&'static str> {
    let listed = git_in(&forge.hub.bare, ["for-each-ref", "--format=%(refname)", "refs/heads"]);
    let agents = forge.agents.iter();
    let there = agents.filter(|(.., branch)| listed.lines().any(|line| line == branch));
    there.map(|(way, ..)| *way).collect()
}

/// The state that `sync` gives for the branch of each agent that it names.
fn states(forge: &Forge) -> Vec<(&'static str, String)> {
    let report = json(&forge.clone, &["sync"]);
    let branches = report["branches"].as_array().expect("branches").clone();
    let way = |branch: &Value| {
        let agents = forge.agents.iter();
        let mut own = agents.filter(|(.., name)| branch["ref"] == name.as_str());
        own.next().expect("an agent's").0
    };
    let state = |branch: &Value| branch["state"].as_str().expect("a state").to_owned();
    branches.iter().map(|branch| (way(branch), state(branch))).collect()
}

#[test]
fn a_branch_that_the_forge_deleted_after_its_work_landed_is_not_pushed_again() {
    let forge = Forge::new();
    forge.merge_all();
    // This clone knows nothing of it yet, and has no copy of the branches that would tell that they were there.
    for (.., branch) in &forge.agents {
        git_in(&forge.hub.bare, ["update-ref", "-d", branch]);
        let copy = branch.replace("refs/heads", "refs/remotes/origin");
        git_in(&forge.clone, ["update-ref", "-d", &copy]);
    }
    let copy = tip(&forge.clone, "refs/remotes/origin/main");
    let mut expected: Vec<_> = WAYS.map(|way| (way, "landed".to_owned())).into();
    expected.push(("open", "pushed".to_owned()));
    let mut found = states(&forge);
    let place = |(name, _): &(&str, String)| WAYS.iter().position(|way| way == name);
    found.sort_by_key(|one| place(one).unwrap_or(WAYS.len()));
    assert_eq!(found, expected);
    assert_eq!(there(&forge), ["open"]);
    // The user's copy of main is the user's.
    assert_eq!(tip(&forge.clone, "refs/remotes/origin/main"), copy);
    // What came since has not landed.
    let worktree = json(&forge.clone, &["path", "merge"])["worktree_abspath"].clone();
    let file = Path::new(worktree.as_str().expect("a path")).join("src/more.rs");
    std::fs::write(file, "more\n").expect("written");
    json(&forge.clone, &["commit", "merge", "-m", "more"]);
    let found = states(&forge);
    assert!(found.contains(&("merge", "pushed".to_owned())), "{found:?}");
    assert_eq!(there(&forge), ["merge", "open"]);
}

#[test]
fn gc_deletes_the_branches_of_a_remote_whose_work_has_landed_there() {
    let forge = Forge::new();
    let sweep = |words: &[&str]| {
        let report = json(&forge.clone, &[&["gc"], words].concat());
        let branches = report["remote"]["branches"].as_array().expect("branches");
        let mut kept = Vec::new();
        for branch in branches {
            let agents = forge.agents.iter();
            let mut own = agents.filter(|(.., name)| branch["ref"] == name.as_str());
            let action = branch["action"].as_str().expect("an action").to_owned();
            kept.push((own.next().expect("an agent's").0, action));
        }
        kept.sort();
        kept
    };
    let all = |action: &str| -> Vec<(&str, String)> {
        let mut all: Vec<_> = WAYS.map(|way| (way, action.to_owned())).into();
        all.push(("open", "keep".to_owned()));
        all.sort();
        all
    };
    assert_eq!(sweep(&["--remote", "--yes"]), all("keep"));
    assert_eq!(there(&forge).len(), WAYS.len() + 1);
    forge.merge_all();
    assert_eq!(sweep(&["--remote=origin"]), all("remove"));
    assert_eq!(there(&forge).len(), WAYS.len() + 1);
    // One moves on the remote between the look and the deletion: its lease keeps it.
    let (.., moving) = &forge.agents[0];
    let old = forge.hub.remote_tip(moving);
    forge.hub.hook(
        "pre-receive",
        &format!("git update-ref {moving} {} {old} 2>/dev/null; true", forge.hub.remote_tip(MAIN)),
    );
    let mut expected = all("removed");
    for one in &mut expected {
        if one.0 == forge.agents[0].0 {
            one.1 = "keep".to_owned();
        }
    }
    // A branch that is no agent's of ours stays, whatever it is called, and so does one that only a row names.
    git_in(&forge.hub.bare, ["update-ref", "refs/heads/agent/other", MAIN]);
    assert_eq!(sweep(&["--remote", "--yes"]), expected);
    assert_eq!(there(&forge), [forge.agents[0].0, "open"]);
    assert_eq!(forge.hub.remote_tip(moving), forge.hub.remote_tip(MAIN));
    assert_ne!(forge.hub.remote_tip("refs/heads/agent/other"), "");
    // Nothing of it comes back.
    let output = agent(&forge.clone, &["sync"]);
    assert!(output.status.success(), "{}", describe(&output));
    assert_eq!(there(&forge), [forge.agents[0].0, "open"]);
}

#[test]
fn a_branch_without_a_change_has_not_landed() {
    let repo = TestRepo::with_commit();
    let branch = repo.spawn()["branch"].clone();
    let branch = branch.as_str().expect("a branch");
    let [started, tip] = ["main", branch].map(|name| {
        let oid = repo.git(["rev-parse", name]);
        Oid::from_hex(&oid).expect("an oid")
    });
    let opened = Repo::open(&repo.path()).expect("a repository");
    let has_landed = commit_change::makes_the_same(&opened, &[], started, tip);
    assert!(!has_landed.expect("compared"));
}
