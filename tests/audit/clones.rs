//! Several clones of one repository.

use crate::support::TestRepo;
use crate::support::agent::{TASK, agent_command, describe, json_of};
use crate::support::death::ctx_with;
use crate::support::{PAST_HOOKS, git_in, isolated};
use crate::verify::refused;
use chrono::{DateTime, Utc};
use git_agent::agents::context::ctx::Seams;
use git_agent::ops::spawn;
use git_agent::ops::spawn::SpawnOptions;
use git_agent::wire::file::task_file;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A repository, and a clone of it that knows it as `origin`; the repository knows the clone as `there`.
struct Clones {
    here: TestRepo,
    there: PathBuf,
}

impl Clones {
    fn new() -> Clones {
        let here = TestRepo::with_commit();
        let there = here.path().with_file_name("there");
        let url = |path: &Path| format!("file://{}", path.display());
        let to = there.to_str().expect("UTF-8");
        git_in(&here.path(), ["clone", "--quiet", &url(&here.path()), to]);
        here.git(["remote", "add", "there", &url(&there)]);
        Clones { here, there }
    }

    fn there_json(&self, arguments: &[&str]) -> Value {
        let mut command = agent_command(&self.there);
        command.args(arguments).arg("--format=json");
        json_of(command)
    }

    fn spawn_there(&self, arguments: &[&str]) -> Value {
        let task = self.here.task_file(TASK);
        self.there_json(&[&["spawn", task.as_str()], arguments].concat())
    }

    /// Brings the rows of each clone to the other.
    fn unite(&self) {
        let copy = |remote: &str| format!("+refs/notes/agents:refs/notes/{remote}/agents");
        let there = copy("there");
        self.here.git(["fetch", "--quiet", "there", &there]);
        self.here.agent_json(&["unite", "there"]);
        let origin = copy("origin");
        git_in(&self.there, ["fetch", "--quiet", "origin", &origin]);
        self.there_json(&["unite"]);
    }
}

fn text(report: &Value, key: &str) -> String {
    report[key].as_str().expect(key).to_owned()
}

/// Spawns at a moment that the test chooses and gives the short name of the branch.
fn spawn_at(directory: &Path, now: DateTime<Utc>) -> String {
    let seams = Seams { clock: Arc::new(move || now), ..Seams::real() };
    let ctx = ctx_with(directory, seams);
    let draft = task_file::parse("task.toml", TASK.as_bytes());
    let plan = spawn::plan(&ctx, draft, &SpawnOptions::default()).expect("a plan");
    let report = spawn::execute(&ctx, plan).expect("an agent");
    report.branch.expect("a branch")
}

#[test]
fn j5_two_clones_give_two_names_in_one_second() {
    let clones = Clones::new();
    let now = Utc::now();
    let here = spawn_at(&clones.here.path(), now);
    let there = spawn_at(&clones.there, now);
    assert_ne!(here, there);
    let time = now.format("%Y%m%dT%H%M%SZ").to_string();
    for branch in [&here, &there] {
        let (slug, id8) = branch.split_once(&format!("-{time}-")).expect("the time");
        assert_eq!(slug, "agent/add-a-second-function-to-the");
        let agent = if *branch == here {
            clones.here.agent_json(&["show", branch])
        } else {
            clones.there_json(&["show", branch])
        };
        assert_eq!(agent["short_id"], id8);
    }
}

