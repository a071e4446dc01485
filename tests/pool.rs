//! Warm worktrees: claimed once, never lost, never half.

use crate::support::agent::{TASK, agent_command, describe};
use crate::support::death::{self, Order, ctx};
use crate::support::terminal::OnTerminal;
use crate::support::{TestRepo, git_in, git_output};
use git_agent::agents::context::ctx::Ctx;
use git_agent::ops::pool;
use git_agent::ops::spawn::{self, SpawnOptions};
use git_agent::wire::file::task_file;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

/// Set-up that counts how often it ran, in a file of the repository.
const COUNTED: &str = "[setup]\ncopy = [\"*.env\"]\nrun = [\"echo ran >> $GIT_AGENT_HOOK_ROOT/.git/count; echo built >> built.out\"]\n";

fn with_pool(size: usize, setup: &str) -> TestRepo {
    let repo = TestRepo::with_commit();
    repo.write(".gitignore", "*.out\n*.env\n");
    let settings = format!("[bundle]\nrequired = false\n[pool]\nsize = {size}\n{setup}");
    repo.write(".config/git-agent.toml", settings);
    repo.commit_all("settings");
    repo.write("local.env", "secret of this machine\n");
    repo
}

/// Fills the pool, after any process that does so already.
fn fill(repo: &TestRepo) -> Value {
    repo.agent_json(&["pool", "fill"])
}

fn runs(repo: &TestRepo) -> usize {
    let count = fs::read_to_string(repo.path().join(".git/count"));
    count.map_or(0, |text| text.lines().count())
}

fn worktree(report: &Value) -> PathBuf {
    report["worktree_abspath"].as_str().expect("a path").into()
}

/// The worktrees that git knows besides the main one, which all exist, and nothing else is where they are.
fn require_tidy(repo: &TestRepo) {
    let listed = repo.git(["worktree", "list", "--porcelain"]);
    let listed: BTreeSet<PathBuf> = listed
        .lines()
        .filter_map(|line| line.strip_prefix("worktree "))
        .skip(1)
        .map(PathBuf::from)
        .collect();
    let there = fs::read_dir(repo.path().join(".claude/worktrees"));
    let there: BTreeSet<PathBuf> =
        there.into_iter().flatten().map(|entry| entry.expect("readable").path()).collect();
    assert_eq!(listed, there);
    for path in listed {
        let status = ["-c", "core.hooksPath=/dev/null", "status", "--porcelain"];
        assert_eq!(git_in(&path, status), "", "{}", path.display());
    }
    repo.git(["fsck", "--connectivity-only"]);
}

#[test]
fn a_spawn_claims_a_warm_worktree_that_is_as_a_new_one() {
    let repo = with_pool(1, COUNTED);
    let filled = fill(&repo);
    assert_eq!((&filled["made"], runs(&repo)), (&json!(1), 1));
    let listed = String::from_utf8(repo.agent(&["list"]).stdout).expect("UTF-8");
    assert_eq!(
        listed,
        "(no agents)\n1 warm worktree waits for agents; to see the pool, run git agent setup pool\n"
    );
    // One that is being made waits for nobody yet.
    let half_made = repo.path().join(".git/agents/pool/warm-00000000");
    fs::write(&half_made, "").expect("written");
    assert_eq!(repo.agent(&["list"]).stdout, listed.as_bytes());
    fs::remove_file(half_made).expect("removed");
    let slot = filled["slots"][0].clone();
    assert_eq!((&slot["state"], &slot["current"]), (&json!("ready"), &json!(true)));
    assert!(slot["disk_bytes"].as_u64().is_some_and(|bytes| bytes > 0));
    let report = repo.spawn_task(TASK, &[]);
    assert_eq!(report["claimed"], true, "{report}");
    let path = worktree(&report);
    assert!(path.ends_with(format!("agent-{}", &report["agent_id"].as_str().expect("an id")[..8])));
    assert_eq!(fs::read_to_string(path.join("built.out")).expect("set up"), "built\n");
    assert_eq!(
        fs::read_to_string(path.join("local.env")).expect("copied"),
        "secret of this machine\n"
    );
    let branch = git_in(&path, ["symbolic-ref", "--short", "HEAD"]);
    assert_eq!(report["branch"], branch);
    assert_eq!(report["spawn_commit"], git_in(&path, ["rev-parse", "HEAD"]));
    // What was ready went to the agent; the pool fills itself.
    let again = fill(&repo);
    assert_ne!(again["slots"][0]["name"], slot["name"]);
    assert_eq!(runs(&repo), 2);
    require_tidy(&repo);
    // The agent works, lands and goes like any other, and its worktree goes with it.
    let id = report["agent_id"].as_str().expect("an id");
    fs::write(path.join("src/lib.rs"), "pub fn two() {}\n").expect("written");
    repo.agent_json(&["merge", id]);
    assert_eq!(repo.git(["show", "main:src/lib.rs"]), "pub fn two() {}");
    repo.agent_json(&["discard", id]);
    fill(&repo);
    require_tidy(&repo);
    let findings = repo.agent_json(&["doctor"])["findings"].to_string();
    assert!(!findings.contains("problem"), "{findings}");
}

