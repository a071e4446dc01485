//! `undo`: what a command did is taken back, and nothing else is.

/// What `undo --list` says and what `undo` does, after a kill at any step of an undo or a redo.
mod listed;
/// Beside agents at work.
mod meanwhile;
/// What of a row moves branches, and what of it was this clone's doing.
mod moves;

use crate::support::agent::{agent_command, describe};
use crate::support::death::{self, Order, steps_of};
use crate::support::{TestRepo, git_in};
use git_agent::agents::context::ctx::Ctx;
use git_agent::ops::undo::{self, STEPS, UndoOptions};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

const TASK: &str = r#"
role = "edit-local"
task = "Add a file to the library and nothing else."
[scope]
whitelist = ["src/**"]
[bundle]
required = false
"#;

struct Team {
    repo: TestRepo,
    agents: Vec<(String, PathBuf)>,
}

/// So many agents that are done, each with one uncommitted file of its own.
fn team(count: usize) -> Team {
    let repo = TestRepo::with_commit();
    let agents = (0..count).map(|number| {
        let report = repo.spawn_task(TASK, &[]);
        let text = |key: &str| report[key].as_str().expect("a text").to_owned();
        let worktree = PathBuf::from(text("worktree_abspath"));
        let file = format!("src/file-{number}.rs");
        fs::write(worktree.join(file), "pub fn two() {}\n").expect("written");
        repo.agent_json(&["mark", "done", &text("agent_id"), "-m", "finished"]);
        (text("agent_id"), worktree)
    });
    let agents = agents.collect();
    Team { repo, agents }
}

impl Team {
    fn json(&self, words: &[&str]) -> Value {
        self.repo.agent_json(words)
    }

    fn id(&self, number: usize) -> &str {
        &self.agents[number].0
    }

    fn state(&self, number: usize) -> String {
        let shown = self.json(&["show", self.id(number)]);
        shown["state"].as_str().expect("a state").to_owned()
    }

    fn main(&self) -> String {
        self.repo.git(["rev-parse", "main"])
    }

    fn land(&self, number: usize) -> String {
        self.json(&["merge", self.id(number)]);
        self.main()
    }

    /// The code that a command fails with, and its status.
    fn refusal(&self, words: &[&str]) -> (String, i32) {
        let mut command = agent_command(&self.repo.path());
        let output = command.args(words).arg("--format=json").output().expect("ran");
        let error: Value = serde_json::from_slice(&output.stderr)
            .unwrap_or_else(|_| panic!("no error: {}", describe(&output)));
        let code = error["error"]["code"].as_str().expect("a code").to_owned();
        (code, output.status.code().expect("a status"))
    }

    fn operations(&self) -> Vec<Value> {
        let listed = self.json(&["undo", "--list"]);
        listed["operations"].as_array().expect("a list").clone()
    }

    fn assert_sound(&self) {
        let said = self.repo.git(["fsck", "--strict", "--no-progress", "--no-dangling"]);
        assert_eq!(said, "");
        assert_eq!(self.repo.git(["status", "--porcelain"]), "");
    }
}

#[test]
fn a_landing_is_taken_back_and_done_again() {
    let team = team(1);
    let before = team.main();
    let landed = team.land(0);
    assert!(team.repo.path().join("src/file-0.rs").exists());

    let planned = team.json(&["undo", "--dry-run"]);
    assert_eq!(planned["outcome"], "planned");
    assert_eq!(team.main(), landed);

    let report = team.json(&["undo"]);
    assert_eq!(report["moves"], json!([{"ref": "refs/heads/main", "from": landed, "to": before}]));
    assert_eq!(team.main(), before);
    assert!(!team.repo.path().join("src/file-0.rs").exists());
    assert_ne!(team.state(0), "merged");
    team.assert_sound();
    // What left the branch is held by the keep chain: git may collect garbage now.
    team.repo.git(["reflog", "expire", "--expire=now", "--all"]);
    team.repo.git(["gc", "--quiet", "--prune=now"]);

    let again = report["undone_by"].as_str().expect("an operation");
    team.json(&["undo", again]);
    assert_eq!(team.main(), landed);
    assert_eq!(team.state(0), "merged");
    team.assert_sound();

    // And back: the agent can land again, as if nothing had been.
    team.json(&["undo"]);
    assert_eq!(team.main(), before);
    team.land(0);
    assert_eq!(team.state(0), "merged");
    team.assert_sound();
}