#[test]
fn j5_a_branch_of_two_rows_is_the_agents_whose_spawn_commit_it_holds() {
    let clones = Clones::new();
    let named = ["--branch", "agent/same"];
    let here = clones.here.spawn_task(TASK, &named);
    let there = clones.spawn_there(&named);
    clones.unite();
    let by_name = clones.here.agent_json(&["show", "agent/same"]);
    assert_eq!(by_name["agent_id"], here["agent_id"]);
    let by_name = clones.there_json(&["show", "agent/same"]);
    assert_eq!(by_name["agent_id"], there["agent_id"]);

    // The other clone's agent has no branch here, so no command takes this one's for its own.
    let other = text(&there, "agent_id");
    let judged = clones.here.agent(&["verify", &other]);
    refused(&judged, "agent-state", 3);
    let list = clones.here.agent_json(&["list"]);
    let tip = |id: &Value| {
        let rows = list["agents"].as_array().expect("rows");
        let row = rows.iter().find(|row| row["agent_id"] == *id);
        row.expect("listed")["tip"].clone()
    };
    assert_eq!(tip(&here["agent_id"]), here["spawn_commit"]);
    assert_eq!(tip(&there["agent_id"]), Value::Null);
    clones.here.agent_json(&["discard", &other, "--force"]);
    let kept = clones.here.git(["rev-parse", "refs/heads/agent/same"]);
    assert_eq!(kept, text(&here, "spawn_commit"));

    // A rebase gives the spawn commit another name, and a trailer still tells whose it is.
    clones.here.write("later.txt", "later\n");
    clones.here.commit_all("later");
    let worktree = PathBuf::from(text(&here, "worktree_abspath"));
    let rebase = [&PAST_HOOKS[..], &["rebase", "--quiet", "main"]].concat();
    git_in(&worktree, rebase);
    let by_name = clones.here.agent(&["show", "agent/same", "--format=json"]);
    let by_name: Value = serde_json::from_slice(&by_name.stdout)
        .unwrap_or_else(|_| panic!("{}", describe(&by_name)));
    assert_eq!(by_name["agent_id"], here["agent_id"]);
}

/// The bodies of all rows of a ledger.
fn ledger(directory: &Path) -> String {
    let list = git_in(directory, ["notes", "--ref=agents", "list"]);
    let notes = list.lines().filter_map(|line| line.split_once(' '));
    let bodies = notes.map(|(blob, _)| git_in(directory, ["cat-file", "blob", blob]));
    bodies.collect::<Vec<_>>().join("\n")
}

#[test]
fn j8_no_absolute_path_is_in_the_ledger() {
    let here = TestRepo::with_commit();
    let home = here.path();
    let beside = home.with_file_name("beside");
    let outside = here.spawn_task(TASK, &["--path", beside.to_str().expect("UTF-8")]);
    let inside = here.spawn();
    for agent in [&outside, &inside] {
        let worktree = text(agent, "worktree_abspath");
        let command = format!("cd {worktree} && ls {}/src; true", home.display());
        let program = format!("{}/missing", home.display());
        for words in [vec!["sh", "-c", &command], vec![program.as_str()]] {
            let id = text(agent, "agent_id");
            let run = ["run", &id, "--no-verify", "--sandbox=off", "--"];
            here.agent(&[&run[..], &words].concat());
        }
    }
    let id = text(&inside, "agent_id");
    here.agent_json(&["discard", &id]);
    let to = home.with_file_name("rescued");
    here.agent_json(&["rescue", &id, "--to", to.to_str().expect("UTF-8")]);
    let rows = ledger(&home);
    let top = home.parent().expect("a directory");
    assert!(!rows.contains(top.to_str().expect("UTF-8")), "{rows}");
    assert!(rows.contains("…/rescued"), "{rows}");
    assert!(rows.contains("{root}/missing"), "{rows}");
    assert!(rows.contains("cd {worktree} && ls {root}/src"), "{rows}");

    // The worktree outside the root is found all the same, also where git has forgotten it.
    let id = text(&outside, "agent_id");
    let path = |who: &str| here.agent_json(&["show", who])["agent_id"].clone();
    assert_eq!(path(beside.to_str().expect("UTF-8")), outside["agent_id"]);
    let admin = format!("{}/.git/worktrees/agent-{}", home.display(), &id[..8]);
    std::fs::rename(&admin, home.with_file_name("admin")).expect("moved");
    assert_eq!(path(beside.to_str().expect("UTF-8")), outside["agent_id"]);
    let doctor = describe(&here.agent(&["doctor", "--fix"]));
    assert!(Path::new(&admin).is_dir(), "{doctor}");
    here.agent_json(&["discard", &id]);
    assert!(!beside.exists());
}

