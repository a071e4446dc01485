//! Missing history, and what is out of a clone's reach.

use crate::support::agent::{agent_command, describe, json_of};
use crate::support::{TestRepo, git_in, git_output};
use crate::verify::{Agent, codes, refused, report, run_in};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Output;

/// The refs that carry an agent's row and what the keep chain holds.
const OURS: [&str; 2] = ["+refs/notes/agents:refs/notes/agents", "+refs/agents/*:refs/agents/*"];

/// Runs a command of ours in a clone.
fn run(clone: &Path, arguments: &[&str]) -> Output {
    let output = agent_command(clone).args(arguments).output();
    output.expect("git-agent starts")
}

/// Runs a command of ours in a clone, which must succeed, and reads its JSON.
fn answer(clone: &Path, arguments: &[&str]) -> Value {
    let mut command = agent_command(clone);
    command.args(arguments).arg("--format=json");
    json_of(command)
}

/// A clone of the agent's repository beside it, with the rows and the keep chain.
fn clone_of(agent: &Agent, name: &str, options: &[&str]) -> PathBuf {
    let here = agent.repo.path();
    let path = here.with_file_name(name);
    let url = format!("file://{}", here.display());
    let to = path.to_str().expect("UTF-8");
    // A partial clone asks its remote for single objects.
    for key in ["uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"] {
        agent.repo.git(["config", key, "true"]);
    }
    // A newer git would go on with housekeeping beside the test.
    let quiet = ["-c", "maintenance.auto=false"];
    let words = [&quiet[..], &["clone", "--quiet"], options, &[&url, to]].concat();
    git_in(&here, words);
    git_in(&path, ["config", "maintenance.auto", "false"]);
    git_in(&path, [&["fetch", "--quiet", "origin"][..], &OURS].concat());
    path
}

/// An agent with three commits on a `main` that has four, and moved on by one since.
fn with_history() -> Agent {
    let repo = TestRepo::with_commit();
    for number in 0..3 {
        repo.write(&format!("docs/{number}.md"), "text\n");
        repo.commit_all("more on main");
    }
    let agent = Agent::spawned_in(repo, crate::support::agent::TASK);
    for number in 0..3 {
        agent.write(&format!("src/{number}.rs"), "");
        agent.commit("one more");
    }
    agent.repo.write("README.md", "# Moved\n");
    agent.repo.commit_all("main moves");
    agent
}

fn ledger(clone: &Path) -> String {
    git_in(clone, ["rev-parse", "refs/notes/agents"])
}

fn row_of(clone: &Path, id: &str) -> Value {
    let listed = answer(clone, &["list", "--all"]);
    let rows = listed["agents"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["agent_id"] == id);
    row.expect("the row").clone()
}

#[test]
fn j2_a_clone_that_ends_above_the_fork_judges_nothing_and_remembers_nothing() {
    let agent = with_history();
    // Two commits of the branch, and the newest of main: every file of the branch looks new.
    let path = clone_of(&agent, "shallow", &["--depth=2", "--branch", &agent.branch]);
    git_in(&path, ["fetch", "--quiet", "--depth=1", "origin", "main:main"]);
    let base = git_in(&agent.repo.path(), ["rev-parse", "main~1"]);
    git_in(&path, ["fetch", "--quiet", "--depth=1", "origin", &base]);
    let before = ledger(&path);
    for base in ["main", &base] {
        let words = ["--tip=HEAD", "--base", base];
        refused(&run_in(&path, &agent.id, &words), "history-incomplete", 4);
    }
    refused(&run(&path, &["verify", "--ci"]), "history-incomplete", 4);
    let row = row_of(&path, &agent.id);
    for key in ["ahead", "behind", "out_of_scope"] {
        assert_eq!(row[key], Value::Null, "{key}: {row}");
    }
    assert_eq!(ledger(&path), before);
    let cache = path.join(".git/agents/cache");
    let facts = std::fs::read_dir(&cache).map_or(0, Iterator::count);
    assert_eq!(facts, 0, "nothing is remembered");

    git_in(&path, ["fetch", "--quiet", "--unshallow", "origin", "main:main"]);
    let judged = report(&run_in(&path, &agent.id, &["--tip=HEAD", "--base=main", "--format=json"]));
    let scope = codes(&judged);
    assert!(!scope.iter().any(|code| code.starts_with("scope.")), "{judged}");
}

