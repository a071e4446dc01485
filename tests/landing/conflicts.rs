use super::{answer, run};
use crate::support::agent::{agent_command, answer_of, describe};
use crate::support::death::{self, Order, steps_of};
use crate::support::{TestRepo, git_in, isolated};
use crate::verify::{Agent, refused};
use git_agent::agents::context::ctx::Ctx;
use git_agent::ops::update::{self, CONFLICT_STEPS, RESOLVED_STEPS, UpdateOptions};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

const ONE: &str = "pub fn one() -> u32 {\n";

/// An agent and a `main` that conflict in three ways: in the same line, in a file that one side deleted, and in one that both added.
fn conflicting() -> Agent {
    let agent = Agent::new();
    agent.repo.write("src/gone.rs", "pub fn gone() {}\n");
    agent.repo.commit_all("a file that goes");
    answer(&agent, "update", &[]);
    agent.write("src/lib.rs", format!("{ONE}    11\n}}\n"));
    agent.write("src/gone.rs", "pub fn gone() -> u32 {\n    0\n}\n");
    agent.write("src/new.rs", "pub fn mine() {}\n");
    answer(&agent, "commit", &["-m", "mine"]);
    agent.repo.write("src/lib.rs", format!("{ONE}    111\n}}\n"));
    agent.repo.write("src/new.rs", "pub fn theirs() {}\n");
    agent.repo.write("README.md", "theirs\n");
    agent.repo.git(["rm", "--quiet", "src/gone.rs"]);
    agent.repo.commit_all("a hundred and eleven");
    agent
}

/// What somebody does who resolves them.
const RESOLVE: &str = "printf 'pub fn one() -> u32 {\\n    122\\n}\\n' > src/lib.rs; rm -f src/gone.rs; \
     printf 'pub fn mine() {}\\npub fn theirs() {}\\n' > src/new.rs";

fn resolve(agent: &Agent) {
    let mut shell = std::process::Command::new("sh");
    let status = shell.args(["-c", RESOLVE]).current_dir(&agent.worktree).status();
    assert!(status.expect("a shell").success());
}

const PATHS: [&str; 3] = ["src/gone.rs", "src/lib.rs", "src/new.rs"];

/// `update --conflicts`, which leaves some.
fn left(agent: &Agent) -> Value {
    let output = run(agent, "update", &["--conflicts", "--format=json"]);
    assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
    answer_of(&output)
}

fn update_with(ctx: &Ctx, agent: &str, conflicts: bool) {
    let options = UpdateOptions { conflicts, ..UpdateOptions::default() };
    let plan = update::plan(ctx, agent, options).expect("a plan");
    update::execute(ctx, &plan).expect("updated");
}

/// Not a test: the process that dies. It does nothing unless a step is named.
#[test]
fn child() {
    if let Some(order) = Order::received() {
        let ctx = death::ctx(&order.directory, order.dying());
        update_with(&ctx, &order.words[0], order.words[1] == "leave");
    }
}

/// What git says is unmerged, side by side.
fn unmerged(agent: &Agent) -> String {
    agent.git(&["ls-files", "--unmerged"])
}

#[test]
fn what_is_resolved_as_the_target_has_it_brings_all_that_the_target_has() {
    let agent = Agent::new();
    agent.write("src/lib.rs", "pub fn mine() {}\n");
    answer(&agent, "commit", &["-m", "mine"]);
    agent.repo.write("src/lib.rs", "pub fn theirs() {}\n");
    agent.repo.write("README.md", "theirs\n");
    agent.repo.commit_all("theirs");
    left(&agent);
    // A target that went back has no part in that merge any more.
    let target = agent.repo.git(["rev-parse", "main"]);
    agent.repo.git(["reset", "--quiet", "--hard", "main^"]);
    let output = run(&agent, "update", &[]);
    refused(&output, "worktree-busy", 3);
    assert!(describe(&output).contains(" merge --abort"), "{}", describe(&output));
    agent.repo.git(["reset", "--quiet", "--hard", &target]);
    agent.git(&["checkout", "--quiet", "--theirs", "src/lib.rs"]);
    agent.git(&["add", "src/lib.rs"]);
    let staged = agent.git(&["write-tree"]);
    assert_eq!(staged, agent.repo.git(["rev-parse", "main^{tree}"]));
    assert_eq!(answer(&agent, "update", &[])["outcome"], "updated");
    assert_eq!(agent.git(&["rev-parse", "HEAD^{tree}"]), staged);
    assert_eq!(agent.git(&["status", "--porcelain", "--untracked-files=no"]), "");
}