#[test]
fn j8_rows_with_absolute_paths_are_still_read() {
    let here = TestRepo::with_commit();
    let agent = here.spawn();
    let (id, commit) = (text(&agent, "agent_id"), text(&agent, "spawn_commit"));
    let relative = format!("\"{}\"", text(&agent, "worktree_path"));
    let absolute = format!("\"{}\"", text(&agent, "worktree_abspath"));
    let old = ledger(&here.path());
    assert!(old.contains(&relative), "{old}");
    let body = here.path().with_file_name("body");
    std::fs::write(&body, old.replace(&relative, &absolute) + "\n").expect("written");
    let body = body.to_str().expect("UTF-8");
    here.git(["notes", "--ref=agents", "add", "-f", "-F", body, &commit]);
    let admin = format!("{}/.git/worktrees/agent-{}", here.path().display(), &id[..8]);
    std::fs::rename(&admin, here.path().with_file_name("admin")).expect("moved");
    let shown = here.agent_json(&["show", &text(&agent, "worktree_abspath")]);
    assert_eq!(shown["agent_id"], agent["agent_id"]);
    assert_eq!(shown["worktree_path"], agent["worktree_path"]);
}

#[test]
fn j8_the_list_says_which_rows_are_another_clones() {
    let clones = Clones::new();
    let here = clones.here.spawn();
    let there = clones.spawn_there(&[]);
    clones.unite();
    let list = clones.here.agent_json(&["list"]);
    let row = |agent: &Value| {
        let rows = list["agents"].as_array().expect("rows").iter();
        let mut rows = rows.filter(|row| row["agent_id"] == agent["agent_id"]);
        rows.next().expect("listed").clone()
    };
    let clone_id = |directory: &Path| {
        let text = std::fs::read_to_string(directory.join(".git/agents/clone-id"));
        text.expect("a clone id").trim_end().to_owned()
    };
    let (own, foreign) = (row(&here), row(&there));
    assert_eq!(own["local"], true);
    assert_eq!(own["clone_id"], clone_id(&clones.here.path()));
    assert_eq!(own["worktree_path"], here["worktree_path"]);
    assert_eq!(foreign["local"], false);
    assert_eq!(foreign["clone_id"], clone_id(&clones.there));
    assert_eq!(foreign.get("worktree_path"), None);

    let table = describe(&clones.here.agent(&["list"]));
    assert!(table.contains("CLONE"), "{table}");
    let short = &text(&there, "agent_id")[..8];
    let line = table.lines().find(|line| line.starts_with(short));
    let line = line.expect("a line");
    assert!(line.contains(&clone_id(&clones.there)), "{line}");
    assert!(!line.contains('?'), "{line}");
    let shown = describe(&clones.here.agent(&["show", short]));
    let clone = format!("Clone:     {}, not this one", clone_id(&clones.there));
    assert!(shown.contains(&clone), "{shown}");
}

