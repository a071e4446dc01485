//! Removal, end to end: after `discard` every byte that an agent wrote hangs on the keep chain, and what
//! could lose or disturb something is refused and leaves all as it was.

/// Paths longer than any that the system takes.
mod deep;
/// What is let go of, and what never is.
mod expire;
/// What is swept, and what is kept when in doubt.
mod gc;
/// Death at every step.
mod kill;
mod large;
/// Others at work.
mod races;
/// What is refused.
mod refusals;
/// What comes back.
mod rescue;
/// Death while it comes back.
mod rescue_kill;
/// Several at once.
mod several;
/// What `uninstall` takes out.
mod uninstall;

use crate::support::agent::{SHARED_TASK, agent_command, answer_of, describe};
use crate::support::{TestRepo, git_in, git_output};
use crate::verify::Agent;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::process::Output;

/// What the agent of [`busy`] wrote, each in another way.
pub const WRITTEN: [&str; 8] = [
    "committed and amended away\n",
    "committed\n",
    "staged alone\n",
    "staged first\n",
    "modified after\n",
    "untracked\n",
    "ignored, but added by force\n",
    "the plan\n",
];

/// An agent that has left something in every place where git keeps work.
pub fn busy() -> Agent {
    let agent = Agent::new();
    agent.write("src/one.rs", WRITTEN[0]);
    agent.commit("amended away");
    agent.write("src/one.rs", WRITTEN[1]);
    agent.git(&["add", "src/one.rs"]);
    agent.git(&["commit", "--quiet", "--no-verify", "--amend", "-m", "one"]);
    agent.write("src/gone.rs", WRITTEN[2]);
    agent.write("src/lib.rs", WRITTEN[3]);
    agent.git(&["add", "--all"]);
    fs::remove_file(agent.worktree.join("src/gone.rs")).expect("remove");
    agent.write("src/lib.rs", WRITTEN[4]);
    agent.write("new dir/né\n.txt", WRITTEN[5]);
    agent.write("hidden/x", WRITTEN[6]);
    agent.write("hidden/.gitignore", "x\n");
    agent.git(&["add", "--force", "hidden/x"]);
    agent.write(".agent/plan.md", WRITTEN[7]);
    agent
}

pub fn discard(agent: &Agent, arguments: &[&str]) -> Output {
    agent_command(&agent.repo.path())
        .args(["discard", &agent.id])
        .args(arguments)
        .output()
        .expect("git-agent starts")
}

pub fn discarded(agent: &Agent, arguments: &[&str]) -> Value {
    let output = discard(agent, &[arguments, &["--format=json"]].concat());
    assert!(output.status.success(), "{}", describe(&output));
    answer_of(&output)
}

/// Fails unless every text is the content of a blob that the keep chain holds, also after git's own
/// garbage collection.
pub fn assert_kept(repo: &TestRepo, texts: &[&str], when: &str) {
    repo.git(["reflog", "expire", "--expire=now", "--all"]);
    repo.git(["gc", "--quiet", "--prune=now"]);
    let listed = repo.git(["rev-list", "--objects", "refs/agents/keep"]);
    let kept: BTreeSet<&str> = listed.lines().filter_map(|line| line.get(..40)).collect();
    for text in texts {
        let file = repo.path().with_file_name("content");
        fs::write(&file, text).expect("write");
        let oid = repo.git(["hash-object", file.to_str().expect("UTF-8")]);
        assert!(kept.contains(oid.as_str()), "{when}: lost {text:?}");
    }
    assert_eq!(repo.git(["fsck", "--strict", "--no-dangling", "--no-progress"]), "");
}

/// Fails unless neither worktree, admin directory nor branch is left.
pub fn assert_gone(agent: &Agent, when: &str) {
    assert!(!agent.worktree.exists(), "{when}");
    let worktrees = agent.repo.git(["worktree", "list", "--porcelain"]);
    assert_eq!(worktrees.matches("worktree ").count(), 1, "{when}");
    assert_eq!(agent.repo.git(["branch", "--list", "agent/*"]), "", "{when}");
    assert!(!agent.repo.path().join(".claude").exists(), "{when}");
    assert_eq!(agent.repo.git(["status", "--porcelain"]), "", "{when}");
}