#[test]
fn a_train_is_taken_back_as_a_whole_or_its_last_landing_alone() {
    let team = team(4);
    let before = team.main();
    team.json(&["train", "--all"]);
    let landed = team.main();
    let states = |team: &Team| (0..4).map(|it| team.state(it)).collect::<Vec<_>>();
    assert_eq!(states(&team), ["merged"; 4]);

    // The last landing alone: that agent's.
    let message = team.repo.git(["log", "-1", "--format=%B", "main"]);
    let last = (0..4).find(|it| message.contains(team.id(*it))).expect("one of them");
    team.json(&["undo", team.id(last)]);
    assert_eq!(team.main(), team.repo.git(["rev-parse", &format!("{landed}^")]));
    let open = |state: &String| state != "merged";
    assert_eq!(states(&team).into_iter().filter(open).count(), 1);

    // One below cannot be taken back by moving the branch.
    let below = (0..4).find(|it| team.state(*it) == "merged").expect("three of them");
    let message = team.repo.git(["log", "-1", "--format=%B", "main"]);
    let below = if message.contains(team.id(below)) {
        (below + 1..4).find(|it| team.state(*it) == "merged").expect("two of them")
    } else {
        below
    };
    let refusal = team.refusal(&["undo", team.id(below)]);
    assert_eq!(refusal, ("undo-built-upon".to_owned(), 3));

    // The rest of it.
    team.json(&["undo"]);
    assert_eq!(team.main(), before);
    assert!(states(&team).iter().all(open));
    team.assert_sound();
}

#[test]
fn what_something_stands_on_moves_nothing_and_can_be_reverted() {
    let team = team(1);
    let before = team.main();
    let landed = team.land(0);
    team.repo.write("README.md", "later work\n");
    let later = team.repo.commit_all("later");
    assert_eq!(team.refusal(&["undo"]), ("undo-built-upon".to_owned(), 3));
    assert_eq!(team.main(), later);
    assert_eq!(team.state(0), "merged");

    let report = team.json(&["undo", "--revert"]);
    let revert = team.main();
    assert_eq!(team.repo.git(["rev-parse", "main^"]), later);
    // As git's own revert would.
    team.repo.git(["checkout", "--quiet", "-b", "other", &later]);
    team.repo.git(["revert", "--no-edit", "-m", "1", &landed]);
    let tree = team.repo.git(["rev-parse", "HEAD^{tree}"]);
    team.repo.git(["checkout", "--quiet", "main"]);
    assert_eq!(team.repo.git(["rev-parse", &format!("{revert}^{{tree}}")]), tree);
    assert_eq!(team.state(0), "done");
    let diff = team.repo.git(["diff", "--name-only", &before, "main"]);
    assert_eq!(diff, "README.md");
    // gc does not take it for landed.
    team.json(&["gc"]);
    assert_eq!(team.state(0), "done");

    // Taking the revert back moves the branch, for nothing stands on that.
    team.repo.git(["branch", "--quiet", "-D", "other"]);
    let again = report["undone_by"].as_str().expect("an operation");
    team.json(&["undo", again]);
    assert_eq!(team.main(), later);
    assert_eq!(team.state(0), "merged");
    team.assert_sound();
}