#[test]
fn conflicts_are_left_as_git_leaves_them_and_are_committed_once_resolved() {
    let agent = conflicting();
    let tip = agent.git(&["rev-parse", "HEAD"]);
    let main = agent.repo.git(["rev-parse", "main"]);
    // The oracle: git merges the same two commits in a worktree of its own.
    let oracle = agent.repo.path().with_file_name("oracle");
    let place = oracle.to_str().expect("UTF-8");
    agent.repo.git(["worktree", "add", "--quiet", "--detach", place, &tip]);
    let merge = ["-c", "merge.conflictStyle=zdiff3", "merge", "--quiet", &main];
    let merged = isolated("git", &oracle).args(merge).output();
    assert_eq!(merged.expect("git").status.code(), Some(1));

    let report = left(&agent);
    assert_eq!(report["outcome"], "conflicts");
    assert_eq!(report["conflicts"], json!(PATHS));
    assert_eq!(unmerged(&agent), git_in(&oracle, ["ls-files", "--unmerged"]));
    let status =
        |place: &std::path::Path| git_in(place, ["status", "--porcelain", "--untracked-files=no"]);
    assert_eq!(status(&agent.worktree), status(&oracle));
    for path in PATHS {
        let text = |place: &std::path::Path| fs::read_to_string(place.join(path)).expect(path);
        assert_eq!(text(&agent.worktree), text(&oracle).replace(&main, "MERGE_HEAD"), "{path}");
    }
    assert_eq!(agent.git(&["rev-parse", "HEAD", "MERGE_HEAD"]), format!("{tip}\n{main}"));
    // Nothing changes by asking again, and nothing that is unresolved is committed.
    assert_eq!(left(&agent)["conflicts"], json!(PATHS));
    let output = run(&agent, "update", &[]);
    refused(&output, "update-conflicts", 3);
    // It never ran, so there is no session to go on with.
    let said = describe(&output);
    assert!(said.contains(" --host <host>") && !said.contains("--resume"), "{said}");
    refused(&run(&agent, "commit", &["-m", "x"]), "worktree-busy", 3);
    // What the merge brought is nothing that the agent did.
    let mut codes = agent.codes();
    codes.dedup();
    let found = ["worktree.in-progress", "worktree.unmerged", "merge.conflict"];
    assert_eq!(codes, found);
    let shown = agent.repo.agent_json(&["show", &agent.id]);
    assert_eq!(shown["out_of_scope"], json!(0), "{shown:#}");

    resolve(&agent);
    // What comes to the target meanwhile is not what was merged.
    agent.repo.write("README.md", "# Later\n");
    agent.repo.commit_all("later");
    let report = answer(&agent, "update", &[]);
    assert_eq!(report["outcome"], "updated");
    assert_eq!(report["target"]["oid"], main.as_str());
    assert_eq!(agent.git(&["log", "-1", "--format=%P"]), format!("{tip} {main}"));
    assert_eq!(agent.git(&["status", "--porcelain"]), "");
    assert_eq!(agent.git(&["show", "HEAD:src/lib.rs"]), format!("{ONE}    122\n}}"));
    let verdict = agent.verify(&[]);
    assert_eq!(verdict["verdict"], "accept", "{verdict:#}");
    assert_eq!(answer(&agent, "merge", &[])["outcome"], "merged");
}

