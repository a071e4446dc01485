//! What `--no-ff` brings: the agent's commits without the empty one by which it was spawned.

use super::{answer, ready, require_sound, run, spawns_in, state};
use crate::support::agent::{agent_command, describe};
use crate::support::git_in;
use crate::verify::{Agent, refused};
use serde_json::Value;

/// `verify --ci` of a commit; gives the status and the answer.
fn ci(directory: &std::path::Path, base: &str, tip: &str, branch: &str) -> (i32, Value) {
    let mut command = agent_command(directory);
    command.args(["verify", "--ci", "--no-commands", "--format=json"]);
    command.args(["--base", base, "--tip", tip, "--branch", branch]);
    let output = command.output().expect("starts");
    let answer = serde_json::from_slice(&output.stdout);
    let answer = answer.unwrap_or_else(|error| panic!("{error}: {}", describe(&output)));
    (output.status.code().expect("a status"), answer)
}

#[test]
fn a_commit_keeps_every_byte_but_its_parents_and_carries_the_spawn_commit() {
    let agent = ready();
    let repo = &agent.repo;
    let spawn = repo.git(["log", "--format=%H", "--grep=^agent: spawn", &agent.branch]);
    let base = repo.git(["rev-parse", &format!("{spawn}^")]);
    answer(&agent, "merge", &["--no-ff"]);
    require_sound(&agent);
    let log =
        |tip: &str| repo.git(["log", "--format=%an %ae %at %cn %ct %T %B", tip, "--not", &base]);
    let own =
        repo.git(["log", "--format=%an %ae %at %cn %ct %T %B", &agent.branch, "--not", &spawn]);
    assert_eq!(log("main^2"), own, "authors, dates, trees and messages");
    let first = repo.git(["rev-list", "--reverse", "main^2", "--not", &base]);
    let first = first.lines().next().expect("a commit");
    assert_eq!(repo.git(["rev-parse", &format!("{first}^")]), base);
    // The header has the whole text: hashed anew it gives the name of the spawn commit.
    let raw = repo.git(["cat-file", "commit", first]);
    let (_, text) = raw.split_once("\nagent-spawn ").expect("the header");
    let folded: Vec<&str> = text.split('\n').collect();
    let end = folded.iter().skip(1).position(|line| !line.starts_with(' '));
    let text: Vec<&str> = folded
        .iter()
        .take(1 + end.expect("an end"))
        .enumerate()
        .map(|(at, line)| if at == 0 { line } else { &line[1..] })
        .collect();
    let file = repo.path().with_file_name("spawn-commit");
    std::fs::write(&file, text.join("\n")).expect("written");
    let named = ["hash-object", "-t", "commit", file.to_str().expect("UTF-8")];
    assert_eq!(repo.git(named), spawn);
    // Nothing of it is lost once the branch is gone.
    let shown = repo.agent_json(&["show", &agent.id]);
    assert_eq!(shown["state"], "merged");
    repo.agent_json(&["discard", &agent.id]);
    repo.git(["reflog", "expire", "--expire=now", "--all"]);
    repo.git(["gc", "--quiet", "--prune=now"]);
    let main = repo.git(["rev-parse", "main"]);
    assert_eq!(repo.agent_json(&["show", &main])["agent_id"], agent.id.as_str());
    repo.git(["cat-file", "-e", &spawn]);
}

#[test]
fn what_has_landed_is_known_also_after_others_built_on_it() {
    let agent = ready();
    let repo = &agent.repo;
    answer(&agent, "merge", &["--no-ff"]);
    repo.write("src/two.rs", "// written anew\n");
    repo.write("src/lib.rs", "// written anew\n");
    repo.commit_all("built upon");
    // As if the row had never been written: objects tell it.
    let judged = agent.verify(&[]);
    assert_eq!(judged["merge"]["how"], "ancestor", "{judged:#}");
    let swept = repo.agent_json(&["gc"]);
    assert_eq!(swept["agents"][0]["action"], "remove", "{swept:#}");
    // What came since lands alone, on top of what landed before.
    agent.write("src/four.rs", "pub fn four() {}\n");
    repo.agent_json(&["commit", &agent.id, "-m", "four"]);
    let changed = repo.agent(&["diff", &agent.id, "--name-only"]);
    assert_eq!(String::from_utf8_lossy(&changed.stdout), "src/four.rs\n");
    answer(&agent, "merge", &["--no-ff"]);
    assert_eq!(spawns_in(repo, "main"), 0);
    assert_eq!(repo.git(["show", "main:src/two.rs"]), "// written anew");
    assert_eq!(repo.git(["rev-list", "--count", "main^2", "--not", "main^1"]), "1");
    require_sound(&agent);
}