#[test]
fn what_was_pushed_or_is_held_by_another_branch_is_not_moved() {
    let team = team(1);
    let landed = team.land(0);
    for held in ["refs/remotes/origin/main", "refs/heads/release", "refs/tags/v1"] {
        team.repo.git(["update-ref", held, &landed]);
        assert_eq!(team.refusal(&["undo"]).0, "undo-built-upon", "{held}");
        team.repo.git(["update-ref", "-d", held]);
    }
    // An agent that began there stands on it.
    let other = team.json(&["spawn", "-m", "go on from there"]);
    assert_eq!(team.refusal(&["undo"]).0, "undo-built-upon");
    team.json(&["discard", other["agent_id"].as_str().expect("an id")]);
    team.json(&["undo", team.id(0)]);
    assert_ne!(team.main(), landed);
}

#[test]
fn a_file_with_changes_is_named_and_nothing_moves() {
    let team = team(1);
    let landed = team.land(0);
    team.repo.write("src/file-0.rs", "edited by a person\n");
    let mut command = agent_command(&team.repo.path());
    let output = command.args(["undo"]).output().expect("ran");
    assert_eq!(output.status.code(), Some(3));
    assert!(describe(&output).contains("src/file-0.rs"), "{}", describe(&output));
    assert_eq!(team.main(), landed);
    assert_eq!(team.state(0), "merged");
    // What is not in the way stays as it is.
    team.repo.git(["checkout", "--quiet", "src/file-0.rs"]);
    team.repo.write("README.md", "edited by a person\n");
    team.json(&["undo"]);
    let content = fs::read_to_string(team.repo.path().join("README.md")).expect("read");
    assert_eq!(content, "edited by a person\n");
}

#[test]
fn a_discard_is_taken_back_with_uncommitted_work_and_the_state_before() {
    let team = team(1);
    let (id, worktree) = &team.agents[0];
    fs::write(worktree.join("src/more.rs"), "pub fn more() {}\n").expect("written");
    let status = || {
        let said = git_in(worktree, ["status", "--porcelain"]);
        // Whether it is staged is not kept.
        said.lines().map(|line| line.trim_start()[2..].trim_start().to_owned()).collect::<Vec<_>>()
    };
    let before = status();
    team.json(&["discard", id]);
    assert!(!worktree.exists());
    let report = team.json(&["undo"]);
    assert_eq!(report["restored"][0]["agent_id"], id.as_str());
    assert_eq!(status(), before);
    assert_eq!(team.state(0), "done");
    assert_eq!(team.json(&["show", id])["summary"], "finished");
    let again = report["undone_by"].as_str().expect("an operation");
    team.json(&["undo", again]);
    assert!(!worktree.exists());
    assert_eq!(team.state(0), "discarded");
    team.json(&["undo"]);
    assert_eq!(status(), before);
    let doctor = team.json(&["doctor"]);
    assert_eq!(doctor["healthy"], true, "{doctor}");
}

#[test]
fn decisions_names_and_policies_are_taken_back_in_turn() {
    let team = team(1);
    let id = team.id(0);
    let policy = team.json(&["show", id])["whitelist"].clone();
    team.json(&["amend", id, "--add-scope", "README.md"]);
    team.json(&["rename", id, "worker"]);
    team.json(&["mark", "defer", id, "-m", "later"]);
    team.json(&["mark", "reject", id, "-m", "no"]);
    assert_eq!(team.state(0), "rejected");
    team.json(&["undo"]);
    assert_eq!(team.state(0), "done");
    assert_eq!(team.json(&["show", id])["deferred"], true);
    team.json(&["undo"]);
    assert_ne!(team.json(&["show", id])["deferred"], true);
    assert_eq!(team.json(&["show", "worker"])["agent_id"], id);
    team.json(&["undo"]);
    assert_eq!(team.refusal(&["show", "worker"]).0, "agent-unknown");
    team.json(&["undo"]);
    assert_eq!(team.json(&["show", id])["whitelist"], policy);
    team.json(&["undo"]);
    assert_ne!(team.state(0), "done");
    assert_eq!(team.refusal(&["undo"]), ("operation-unknown".to_owned(), 2));
    // A second call is no way forward and back, so the way forward is named.
    let said = describe(&team.repo.agent(&["undo"]));
    let again = said.split("to do again what was taken back last, run git agent undo ").nth(1);
    let again = again.and_then(|rest| rest.split_whitespace().next()).expect("an operation");
    team.json(&["undo", again]);
    assert_eq!(team.state(0), "done");
    team.json(&["undo"]);
    let locked = git_in(&team.agents[0].1, ["worktree", "list", "--porcelain"]);
    assert!(locked.contains("locked"), "{locked}");
}