#[test]
fn what_is_half_resolved_or_out_of_scope_is_named() {
    let agent = conflicting();
    left(&agent);
    agent.write("src/lib.rs", format!("{ONE}    122\n}}\n"));
    agent.write("src/new.rs", "pub fn mine() {}\npub fn theirs() {}\n");
    // Nobody has said what is to become of the file that one side deleted.
    let output = run(&agent, "update", &["--format=json"]);
    let error: Value = serde_json::from_slice(&output.stderr).expect("JSON");
    assert_eq!(error["error"]["conflicts"], json!(["src/gone.rs"]));
    agent.git(&["add", "src/gone.rs"]);
    agent.write("README.md", "mine after all\n");
    let output = run(&agent, "update", &["--format=json"]);
    let error: Value = serde_json::from_slice(&output.stderr).expect("JSON");
    assert_eq!(error["error"]["code"], "out-of-scope");
    assert_eq!(error["error"]["paths"], json!(["README.md"]));
    agent.git(&["checkout", "AUTO_MERGE", "--", "README.md"]);
    answer(&agent, "update", &[]);
    assert_eq!(agent.git(&["show", "HEAD:README.md"]), "theirs");
    assert_eq!(agent.verify(&[])["verdict"], "accept");
}

#[test]
fn a_merge_of_anything_else_is_not_ours_to_end() {
    let agent = conflicting();
    let other = agent.repo.git(["commit-tree", "main^{tree}", "-m", "planted"]);
    left(&agent);
    let admin = agent.git(&["rev-parse", "--absolute-git-dir"]);
    fs::write(PathBuf::from(admin).join("MERGE_HEAD"), format!("{other}\n")).expect("planted");
    resolve(&agent);
    refused(&run(&agent, "update", &[]), "worktree-busy", 3);
    refused(&run(&agent, "update", &["--conflicts"]), "worktree-busy", 3);
}

#[test]
fn in_the_middle_of_a_rebase_no_switch_is_advised() {
    let agent = Agent::new();
    agent.write("src/lib.rs", "pub fn mine() {}\n");
    answer(&agent, "commit", &["-m", "mine"]);
    agent.repo.write("README.md", "theirs\n");
    agent.repo.commit_all("theirs");
    let mut rebase = isolated("git", &agent.worktree);
    let rebase = rebase.args(["rebase", "--exec=false", "main"]).output();
    assert!(!rebase.expect("git starts").status.success());
    let output = run(&agent, "update", &[]);
    refused(&output, "worktree-busy", 3);
    let said = describe(&output);
    assert!(said.contains(" status") && !said.contains(" switch"), "{said}");
}

#[test]
fn a_kill_at_any_step_is_completed_by_the_next_one() {
    let agent = conflicting();
    let tip = agent.git(&["rev-parse", "HEAD"]);
    let main = agent.repo.git(["rev-parse", "main"]);
    let die = |step: &str, what: &str| {
        death::die_at("landing::conflicts::child", &agent.repo.path(), step, &[&agent.id, what]);
        assert_eq!(agent.repo.fsck(), "", "{step}");
    };
    let steps = |conflicts: bool| {
        steps_of(|reached| {
            update_with(&death::ctx(&agent.repo.path(), reached), &agent.id, conflicts);
        })
    };
    let mut saved = agent.repo.save();
    let leaving = steps(true);
    assert!(leaving.ends_with(&CONFLICT_STEPS.map(str::to_owned)), "{leaving:?}");
    let expected = unmerged(&agent);
    for step in &leaving {
        saved.restore();
        die(step, "leave");
        assert_eq!(left(&agent)["conflicts"], json!(PATHS), "{step}");
        assert_eq!(unmerged(&agent), expected, "{step}");
    }
    resolve(&agent);
    let mut saved = agent.repo.save();
    assert_eq!(steps(false), RESOLVED_STEPS);
    for step in RESOLVED_STEPS {
        saved.restore();
        die(step, "conclude");
        let admin = PathBuf::from(agent.git(&["rev-parse", "--absolute-git-dir"]));
        if admin.join("MERGE_HEAD").exists() {
            // What is told is what was merged, wherever the target is by now.
            agent.repo.git(["commit", "--quiet", "--allow-empty", "-m", "main moves on"]);
            let report = answer(&agent, "update", &[]);
            assert_eq!(report["target"]["oid"], main.as_str(), "{step}: {report}");
        } else {
            answer(&agent, "update", &[]);
        }
        assert_eq!(agent.git(&["log", "-1", "--format=%P"]), format!("{tip} {main}"), "{step}");
        assert_eq!(agent.git(&["status", "--porcelain"]), "", "{step}");
        assert_eq!(agent.verify(&[])["verdict"], "accept", "{step}");
    }
}