#[test]
fn every_byte_an_agent_wrote_is_kept() {
    let agent = busy();
    let report = discarded(&agent, &[]);
    assert_eq!(report["state"], "discarded");
    assert_gone(&agent, "discarded");
    assert_kept(&agent.repo, &WRITTEN, "discarded");
    let salvage = report["salvage_commit"].as_str().expect("a salvage");
    let shown = agent.repo.git(["show", &format!("{salvage}:src/lib.rs")]);
    assert_eq!(shown, WRITTEN[4].trim_end());
    let shown = agent.repo.git(["show", &format!("{salvage}^2:src/lib.rs")]);
    assert_eq!(shown, WRITTEN[3].trim_end());
    assert_eq!(
        agent.repo.git(["rev-parse", &format!("{salvage}^1")]),
        report["tip"].as_str().expect("a tip")
    );
}

#[test]
fn commits_of_a_detached_head_are_named() {
    let agent = Agent::new();
    let branch = agent.git(&["symbolic-ref", "--short", "HEAD"]);
    agent.git(&["switch", "--quiet", "--detach"]);
    agent.write("src/two.rs", "");
    let commit = agent.commit("beside the branch");
    agent.git(&["switch", "--quiet", &branch]);
    let output = discard(&agent, &[]);
    let said = describe(&output);
    assert!(said.contains(&format!("git log --no-walk {}\n", &commit[..7])), "{said}");
    assert_eq!(discarded(&agent, &[])["state"], "discarded");
    agent.repo.git(["gc", "--quiet", "--prune=now"]);
    agent.repo.git(["log", "--no-walk", &commit]);
}

/// Git tells such a change from none by comparing the file's time with the index's own.
#[test]
fn a_change_in_the_tick_in_which_it_was_staged_is_kept() {
    use std::os::unix::fs::MetadataExt;
    let agent = Agent::new();
    let path = agent.worktree.join("src/lib.rs");
    let stat = || fs::metadata(&path).map(|file| (file.mtime(), file.mtime_nsec(), file.size()));
    for attempt in 1000..1200 {
        fs::write(&path, format!("staged {attempt}\n")).expect("write");
        let before = stat().expect("there");
        agent.git(&["add", "src/lib.rs"]);
        fs::write(&path, format!("edited {attempt}\n")).expect("write");
        if stat().expect("there") == before {
            break;
        }
    }
    let written = fs::read_to_string(&path).expect("there");
    discarded(&agent, &[]);
    assert_kept(&agent.repo, &[&written], "changed in one tick");
}

#[test]
fn git_itself_can_apply_a_salvage_as_a_stash() {
    let agent = busy();
    let report = discarded(&agent, &[]);
    let salvage = report["salvage_commit"].as_str().expect("a salvage");
    agent.repo.git(["checkout", "--quiet", &format!("{salvage}^1")]);
    agent.repo.git(["stash", "apply", "--quiet", salvage]);
    let lib = fs::read_to_string(agent.repo.path().join("src/lib.rs"));
    assert_eq!(lib.expect("there"), WRITTEN[4]);
}

#[test]
fn ignored_files_go_unless_they_are_asked_for() {
    for (arguments, kept) in [(&["--with-ignored"][..], true), (&[], false)] {
        let repo = TestRepo::with_commit();
        repo.write(".gitignore", "/built/\n");
        repo.commit_all("ignore");
        let agent = Agent::spawned_in(repo, crate::support::agent::TASK);
        agent.write("built/a.o", "an ignored file\n");
        let report = discarded(&agent, arguments);
        assert_eq!(report["salvage_commit"].is_string(), kept);
        if kept {
            assert_kept(&agent.repo, &["an ignored file\n"], "with --with-ignored");
        }
    }
}