#[test]
fn j8_a_branch_that_was_fetched_is_listed_judged_and_landed() {
    let clones = Clones::new();
    let agent = clones.spawn_there(&[]);
    let (id, branch) = (text(&agent, "agent_id"), text(&agent, "branch"));
    let worktree = PathBuf::from(text(&agent, "worktree_abspath"));
    std::fs::write(worktree.join("src/new.rs"), "new\n").expect("written");
    for name in ["plan.md", "chatlog.md", "handoffs.md", "review.md"] {
        std::fs::write(worktree.join(".agent").join(name), "written\n").expect("written");
    }
    let progress = worktree.join(".agent/progress.json");
    std::fs::write(progress, "{\"status\": \"done\"}\n").expect("written");
    clones.there_json(&["commit", &id, "-m", "new"]);
    clones.there_json(&["verify", &id, "--record"]);
    clones.unite();
    clones.here.git(["fetch", "--quiet", "there"]);
    let tip = clones.here.git(["rev-parse", &format!("there/{branch}")]);
    let list = clones.here.agent_json(&["list"]);
    let row = &list["agents"][0];
    assert_eq!(row["tip"], *tip);
    assert_eq!((&row["ahead"], &row["state"]), (&1.into(), &"done".into()));
    // What the other clone recorded stands; what only it can see is not told.
    assert_eq!(row["verdict"], "accept");
    assert_eq!((&row["bundle"], &row["uncommitted"]), (&Value::Null, &Value::Null));

    // The bundle that was judged there is kept there.
    let refused_here = clones.here.agent(&["merge", &id]);
    refused(&refused_here, "not-accepted", 3);
    let verdict = clones.here.agent_json(&["verify", &id]);
    assert_eq!(verdict["tip"], *tip);
    let findings = verdict["findings"].as_array().expect("findings").iter();
    let fixes = findings.filter(|finding| finding["code"] == "bundle.not-judged");
    let fix: Vec<_> = fixes.map(|finding| text(finding, "fix")).collect();
    let (_, command) = fix[0].split_once("run ").expect("a command");
    follow(&clones.here.path(), command);
    assert_eq!(clones.here.agent_json(&["list"])["agents"][0]["bundle"]["good"], 6);
    let landed = clones.here.agent_json(&["merge", &id]);
    assert_eq!(clones.here.git(["show", "main:src/new.rs"]), "new");
    assert_eq!(landed["tip"], *tip);
}

#[test]
fn j7_an_agent_that_lives_elsewhere_is_not_discarded() {
    let clones = Clones::new();
    let agent = clones.spawn_there(&[]);
    let id = text(&agent, "agent_id");
    clones.unite();
    let row = |directory: &Path| ledger(directory).lines().count();
    let before = row(&clones.here.path());
    let refusal = clones.here.agent(&["discard", &id]);
    refused(&refusal, "discard-refused", 3);
    let said = describe(&refusal);
    let shown = clones.here.agent_json(&["show", &id]);
    for part in [
        &text(&shown, "clone_id"),
        &text(&shown, "updated_at"),
        &format!("git agent discard {} --force", &id[..8]),
    ] {
        assert!(said.contains(part.as_str()), "{said}");
    }
    refused(&clones.here.agent(&["discard", &id, "--dry-run"]), "discard-refused", 3);
    let gc = clones.here.agent_json(&["gc", "--yes"]);
    assert_eq!(gc["agents"], serde_json::json!([]));
    assert_eq!(row(&clones.here.path()), before);

    // Also where the branch was fetched as a local one and its work has landed.
    let worktree = PathBuf::from(text(&agent, "worktree_abspath"));
    std::fs::write(worktree.join("src/new.rs"), "new\n").expect("written");
    clones.there_json(&["commit", &id, "-m", "new"]);
    clones.there_json(&["done", &id]);
    clones.unite();
    let branch = format!("refs/heads/{}", text(&agent, "branch"));
    clones.here.git(["fetch", "--quiet", "there", &format!("{branch}:{branch}")]);
    clones.here.git(["merge", "--quiet", "--squash", &branch]);
    clones.here.commit_all("squashed");
    clones.here.agent_json(&["gc", "--yes"]);
    assert!(clones.here.git(["rev-parse", &branch]).len() == 40);
    assert_eq!(clones.here.agent_json(&["show", &id])["state"], "done");

    clones.here.agent_json(&["discard", &id, "--force"]);
    assert_eq!(clones.here.agent_json(&["show", &id])["state"], "discarded");
}