#[test]
fn an_update_is_taken_back_in_the_agents_own_worktree() {
    let team = team(1);
    let (id, worktree) = &team.agents[0];
    team.json(&["commit", id, "-m", "work"]);
    let tip = git_in(worktree, ["rev-parse", "HEAD"]);
    team.repo.write("README.md", "main moves on\n");
    team.repo.commit_all("on");
    team.json(&["update", id]);
    assert_ne!(git_in(worktree, ["rev-parse", "HEAD"]), tip);
    team.json(&["undo"]);
    assert_eq!(git_in(worktree, ["rev-parse", "HEAD"]), tip);
    assert_eq!(git_in(worktree, ["status", "--porcelain"]), "");
}

#[test]
fn what_later_decisions_stand_on_is_named() {
    let team = team(1);
    let id = team.id(0);
    team.land(0);
    let landing = team.operations()[0]["operation"].clone();
    team.json(&["discard", id]);
    let refusal = team.refusal(&["undo", landing.as_str().expect("an id")]);
    assert_eq!(refusal, ("undo-built-upon".to_owned(), 3));
    // One after the other they are taken back.
    team.json(&["undo"]);
    team.json(&["undo"]);
    assert!(team.agents[0].1.join("src/file-0.rs").exists());
    assert!(!team.repo.path().join("src/file-0.rs").exists());
    // A change of the name decides nothing, and stays.
    team.json(&["reject", id]);
    let said = describe(&team.repo.agent(&["merge", id]));
    assert!(said.contains("git agent undo --list"), "{said}");
    assert!(said.contains(&format!("git agent retry {}", &id[..8])), "{said}");
    let rejection = team.operations()[0]["operation"].clone();
    team.json(&["rename", id, "other"]);
    team.json(&["undo", rejection.as_str().expect("an id")]);
    let shown = team.json(&["show", id]);
    assert_eq!((&shown["name"], &shown["state"]), (&json!("other"), &json!("done")));
}

#[test]
fn what_is_said_to_come_back_is_what_there_was() {
    let repo = TestRepo::with_commit();
    repo.agent_json(&["spawn", "read all", "--role=read-only", "--name=reader"]);
    repo.agent_json(&["discard", "reader"]);
    let undone = repo.agent_json(&["undo"]);
    assert_eq!(undone["restored"], json!([]), "{undone}");
}

/// Not a test: the process that dies. It does nothing unless a step is named.
#[test]
fn child() {
    if let Some(order) = Order::received() {
        let what = order.words.first().cloned();
        undo_with(&death::ctx(&order.directory, order.dying()), what);
    }
}

fn undo_with(ctx: &Ctx, what: Option<String>) {
    let options = UndoOptions { what, ..UndoOptions::default() };
    let plan = undo::plan(ctx, &options).expect("a plan");
    undo::execute(ctx, &plan).expect("undone");
}

#[test]
fn a_kill_at_any_step_loses_nothing_and_the_next_one_completes_it() {
    let team = team(2);
    let before = team.main();
    team.repo.write("other.txt", "dirty\n");
    team.json(&["merge", "--all"]);
    let mut saved = team.repo.save();
    for step in STEPS {
        death::die_at("undo::child", &team.repo.path(), step, &[]);
        if step != "undone" {
            team.json(&["undo"]);
        }
        assert_eq!(team.main(), before, "{step}");
        assert!((0..2).all(|it| team.state(it) == "done"), "{step}");
        assert_eq!(team.repo.git(["status", "--porcelain"]), "?? other.txt", "{step}");
        let said = team.repo.git(["fsck", "--strict", "--no-progress", "--no-dangling"]);
        assert_eq!(said, "", "{step}");
        assert_eq!(team.operations().len(), 4, "{step}");
        saved.restore();
    }
    let steps = steps_of(|reached| undo_with(&death::ctx(&team.repo.path(), reached), None));
    assert_eq!(steps, STEPS);
}