#[test]
fn j2_a_shallow_clone_that_holds_the_fork_gives_the_verdict_of_a_whole_one() {
    let agent = with_history();
    agent.verify(&[]);
    let whole = clone_of(&agent, "whole", &["--branch", &agent.branch]);
    let shallow = clone_of(&agent, "shallow", &["--depth=5", "--branch", &agent.branch]);
    git_in(&shallow, ["fetch", "--quiet", "--depth=2", "origin", "main:main"]);
    let base = git_in(&whole, ["rev-parse", "origin/main"]);
    let words = ["--tip=HEAD", "--base", &base, "--format=json"];
    let verdicts = [&whole, &shallow].map(|clone| report(&run_in(clone, &agent.id, &words)));
    assert_eq!(verdicts[0], verdicts[1]);
    assert_eq!(verdicts[0]["merge"]["ahead"], 3);
    assert_eq!(verdicts[0]["merge"]["behind"], 1);
}

#[test]
fn j2_a_shallow_end_beside_the_way_to_the_fork_is_not_guessed_over() {
    let agent = with_history();
    // main merges a branch whose beginning the shallow clone does not have.
    agent.repo.git(["checkout", "--quiet", "-b", "side", "main~3"]);
    for number in 0..6 {
        agent.repo.write(&format!("side/{number}"), "");
        agent.repo.commit_all("side");
    }
    agent.repo.git(["checkout", "--quiet", "main"]);
    agent.repo.git(["merge", "--quiet", "-m", "side", "side"]);
    let shallow = clone_of(&agent, "shallow", &["--depth=5", "--branch", &agent.branch]);
    git_in(&shallow, ["fetch", "--quiet", "--depth=4", "origin", "main:main"]);
    let words = ["--tip=HEAD", "--base=main"];
    refused(&run_in(&shallow, &agent.id, &words), "history-incomplete", 4);
}

#[test]
fn j2_a_missing_object_is_missing_history_and_no_verdict() {
    for (revision, what) in [("HEAD~1", "a commit"), ("HEAD~1^{tree}", "a tree")] {
        let agent = with_history();
        let path = clone_of(&agent, "whole", &["--branch", &agent.branch]);
        let lost = loosened(&path, revision);
        std::fs::remove_file(&lost).expect("remove the object");
        let before = ledger(&path);
        let output = run_in(&path, &agent.id, &["--tip=HEAD", "--base=origin/main"]);
        refused(&output, "history-incomplete", 4);
        assert_eq!(ledger(&path), before, "{what}");
    }
}

/// Unpacks every object of a clone and gives the file of one.
fn loosened(clone: &Path, revision: &str) -> PathBuf {
    let oid = git_in(clone, ["rev-parse", revision]);
    let script = "for pack in .git/objects/pack/*.pack; do \
        mv $pack ../moved.pack; rm -f ${pack%.pack}.*; git unpack-objects -q < ../moved.pack; done";
    let unpacked =
        crate::support::isolated("sh", clone).args(["-c", script]).output().expect("sh starts");
    assert!(unpacked.status.success(), "{}", describe(&unpacked));
    clone.join(format!(".git/objects/{}/{}", &oid[..2], &oid[2..]))
}

/// A history in which branches are merged again and again, by both sides.
fn many_merges(repo: &TestRepo, rounds: usize) {
    for round in 0..rounds {
        repo.git(["checkout", "--quiet", "-b", "topic"]);
        repo.write(&format!("docs/topic-{round}.md"), "topic\n");
        repo.commit_all("topic");
        repo.git(["checkout", "--quiet", "main"]);
        repo.write(&format!("docs/main-{round}.md"), "main\n");
        repo.commit_all("main");
        repo.git(["merge", "--quiet", "--no-ff", "-m", "merge", "topic"]);
        repo.git(["branch", "--quiet", "-D", "topic"]);
    }
}