fn codes_of_doctor(report: &Value) -> Vec<&str> {
    let findings = report["findings"].as_array().expect("findings").iter();
    let problems = findings.map(|finding| finding["code"].as_str().expect("a code"));
    problems.filter(|code| !code.starts_with("git.")).collect()
}

fn doctor(repo: &TestRepo, arguments: &[&str]) -> Value {
    let all = [&["doctor", "--format=json"], arguments].concat();
    serde_json::from_slice(&repo.agent(&all).stdout).expect("JSON")
}

#[test]
fn j9_a_plain_append_drops_nothing() {
    let here = TestRepo::with_commit();
    let commit = text(&here.spawn(), "spawn_commit");
    let before = ledger(&here.path());
    here.git(["notes", "--ref=agents", "append", "-m", "a remark", &commit]);
    let after = ledger(&here.path());
    assert!(before.lines().all(|line| after.lines().any(|left| left == line)));
    assert_eq!(codes_of_doctor(&doctor(&here, &[])), [""; 0]);
    // What is really dropped is found, and the remark stays.
    here.git(["notes", "--ref=agents", "add", "-f", "-m", "only this", &commit]);
    assert!(codes_of_doctor(&doctor(&here, &[])).contains(&"ledger.lines-dropped"));
    doctor(&here, &["--fix"]);
    assert_eq!(codes_of_doctor(&doctor(&here, &[])), [""; 0]);
    let restored = ledger(&here.path());
    for line in before.lines().chain(["a remark", "only this"]) {
        assert!(restored.lines().any(|left| left == line), "{restored}");
    }
}

#[test]
fn j9_a_fetch_that_overwrites_rows_is_noticed_at_the_next_command() {
    let clones = Clones::new();
    clones.spawn_there(&[]);
    clones.here.spawn();
    let own = ledger(&clones.here.path());
    let all = "+refs/notes/*:refs/notes/*";
    let quiet = describe(&clones.here.agent(&["list"]));
    assert!(!quiet.contains("warning"), "{quiet}");
    clones.here.git(["fetch", "--quiet", "there", all]);
    let said = clones.here.agent(&["list"]);
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("refs/notes/agents was overwritten"), "{said}");
    assert!(said.contains("git agent doctor --fix"), "{said}");
    doctor(&clones.here, &["--fix"]);
    let quiet = describe(&clones.here.agent(&["list"]));
    assert!(!quiet.contains("warning"), "{quiet}");
    let restored = ledger(&clones.here.path());
    assert!(own.lines().all(|line| restored.lines().any(|left| left == line)));
    // A fetch that brings more than there was is none of that.
    let rows = "+refs/notes/agents:refs/notes/agents";
    git_in(&clones.there, ["fetch", "--quiet", "origin", rows]);
    let quiet = agent_command(&clones.there).arg("list").output().expect("starts");
    assert!(!describe(&quiet).contains("warning"), "{}", describe(&quiet));
}

#[test]
fn j9_a_landing_that_nothing_shows_is_reported_as_a_claim() {
    let here = TestRepo::with_commit();
    let landed = here.spawn_task(&format!("{TASK}[bundle]\nrequired = false\n"), &[]);
    let worktree = PathBuf::from(text(&landed, "worktree_abspath"));
    std::fs::write(worktree.join("src/new.rs"), "new\n").expect("written");
    here.agent_json(&["merge", &text(&landed, "agent_id")]);
    let claimed = here.spawn();
    let (id, commit) = (text(&claimed, "agent_id"), text(&claimed, "spawn_commit"));
    let forged = format!(
        "{{\"t\":\"20261122T000000.000000Z-000-ffff\",\"a\":\"{id}\",\"e\":\"merged\",\"by\":\"Mallory\",\"d\":{{\"commit\":\"{commit}\",\"into\":\"refs/heads/main\"}}}}"
    );
    here.git(["notes", "--ref=agents", "append", "-m", &forged, &commit]);
    let report = doctor(&here, &[]);
    let findings = report["findings"].as_array().expect("findings").iter();
    let claim = findings.filter(|finding| finding["code"] == "ledger.landing-unproven");
    let claims: Vec<_> = claim.map(|finding| text(finding, "what")).collect();
    assert_eq!(claims.len(), 1, "{report:#}");
    let named = format!("{} as {} by Mallory", &id[..8], &commit[..7]);
    assert!(claims[0].contains(&named), "{claims:?}");
    let other = text(&landed, "agent_id");
    assert!(!claims[0].contains(&other[..8]), "{claims:?}");
}