#[test]
fn a_dry_run_and_a_second_discard_change_nothing() {
    let agent = busy();
    let before = crate::support::snapshot(&agent.repo.path());
    let report = discarded(&agent, &["--dry-run"]);
    assert_eq!((&report["dry_run"], &report["state"]), (&Value::Bool(true), &"idle".into()));
    let after = crate::support::snapshot(&agent.repo.path());
    crate::support::assert_unchanged(&before, &after, "a dry run");
    discarded(&agent, &[]);
    let refs = agent.repo.git(["for-each-ref"]);
    discarded(&agent, &[]);
    assert_eq!(agent.repo.git(["for-each-ref"]), refs);
}

#[test]
fn what_is_staged_survives_a_worktree_that_somebody_removed() {
    let agent = busy();
    fs::remove_dir_all(&agent.worktree).expect("remove");
    discarded(&agent, &[]);
    assert_gone(&agent, "removed by hand");
    assert_kept(&agent.repo, &WRITTEN[..4], "removed by hand");
}

#[test]
fn what_was_reset_away_survives_a_worktree_that_is_gone() {
    let agent = Agent::new();
    agent.write("src/one.rs", WRITTEN[0]);
    agent.commit("reset away");
    agent.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    let path = agent.worktree.to_str().expect("UTF-8");
    agent.repo.git(["worktree", "remove", "-f", "-f", path]);
    discarded(&agent, &[]);
    assert_kept(&agent.repo, &WRITTEN[..1], "reset away");
}

#[test]
fn what_is_committed_survives_a_branch_that_somebody_deleted() {
    let agent = busy();
    agent.repo.git(["update-ref", "-d", &format!("refs/heads/{}", agent.branch)]);
    discarded(&agent, &[]);
    assert_gone(&agent, "deleted by hand");
    assert_kept(&agent.repo, &WRITTEN, "deleted by hand");
}

/// To keep them as they are would make `git gc` and `git fsck` fail for good.
#[test]
fn commits_that_lead_to_missing_objects_are_kept_without_these() {
    for is_tip in [false, true] {
        let agent = Agent::new();
        let base = agent.git(&["rev-parse", "HEAD"]);
        agent.write("src/one.rs", "below\n");
        agent.commit("below");
        agent.write("src/one.rs", "lost\n");
        agent.write("src/two.rs", "beside\n");
        agent.commit("above");
        let named =
            ["HEAD", "HEAD^", "HEAD:src/one.rs"].map(|name| agent.git(&["rev-parse", name]));
        if is_tip {
            // As an hour later, when git takes the file for unchanged without a look at its content.
            agent.git(&["update-index", "--refresh"]);
            let index =
                agent.repo.path().join(format!(".git/worktrees/agent-{}/index", &agent.id[..8]));
            let later = std::time::SystemTime::now() + std::time::Duration::from_secs(3600);
            let index = fs::File::options().write(true).open(index).expect("opened");
            index.set_modified(later).expect("a time");
        } else {
            agent.git(&["reset", "--quiet", "--hard", &base]);
        }
        // With a hole in its history a branch is not proved to be the agent's.
        for missing in &named[if is_tip { 2 } else { 1 }..] {
            let file = format!(".git/objects/{}/{}", &missing[..2], &missing[2..]);
            fs::remove_file(agent.repo.path().join(file)).expect("a loose object");
        }
        let report = discarded(&agent, &[]);
        let said = report["warnings"].to_string();
        assert!(said.contains(&named[0]) && said.contains("src/one.rs"), "{said}");
        assert_kept(&agent.repo, &["beside\n"], &said);
        if is_tip {
            // The file is still in the worktree.
            assert_kept(&agent.repo, &["lost\n"], &said);
            let tip = report["tip"].as_str().expect("a tip");
            assert_eq!(agent.repo.git(["log", "-2", "--format=%s", tip]), "above\nbelow");
            assert_gone(&agent, &said);
        }
    }
}

#[test]
fn a_shared_agents_bundle_is_kept() {
    let repo = TestRepo::with_commit();
    let report = repo.spawn_task(SHARED_TASK, &[]);
    let id = report["agent_id"].as_str().expect("an id");
    let bundle = repo.path().join(".agent").join(&id[..8]);
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    fs::write(bundle.join("review.md"), "a review\n").expect("write");
    let report = repo.agent_json(&["discard", id]);
    assert_eq!(report["state"], "discarded");
    assert_kept(&repo, &["a review\n"], "shared");
    assert!(!repo.path().join(".agent").exists());
}

