//! `adopt`: a linked worktree that exists becomes an agent's, and git sees no difference in it.

use crate::support::agent::{agent_command, describe};
use crate::support::death::{self, Order, ctx, steps_of};
use crate::support::{TestRepo, assert_unchanged, git_in, git_output, snapshot};
use git_agent::agents::context::ctx::Ctx;
use git_agent::agents::upkeep::half_made;
use git_agent::ops::spawn::{self, SpawnOptions};
use git_agent::wire::file::task_file::{self, TaskWords};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A repository, and a worktree of it on the branch `feat` with two commits, staged, unstaged, untracked and stashed changes.
fn begun() -> (TestRepo, PathBuf) {
    let repo = TestRepo::with_commit();
    repo.write(".gitignore", "*.log\n");
    repo.write("src/two.rs", "two\n");
    repo.commit_all("more");
    let place = repo.path().with_file_name("feat");
    repo.git(["worktree", "add", "-q", "-b", "feat", &text(&place)]);
    write(&place, "src/one.rs", "one\n");
    commit(&place, "one");
    write(&place, "src/two.rs", "two, changed\n");
    commit(&place, "two");
    write(&place, "src/one.rs", "stashed\n");
    git_in(&place, ["stash", "-q"]);
    write(&place, "src/three.rs", "staged\n");
    git_in(&place, ["add", "src/three.rs"]);
    write(&place, "src/three.rs", "staged, and changed\n");
    write(&place, "src/four.rs", "intended\n");
    git_in(&place, ["add", "-N", "src/four.rs"]);
    git_in(&place, ["rm", "-q", "--cached", "src/two.rs"]);
    git_in(&place, ["update-index", "--assume-unchanged", "src/lib.rs"]);
    write(&place, "src/untracked.rs", "new\n");
    write(&place, "build.log", "ignored\n");
    (repo, place)
}

fn text(path: &Path) -> String {
    path.to_str().expect("UTF-8").to_owned()
}

fn write(place: &Path, name: &str, content: &str) {
    fs::write(place.join(name), content).expect("written");
}

fn commit(place: &Path, subject: &str) {
    git_in(place, ["add", "."]);
    git_in(place, ["commit", "-q", "-m", subject]);
}

/// All that git says of a worktree, but for the names of its branch and commits.
fn seen(place: &Path) -> Vec<String> {
    let asked: [&[&str]; 8] = [
        &["status", "--porcelain", "--untracked-files=all"],
        &["diff", "--raw", "-p"],
        &["diff", "--cached", "--raw", "-p"],
        &["ls-files", "--stage", "-v", "--debug"],
        &["stash", "list", "-p"],
        &["rev-parse", "HEAD^{tree}", "feat", "main"],
        &["log", "-2", "--format=%an %ae %ad %s%n%b"],
        &["reflog", "show", "feat"],
    ];
    asked.iter().map(|words| git_in(place, *words)).collect()
}

/// All files but what names the admin directory and what an agent is told.
fn files(place: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = snapshot(place);
    files.retain(|path, _| !path.ends_with(".git") && !path.starts_with(place.join(".agent")));
    files
}

fn adopt(repo: &TestRepo, place: &Path, more: &[&str]) -> Value {
    let place = text(place);
    let words = [&["adopt", &place, "-m", "Finish it", "--scope", "src/**"], more].concat();
    repo.agent_json(&words)
}

#[test]
fn git_sees_no_difference_in_the_worktree() {
    let (repo, place) = begun();
    let (before, content) = (seen(&place), files(&place));
    let report = adopt(&repo, &place, &["--name", "feature"]);
    assert_eq!(seen(&place), before);
    assert_unchanged(&content, &files(&place), "adopt");

    assert_eq!(report["worktree_abspath"], text(&place));
    assert_eq!(report["adopted"]["branch"], "refs/heads/feat");
    assert_eq!(report["adopted"]["commits"], 2);
    assert_eq!(report["adopted"]["head"], repo.git(["rev-parse", "feat"]));
    assert_eq!(report["base"]["ref"], "refs/heads/main");
    assert_eq!(
        git_in(&place, ["branch", "--show-current"]),
        report["branch"].as_str().expect("one")
    );
    let admins: Vec<_> = fs::read_dir(repo.path().join(".git/worktrees")).expect("some").collect();
    assert_eq!(admins.len(), 1, "the old admin directory is gone");
    let log = git_in(&place, ["reflog", "-2", "--format=%gs"]);
    assert_eq!(log, "git-agent: adopt\nreset: moving to HEAD", "its reflog goes on");
    assert_eq!(git_in(&place, ["fsck", "--strict", "--no-dangling", "--no-progress"]), "");
    let listed = repo.agent_json(&["list"]);
    assert_eq!(listed["agents"][0]["state"], "idle", "{listed}");
    assert_eq!(repo.agent_json(&["doctor"])["problems"].as_array().map_or(0, Vec::len), 0);
}