#[test]
fn j2_partial_clones_and_bare_mirrors_give_the_verdict_of_a_whole_clone() {
    let repo = TestRepo::with_commit();
    many_merges(&repo, 5);
    let agent = Agent::spawned_in(repo, crate::support::agent::TASK);
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.commit("two");
    many_merges(&agent.repo, 3);
    agent.git(&["merge", "--quiet", "--no-verify", "-m", "merge", "main"]);
    agent.write("src/lib.rs", "pub fn one() -> u32 {\n    2\n}\n");
    agent.commit("edit");
    agent.verify(&[]);
    let bases = [
        // As it is; with a conflict; with the whole work squashed and then built upon.
        "main", "conflict", "squashed",
    ];
    agent.repo.git(["checkout", "--quiet", "-b", "conflict"]);
    agent.repo.write("src/lib.rs", "pub fn zero() {}\n");
    agent.repo.commit_all("conflict");
    agent.repo.git(["checkout", "--quiet", "-b", "squashed", "main"]);
    agent.repo.git(["merge", "--quiet", "--squash", &agent.branch]);
    agent.repo.commit_all("squashed");
    agent.repo.write("src/lib.rs", "pub fn three() {}\n");
    agent.repo.commit_all("built upon");
    agent.repo.git(["checkout", "--quiet", "main"]);
    let clones = [
        clone_of(&agent, "whole", &[]),
        clone_of(&agent, "blobless", &["--filter=blob:none", "--no-checkout"]),
        clone_of(&agent, "treeless", &["--filter=tree:0", "--no-checkout"]),
        clone_of(&agent, "mirror", &["--mirror"]),
    ];
    let tip = agent.git(&["rev-parse", "HEAD"]);
    for base in bases {
        let base = agent.repo.git(["rev-parse", base]);
        let words = ["--tip", &tip, "--base", &base, "--format=json"];
        let verdicts = clones.each_ref().map(|clone| {
            let output = run_in(clone, &agent.id, &words);
            let mut verdict = report(&output);
            verdict["target"]["ref"].take();
            verdict
        });
        for (clone, verdict) in clones.iter().zip(&verdicts) {
            assert_eq!(verdict, &verdicts[0], "{}", clone.display());
        }
    }
    let rows = clones.each_ref().map(|clone| {
        let shown = answer(clone, &["show", &agent.id]);
        (shown["state"].clone(), shown["whitelist"].clone())
    });
    assert!(rows.iter().all(|row| *row == rows[0]), "{rows:?}");
}

#[test]
fn j2_gc_keeps_what_a_shallow_clone_cannot_know_to_be_landed() {
    let agent = with_history();
    let path = agent.repo.path().with_file_name("shallow");
    let url = format!("file://{}", agent.repo.path().display());
    let to = path.to_str().expect("UTF-8");
    git_in(&agent.repo.path(), ["clone", "--quiet", "--depth=1", &url, to]);
    let task = agent.repo.task_file(crate::support::agent::TASK);
    let spawned = answer(&path, &["spawn", &task]);
    let worktree = PathBuf::from(spawned["worktree_abspath"].as_str().expect("a path"));
    std::fs::write(worktree.join("src/lib.rs"), "pub fn two() {}\n").expect("write");
    let id = spawned["agent_id"].as_str().expect("an id");
    answer(&path, &["commit", id, "-m", "two"]);
    answer(&path, &["done", id, "-m", "it is done"]);
    // main was fetched anew and does not lead to where the agent started, as far as this clone knows.
    agent.repo.write("src/lib.rs", "pub fn three() {}\n");
    agent.repo.commit_all("main goes on");
    git_in(&path, ["fetch", "--quiet", "--depth=1", "origin", "+main:refs/remotes/origin/main"]);
    git_in(&path, ["reset", "--quiet", "--hard", "origin/main"]);
    let branch = spawned["branch"].as_str().expect("a branch");
    let range = format!("main..{branch}");
    refused(&run(&path, &["check", id, "--range", &range]), "history-incomplete", 4);
    let swept = answer(&path, &["gc"]);
    assert_eq!(swept["agents"][0]["action"], "keep", "{swept}");
    let row = row_of(&path, id);
    assert_eq!(row["ahead"], Value::Null, "{row}");
    let committed = git_output(&worktree, ["log", "--oneline", "-1"]);
    assert!(committed.status.success());
}

#[test]
fn j10_list_and_verify_count_alike_on_a_rewritten_base() {
    let agent = with_history();
    agent.repo.git(["checkout", "--quiet", "--orphan", "island"]);
    agent.repo.commit_all("island");
    agent.repo.git(["branch", "--force", "main", "island"]);
    let judged = agent.verify(&[]);
    let row = row_of(&agent.repo.path(), &agent.id);
    let counts = json!([judged["merge"]["ahead"], judged["merge"]["behind"]]);
    assert_eq!(json!([row["ahead"], row["behind"]]), counts);
    assert_eq!(counts, json!([3, 1]));
    assert_eq!(row["out_of_scope"], 0);
    assert!(!codes(&judged).iter().any(|code| code.starts_with("scope.")));
}

/// The common dir of the agent's repository.
fn common_dir(agent: &Agent) -> PathBuf {
    agent.repo.path().join(".git")
}