#[test]
fn the_doctor_names_slots_that_no_spawn_gets_and_a_pool_that_stays_empty() {
    let codes = |repo: &TestRepo| -> Vec<(String, String)> {
        let output = repo.agent(&["doctor", "--format=json"]);
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let findings = report["findings"].as_array().expect("a list").iter();
        let text = |one: &Value, key: &str| one[key].as_str().expect("a text").to_owned();
        findings
            .map(|one| (text(one, "code"), text(one, "command")))
            .filter(|(code, _)| code.starts_with("pool."))
            .collect()
    };
    let fill_it = "git agent setup pool fill".to_owned();
    // Before there is a slot, its cost is told by what it would hold.
    let repo = with_pool(0, "");
    let asked = repo.agent_json(&["pool"]);
    let files = asked["files_bytes"].as_u64().expect("a size");
    assert_eq!(files, 5 * 4096, "each of five files takes a block: {asked}");
    let text = describe(&repo.agent(&["pool"]));
    assert!(
        text.contains("each takes about 20.0 KiB of the disk, and what [setup] makes"),
        "{text}"
    );

    let settings = |text: &str| {
        repo.write(".config/git-agent.toml", format!("[bundle]\nrequired = false\n{text}"));
        repo.commit_all("settings");
    };
    settings("[pool]\nsize = 2\n");
    let filled = fill(&repo);
    assert_eq!((filled["files_bytes"].as_u64(), codes(&repo)), (None, vec![]));
    assert!(describe(&repo.agent(&["pool"])).contains("pool of 2: 2 ready, "));
    // Another commit is no reason to complain, and other settings are.
    repo.commit_all("on");
    assert_eq!(codes(&repo), []);
    settings("[pool]\nsize = 2\n[setup]\nrun = [\"exit 3\"]\n");
    let stale = ("pool.stale".to_owned(), fill_it.clone());
    assert_eq!(codes(&repo), [stale.clone(), stale]);
    let said = describe(&repo.agent(&["pool"]));
    assert!(said.contains("stale"), "{said}");
    // It cannot be filled, and says so until it can.
    assert_eq!(repo.agent(&["pool", "fill"]).status.code(), Some(4));
    assert_eq!(codes(&repo), [("pool.not-filled".to_owned(), fill_it)]);
    settings("[pool]\nsize = 1\n");
    fill(&repo);
    assert_eq!(codes(&repo), []);
    // A pool that is switched off is emptied by the same command.
    settings("");
    assert_eq!(codes(&repo).len(), 1);
    fill(&repo);
    assert_eq!((codes(&repo), &repo.agent_json(&["pool"])["slots"]), (vec![], &json!([])));
}

#[test]
fn a_warm_worktree_is_brought_to_the_base_by_what_differs() {
    let repo = with_pool(1, COUNTED);
    fill(&repo);
    repo.write("src/lib.rs", "pub fn changed() {}\n");
    repo.write("src/new.rs", "pub fn new() {}\n");
    repo.git(["rm", "--quiet", "src/bin/tool.rs"]);
    repo.commit_all("on");
    let report = repo.spawn_task(TASK, &[]);
    assert_eq!(report["claimed"], true, "{report}");
    let path = worktree(&report);
    assert_eq!(git_in(&path, ["status", "--porcelain"]), "");
    assert_eq!(
        fs::read_to_string(path.join("src/lib.rs")).expect("there"),
        "pub fn changed() {}\n"
    );
    assert!(path.join("src/new.rs").exists() && !path.join("src/bin/tool.rs").exists());
    // What is built may depend on what changed.
    let built = fs::read_to_string(path.join("built.out")).expect("set up");
    assert_eq!(built, "built\nbuilt\n");
    fill(&repo);
    require_tidy(&repo);
}

#[test]
fn set_up_is_done_anew_once_an_ignored_file_that_it_copies_has_changed() {
    let settings = "[setup]\ncopy = [\"*.env\", \"keys/**\"]\n[checks]\ncommands = [\"grep this local.env\", \"grep good keys/prod\"]\n";
    let repo = with_pool(1, settings);
    repo.write(".gitignore", "*.out\n*.env\nkeys/\n");
    repo.commit_all("keys");
    repo.write("keys/prod", "good\n");
    fill(&repo);
    let copied = |report: &Value, name: &str| {
        fs::read_to_string(worktree(report).join(name)).expect("copied")
    };
    let report = repo.spawn_task(TASK, &[]);
    assert_eq!(report["claimed"], true, "{report}");
    let id = report["agent_id"].as_str().expect("an id");
    fs::write(worktree(&report).join("src/lib.rs"), "pub fn changed() {}\n").expect("written");
    repo.agent_json(&["verify", id]);
    fill(&repo);
    for (name, content) in [("local.env", "secret of another machine\n"), ("keys/prod", "bad\n")] {
        let before = fs::read(repo.path().join(name)).expect("there");
        repo.write(name, content);
        let report = repo.spawn_task(TASK, &[]);
        assert_eq!((&report["claimed"], copied(&report, name).as_str()), (&Value::Null, content));
        let output = agent_command(&repo.path()).args(["verify", id]).output().expect("starts");
        let said = describe(&output);
        assert!(output.status.code() == Some(1) && said.contains("commands.failed"), "{said}");
        repo.write(name, before);
    }
    fill(&repo);
    assert_eq!(repo.spawn_task(TASK, &[])["claimed"], true);
}