#[test]
fn signed_commits_land_as_they_are_and_the_answer_says_so() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    let tree = {
        agent.git(&["add", "--all"]);
        agent.git(&["write-tree"])
    };
    // A signature is a header like any other to whoever does not check it.
    let head = agent.git(&["rev-parse", "HEAD"]);
    let text = format!(
        "tree {tree}\nparent {head}\nauthor A <a@x> 1 +0000\ncommitter A <a@x> 1 +0000\n\
         gpgsig -----BEGIN SSH SIGNATURE-----\n x\n -----END SSH SIGNATURE-----\n\nwork\n\nAgent-Id: {}\n",
        agent.id
    );
    let signed = agent.repo.write_commit(&text);
    agent.git(&["update-ref", "HEAD", &signed]);
    agent.repo.write("NOTES.md", "moved on\n");
    agent.repo.commit_all("main moves on");
    let landed = answer(&agent, "merge", &["--no-ff"]);
    assert_eq!(agent.repo.git(["rev-parse", "main^2"]), signed);
    assert_eq!(spawns_in(&agent.repo, "main"), 1);
    let warnings = landed["warnings"].to_string();
    assert!(warnings.contains("signed"), "{landed:#}");
}

#[test]
fn a_spawn_commit_without_a_policy_lands_as_it_is() {
    let agent = Agent::new().without_policy_in_spawn_commit();
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.commit("two");
    answer(&agent, "merge", &["--no-ff"]);
    assert_eq!(spawns_in(&agent.repo, "main"), 1);
}

#[test]
fn an_agent_built_on_another_brings_neither_spawn_commit() {
    let lower = Agent::new();
    lower.write("src/two.rs", "pub fn two() {}\n");
    lower.commit("two");
    let repo = &lower.repo;
    let task = "role = \"edit-local\"\ntask = \"Add a third function to the library.\"\n\
                [scope]\nwhitelist = [\"src/**\"]\n[bundle]\nrequired = false\n";
    let upper = repo.spawn_task(task, &["--base", &lower.branch]);
    let place = upper["worktree_abspath"].as_str().expect("a path");
    std::fs::write(format!("{place}/src/three.rs"), "three\n").expect("written");
    let id = upper["agent_id"].as_str().expect("an id");
    repo.agent_json(&["merge", &lower.id, "--no-ff"]);
    repo.agent_json(&["merge", id, "--no-ff", "--into", "main"]);
    assert_eq!(spawns_in(repo, "main"), 0);
    // What both hold is there once.
    let twos = repo.git(["log", "--format=%s", "--no-merges", "main"]);
    assert_eq!(twos.lines().filter(|line| *line == "two").count(), 1, "{twos}");
    assert_eq!(state(&lower), "merged");
}