#[test]
fn f4_a_verdict_in_a_file_is_not_believed() {
    let agent = Agent::new();
    agent.write("src/two.rs", "");
    agent.commit("two");
    let first = agent.verify(&[]);
    assert_eq!(first["verdict"], "accept", "{first}");
    let cache = common_dir(&agent).join("agents/cache");
    for entry in std::fs::read_dir(&cache).into_iter().flatten() {
        let path = entry.expect("an entry").path();
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        let forged = kept.replace("\"verdict\":\"accept\"", "\"verdict\":\"reject\"");
        std::fs::write(&path, forged).expect("written");
    }
    assert_eq!(agent.verify(&[]), first);
}

#[test]
fn f4_a_forged_merge_brings_nothing_out_of_scope() {
    use git_agent::store::chain::facts::Facts;
    let agent = with_history();
    let first = agent.verify(&[]);
    assert_eq!(first["merge"]["state"], "clean", "{first}");
    agent.repo.write("README.md", "# Owned\n");
    agent.repo.git(["add", "README.md"]);
    let evil_tree = agent.repo.git(["write-tree"]);
    agent.repo.git(["reset", "--quiet", "--hard"]);
    // What an agent outside every fence can do: it reads the key and seals what it likes.
    let facts = Facts::open(&common_dir(&agent)).expect("the key");
    let base = agent.repo.git(["rev-parse", "main"]);
    let tip = agent.git(&["rev-parse", "HEAD"]);
    let answer = json!({"tree": evil_tree, "conflicts": []}).to_string();
    facts.store("merge", &[base, tip], answer.as_bytes());
    assert_eq!(agent.verify(&[]), first);
    agent.repo.agent_json(&["merge", &agent.id]);
    let readme = agent.repo.git(["show", "main:README.md"]);
    assert_eq!(readme, "# Moved");
}

#[test]
fn f4_checks_run_once_for_a_commit_and_again_without_the_key_that_sealed_them() {
    let task = crate::support::agent::TASK;
    let checks = "[checks]\ncommands = [\"echo once >> \\\"$HOME/../ran\\\"\"]\n";
    let agent = Agent::of_task(&format!("{task}{checks}"));
    // The checks are behind a fence; what they count with is opened.
    let counter = agent.repo.path().with_file_name("ran");
    std::fs::write(&counter, "").expect("made");
    let counter = counter.display().to_string();
    agent.repo.git(["config", "agent.run.allowWrite", &counter]);
    agent.write("src/two.rs", "");
    agent.commit("two");
    let ran = || {
        let text = std::fs::read_to_string(agent.repo.path().with_file_name("ran"));
        text.unwrap_or_default().lines().count()
    };
    let first = agent.verify(&[]);
    assert_eq!((&first["verdict"], ran()), (&json!("accept"), 1));
    assert_eq!(agent.verify(&[]), first);
    assert_eq!(ran(), 1, "the fact is known");
    let facts = std::fs::read_dir(common_dir(&agent).join("agents/cache")).expect("facts");
    let kinds: Vec<String> = facts
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    let is_known = |name: &String| {
        let kinds = ["check-answer-", "green-tree-", "symlinks-", "kernel"];
        kinds.iter().any(|kind| name.starts_with(kind))
    };
    assert!(kinds.iter().all(is_known), "{kinds:?}");
    std::fs::remove_file(common_dir(&agent).join("agents/facts.key")).expect("removed");
    assert_eq!(agent.verify(&[]), first);
    assert_eq!(ran(), 2, "a seal that cannot be checked counts for nothing");
}

/// A clone with the rows of an agent that is at work in another one, and has neither finished nor been judged.
fn clone_of_one_at_work() -> (Agent, PathBuf) {
    let repo = TestRepo::with_commit();
    let report = repo.spawn();
    let agent = Agent::told_of(repo, &report);
    agent.write("src/two.rs", "");
    agent.commit("two");
    let path = clone_of(&agent, "clone", &[]);
    (agent, path)
}

fn state_of(clone: &Path, id: &str) -> Value {
    answer(clone, &["show", id])["state"].clone()
}