/// The command of the only finding that is about agents.
fn command_of(report: &Value) -> String {
    let mut findings = report["findings"].as_array().expect("findings").iter();
    let is_it = |finding: &&Value| !text(finding, "code").starts_with("git.");
    text(findings.find(is_it).expect("a finding"), "command")
}

/// Runs a command that an answer advises.
fn follow(directory: &Path, command: &str) {
    let binaries = Path::new(env!("CARGO_BIN_EXE_git-agent")).parent();
    let path = std::env::var("PATH").expect("PATH");
    let binaries = binaries.expect("a directory").display();
    let output = isolated("sh", directory)
        .args(["-c", command])
        .env("PATH", format!("{binaries}:{path}"))
        .output()
        .expect("starts");
    assert!(output.status.success(), "{command}: {}", describe(&output));
}

/// The command after `, run ` in the hint of a failure.
fn advised(output: &std::process::Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let hint = said.lines().find_map(|line| line.strip_prefix("hint: "));
    let (_, command) = hint.and_then(|hint| hint.split_once("run ")).expect("a command");
    command.to_owned()
}

#[test]
fn j10_a_branch_that_is_gone_is_made_again_by_what_the_hints_say() {
    let here = TestRepo::with_commit();
    let agent = here.spawn();
    let id = text(&agent, "agent_id");
    let branch = format!("refs/heads/{}", text(&agent, "branch"));
    here.git(["update-ref", "-d", &branch]);
    for verb in ["verify", "diff"] {
        let output = here.agent(&[verb, &id]);
        refused(&output, "branch-gone", 4);
        assert_eq!(advised(&output), "git agent doctor");
    }
    let report = doctor(&here, &[]);
    assert_eq!(codes_of_doctor(&report), ["branches.gone"]);
    follow(&here.path(), &command_of(&report));
    assert_eq!(here.git(["rev-parse", &branch]), text(&agent, "spawn_commit"));
    assert!(here.agent(&["diff", &id]).status.success());
}

#[test]
fn j10_a_branch_in_another_clone_is_fetched_by_what_the_hint_says() {
    let clones = Clones::new();
    let agent = clones.spawn_there(&[]);
    clones.unite();
    let id = text(&agent, "agent_id");
    follow(&clones.here.path(), &advised(&clones.here.agent(&["diff", &id])));
    clones.here.agent_json(&["diff", &id]);
    let tip = &clones.here.agent_json(&["show", &id])["tip"];
    assert_eq!(*tip, agent["spawn_commit"]);
}