#[test]
fn what_the_branch_lacks_is_judged_and_lands_as_it_was_committed() {
    let (repo, place) = begun();
    let report = adopt(&repo, &place, &[]);
    let id = report["agent_id"].as_str().expect("one");
    let changed = repo.agent_json(&["diff", id]);
    let paths: Vec<_> = changed["changes"]
        .as_array()
        .expect("some")
        .iter()
        .map(|change| change["path"].as_str().expect("a path"))
        .collect();
    for path in ["src/one.rs", "src/two.rs", "src/three.rs", "src/untracked.rs"] {
        assert!(paths.contains(&path), "{path} in {paths:?}");
    }
    repo.agent_json(&["merge", id, "--no-ff"]);
    assert_eq!(repo.git(["show", "main:src/untracked.rs"]), "new");
    let landed = repo.git(["log", "--format=%s", "main", "--", "src/one.rs", "src/two.rs"]);
    assert!(landed.contains("two") && landed.contains("one"), "{landed}");
}

#[test]
fn a_scope_may_name_what_only_the_worktree_has() {
    let (repo, place) = begun();
    fs::create_dir(place.join("docs")).expect("made");
    write(&place, "docs/guide.md", "new\n");
    commit(&place, "guide");
    let words = ["adopt", &text(&place), "--scope", "docs", "--scope", "src"];
    let report = repo.agent_json(&words);
    let id = report["agent_id"].as_str().expect("one");
    assert_eq!(repo.agent_json(&["verify", id])["verdict"], "accept");
    let shown = repo.agent_json(&["show", id]);
    let allowed = &shown["whitelist"];
    assert_eq!(*allowed, serde_json::json!(["docs/**", "src/**"]), "{shown}");
}

#[test]
fn an_earlier_commit_out_of_scope_keeps_the_work_from_landing_unless_the_agent_begins_after_it() {
    let (repo, place) = begun();
    let words = ["adopt", &text(&place), "--scope", "src/two.rs"];
    let id = repo.agent_json(&words)["agent_id"].as_str().expect("one").to_owned();
    let output = repo.agent(&["verify", &id]);
    assert_eq!(output.status.code(), Some(1));
    assert!(describe(&output).contains("src/one.rs"), "{}", describe(&output));

    let (repo, place) = begun();
    for name in ["src/three.rs", "src/four.rs", "src/untracked.rs"] {
        git_in(&place, ["rm", "-q", "-f", "--cached", "--ignore-unmatch", name]);
        fs::remove_file(place.join(name)).expect("removed");
    }
    let words = ["add", &text(&place), "--scope", "src/two.rs", "--base", "feat"];
    let report = repo.agent_json(&words);
    assert_eq!(report["adopted"]["commits"], 0);
    assert_eq!(report["base"]["ref"], "refs/heads/feat");
    let verdict = repo.agent_json(&["verify", report["agent_id"].as_str().expect("one")]);
    assert_eq!(verdict["verdict"], "accept", "{verdict}");
}

#[test]
fn commits_of_a_detached_head_are_kept() {
    let (repo, place) = begun();
    git_in(&place, ["checkout", "-q", "--detach"]);
    let head = git_in(&place, ["rev-parse", "HEAD"]);
    repo.git(["branch", "-qD", "feat"]);
    let report = adopt(&repo, &place, &[]);
    assert_eq!(report["adopted"].get("branch"), None);
    repo.git(["reflog", "expire", "--expire=now", "--all"]);
    repo.git(["gc", "-q", "--prune=now"]);
    assert_eq!(repo.git(["cat-file", "-t", &head]), "commit");
}