#[test]
fn a_clone_that_has_the_landed_commits_alone_judges_them_by_the_header() {
    let agent = ready();
    let repo = &agent.repo;
    let base = repo.git(["rev-parse", "main"]);
    answer(&agent, "merge", &["--no-ff"]);
    let name = agent.branch.trim_start_matches("refs/heads/").to_owned();
    // A machine of a forge: main as it was, the branch as `pr` pushes it, no ledger, no spawn commit.
    let place = repo.path().with_file_name("forge");
    let source = format!("file://{}", repo.path().display());
    let path = place.to_str().expect("UTF-8");
    repo.git(["branch", "--quiet", "before", &base]);
    repo.git(["branch", "--quiet", "offered", "main^2"]);
    let top = repo.path();
    let top = top.parent().expect("a parent");
    git_in(top, ["clone", "--quiet", "--branch=before", "--single-branch", &source, path]);
    git_in(&place, ["fetch", "--quiet", "origin", "offered"]);
    let spawn = repo.git(["log", "--format=%H", "--grep=^agent: spawn", &agent.branch]);
    let lacks = crate::support::git_output(&place, ["cat-file", "-e", spawn.as_str()]);
    assert!(!lacks.status.success());
    let (status, judged) = ci(&place, "origin/before", "FETCH_HEAD", &name);
    assert_eq!((status, &judged["verdict"]), (0, &"accept".into()), "{judged:#}");
    assert_eq!(judged["agent_id"], agent.id.as_str());
    // It wrote nothing, so the second answer is as new.
    assert!(
        !crate::support::git_output(&place, ["cat-file", "-e", spawn.as_str()]).status.success()
    );
    // A change out of scope on top is found by the policy in the header.
    git_in(&place, ["switch", "--quiet", "--detach", "FETCH_HEAD"]);
    std::fs::write(place.join("README.md"), "out of scope\n").expect("written");
    git_in(&place, ["add", "--all"]);
    let message = format!("more\n\nAgent-Id: {}", agent.id);
    git_in(&place, ["commit", "--quiet", "-m", &message]);
    let (status, judged) = ci(&place, "origin/before", "HEAD", &name);
    assert_eq!(status, 1, "{judged:#}");
    assert!(
        crate::verify::codes(&judged).iter().any(|code| code.starts_with("scope.")),
        "{judged:#}"
    );
    // Without the header the branch names an agent and holds none: a rebase drops it.
    git_in(&place, ["reset", "--quiet", "--hard", "HEAD~1"]);
    git_in(&place, ["rebase", "--quiet", "--force-rebase", "origin/before"]);
    let (status, judged) = ci(&place, "origin/before", "HEAD", &name);
    assert_eq!((status, &judged["verdict"]), (1, &"reject".into()), "{judged:#}");
    // A header whose text was changed gives another agent, or none.
    let raw = repo.git(["cat-file", "commit", "offered~1"]);
    let raw = if raw.contains("\nagent-spawn ") {
        raw
    } else {
        repo.git(["cat-file", "commit", "offered"])
    };
    let forged = raw.replace("\"src/**\"", "\"**/*\"") + "\n";
    assert_ne!(forged, raw);
    let forged = repo.write_commit(&forged);
    repo.git(["branch", "--quiet", "forged", &forged]);
    git_in(&place, ["fetch", "--quiet", "origin", "forged"]);
    let mut command = agent_command(&place);
    command.args(["verify", "--ci", "--base=origin/before", "--tip=FETCH_HEAD"]);
    let output = command.output().expect("starts");
    refused(&output, "repo-corrupt", 4);
    // A merge that changes the work is no merge of it.
    let evil =
        repo.git(["commit-tree", "main^{tree}", "-p", &base, "-p", "offered", "-m", "Merge"]);
    repo.write("src/lib.rs", "// slipped in\n");
    repo.git(["add", "--all"]);
    let tree = repo.git(["write-tree"]);
    repo.git(["reset", "--quiet", "--hard"]);
    let changed = repo.git(["commit-tree", &tree, "-p", &base, "-p", "offered", "-m", "Merge"]);
    for (commit, status) in [(evil, 0), (changed, 1)] {
        repo.git(["branch", "--quiet", "--force", "merged", &commit]);
        git_in(&place, ["fetch", "--quiet", "origin", "merged"]);
        let (is, judged) = ci(&place, "origin/before", "FETCH_HEAD", "gh-readonly-queue/main/pr-1");
        assert_eq!(is, status, "{judged:#}");
    }
    assert_eq!(run(&agent, "show", &[]).status.code(), Some(0));
}

/// The tools themselves, where their registries can be reached; `history_tools.sh` has the steps.
#[test]
#[ignore = "installs programs from their registries: .ci/tools"]
fn linters_of_history_accept_what_lands() {
    for tool in ["commitlint", "gitlint", "git-cliff"] {
        crate::hook_managers::run_script("history_tools.sh", "history-tools", tool);
    }
}