#[test]
fn j4_a_clone_that_cannot_see_worktree_and_bundle_says_so_and_records_nothing() {
    let (agent, path) = clone_of_one_at_work();
    let judged = report(&run_in(&path, &agent.id, &["--format=json"]));
    assert_eq!(judged["verdict"], "accept", "{judged}");
    assert_eq!(codes(&judged), ["bundle.not-judged", "worktree.not-judged"], "{judged}");
    let text = describe(&run_in(&path, &agent.id, &[]));
    assert!(!text.contains("artefacts present"), "{text}");
    assert!(!text.contains("MISSING"), "{text}");
    // A verdict on half of it lets nothing land.
    let merged = run(&path, &["merge", &agent.id]);
    refused(&merged, "not-accepted", 3);
    let said = String::from_utf8_lossy(&merged.stderr).into_owned();
    assert!(said.contains("bundle.not-judged"), "{said}");
    // Nor is what rejects recorded.
    agent.write("docs/a.md", "");
    agent.commit("out of scope");
    git_in(&path, ["fetch", "--quiet", "origin"]);
    let refs = crate::support::snapshot(&path.join(".git/refs"));
    let judged = report(&run_in(&path, &agent.id, &["--format=json"]));
    assert_eq!(judged["verdict"], "reject", "{judged}");
    assert_eq!(refs, crate::support::snapshot(&path.join(".git/refs")));
    assert!(!path.join(".git/agents/clone-id").exists());

    let here = agent.repo.path();
    let from = path.to_str().expect("UTF-8");
    let notes = "+refs/notes/agents:refs/notes/origin/agents";
    git_in(&here, ["fetch", "--quiet", from, notes]);
    answer(&here, &["unite"]);
    assert_eq!(state_of(&here, &agent.id), "idle");
}

#[test]
fn j4_a_kept_bundle_is_judged_in_another_clone() {
    let agent = Agent::new();
    agent.write("src/two.rs", "");
    agent.commit("two");
    agent.verify(&[]);
    let path = clone_of(&agent, "clone", &[]);
    let judged = report(&run_in(&path, &agent.id, &["--format=json"]));
    assert_eq!(codes(&judged), ["worktree.not-judged"], "{judged}");
    assert_eq!(judged["verdict"], "accept");
}

#[test]
fn j4_a_worktree_that_vanished_where_it_was_made_is_gone() {
    let repo = TestRepo::with_commit();
    let report = repo.spawn();
    let agent = Agent::told_of(repo, &report);
    agent.write("src/two.rs", "");
    agent.commit("two");
    std::fs::remove_dir_all(&agent.worktree).expect("removed");
    let gone = |agent: &Agent| {
        let codes = agent.codes();
        assert_eq!(codes.len(), 7, "{codes:?}");
        assert_eq!(codes[0], "bundle.missing");
        assert_eq!(codes[6], "worktree.gone");
    };
    gone(&agent);
    assert_eq!(state_of(&agent.repo.path(), &agent.id), "idle");
    let place = agent.worktree.to_str().expect("UTF-8");
    agent.repo.git(["worktree", "unlock", place]);
    agent.repo.git(["worktree", "prune"]);
    gone(&agent);
}

/// Runs `verify --ci` in a clone, with a place for temporary files that must be empty afterwards.
fn verify_ci(clone: &Path, arguments: &[&str]) -> Value {
    let temporary = clone.with_extension("tmp");
    std::fs::create_dir_all(&temporary).expect("made");
    let output = agent_command(clone)
        .env("TMPDIR", &temporary)
        .args(["verify", "--ci", "--format=json"])
        .args(arguments)
        .output()
        .expect("git-agent starts");
    let left = std::fs::read_dir(&temporary).expect("there").count();
    assert_eq!(left, 0, "temporary files are left");
    report(&output)
}