/// Runs a verb with a scripted host that resolves the conflicts, and writes what it was told into its bundle.
fn with_host(repo: &TestRepo, arguments: &[&str]) -> Value {
    let programs = repo.path().with_file_name("programs");
    fs::create_dir_all(&programs).expect("made");
    let program = programs.join("claude");
    let script = format!("#!/bin/sh\ncat > .agent/chatlog.md\n{RESOLVE}\n");
    fs::write(&program, script).expect("written");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
    let path = std::env::var("PATH").expect("a path");
    let output = agent_command(&repo.path())
        .env("PATH", format!("{}:{path}", programs.display()))
        .env("HOME", repo.path().with_file_name("home"))
        .args(arguments)
        .arg("--format=json")
        .output()
        .expect("git-agent starts");
    let report = serde_json::from_slice(&output.stdout);
    report.unwrap_or_else(|_| panic!("{}", describe(&output)))
}

#[test]
fn a_host_is_told_what_conflicts_and_why_and_resolves_it() {
    let agent = conflicting();
    let main = agent.repo.git(["rev-parse", "--short", "main"]);
    let words = ["update", &agent.id, "--conflicts", "--host", "claude"];
    let report = with_host(&agent.repo, &words);
    assert_eq!(report["outcome"], "updated", "{report:#}");
    let told = fs::read_to_string(agent.worktree.join(".agent/chatlog.md")).expect("told");
    let (_, told) = told.split_once("## Conflicts to resolve").expect("a section");
    for expected in [
        "- src/gone.rs (modify/delete)",
        "- src/lib.rs (contents)",
        "- src/new.rs (contents)",
        &format!("> {main} a hundred and eleven"),
        "> +    111\n",
        "> +    11\n",
    ] {
        assert!(told.contains(expected), "{expected} is not in {told}");
    }
    assert!(!told.contains("README.md"), "{told}");
    assert_eq!(agent.verify(&[])["verdict"], "accept");
}

#[test]
fn a_host_begins_anew_where_the_last_session_was_of_another_one() {
    use git_agent::domain::life::event::{Exited, HostSession, Started, What};
    let agent = conflicting();
    let repo = git_agent::git::Repo::open(&agent.repo.path()).expect("opens");
    let spawn = agent.repo.agent_json(&["show", &agent.id])["spawn_commit"].take();
    let spawn = spawn.as_str().and_then(git_agent::domain::value::oid::Oid::from_hex);
    let session = HostSession {
        id: Some("0199c0de-0000-7000-8000-000000000001".to_owned()),
        ..HostSession::default()
    };
    for what in [
        What::Started(Started {
            run: Some(1),
            command: "codex exec".to_owned(),
            ..Started::default()
        }),
        What::Exited(Exited { run: Some(1), session, ..Exited::default() }),
    ] {
        let ledger = git_agent::store::ledger::Ledger::new(&repo);
        ledger.append(spawn.expect("a commit"), "test", what, chrono::Utc::now()).expect("appends");
    }
    let report = with_host(&agent.repo, &["update", &agent.id, "--conflicts", "--host", "claude"]);
    assert_eq!(report["outcome"], "updated", "{report:#}");
}