#[test]
fn a_slot_of_an_unlanded_branch_serves_no_other_work() {
    let repo = with_pool(
        1,
        "[setup]\nrun = [\"sh ci/setup.sh\"]\n[checks]\ncommands = [\"sh test.out\"]\n",
    );
    repo.write("ci/setup.sh", ". ci/lib.sh\n");
    repo.write("ci/lib.sh", "test -e test.out || echo 'test ! -e src/bad.rs' > test.out\n");
    repo.commit_all("a check that set-up makes");
    repo.git(["checkout", "-q", "-b", "side"]);
    // A file that no set-up command names, so the trees look the same to set-up.
    repo.write("ci/lib.sh", "echo 'exit 0' > test.out\n");
    repo.commit_all("every check succeeds");
    fill(&repo);
    repo.git(["checkout", "-q", "main"]);
    let report = repo.spawn_task(TASK, &[]);
    assert_eq!(report["claimed"], Value::Null, "{report}");
    let test = fs::read_to_string(worktree(&report).join("test.out")).expect("set up");
    assert_eq!(test, "test ! -e src/bad.rs\n");
    repo.git(["checkout", "-q", "side"]);
    fill(&repo);
    repo.git(["checkout", "-q", "main"]);
    fs::write(worktree(&report).join("src/bad.rs"), "bad\n").expect("written");
    let id = report["agent_id"].as_str().expect("an id");
    let output = repo.agent(&["verify", id, "--format", "json"]);
    let verdict: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(verdict["commands"][0]["exit_code"], 1, "{verdict:#}");
    // What starts from that branch gets it.
    let report = repo.spawn_task(TASK, &["--base", "side"]);
    assert_eq!(report["claimed"], true, "{report}");
    fill(&repo);
}

#[test]
fn no_spawn_moves_the_slot_that_it_is_started_in() {
    let repo = with_pool(1, COUNTED);
    fill(&repo);
    let slot = only_slot(&repo);
    let report = agent_command(&slot).args(["spawn", "do it", "--format=json"]).output();
    let report = report.expect("git-agent starts");
    assert!(report.status.success(), "{}", describe(&report));
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    assert_eq!(report["claimed"], Value::Null, "{report}");
    assert!(slot.is_dir());
}

#[test]
fn the_branch_of_an_agent_says_nothing_of_the_pool() {
    let repo = with_pool(1, COUNTED);
    let path = worktree(&repo.spawn_task(TASK, &[]));
    let planted = repo.path().with_file_name("planted");
    let settings = format!("[pool]\nsize = 3\n[setup]\nrun = [\"touch {}\"]\n", planted.display());
    fs::write(path.join(".config/git-agent.toml"), settings).expect("written");
    git_in(&path, ["-c", "core.hooksPath=/dev/null", "commit", "-qam", "settings"]);
    for words in [["pool", "fill"], ["pool", "drain"], ["inbox", "--expire"]] {
        let output = agent_command(&path).args(words).output().expect("starts");
        let said = describe(&output);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("error[orchestrator-only]"), "{said}");
    }
    // A person may, wherever they stand.
    let mut command = agent_command(&path);
    command.args(["pool", "fill"]);
    let mut screen = OnTerminal::of(command, 100, 30);
    let status = screen.child.wait().expect("ends");
    assert!(status.success(), "{}", screen.sent());
    assert!(!planted.exists());
    let report = repo.agent_json(&["pool", "status"]);
    assert_eq!((&report["size"], &report["slots"][0]["state"]), (&json!(1), &json!("ready")));
    assert_eq!(report["slots"][0]["commit"], repo.git(["rev-parse", "HEAD"]));
}