#[test]
fn of_two_undos_of_one_operation_the_second_is_told_that_it_is_taken_back() {
    let team = team(1);
    // A decision, which moves no branch, and a discard.
    for words in [&["rename", team.id(0), "other"][..], &["discard", team.id(0)]] {
        team.json(words);
        let ctx = death::ctx(&team.repo.path(), death::unwatched());
        let plan = || undo::plan(&ctx, &UndoOptions::default()).expect("a plan");
        let (first, second) = (plan(), plan());
        undo::execute(&ctx, &first).expect("undone");
        let before = seen(&team);
        let error = undo::execute(&ctx, &second).expect_err("it is taken back");
        assert!(error.to_string().contains("is taken back already"), "{error}");
        assert_eq!(seen(&team), before);
    }
}

#[test]
fn a_merged_agent_that_comes_back_is_not_locked() {
    let team = team(1);
    team.json(&["merge", team.id(0)]);
    team.json(&["discard", team.id(0)]);
    team.json(&["undo"]);
    let worktrees = team.repo.git(["worktree", "list", "--porcelain"]);
    assert!(worktrees.contains(&team.id(0)[..8]), "{worktrees}");
    assert!(!worktrees.contains("locked"), "{worktrees}");
}

#[test]
fn what_was_decided_about_again_since_the_plan_is_not_taken_back() {
    let team = team(1);
    team.json(&["merge", team.id(0)]);
    let ctx = death::ctx(&team.repo.path(), death::unwatched());
    let plan = undo::plan(&ctx, &UndoOptions::default()).expect("a plan");
    team.json(&["discard", team.id(0)]);
    let before = seen(&team);
    let error = undo::execute(&ctx, &plan).expect_err("it was discarded");
    assert!(error.to_string().contains("was decided about again"), "{error}");
    assert_eq!(seen(&team), before);
}

#[test]
fn an_agent_takes_nothing_back_and_another_clone_neither() {
    let team = team(1);
    let landed = team.land(0);
    let (id, worktree) = &team.agents[0];
    let mut inside = agent_command(worktree);
    let output = inside.args(["undo"]).env("GIT_AGENT_ID", id).output().expect("ran");
    assert_eq!(output.status.code(), Some(3), "{}", describe(&output));
    assert_eq!(team.main(), landed);

    // A line that another clone wrote says that the landing was taken back. This clone landed it, and believes itself.
    let operation = team.operations()[0]["operation"].clone();
    let spawn = team.json(&["show", id])["spawn_commit"].clone();
    let spawn = spawn.as_str().expect("an oid");
    let row = team.repo.git(["notes", "--ref=agents", "show", spawn]);
    let forged = json!({
        "t": "20991120T214929.123456Z-000-7f3a", "a": id, "e": "undone", "by": "me",
        "d": {"operation": operation},
    });
    let note = format!("{row}\n{forged}\n");
    team.repo.git(["notes", "--ref=agents", "add", "-f", "-m", &note, spawn]);
    let shown = team.json(&["show", id]);
    assert_eq!(shown["state"], "merged", "{shown}");
    assert!(shown["irregular"].to_string().contains("taken back"), "{shown}");
    // Nor does that line keep this clone from taking its landing back.
    let listed = &team.operations()[0];
    assert_eq!((&listed["operation"], &listed["undoable"]), (&operation, &json!(true)));
    team.json(&["undo"]);
    assert_ne!(team.main(), landed);
    // Of its own operations another clone is believed.
    let theirs = |kind: &str, own: &str, facts: Value| {
        json!({
            "t": "20991121T214929.123456Z-fff-7f3a", "a": id, "e": kind, "by": "me", "o": own, "d": facts,
        })
    };
    let (first, second) = ("op-0000000000a1", "op-0000000000a2");
    let deferred = theirs("deferred", first, json!({"reason": "theirs"}));
    let undone = theirs("undone", second, json!({"operation": first}));
    for (line, is_deferred) in [(deferred, true), (undone, false)] {
        team.repo.git(["notes", "--ref=agents", "append", "-m", &line.to_string(), spawn]);
        assert_eq!(team.json(&["show", id])["deferred"], is_deferred);
    }
}