#[test]
fn j10_a_worktree_that_was_removed_is_made_again_by_what_the_hints_say() {
    let here = TestRepo::with_commit();
    let agent = here.spawn();
    let id = text(&agent, "agent_id");
    let worktree = text(&agent, "worktree_abspath");
    here.git(["worktree", "remove", "-f", "-f", &worktree]);
    let output = here.agent(&["path", &id]);
    refused(&output, "agent-state", 3);
    assert_eq!(advised(&output), "git agent doctor");
    let report = doctor(&here, &[]);
    assert_eq!(codes_of_doctor(&report), ["worktrees.removed"]);
    follow(&here.path(), &command_of(&report));
    doctor(&here, &["--fix"]);
    assert_eq!(codes_of_doctor(&doctor(&here, &[])), [""; 0]);
    assert!(here.agent(&["path", &id]).status.success());

    // Without its branch, too, the row leads to what was judged.
    let agent = here.spawn();
    let (id, branch) = (text(&agent, "agent_id"), format!("refs/heads/{}", text(&agent, "branch")));
    let worktree = text(&agent, "worktree_abspath");
    let run = ["run", &id, "--", "sh", "-c", "echo x >> src/lib.rs; git commit -qam work"];
    here.agent(&run);
    let tip = here.git(["rev-parse", &branch]);
    assert_ne!(tip, text(&agent, "spawn_commit"));
    let lose = || {
        here.git(["worktree", "remove", "-f", "-f", &worktree]);
        here.git(["update-ref", "-d", &branch]);
    };
    lose();
    let report = doctor(&here, &[]);
    assert_eq!(codes_of_doctor(&report), ["worktrees.removed", "branches.gone"]);
    let advice = report["findings"].to_string();
    assert!(advice.contains(&format!("git branch {} {tip}", text(&agent, "branch"))), "{report:#}");
    let discarded = here.agent_json(&["discard", &id]);
    assert_eq!(discarded["tip"], tip.as_str(), "{discarded:#}");
    assert!(discarded["warnings"].to_string().contains(&tip), "{discarded:#}");
    here.agent_json(&["rescue", &id, "--reopen"]);
    assert_eq!(here.git(["rev-parse", &branch]), tip);

    // Where it was elsewhere, what is left of the agent is kept by a discard.
    let beside = here.path().with_file_name("beside");
    let agent = here.spawn_task(TASK, &["--path", beside.to_str().expect("UTF-8")]);
    here.git(["worktree", "remove", "-f", "-f", &text(&agent, "worktree_abspath")]);
    let report = doctor(&here, &[]);
    assert_eq!(codes_of_doctor(&report), ["worktrees.removed"]);
    follow(&here.path(), &command_of(&report));
    assert_eq!(codes_of_doctor(&doctor(&here, &[])), [""; 0]);
}

/// An agent whose work is done and whose branch alone tells of it, and what it did.
fn finished(here: &TestRepo, file: &str) -> (String, String) {
    finished_with(here, file, "new\n")
}

fn finished_with(here: &TestRepo, file: &str, content: &str) -> (String, String) {
    let agent = here.spawn_task(&format!("{TASK}[bundle]\nrequired = false\n"), &[]);
    let (id, branch) = (text(&agent, "agent_id"), text(&agent, "branch"));
    let worktree = PathBuf::from(text(&agent, "worktree_abspath"));
    std::fs::write(worktree.join(file), content).expect("written");
    here.agent_json(&["commit", &id, "-m", "new"]);
    here.agent_json(&["done", &id]);
    (id, branch)
}

/// Squashes as a forge does: on a target that has gone on, with a message of its own; then the target goes on.
fn squashed_by_a_forge(here: &TestRepo, branch: &str) -> String {
    here.write("README.md", "# Other\n");
    here.commit_all("other work");
    here.git(["merge", "--quiet", "--squash", branch]);
    here.git(["commit", "--quiet", "-m", "Add a thing (#12)"]);
    let squash = here.git(["rev-parse", "HEAD"]);
    here.write("README.md", "# More\n");
    here.commit_all("later work");
    squash
}

fn noted(here: &TestRepo, commit: &str) -> String {
    here.git(["notes", "--ref=agents", "show", commit])
}

#[test]
fn j6_a_landed_commit_shows_the_agent() {
    let here = TestRepo::with_commit();
    for (file, method) in
        [("src/a.rs", "--no-ff"), ("src/b.rs", "--squash"), ("src/c.rs", "--ff-only")]
    {
        let (id, _) = finished(&here, file);
        let landed = here.agent_json(&["merge", &id, method]);
        let commit = text(&landed, "commit");
        for who in [commit.as_str(), &commit[..10], "main"] {
            let shown = here.agent_json(&["show", who]);
            assert_eq!(shown["agent_id"], *id, "{method} {who}");
        }
        let log = here.agent_json(&["log", &commit]);
        assert_eq!(log["agent_id"], *id);
    }
    here.commit_all("by hand");
    refused(&here.agent(&["show", "main"]), "agent-unknown", 2);
}