#[test]
fn what_cannot_be_adopted_stays_as_it_is() {
    let merging = |place: &Path| {
        git_in(place, ["reset", "-q", "--hard"]);
        git_in(place, ["merge", "-q", "--no-commit", "--no-ff", "main~1", "-s", "ours"]);
        fs::write(git_dir(place).join("MERGE_HEAD"), git_in(place, ["rev-parse", "main"]))
            .expect("written");
    };
    let rebasing = |place: &Path| {
        git_in(place, ["reset", "-q", "--hard"]);
        let output = git_output(
            place,
            ["-c", "sequence.editor=sed -i 1s/pick/edit/", "rebase", "-q", "-i", "main"],
        );
        assert!(git_dir(place).join("rebase-merge").is_dir(), "{}", describe(&output));
    };
    let bisecting = |place: &Path| drop(git_in(place, ["bisect", "start"]));
    let locked = |place: &Path| drop(git_in(place, ["worktree", "lock", "--reason", "mine", "."]));
    let at_work = |place: &Path| fs::write(git_dir(place).join("index.lock"), "").expect("written");
    let merged = |place: &Path| {
        git_in(place, ["reset", "-q", "--hard"]);
        git_in(place, ["checkout", "-q", "-b", "side", "main"]);
        write(place, "src/side.rs", "side\n");
        commit(place, "side");
        git_in(place, ["checkout", "-q", "feat"]);
        git_in(place, ["merge", "-q", "--no-edit", "side"]);
    };
    let bundle = |place: &Path| {
        fs::create_dir(place.join(".agent")).expect("made");
        write(place, ".agent/spec.md", "mine\n");
    };
    type Case<'c> = (&'c str, &'c dyn Fn(&Path), &'c str);
    let cases: [Case<'_>; 7] = [
        ("merging", &merging, "worktree-busy"),
        ("rebasing", &rebasing, "worktree-busy"),
        ("bisecting", &bisecting, "worktree-busy"),
        ("locked", &locked, "worktree-busy"),
        ("at work", &at_work, "worktree-busy"),
        ("merged", &merged, "worktree-busy"),
        ("bundle", &bundle, "path-exists"),
    ];
    for (what, prepare, code) in cases {
        let (repo, place) = begun();
        prepare(&place);
        let (before, admin) = (snapshot(&place), snapshot(&git_dir(&place)));
        let output = repo.agent(&["adopt", &text(&place), "--scope", "src/**"]);
        assert_eq!(output.status.code(), Some(3), "{what}: {}", describe(&output));
        assert!(describe(&output).contains(code), "{what}: {}", describe(&output));
        assert_unchanged(&before, &snapshot(&place), what);
        assert_unchanged(&admin, &snapshot(&git_dir(&place)), what);
        assert_eq!(repo.git(["branch", "--list", "agent/*"]), "", "{what}");
    }
}

#[test]
fn only_a_linked_worktree_of_no_agent_can_be_adopted() {
    let (repo, place) = begun();
    let elsewhere = TestRepo::with_commit();
    for path in [repo.path(), place.join("src"), elsewhere.path(), place.join("none")] {
        let output = repo.agent(&["adopt", &text(&path)]);
        assert!(describe(&output).contains("[worktree-foreign]"), "{}", describe(&output));
    }
    adopt(&repo, &place, &[]);
    let output = repo.agent(&["adopt", &text(&place)]);
    assert!(describe(&output).contains("[agent-state]"), "{}", describe(&output));
}

#[test]
fn a_worktree_that_is_named_as_the_place_of_the_caller_is_called_by_its_name() {
    let (repo, place) = begun();
    let output = agent_command(&place).args(["adopt", "."]).output().expect("starts");
    assert!(output.status.success(), "{}", describe(&output));
    let listed = repo.agent_json(&["list"]).to_string();
    assert!(listed.contains("the work that feat holds"), "{listed}");
}

fn git_dir(place: &Path) -> PathBuf {
    PathBuf::from(git_in(place, ["rev-parse", "--absolute-git-dir"]))
}

/// Not a test: the process that dies.
#[test]
fn child() {
    if let Some(order) = Order::received() {
        adopt_in(&ctx(&order.directory, order.dying()), Path::new(&order.words[0]));
    }
}

fn adopt_in(ctx: &Ctx, place: &Path) {
    let options = SpawnOptions { adopt: Some(place.to_owned()), ..SpawnOptions::default() };
    let draft = task_file::of_words(&TaskWords {
        text: "Finish it".to_owned(),
        scope: vec!["src/**".to_owned()],
        ..TaskWords::default()
    });
    let plan = spawn::plan(ctx, draft, &options).expect("a plan");
    spawn::execute(ctx, plan).expect("an agent");
}

#[test]
fn a_kill_leaves_the_worktree_as_it_was_or_the_agents() {
    let (repo, place) = begun();
    let steps = steps_of(|reached| adopt_in(&ctx(&repo.path(), reached), &place));
    assert!(steps.contains(&"pointed".to_owned()), "{steps:?}");
    for step in steps {
        let (repo, place) = begun();
        let (before, content) = (seen(&place), files(&place));
        death::die_at("adopt::child", &repo.path(), &step, &[&text(&place)]);
        half_made::sweep(&ctx(&repo.path(), death::unwatched())).expect("swept");
        assert_eq!(seen(&place), before, "after {step}");
        let is_agents = ["spawned", "replaced"].contains(&step.as_str());
        let branches = repo.git(["branch", "--list", "agent/*"]);
        assert_eq!(branches.is_empty(), !is_agents, "after {step}: {branches}");
        if !is_agents {
            adopt(&repo, &place, &[]);
            assert_eq!(seen(&place), before, "adopted after {step}");
        }
        assert_unchanged(&content, &files(&place), &step);
        let listed = repo.git(["worktree", "list"]);
        assert_eq!(listed.lines().count(), 2, "after {step}: {listed}");
        assert_eq!(repo.git(["fsck", "--strict", "--no-dangling", "--no-progress"]), "");
    }
}