#[test]
fn j3_ci_leaves_every_byte_as_it_was() {
    let task = crate::support::agent::TASK;
    // They see the merge, the history and the refs, and in the temporary repository of --ci they may write what they like.
    let checks = r#"[checks]
commands = ["test -f src/two.rs && test -f NOTES.md && git log --format=%s HEAD | grep -q moves",
  "git rev-parse --verify --quiet refs/remotes/origin/main || git rev-parse --verify main", "git status --porcelain | (! grep .)",
  "test -f .git || { touch made && git add made && git commit --quiet -m made && git branch --force made; }"]
"#;
    let agent = Agent::of_task(&format!("{task}{checks}"));
    agent.write("src/two.rs", "");
    agent.commit("two");
    agent.repo.write("NOTES.md", "moved\n");
    agent.repo.commit_all("main moves");
    assert_eq!(agent.verify(&[])["verdict"], "accept");
    let tip = agent.git(&["rev-parse", "HEAD"]);
    let base = agent.repo.git(["rev-parse", "main"]);
    for (name, options) in [
        ("whole", &[][..]),
        ("bare", &["--bare"]),
        ("partial", &["--filter=blob:none", "--no-checkout"]),
    ] {
        let path = clone_of(&agent, name, options);
        let before = crate::support::snapshot(&path);
        for _ in 0..2 {
            let judged = verify_ci(&path, &["--tip", &tip, "--base", &base]);
            assert_eq!(judged["verdict"], "accept", "{judged}");
            assert_eq!(judged["merge"]["state"], "clean", "{judged}");
            assert_eq!(judged["commands"].as_array().map(Vec::len), Some(4));
            assert_eq!(codes(&judged), [""; 0], "{judged}");
        }
        let after = crate::support::snapshot(&path);
        crate::support::assert_unchanged(&before, &after, name);
    }
    // Nor does it write where the agent lives, or record what rejects.
    let here = agent.repo.path();
    let before = crate::support::snapshot(&here.join(".git"));
    verify_ci(&here, &["--tip", &tip]);
    agent.write("docs/out.md", "");
    let out = agent.commit("out of scope");
    let between = crate::support::snapshot(&here.join(".git"));
    assert_ne!(before, between);
    assert_eq!(verify_ci(&here, &["--tip", &out])["verdict"], "reject");
    let after = crate::support::snapshot(&here.join(".git"));
    crate::support::assert_unchanged(&between, &after, "verify --ci");
}

/// The arguments of the command of docs/ci.md that gets what a build machine needs.
fn documented_exchange() -> Vec<&'static str> {
    let page = include_str!("../../docs/ci.md");
    let (_, sync) = page.split_once("`git agent sync").expect("a command");
    let (options, _) = sync.split_once('`').expect("its end");
    std::iter::once("sync").chain(options.split_whitespace()).collect()
}

#[test]
fn j3_the_documented_commands_work_the_tenth_time_in_a_kept_clone() {
    let agent = Agent::new();
    let here = agent.repo.path();
    let remote = here.with_file_name("remote.git");
    let remote = remote.to_str().expect("UTF-8");
    agent.repo.git(["init", "--quiet", "--bare", "-b", "main", remote]);
    let push = |refspecs: &[&str]| {
        let words = ["push", "--quiet", "--no-verify", remote];
        git_in(&here, [&words[..], refspecs].concat());
    };
    let own = agent.branch.as_str();
    let all = ["+refs/heads/*:refs/heads/*", "+refs/notes/agents", "refs/agents/keep"];
    let kept = here.with_file_name("kept");
    for round in 0..10 {
        agent.write("src/two.rs", format!("// {round}\n"));
        agent.git(&["add", "src"]);
        // Each time another commit in the place of the one before.
        let amend: &[&str] = if round == 0 { &[] } else { &["--amend"] };
        let words = ["commit", "--quiet", "--no-verify", "-m", "two"];
        agent.git(&[&words[..], amend].concat());
        agent.verify(&[]);
        // Others work meanwhile.
        agent.repo.spawn();
        if round % 3 == 2 {
            // The ledger on the remote is rewritten: the same rows without their history.
            let words = ["commit-tree", "-m", "rewritten", "refs/notes/agents^{tree}"];
            let rewritten = agent.repo.git(words);
            push(&[&format!("+{rewritten}:refs/notes/agents")]);
        } else {
            push(&all[1..2]);
        }
        push(&[all[0], all[2]]);
        if round == 0 {
            let to = kept.to_str().expect("UTF-8");
            git_in(&here, ["clone", "--quiet", remote, to]);
        }
        git_in(&kept, ["fetch", "--quiet", "--prune", "origin"]);
        let exchanged = agent_command(&kept).args(documented_exchange()).output();
        let exchanged = exchanged.expect("starts");
        assert!(exchanged.status.success(), "{round}: {}", describe(&exchanged));
        let tip = git_in(&kept, ["rev-parse", &format!("origin/{own}")]);
        let words = ["--tip", &tip, "--base", "origin/main"];
        let before = crate::support::snapshot(&kept.join(".git"));
        let judged = verify_ci(&kept, &words);
        assert_eq!(judged["verdict"], "accept", "{round}: {judged}");
        assert_eq!(judged["tip"], tip.as_str());
        assert_eq!(codes(&judged), [""; 0], "{round}: {judged}");
        let after = crate::support::snapshot(&kept.join(".git"));
        crate::support::assert_unchanged(&before, &after, "verify --ci");
    }
}