#[test]
fn j6_a_squash_by_a_forge_is_found_recorded_and_shown() {
    let here = TestRepo::with_commit();
    let (id, branch) = finished(&here, "src/new.rs");
    let squash = squashed_by_a_forge(&here, &branch);
    // Another one did something else in the same place, and was at it later.
    let (other, its_branch) = finished_with(&here, "src/new.rs", "other\n");
    assert_eq!(here.agent_json(&["show", &squash])["agent_id"], *id);
    assert_eq!(here.agent_json(&["show", &squash])["state"], "done");
    here.agent_json(&["discard", &other]);
    assert!(here.git(["branch", "--list", &its_branch]).is_empty());
    let planned = here.agent_json(&["gc"]);
    let item = &planned["agents"][0];
    assert_eq!(item["landed"]["commit"], *squash, "{planned:#}");
    assert_eq!(item["landed"]["target"]["ref"], "refs/heads/main");
    let why = text(item, "why");
    assert!(why.ends_with(&format!("landed as {}", &squash[..7])), "{why}");

    let swept = here.agent_json(&["gc", "--yes"]);
    assert_eq!(swept["agents"][0]["action"], "removed");
    let shown = here.agent_json(&["show", &squash]);
    assert_eq!((&shown["agent_id"], &shown["state"]), (&id.clone().into(), &"merged".into()));
    assert!(noted(&here, &squash).contains(&id));
    assert!(here.git(["branch", "--list", &branch]).is_empty());
}

#[test]
fn j6_a_merge_after_a_forge_records_the_commit_that_brought_the_work() {
    let here = TestRepo::with_commit();
    let (id, branch) = finished(&here, "src/new.rs");
    let squash = squashed_by_a_forge(&here, &branch);
    let landed = here.agent_json(&["merge", &id]);
    assert_eq!(landed["outcome"], "already-merged");
    assert_eq!(landed["commit"], *squash);
    assert!(noted(&here, &squash).contains(&id));

    // A forge's merge commit, without a trailer.
    let (id, branch) = finished(&here, "src/other.rs");
    here.git(["merge", "--quiet", "--no-ff", "-m", "Merge pull request #13", &branch]);
    let merge = here.git(["rev-parse", "HEAD"]);
    assert_eq!(here.agent_json(&["show", &merge])["agent_id"], *id);
    here.write("README.md", "# Still more\n");
    here.commit_all("later work");
    assert_eq!(here.agent_json(&["merge", &id])["commit"], *merge);

    // The change as it is, where merging it again would conflict with what came after.
    let (id, branch) = finished(&here, "src/lib.rs");
    let squash = squashed_by_a_forge(&here, &branch);
    here.write("src/lib.rs", "newer\n");
    here.commit_all("newer");
    assert_eq!(here.agent_json(&["show", &squash])["agent_id"], *id);
    assert_eq!(here.agent_json(&["merge", &id])["commit"], *squash);
}

#[test]
fn j6_a_squash_that_was_edited_is_found_by_its_trailer() {
    let here = TestRepo::with_commit();
    let (id, branch) = finished(&here, "src/new.rs");
    here.git(["merge", "--quiet", "--squash", &branch]);
    here.write("src/new.rs", "new, and edited\n");
    here.git(["add", "--all"]);
    let message = format!("Add a thing (#14)\n\n* new\n\nAgent-Id: {id}\n\n* more\n");
    here.git(["commit", "--quiet", "-m", &message]);
    assert_eq!(here.agent_json(&["show", "HEAD"])["agent_id"], *id);
}