#[test]
fn symlinks_are_removed_and_never_followed() {
    let agent = Agent::new();
    let outside = agent.repo.path().with_file_name("outside");
    fs::create_dir(&outside).expect("create");
    fs::write(outside.join("precious"), "precious\n").expect("write");
    let link = |name: &str| {
        std::os::unix::fs::symlink(&outside, agent.worktree.join(name)).expect("link");
    };
    link("src/link");
    fs::remove_dir_all(agent.worktree.join(".agent")).expect("remove");
    link(".agent");
    let report = discarded(&agent, &[]);
    assert_gone(&agent, "with symlinks");
    assert!(outside.join("precious").exists());
    let salvage = report["salvage_commit"].as_str().expect("a salvage");
    let tree = agent.repo.git(["ls-tree", "-r", salvage]);
    assert_eq!(tree.matches("120000 blob").count(), 2, "{tree}");
    assert!(report["bundle_commit"].is_null());
}

#[test]
fn the_configuration_of_the_branch_goes_with_it() {
    let agent = Agent::new();
    let key = format!("branch.{}.description", agent.branch);
    agent.repo.git(["config", &key, "about it"]);
    discarded(&agent, &[]);
    let output = git_output(&agent.repo.path(), ["config", "--get-regexp", "^branch\\."]);
    assert!(!output.status.success(), "{}", describe(&output));
    assert_eq!(git_in(&agent.repo.path(), ["symbolic-ref", "HEAD"]), "refs/heads/main");
}

#[test]
fn what_is_not_kept_because_it_is_ignored_is_named() {
    let repo = TestRepo::with_commit();
    repo.write(".gitignore", "/built/\n*.o\n");
    repo.commit_all("ignore");
    let agent = Agent::spawned_in(repo, crate::support::agent::TASK);
    for file in ["built/a", "built/deep/b", "src/x.o"] {
        agent.write(file, "ignored\n");
    }
    let status = agent.git(&["status", "--porcelain", "--ignored"]);
    let ignored: Vec<&str> = status
        .lines()
        .filter_map(|line| line.strip_prefix("!! "))
        .filter(|path| *path != ".agent/")
        .collect();
    assert_eq!(ignored, ["built/", "src/x.o"]);
    // A rule that the agent added hides as well, what it has added to the index excepted.
    agent.write(".gitignore", "/built/\n*.o\nhidden*.txt\n");
    agent.write("hidden.txt", "hidden\n");
    agent.write("hidden too.txt", "forced\n");
    agent.git(&["add", "--force", "hidden too.txt"]);
    let ignored = ["built/", "hidden.txt", "src/x.o"];
    let planned = discarded(&agent, &["--dry-run"]);
    assert_eq!(planned["ignored"], serde_json::json!(ignored));
    let asked = discarded(&agent, &["--dry-run", "--with-ignored"]);
    assert!(asked["ignored"].is_null(), "{asked}");
    let output = discard(&agent, &["--dry-run"]);
    let said =
        "  not kept, because ignored: built/, hidden.txt, src/x.o (--with-ignored keeps them)\n";
    assert!(describe(&output).contains(said), "{}", describe(&output));
    let report = discarded(&agent, &[]);
    assert_eq!(report["ignored"], serde_json::json!(ignored));
    let salvage = report["salvage_commit"].as_str().expect("a salvage");
    let kept = agent.repo.git(["diff", "--name-only", "main", salvage]);
    assert_eq!(kept, ".gitignore\nhidden too.txt");
}

#[test]
fn staged_work_that_is_recovered_alone_is_told() {
    let agent = Agent::new();
    agent.write("src/two.rs", "staged alone\n");
    agent.git(&["add", "src/two.rs"]);
    fs::remove_dir_all(&agent.worktree).expect("remove");
    let output = discard(&agent, &[]);
    let said = describe(&output);
    assert!(said.contains("  kept uncommitted work as "), "{said}");
    assert_kept(&agent.repo, &["staged alone\n"], "staged alone");
}