#[test]
fn a_train_tries_once_more_what_conflicts() {
    let agent = conflicting();
    let main = agent.repo.git(["rev-parse", "main"]);
    let words = ["mark", "done", &agent.id, "-m", "mine"];
    agent.repo.agent_json(&words);
    let report = with_host(&agent.repo, &["train", &agent.id]);
    assert_eq!(report["items"][0]["error"]["conflicts"], json!(PATHS), "{report:#}");
    assert_eq!(agent.repo.git(["rev-parse", "main"]), main);
    let words = ["train", &agent.id, "--solve-conflicts", "claude"];
    let report = with_host(&agent.repo, &words);
    assert_eq!(report["items"][0]["outcome"], "landed", "{report:#}");
    assert_eq!(agent.repo.git(["show", "main:src/lib.rs"]), format!("{ONE}    122\n}}"));
    assert_eq!(agent.repo.git(["merge-base", "main", &main]), main);
}

#[test]
fn what_a_person_resolved_before_is_resolved_again_where_git_remembers_it() {
    let agent = conflicting();
    agent.repo.git(["config", "rerere.enabled", "true"]);
    let tip = agent.git(&["rev-parse", "HEAD"]);
    let place = agent.repo.path().with_file_name("persons");
    let text = place.to_str().expect("UTF-8");
    let add = ["worktree", "add", "--quiet", "--detach", text, &tip];
    agent.repo.git(add);
    let script =
        format!("git merge --quiet main; {RESOLVE}; git add --all && git commit --quiet --no-edit");
    let status = isolated("sh", &place).args(["-c", &script]).status();
    assert!(status.expect("a shell").success());
    left(&agent);
    // What one side deleted has no lines to remember; the rest is as the person resolved it.
    let output = run(&agent, "update", &["--format=json"]);
    let error: Value = serde_json::from_slice(&output.stderr).expect("JSON");
    assert_eq!(error["error"]["conflicts"], json!(["src/gone.rs"]), "{error:#}");
    let text = |path: &str| fs::read_to_string(agent.worktree.join(path)).expect(path);
    assert_eq!(text("src/lib.rs"), format!("{ONE}    122\n}}\n"));
    assert_eq!(text("src/new.rs"), "pub fn mine() {}\npub fn theirs() {}\n");
}

#[test]
fn a_merge_driver_in_the_tree_is_the_one_of_the_main_worktree() {
    let agent = Agent::new();
    let log = agent.repo.path().with_file_name("drivers");
    let driver = |whose: &str| {
        let log = log.display();
        format!("echo {whose} >> '{log}'\ngit merge-file --union \"$2\" \"$1\" \"$3\"\n")
    };
    let set = ["config", "merge.own.driver", "sh src/merge.sh %O %A %B"];
    agent.repo.git(set);
    agent.repo.write("src/merge.sh", driver("main"));
    agent.repo.write(".gitattributes", "src/lib.rs merge=own\n");
    agent.repo.commit_all("a merge driver");
    answer(&agent, "update", &[]);
    agent.write("src/merge.sh", driver("agent"));
    agent.write("src/lib.rs", format!("{ONE}    11\n}}\n"));
    answer(&agent, "commit", &["-m", "mine"]);
    agent.repo.write("src/lib.rs", format!("{ONE}    111\n}}\n"));
    agent.repo.commit_all("a hundred and eleven");

    // The oracle: in the main worktree, git has the driver merge both.
    let tip = agent.git(&["rev-parse", "HEAD"]);
    agent.repo.git(["merge-tree", "--write-tree", "main", &tip]);
    let codes = agent.codes();
    assert!(!codes.iter().any(|code| code.contains("conflict")), "{codes:?}");

    agent.repo.write("src/bin/tool.rs", "fn main() { one() }\n");
    agent.repo.commit_all("a conflict beside it");
    agent.write("src/bin/tool.rs", "fn main() { two() }\n");
    answer(&agent, "commit", &["-m", "mine again"]);
    let report = left(&agent);
    assert_eq!(report["conflicts"], json!(["src/bin/tool.rs"]));
    let drivers = fs::read_to_string(&log).expect("a driver ran");
    assert!(drivers.lines().all(|whose| whose == "main"), "{drivers}");
}