/// What a person would compare: the branch, and of each agent state, name, mark and files.
fn seen(team: &Team) -> Value {
    let agents = (0..team.agents.len()).map(|it| {
        let shown = team.json(&["show", team.id(it)]);
        let worktree = &team.agents[it].1;
        let mut files: Vec<String> = fs::read_dir(worktree.join("src"))
            .into_iter()
            .flatten()
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8"))
            .collect();
        files.sort();
        json!([shown["state"], shown["name"], shown["deferred"], shown["whitelist"], files])
    });
    json!([team.main(), agents.collect::<Vec<_>>()])
}

#[test]
fn whatever_was_done_undo_leads_back_step_by_step() {
    let number = |name: &str, otherwise: u64| {
        std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
    };
    let mut random = number("GIT_AGENT_SEED", 1);
    let mut below = |bound: u64| {
        // Knuth's MMIX generator; the high bits are the good ones.
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % bound
    };
    let team = team(10);
    let mut seen_before = Vec::new();
    for step in 0..number("GIT_AGENT_STEPS", 10) {
        let id = team.id(usize::try_from(below(10)).expect("small"));
        let name = format!("name-{step}");
        let words: &[&str] = match below(7) {
            0 | 1 => &["merge", id],
            2 => &["mark", "reject", id],
            3 => &["mark", "defer", id],
            4 => &["rename", id, &name],
            5 => &["amend", id, "--new", &name],
            _ => &["discard", id],
        };
        let before = seen(&team);
        let mut command = agent_command(&team.repo.path());
        let output = command.args(words).output().expect("ran");
        // What is not allowed changes nothing, and there is nothing to take back.
        if output.status.success() {
            seen_before.push((words.join(" "), before));
        } else {
            assert_eq!(seen(&team), before, "{words:?}: {}", describe(&output));
        }
    }
    assert!(seen_before.len() > 3, "{}", seen_before.len());
    while let Some((words, before)) = seen_before.pop() {
        team.json(&["undo"]);
        assert_eq!(seen(&team), before, "after {words}");
    }
    team.assert_sound();
}