#[test]
fn a_slot_whose_set_up_wrote_its_path_stays_where_it_is() {
    let repo = with_pool(1, "[setup]\nrun = [\"pwd > here.out\"]\n");
    let filled = fill(&repo);
    assert_eq!(filled["slots"][0]["pinned"], true);
    // One that has to stay is nothing for a caller that names another place.
    let beside = repo.path().with_file_name("beside");
    let placed = repo.spawn_task(TASK, &["--path", beside.to_str().expect("UTF-8")]);
    assert_eq!(placed["claimed"], Value::Null);
    let report = repo.spawn_task(TASK, &[]);
    assert_eq!(
        (&report["claimed"], &report["worktree_abspath"]),
        (&json!(true), &filled["slots"][0]["worktree_abspath"])
    );
    let path = worktree(&report);
    let here = fs::read_to_string(path.join("here.out")).expect("set up");
    assert_eq!(Path::new(here.trim_end()), path);
    let prompt = fs::read_to_string(report["prompt_path"].as_str().expect("a path"));
    let prompt = prompt.expect("a prompt");
    assert!(prompt.contains(here.trim_end()), "{prompt}");
    fill(&repo);
    let id = report["agent_id"].as_str().expect("an id");
    repo.agent_json(&["discard", id]);
    assert!(!path.exists());
}

#[test]
fn a_task_that_sets_up_something_else_gets_a_new_worktree() {
    let repo = with_pool(1, COUNTED);
    fill(&repo);
    let own = repo.spawn_task(&format!("{TASK}[setup]\nrun = [\"echo own > own.out\"]\n"), &[]);
    assert_eq!(own["claimed"], Value::Null);
    assert!(worktree(&own).join("own.out").exists() && !worktree(&own).join("built.out").exists());
    // What set-up staged or left is no work of the agent's, in a warm worktree neither.
    let repo = with_pool(1, "[setup]\nrun = [\"echo made > made.txt; git add made.txt\"]\n");
    fill(&repo);
    let report = repo.spawn_task(TASK, &[]);
    assert_eq!(report["claimed"], true);
    let verdict = agent_command(&repo.path())
        .args(["verify", report["agent_id"].as_str().expect("an id"), "--format=json"])
        .output()
        .expect("starts");
    let verdict: Value = serde_json::from_slice(&verdict.stdout).expect("JSON");
    assert_eq!(
        (&verdict["uncommitted"], &verdict["setup_paths"]),
        (&json!(0), &json!(1)),
        "{verdict}"
    );
    fill(&repo);
}