#[test]
fn what_came_after_a_verdict_or_an_operation_is_shown_alone() {
    let team = team(1);
    let (id, worktree) = &team.agents[0];
    let changed = |words: &[&str]| {
        let report = team.json(&[&["diff", id][..], words].concat());
        let paths = { report["changes"].as_array().expect("a list").iter() };
        paths.map(|change| change["path"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(team.refusal(&["diff", id, "--since-verdict"]).0, "agent-state");
    team.json(&["verify", id, "--record"]);
    assert_eq!(changed(&["--since-verdict"]), Vec::<Value>::new());
    fs::write(worktree.join("src/later.rs"), "pub fn later() {}\n").expect("written");
    assert_eq!(changed(&["--since-verdict"]), [json!("src/later.rs")]);
    assert_eq!(changed(&[]), [json!("src/file-0.rs"), json!("src/later.rs")]);
    team.json(&["commit", id, "-m", "both"]);
    let log = team.json(&["show", "--log", id]);
    let events = log["events"].as_array().expect("events");
    let of = |kind: &str| {
        let event = events.iter().find(|event| event["event"] == kind).expect("one");
        event["operation"].as_str().expect("an id").to_owned()
    };
    assert_eq!(changed(&["--since", &of("committed")]), Vec::<Value>::new());
    assert_eq!(changed(&["--since", &of("verified")]), [json!("src/later.rs")]);
    assert_eq!(changed(&["--since", &of("spawned")]).len(), 2);
    assert_eq!(team.refusal(&["diff", id, "--since", "op-no"]).0, "operation-unknown");
    assert_eq!(team.refusal(&["diff", id, "--since", "op-"]).0, "operation-unknown");
}

#[test]
fn a_retry_is_not_taken_back_by_half() {
    let team = team(1);
    team.json(&["rename", team.id(0), "worker"]);
    let new = team.json(&["retry", "worker"])["agent_id"].clone();
    let retry = team.operations()[0].clone();
    assert_eq!(retry["obstacle"], "made-or-ran", "{retry}");
    assert_eq!(team.refusal(&["undo"]).0, "undo-built-upon");
    assert_eq!(team.json(&["show", "worker"])["agent_id"], new);
}

#[test]
fn a_name_that_another_has_by_now_comes_back_with_a_word() {
    let team = team(2);
    team.json(&["rename", team.id(0), "worker"]);
    team.json(&["rename", team.id(0), "other"]);
    let renamed = team.operations()[0]["operation"].as_str().expect("an id").to_owned();
    team.json(&["rename", team.id(1), "worker"]);
    let undone = team.json(&["undo", &renamed]);
    let said = undone["warnings"][0].as_str().expect("a warning");
    assert!(said.contains("has the name `worker` too"), "{said}");
    assert_eq!(team.refusal(&["show", "worker"]).0, "agent-ambiguous");
}

#[test]
fn a_verdict_on_what_was_said_to_be_done_makes_it_no_more_done_than_that() {
    for (said, why) in [("done", "-m"), ("fail", "--reason"), ("defer", "--reason")] {
        let team = team(1);
        team.json(&["undo"]);
        assert_eq!(team.state(0), "idle");
        team.json(&["mark", said, team.id(0), why, "because"]);
        assert_eq!(team.json(&["verify", team.id(0)])["verdict"], "accept");
        team.json(&["undo"]);
        assert_eq!(team.state(0), "idle", "{said}");
        let taken = team.repo.agent(&["train", "--all"]);
        assert!(!String::from_utf8_lossy(&taken.stdout).contains("landed"), "{}", describe(&taken));
        // What is said after that counts.
        team.json(&["mark", "done", team.id(0), "-m", "finished"]);
        team.json(&["verify", team.id(0)]);
        assert_eq!(team.state(0), "done", "{said}");
    }
}

#[test]
fn a_discard_of_several_is_taken_back_as_a_whole_or_not_at_all() {
    let team = team(2);
    team.json(&["discard", team.id(0), team.id(1)]);
    let mut places: Vec<_> = team.agents.iter().map(|(_, place)| place.clone()).collect();
    // Whichever comes last.
    places.sort();
    fs::create_dir_all(&places[1]).expect("made");
    fs::write(places[1].join("mine"), "a person's\n").expect("written");
    assert_eq!(team.refusal(&["undo"]), ("path-exists".to_owned(), 3));
    assert!(!places[0].exists(), "half of it");
    fs::remove_dir_all(&places[1]).expect("removed");
    team.json(&["undo"]);
    for number in [0, 1] {
        assert_eq!(team.state(number), "done");
        assert!(team.agents[number].1.join(format!("src/file-{number}.rs")).exists());
    }
}

#[test]
fn what_expired_of_a_discarded_agent_is_told_when_the_rest_comes_back() {
    let team = team(1);
    team.json(&["discard", team.id(0)]);
    team.repo.agent(&["gc", "--expire-salvage=0s", "--yes"]);
    team.repo.git(["reflog", "expire", "--expire=now", "--all"]);
    team.repo.git(["gc", "--quiet", "--prune=now"]);
    let undone = team.json(&["undo"]);
    let warnings = undone["warnings"].to_string();
    assert!(warnings.contains("a part of what was kept of agent"), "{undone:#}");
}