#[test]
fn several_spawns_at_once_never_get_the_same_slot() {
    let repo = with_pool(3, "");
    fill(&repo);
    let task = repo.task_file(TASK);
    let children: Vec<_> = (0..8)
        .map(|_| {
            let mut command = agent_command(&repo.path());
            command.args(["--format=json", "spawn", &task]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().expect("starts")
        })
        .collect();
    let mut claimed = 0;
    for child in children {
        let output = child.wait_with_output().expect("ends");
        assert!(output.status.success(), "{}", describe(&output));
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        claimed += usize::from(report["claimed"] == true);
    }
    assert!(claimed >= 1, "slots were ready");
    assert_eq!(fill(&repo)["slots"].as_array().map(Vec::len), Some(3));
    require_tidy(&repo);
}

#[test]
fn the_pool_is_off_unless_it_is_asked_for_and_can_be_emptied() {
    let repo = TestRepo::with_commit();
    let output = repo.agent(&["pool"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("pool of 0: 0 ready") && text.contains("[pool] size = 2"), "{text}");
    repo.spawn();
    assert!(!repo.path().join(".git/agents/pool").exists());
    let repo = with_pool(2, "");
    assert_eq!(fill(&repo)["made"], 2);
    let drained = repo.agent_json(&["pool", "drain"]);
    assert_eq!((&drained["removed"], &drained["slots"]), (&json!(2), &json!([])));
    require_tidy(&repo);
    // Where set-up fails nothing is left, and the next look says why.
    let repo = with_pool(1, "[setup]\nrun = [\"echo no such thing; exit 3\"]\n");
    let output = repo.agent(&["pool", "fill"]);
    assert_eq!(output.status.code(), Some(4), "{}", describe(&output));
    let status = repo.agent_json(&["pool"]);
    assert_eq!(status["slots"], json!([]));
    assert!(
        status["failure"].as_str().is_some_and(|text| text.contains("no such thing")),
        "{status}"
    );
    require_tidy(&repo);
}

#[test]
fn what_stands_for_a_slot_and_is_no_file_keeps_no_command_waiting() {
    let repo = with_pool(1, "");
    fill(&repo);
    let fifo = repo.path().join(".git/agents/pool/warm-00000000");
    let made = std::process::Command::new("mkfifo").arg(fifo).status();
    assert!(made.expect("mkfifo").success());
    repo.agent(&["doctor"]);
    let report = repo.spawn_task(TASK, &[]);
    assert_eq!(report["claimed"], json!(true), "{report}");
    repo.agent_json(&["gc"]);
    fill(&repo);
}

#[test]
fn a_tracked_symlink_leads_no_warm_worktree_out_of_the_repository() {
    let repo = with_pool(1, "");
    let outside = tempfile::tempdir().expect("a directory");
    std::os::unix::fs::symlink(outside.path(), repo.path().join(".claude")).expect("a link");
    repo.commit_all("a link");
    let output = repo.agent(&["pool", "fill"]);
    crate::verify::refused(&output, "path-invalid", 2);
    let left = fs::read_dir(outside.path()).expect("a directory").count();
    assert_eq!(left, 0);
    assert_eq!(repo.agent_json(&["pool"])["slots"], json!([]));
}

/// Not a test: the process that dies while it fills or empties the pool.
#[test]
fn child() {
    if let Some(order) = Order::received() {
        let ctx = ctx(&order.directory, order.dying());
        match order.words[0].as_str() {
            "fill" => pool::fill(&ctx, true).expect("filled"),
            _ => pool::drain(&ctx).expect("drained"),
        };
    }
}

#[test]
fn a_fill_or_a_drain_that_is_killed_leaves_whole_slots_or_what_is_swept() {
    for step in pool::STEPS {
        let repo = with_pool(1, COUNTED);
        death::die_at("pool::child", &repo.path(), step, &["fill"]);
        let filled = fill(&repo);
        assert_eq!(filled["slots"].as_array().map(Vec::len), Some(1), "{step}: {filled}");
        assert_eq!(filled["slots"][0]["state"], "ready");
        require_tidy(&repo);
    }
    for step in ["slot-emptied", "slot-unlinked"] {
        let repo = with_pool(1, "");
        fill(&repo);
        death::die_at("pool::child", &repo.path(), step, &["drain"]);
        let findings =
            serde_json::from_slice::<Value>(&repo.agent(&["doctor", "--format=json"]).stdout)
                .expect("JSON")["findings"]
                .clone();
        assert!(findings.to_string().contains("was never finished"), "{step}: {findings}");
        repo.agent_json(&["doctor", "--fix"]);
        assert_eq!(repo.agent_json(&["pool"])["slots"], json!([]), "{step}");
        require_tidy(&repo);
    }
}

#[test]
fn a_claim_that_is_killed_leaves_a_whole_slot_or_what_is_swept() {
    let claim = ["adopted", "renamed", "pointed", "slot-emptied", "metadata"];
    let others = ["slot-moved", "journal", "spawning", "slot-unlinked", "spawned"];
    // One that is renamed, at every step, and one that stays, where that makes a difference.
    let renamed = [&claim[..], &others[..]].concat();
    let pinned = "[setup]\nrun = [\"pwd > here.out\"]\n";
    for (setup, steps) in [("", renamed.as_slice()), (pinned, &claim[..])] {
        for &step in steps {
            let repo = with_pool(1, setup);
            fill(&repo);
            if step == "slot-moved" {
                repo.write("src/lib.rs", "pub fn changed() {}\n");
                repo.commit_all("on");
            }
            death::die_at("kill::child", &repo.path(), step, &[TASK]);
            // The next spawn takes apart what is left, whether it gets the slot or not.
            let report = repo.spawn_task(TASK, &[]);
            assert!(worktree(&report).join("src/lib.rs").exists(), "{step}");
            let filled = fill(&repo);
            assert_eq!(filled["slots"].as_array().map(Vec::len), Some(1), "{step}: {filled}");
            let agents = repo.agent_json(&["list"])["agents"].clone();
            let expected = if step == "spawned" { 2 } else { 1 };
            assert_eq!(agents.as_array().map(Vec::len), Some(expected), "{step}: {agents}");
            require_tidy(&repo);
        }
    }
}

/// The path of the only slot.
fn only_slot(repo: &TestRepo) -> PathBuf {
    worktree(&repo.agent_json(&["pool", "status"])["slots"][0])
}

fn name_of(slot: &Path) -> &str {
    let name = slot.file_name().and_then(|name| name.to_str());
    name.expect("a name")
}

/// Every content that some commit of the keep chain has at that path.
fn kept_at(repo: &TestRepo, path: &str) -> Vec<String> {
    let commits = repo.git(["rev-list", "refs/agents/keep"]);
    let show = |commit: &str| {
        let shown = git_output(&repo.path(), ["show", &format!("{commit}:{path}")]);
        (shown.status.success()).then(|| String::from_utf8_lossy(&shown.stdout).into_owned())
    };
    commits.lines().filter_map(show).collect()
}

/// Edits by hand: a tracked file, a new one, one that is only staged, and a commit that is on no branch.
fn edit(slot: &Path) -> String {
    fs::write(slot.join("made.txt"), "committed by hand\n").expect("written");
    git_in(slot, ["add", "made.txt"]);
    git_in(slot, ["commit", "--quiet", "--no-verify", "-m", "by hand"]);
    let commit = git_in(slot, ["rev-parse", "HEAD"]);
    fs::write(slot.join("staged.txt"), "staged by hand\n").expect("written");
    git_in(slot, ["add", "staged.txt"]);
    fs::remove_file(slot.join("staged.txt")).expect("removed");
    fs::write(slot.join("src/lib.rs"), "// edited by hand\n").expect("written");
    fs::write(slot.join("new.txt"), "new by hand\n").expect("written");
    commit
}

fn require_kept(repo: &TestRepo, commit: &str, what: &str) {
    repo.git(["reflog", "expire", "--expire=now", "--all"]);
    repo.git(["gc", "--quiet", "--prune=now"]);
    repo.git(["merge-base", "--is-ancestor", commit, "refs/agents/keep"]);
    for (path, content) in [
        ("src/lib.rs", "// edited by hand\n"),
        ("new.txt", "new by hand\n"),
        ("staged.txt", "staged by hand\n"),
        ("made.txt", "committed by hand\n"),
    ] {
        assert!(kept_at(repo, path).contains(&content.to_owned()), "{what}: {path}");
    }
}

#[test]
fn what_was_edited_in_a_slot_is_kept_on_every_road() {
    let roads: [(&str, &[&str]); 3] = [
        ("drain", &["pool", "drain"]),
        ("refill", &["pool", "fill"]),
        ("uninstall", &["uninstall", "--yes"]),
    ];
    for (what, words) in roads {
        let repo = with_pool(1, "");
        fill(&repo);
        let slot = only_slot(&repo);
        let commit = edit(&slot);
        let report = repo.agent_json(words);
        assert!(!slot.exists(), "{what}");
        let kept = &report["kept"][0];
        assert_eq!(kept["name"], name_of(&slot), "{what}: {report}");
        let work = kept["commits"][0].as_str().expect("a commit");
        require_kept(&repo, &commit, what);
        // The way back that the text names.
        repo.git(["branch", "back", work]);
        assert_eq!(repo.git(["show", "back:new.txt"]), "new by hand", "{what}");
    }
}

#[test]
fn an_edited_slot_is_not_handed_out_and_another_is() {
    let repo = with_pool(2, "");
    fill(&repo);
    // The first that a spawn would look at.
    let slot = only_slot(&repo);
    let commit = edit(&slot);
    for claimed in [true, false] {
        let report = repo.spawn_task(TASK, &[]);
        let agent = worktree(&report);
        assert!(!agent.join("new.txt").exists(), "{report}");
        assert_eq!(git_in(&agent, ["status", "--porcelain"]), "");
        if claimed {
            assert_eq!(report["claimed"], true, "{report}");
        }
    }
    repo.agent_json(&["pool", "drain"]);
    require_kept(&repo, &commit, "spawn");
}

#[test]
fn what_was_edited_in_the_slot_of_a_killed_process_is_kept() {
    let repo = with_pool(1, "");
    fill(&repo);
    let slot = only_slot(&repo);
    let commit = edit(&slot);
    let place = repo.path().join(".git/agents/pool").join(name_of(&slot));
    fs::write(place, "").expect("written");
    repo.agent_json(&["gc", "--yes"]);
    assert!(!slot.exists());
    require_kept(&repo, &commit, "gc");
    // A slot that nobody touched leaves nothing in the keep chain, however it goes.
    let repo = with_pool(1, COUNTED);
    fill(&repo);
    let before = repo.git(["for-each-ref", "refs/agents/keep"]);
    repo.agent_json(&["pool", "drain"]);
    assert_eq!(before, repo.git(["for-each-ref", "refs/agents/keep"]));
}

/// What a person has at hand in a slot at some moment: a file of the commit, where it is there, and a new one. Gives what is not to
/// be lost.
fn scribble(slot: &Path) -> Vec<(&'static str, &'static str)> {
    let mut written = vec![("new.txt", "new by hand\n")];
    if slot.join("src/lib.rs").exists() {
        written.push(("src/lib.rs", "// edited by hand\n"));
    }
    for (path, content) in &written {
        fs::write(slot.join(path), content).expect("written");
    }
    written
}

/// The worktrees below the default place whose names begin so.
fn named(repo: &TestRepo, begin: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(repo.path().join(".claude/worktrees"));
    let entries = entries.into_iter().flatten().map(|entry| entry.expect("readable").path());
    let found = entries.filter(|path| name_of(path).starts_with(begin));
    found.collect()
}

/// Does `work` and scribbles in the only slot when it has come to a step.
fn scribbled_at(
    repo: &TestRepo,
    step: &'static str,
    work: impl FnOnce(&Ctx),
) -> Vec<(&'static str, &'static str)> {
    let written = Arc::new(Mutex::new(Vec::new()));
    let (log, place) = (Arc::clone(&written), repo.path());
    let reached = move |name: &str| {
        let mut log = log.lock().expect("unpoisoned");
        if name == step && log.is_empty() {
            let slots = fs::read_dir(place.join(".claude/worktrees")).expect("a directory");
            for slot in slots.map(|entry| entry.expect("readable").path()) {
                log.extend(scribble(&slot));
            }
        }
    };
    work(&ctx(&repo.path(), Arc::new(reached)));
    let written = written.lock().expect("unpoisoned").clone();
    assert!(!written.is_empty(), "{step} was never reached");
    written
}

fn require_all_kept(repo: &TestRepo, written: &[(&str, &str)], what: &str) {
    repo.git(["reflog", "expire", "--expire=now", "--all"]);
    repo.git(["gc", "--quiet", "--prune=now"]);
    for (path, content) in written {
        let kept = kept_at(repo, path);
        assert!(kept.contains(&(*content).to_owned()), "{what}: {path}");
    }
}

/// Set-up that leaves something that git does not ignore.
const LEAVES: &str = "[setup]\nrun = [\"echo made > made.txt\"]\n";

#[test]
fn what_is_written_in_a_slot_while_it_is_made_is_kept_and_handed_to_no_agent() {
    for setup in ["", COUNTED, LEAVES] {
        for step in ["slot-added", "slot-populated", "slot-set-up", "slot-ready"] {
            let repo = with_pool(1, setup);
            let written = scribbled_at(&repo, step, |ctx| {
                // A file in the way of the checkout may stop it.
                let _ = pool::fill(ctx, true);
            });
            let report = repo.spawn_task(TASK, &[]);
            // What set-up leaves cannot be told from what was written while it ran.
            if setup.is_empty() || step != "slot-set-up" {
                let agent = worktree(&report);
                assert!(!agent.join("new.txt").exists(), "{step}: {report}");
            }
            // The process in the background is at its end then.
            fill(&repo);
            repo.agent_json(&["pool", "drain"]);
            assert_eq!(named(&repo, "warm-"), Vec::<PathBuf>::new(), "{step}");
            require_all_kept(&repo, &written, step);
        }
    }
}

#[test]
fn what_is_written_in_a_slot_whose_set_up_fails_is_kept() {
    let repo = with_pool(1, "[setup]\nrun = [\"exit 3\"]\n");
    let written = scribbled_at(&repo, "slot-populated", |ctx| {
        let error = pool::fill(ctx, true).expect_err("no set-up");
        let hints = format!("{error:?}");
        assert!(hints.contains("git branch 'kept-warm-"), "{hints}");
    });
    assert_eq!(named(&repo, "warm-"), Vec::<PathBuf>::new());
    require_all_kept(&repo, &written, "set-up");
}

#[test]
fn what_is_written_in_a_slot_while_it_goes_is_kept_or_stays() {
    // By its path, and by a process that stands in it.
    for (step, edited) in [("slot-aside", true), ("slot-aside", false), ("worktree-kept", true)] {
        let repo = with_pool(1, "");
        fill(&repo);
        let slot = only_slot(&repo);
        if edited {
            edit(&slot);
        }
        let written = scribbled_at(&repo, step, |ctx| {
            assert!(fs::write(slot.join("src/lib.rs"), "").is_ok());
            pool::drain(ctx).expect("drained");
            assert!(fs::write(slot.join("src/lib.rs"), "").is_err());
        });
        require_all_kept(&repo, &written, step);
        require_tidy(&repo);
    }
    // Killed between two of its steps, it is completed, and keeps as much.
    for step in ["slot-aside", "worktree-kept"] {
        let repo = with_pool(1, "");
        fill(&repo);
        let commit = edit(&only_slot(&repo));
        death::die_at("pool::child", &repo.path(), step, &["drain"]);
        repo.agent_json(&["doctor", "--fix"]);
        require_kept(&repo, &commit, step);
        require_tidy(&repo);
    }
}

#[test]
fn what_is_written_in_a_slot_while_a_claim_moves_it_is_handed_to_no_agent() {
    let repo = with_pool(1, LEAVES);
    fill(&repo);
    repo.write("src/new.rs", "pub fn new() {}\n");
    repo.commit_all("on");
    let draft = task_file::parse("task.toml", TASK.as_bytes());
    let written = scribbled_at(&repo, "slot-moved", |ctx| {
        let plan = spawn::plan(ctx, draft, &SpawnOptions::default()).expect("a plan");
        let report = spawn::execute(ctx, plan).expect("an agent");
        let warnings = format!("{:?}", report.warnings);
        assert!(warnings.contains("git branch 'kept-warm-"), "{warnings}");
    });
    for agent in named(&repo, "agent-") {
        assert!(!agent.join("new.txt").exists());
    }
    // The process in the background is at its end then: `git gc --prune=now` takes what another process is about to use.
    fill(&repo);
    repo.agent_json(&["pool", "drain"]);
    require_all_kept(&repo, &written, "claim");
}

#[test]
fn a_slot_that_was_filled_before_the_base_moved_on_serves_after_another_fill() {
    let repo = with_pool(1, "");
    fill(&repo);
    let slot = only_slot(&repo);
    for (number, how) in [&["fill"][..], &["fill", "--unless-busy"]].iter().enumerate() {
        repo.write("src/lib.rs", format!("pub fn number() -> u32 {{ {number} }}\n"));
        repo.commit_all("on");
        repo.agent_json(&[&["pool"], *how].concat());
        let pool = repo.agent_json(&["pool"]);
        assert_eq!(pool["slots"][0]["state"], "ready", "{pool}");
        assert_eq!(only_slot(&repo), slot, "it is the one that there was");
        assert_eq!(git_in(&slot, ["status", "--porcelain"]), "");
        let head = git_in(&slot, ["rev-parse", "HEAD"]);
        assert_eq!(head, repo.git(["rev-parse", "main"]));
    }
    repo.write("src/new.rs", "pub fn new() {}\n");
    repo.commit_all("on");
    let spawned = repo.spawn_task(TASK, &[]);
    assert_eq!(spawned["claimed"], true, "{spawned}");
}

#[test]
fn a_process_in_the_background_leaves_edited_slots_alone() {
    let repo = with_pool(1, "");
    fill(&repo);
    let slot = only_slot(&repo);
    scribble(&slot);
    for _ in 0..3 {
        repo.agent_json(&["pool", "fill", "--unless-busy"]);
    }
    let pool = repo.agent_json(&["pool"]);
    let mut states: Vec<&str> = pool["slots"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|slot| slot["state"].as_str().expect("a state"))
        .collect();
    states.sort_unstable();
    assert_eq!(states, ["edited", "ready"], "{pool}");
    assert_eq!(fs::read_to_string(slot.join("new.txt")).expect("there"), "new by hand\n");
    let findings = describe(&repo.agent(&["doctor"]));
    let said = format!("{} was edited by hand", name_of(&slot));
    assert!(findings.contains(&said), "{findings}");
    // Those that stay do not fill the disk.
    for slot in named(&repo, "warm-") {
        scribble(&slot);
    }
    repo.agent_json(&["pool", "fill", "--unless-busy"]);
    assert_eq!(named(&repo, "warm-").len(), 2);
    assert_eq!(fill(&repo)["kept"].as_array().map(Vec::len), Some(2));
}

#[test]
fn a_slot_that_a_person_takes_over_stays() {
    let repo = with_pool(2, "");
    fill(&repo);
    let slots = named(&repo, "warm-");
    let moved = repo.path().with_file_name("mine");
    let [first, second] = [&slots[0], &slots[1]].map(|slot| slot.to_str().expect("UTF-8"));
    for slot in [first, second] {
        repo.git(["worktree", "unlock", slot]);
    }
    repo.git(["worktree", "move", first, moved.to_str().expect("UTF-8")]);
    repo.git(["worktree", "lock", "--reason", "mine", second]);
    let report = repo.spawn_task(TASK, &[]);
    assert_eq!(report["claimed"], Value::Null, "{report}");
    // The process in the background is at its end then.
    fill(&repo);
    repo.agent_json(&["pool", "drain"]);
    assert_eq!(repo.agent_json(&["pool"])["slots"], json!([]));
    for place in [&moved, &slots[1]] {
        assert_eq!(git_in(place, ["status", "--porcelain"]), "");
    }
}

#[test]
fn what_git_cannot_tell_of_a_slot_is_kept_or_stays() {
    // On a branch, in the slot of a killed process.
    let repo = with_pool(2, "");
    fill(&repo);
    let slots = named(&repo, "warm-");
    git_in(&slots[0], ["switch", "--quiet", "-c", "mine"]);
    let written = scribble(&slots[0]);
    let place = repo.path().join(".git/agents/pool").join(name_of(&slots[0]));
    fs::write(place, "").expect("written");
    // Without its admin directory.
    fs::write(slots[1].join("src/more.rs"), "more by hand\n").expect("written");
    let admin = repo.path().join(".git/worktrees").join(name_of(&slots[1]));
    fs::remove_dir_all(admin).expect("removed");
    repo.agent_json(&["gc", "--yes"]);
    require_all_kept(&repo, &written, "on a branch");
    require_all_kept(&repo, &[("src/more.rs", "more by hand\n")], "damaged");
    // What is staged and nowhere else, beside what set-up staged.
    let repo = with_pool(1, "[setup]\nrun = [\"echo made > made.txt; git add made.txt\"]\n");
    fill(&repo);
    let slot = only_slot(&repo);
    fs::write(slot.join("staged.txt"), "staged by hand\n").expect("written");
    git_in(&slot, ["add", "staged.txt"]);
    fs::remove_file(slot.join("staged.txt")).expect("removed");
    repo.agent_json(&["pool", "drain"]);
    require_all_kept(&repo, &[("staged.txt", "staged by hand\n")], "staged");
    // A repository inside stays with its slot, and is in the way of no other.
    let repo = with_pool(2, "");
    fill(&repo);
    let slots = named(&repo, "warm-");
    let inside = slots[0].join("inside");
    repo.git(["init", "--quiet", inside.to_str().expect("UTF-8")]);
    fs::write(inside.join("new.txt"), "new by hand\n").expect("written");
    let output = repo.agent(&["pool", "drain"]);
    crate::verify::refused(&output, "discard-refused", 3);
    assert!(inside.join("new.txt").exists() && !slots[1].exists());
}
