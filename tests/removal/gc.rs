use super::{WRITTEN, assert_gone, assert_kept, busy};
use crate::support::agent::{TASK, agent_command, describe};
use crate::support::death::{self, Order};
use crate::support::{PAST_HOOKS, TestRepo, assert_unchanged, git_in, snapshot};
use crate::verify::Agent;
use git_agent::agents::context::ctx::{Ctx, Seams};
use git_agent::domain::life::event::What;
use git_agent::domain::value::oid::Oid;
use git_agent::ops::gc;
use git_agent::ops::gc::{GcOptions, GcReport};
use git_agent::store::ledger::Ledger;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

fn actions(repo: &TestRepo, arguments: &[&str]) -> Vec<(String, String)> {
    let report = repo.agent_json(&[&["gc"][..], arguments].concat());
    let text = |item: &Value, key: &str| item[key].as_str().expect(key).to_owned();
    let agents = report["agents"].as_array().expect("agents").iter();
    agents.map(|item| (text(item, "short_id"), text(item, "action"))).collect()
}

/// One agent, prepared and settled, and what `gc` makes of it.
fn check(action: &str, arguments: &[&str], prepare: impl Fn(&Agent)) -> Agent {
    let agent = Agent::new();
    prepare(&agent);
    let id = agent.id[..8].to_owned();
    let found = actions(&agent.repo, arguments);
    assert_eq!(found, [(id, action.to_owned())], "{arguments:?}");
    agent
}

fn work(agent: &Agent) {
    agent.write("src/one.rs", "one\n");
    agent.commit("one");
}

fn squash(agent: &Agent) {
    agent.repo.git(["merge", "--quiet", "--squash", &agent.branch]);
    agent.repo.git(["commit", "--quiet", "-m", "squashed"]);
}

fn declare(agent: &Agent, verb: &str, option: &str) {
    agent.repo.agent_json(&[verb, &agent.id, option, "said"]);
}

#[test]
fn what_landed_by_squash_is_removed_and_what_did_not_land_is_kept() {
    check("remove", &[], |agent| {
        work(agent);
        squash(agent);
        declare(agent, "done", "--summary");
    });
    let agent = check("removed", &["--yes"], |agent| {
        work(agent);
        squash(agent);
        agent.repo.write("README.md", "# And then more\n");
        agent.repo.commit_all("more");
        declare(agent, "fail", "--reason");
    });
    assert_gone(&agent, "gc --yes");
    assert_kept(&agent.repo, &["one\n"], "gc --yes");

    check("removed", &["--yes"], |agent| {
        work(agent);
        squash(agent);
    });
    check("keep", &["--yes"], |agent| {
        work(agent);
        declare(agent, "done", "--summary");
    });
    check("keep", &["--yes"], |agent| {
        work(agent);
        squash(agent);
        agent.write("src/two.rs", "not landed\n");
        declare(agent, "done", "--summary");
    });
    check("keep", &["--yes"], |agent| {
        agent.repo.write("README.md", "# The base moved and the agent did nothing\n");
        agent.repo.commit_all("moved");
        declare(agent, "done", "--summary");
    });
}

fn base_moves(agent: &Agent, name: &str) {
    agent.repo.write(name, name);
    agent.repo.commit_all(name);
}

#[test]
fn an_agent_that_has_only_what_its_target_had_is_kept() {
    let updated = |agent: &Agent| {
        base_moves(agent, "first");
        drop(agent.repo.agent_json(&["update", &agent.id]));
    };
    check("keep", &["--yes"], |agent| {
        updated(agent);
        base_moves(agent, "second");
        updated(agent);
        base_moves(agent, "third");
        declare(agent, "done", "--summary");
    });
    let set = |agent: &Agent| {
        base_moves(agent, "first");
        drop(agent.git(&["reset", "--quiet", "--hard", "main"]));
    };
    check("keep", &["--yes"], |agent| {
        set(agent);
        declare(agent, "done", "--summary");
    });
    check("keep", &["--yes"], |agent| {
        set(agent);
        base_moves(agent, "second");
        declare(agent, "done", "--summary");
    });
    // What it had of the target is in the target no more as it was.
    check("keep", &["--yes"], |agent| {
        updated(agent);
        agent.repo.write("first", "first, changed\n");
        agent.repo.commit_all("changed");
    });
    for name in ["first", "second"] {
        check("keep", &["--yes"], |agent| {
            base_moves(agent, "first");
            drop(agent.git(&["rebase", "--quiet", "main"]));
            agent.repo.write(name, "changed\n");
            agent.repo.commit_all("changed");
        });
    }
    // What landed and was set to the target, or updated, since has landed all the same.
    check("removed", &["--yes"], |agent| {
        work(agent);
        declare(agent, "done", "--summary");
        drop(agent.repo.agent_json(&["merge", &agent.id]));
        base_moves(agent, "first");
        drop(agent.git(&["reset", "--quiet", "--hard", "main"]));
    });
    check("removed", &["--yes"], |agent| {
        base_moves(agent, "first");
        work(agent);
        drop(agent.git(&["rebase", "--quiet", "main"]));
        drop(agent.repo.git(["merge", "--quiet", "--ff-only", &agent.branch]));
        base_moves(agent, "second");
    });
    check("removed", &["--yes"], |agent| {
        work(agent);
        squash(agent);
        updated(agent);
        base_moves(agent, "second");
        declare(agent, "done", "--summary");
    });
    check("removed", &["--yes"], |agent| {
        updated(agent);
        work(agent);
        squash(agent);
        base_moves(agent, "second");
        declare(agent, "done", "--summary");
    });
}

/// Lands the work by squash and then goes on in the same lines, so that merging it again would conflict.
fn squash_and_go_on(agent: &Agent) {
    agent.write("src/lib.rs", "pub fn one() -> u32 {\n    2\n}\n");
    agent.commit("two");
    agent.write("src/more.rs", "pub fn more() {}\n");
    agent.commit("more");
    squash(agent);
    agent.repo.write("src/lib.rs", "pub fn one() -> u32 {\n    3\n}\n");
    agent.repo.commit_all("three");
}

#[test]
fn work_that_was_squashed_and_built_upon_is_known_by_its_patch() {
    let agent = check("removed", &["--yes"], |agent| {
        squash_and_go_on(agent);
        let conflict = ["merge-tree", "--write-tree", "main", &agent.branch];
        let merge = crate::support::git_output(&agent.repo.path(), conflict);
        assert_eq!(merge.status.code(), Some(1), "only its patch can tell");
        declare(agent, "done", "--summary");
    });
    assert_gone(&agent, "squashed");
    assert_kept(&agent.repo, &["pub fn more() {}\n"], "squashed");
}

#[test]
fn a_patch_that_is_not_quite_the_same_is_in_doubt() {
    // White space, which patch-id overlooks unless it is told not to.
    check("keep", &["--yes"], |agent| {
        agent.write("src/lib.rs", "pub fn one() -> u32 {\n        1\n}\n");
        agent.commit("indented");
        agent.repo.write("src/lib.rs", "pub fn one() -> u32 {\n  1\n}\n");
        agent.repo.commit_all("indented otherwise");
        let id = |range: &str| {
            let script = format!("git diff {range} -- src | git patch-id --stable | cut -d' ' -f1");
            let mut shell = crate::support::isolated("sh", &agent.repo.path());
            let output = shell.args(["-c", &script]).output().expect("starts");
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        assert_eq!(id("main~1 main"), id(&format!("main~1 {}", agent.branch)));
        declare(agent, "done", "--summary");
    });
    // Files that are not text, in which no patch shows a difference.
    check("keep", &["--yes"], |agent| {
        agent.write("src/data", b"\0mine");
        agent.commit("data");
        agent.repo.write("src/data", b"\0other");
        agent.repo.commit_all("other data");
        declare(agent, "done", "--summary");
    });
    // One commit more than was squashed.
    check("keep", &["--yes"], |agent| {
        squash_and_go_on(agent);
        agent.write("src/more.rs", "pub fn more() {}\npub fn still_more() {}\n");
        agent.commit("and more");
        declare(agent, "done", "--summary");
    });
    // Landed and taken back.
    check("keep", &["--yes"], |agent| {
        work(agent);
        squash(agent);
        agent.repo.git(["revert", "--no-edit", "HEAD"]);
        declare(agent, "done", "--summary");
    });
}

#[test]
fn the_same_change_before_the_agent_began_is_not_its_own() {
    let repo = TestRepo::with_commit();
    let one = "pub fn one() -> u32 {\n    1\n}\n";
    repo.write("src/lib.rs", one.replace('1', "2"));
    repo.commit_all("two");
    repo.write("src/lib.rs", one);
    repo.commit_all("not two");
    let agent = Agent::spawned_in(repo, TASK);
    agent.write("src/lib.rs", one.replace('1', "2"));
    agent.commit("two again");
    agent.repo.write("src/lib.rs", one.replace('1', "3"));
    agent.repo.commit_all("three");
    declare(&agent, "done", "--summary");
    assert_eq!(actions(&agent.repo, &["--yes"])[0].1, "keep");
}

/// Adds an event to the agent's row as the operation that is not under test would.
fn tell(agent: &Agent, what: What) {
    let repo = git_agent::git::Repo::open(&agent.repo.path()).expect("a repository");
    let ledger = Ledger::new(&repo);
    let commit = ledger.find(&agent.id).expect("known").spawn_commit;
    let now = chrono::Utc::now();
    ledger.append(commit, "test", what, now).expect("told");
}

#[test]
fn a_merged_agent_is_cleared_away_and_stays_merged() {
    let agent = check("removed", &["--yes"], |agent| {
        work(agent);
        agent.repo.git(["merge", "--quiet", "--no-edit", &agent.branch]);
        declare(agent, "done", "--summary");
        let head = agent.repo.git(["rev-parse", "HEAD"]);
        let commit = Oid::from_hex(&head).expect("an oid");
        let into = "refs/heads/main".to_owned();
        let (tip, from) = (None, None);
        let merged = What::Merged { commit, into, tip, from };
        tell(agent, merged);
    });
    assert_gone(&agent, "merged");
    assert_kept(&agent.repo, &["one\n"], "merged");
    let shown = agent.repo.agent_json(&["show", &agent.id]);
    assert_eq!(shown["state"], "merged");
    assert!(shown.get("irregular").is_none(), "{shown}");
    super::discarded(&agent, &[]);
    let again = agent.repo.agent_json(&["show", &agent.id]);
    assert_eq!(again["events"], shown["events"], "a second time says nothing");
}

#[test]
fn a_rejected_agent_goes_when_the_caller_says_how_old_is_old() {
    let reject = |agent: &Agent| {
        work(agent);
        declare(agent, "done", "--summary");
        let reason = "no".to_owned();
        tell(agent, What::Rejected { reason, whole: None });
    };
    check("keep", &["--yes"], reject);
    check("keep", &["--yes", "--older-than=1d"], reject);
    let agent = check("removed", &["--yes", "--older-than=0s"], reject);
    assert_kept(&agent.repo, &["one\n"], "rejected");
}

#[test]
fn a_dry_run_is_the_default_and_changes_no_ref_and_no_file() {
    let agent = check("remove", &[], |agent| {
        work(agent);
        squash(agent);
        declare(agent, "done", "--summary");
    });
    let before = snapshot(&agent.repo.path());
    actions(&agent.repo, &[]);
    actions(&agent.repo, &["--dry-run"]);
    let mut after = snapshot(&agent.repo.path());
    after.retain(|path, _| {
        before.contains_key(path) || !path.to_string_lossy().contains("/.git/objects/")
    });
    assert_unchanged(&before, &after, "gc");
}

#[test]
fn what_a_discard_left_behind_is_finished() {
    let agent = busy();
    let tip = agent.git(&["rev-parse", "HEAD"]);
    super::discarded(&agent, &[]);
    agent.repo.git(["branch", &agent.branch, &tip]);
    let found = actions(&agent.repo, &["--yes"]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].1, "removed");
    assert_gone(&agent, "gc");
    assert_kept(&agent.repo, &WRITTEN, "gc");
    assert!(actions(&agent.repo, &["--yes"]).is_empty());
}

/// Two agents whose work was squashed onto the base, the first with another one's id and worktree beside it.
fn two_landed() -> (Agent, String, PathBuf) {
    let repo = TestRepo::with_commit();
    let one = Agent::spawned_in(repo, TASK);
    work(&one);
    let second = one.repo.spawn();
    let text = |key: &str| second[key].as_str().expect(key).to_owned();
    let (id, worktree, branch) = (text("agent_id"), text("worktree_abspath"), text("branch"));
    fs::write(format!("{worktree}/src/two.rs"), "two\n").expect("write");
    for words in [&["add", "--all"][..], &["commit", "--quiet", "-m", "two"]] {
        crate::support::git_in(worktree.as_ref(), [&PAST_HOOKS[..], words].concat());
    }
    for (id, branch) in [(&one.id, &one.branch), (&id, &branch)] {
        one.repo.git(["merge", "--quiet", "--squash", branch]);
        one.repo.git(["commit", "--quiet", "-m", "squashed"]);
        one.repo.agent_json(&["done", id]);
    }
    (one, id, PathBuf::from(worktree))
}

/// Not a test: the process that dies. It does nothing unless a step is named.
#[test]
fn child() {
    if let Some(order) = Order::received() {
        sweep(&death::ctx(&order.directory, order.dying()));
    }
}

fn sweep(ctx: &Ctx) -> GcReport {
    let plan = gc::plan(ctx, GcOptions::default()).expect("a plan");
    gc::execute(ctx, plan).expect("swept")
}

#[test]
fn landings_are_recorded_by_one_commit_and_a_kill_after_it_loses_nothing() {
    let (one, other, worktree) = two_landed();
    let repo = &one.repo;
    death::die_at("removal::gc::child", &repo.path(), "recorded", &[]);
    let newest = ["log", "-1", "--format=%s", "refs/notes/agents"];
    assert_eq!(repo.git(newest), "agent: merged 2 agents");
    for (id, worktree) in [(&one.id, &one.worktree), (&other, &worktree)] {
        let row = repo.agent_json(&["show", id]);
        assert_eq!(row["state"], "merged", "{row}");
        assert!(worktree.is_dir());
    }
    let report = sweep(&death::ctx(&repo.path(), death::unwatched()));
    let actions: Vec<_> = report.agents.iter().map(|one| one.action).collect();
    assert_eq!(actions, ["removed", "removed"], "{report:?}");
    for (id, worktree) in [(&one.id, &one.worktree), (&other, &worktree)] {
        let row = repo.agent_json(&["show", id]);
        assert_eq!(row["state"], "merged", "{row}");
        assert!(!worktree.exists());
    }
    // Each commit leads to its agent.
    let notes = repo.git(["log", "-2", "--format=%N", "--notes=agents"]);
    assert!([&one.id, &other].iter().all(|id| notes.contains(*id)), "{notes}");
}

#[test]
fn one_that_cannot_be_removed_does_not_stop_the_others() {
    let (one, _, worktree) = two_landed();
    let locked = format!(".git/worktrees/agent-{}/locked", &one.id[..8]);
    fs::write(one.repo.path().join(locked), "mine\n").expect("write");
    let output = agent_command(&one.repo.path())
        .args(["gc", "--yes", "--format=ndjson"])
        .output()
        .expect("starts");
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let items: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(items[0]["action"], "keep");
    assert!(items[0]["why"].as_str().is_some_and(|why| why.contains("locked: mine")));
    assert_eq!(items[1]["action"], "removed");
    assert!(one.worktree.exists());
    assert!(!worktree.exists());
}

#[test]
fn what_somebody_takes_while_others_are_swept_is_kept() {
    let first = Agent::new();
    let repo = &first.repo;
    let second = repo.spawn();
    let text = |key: &str| second[key].as_str().expect(key).to_owned();
    let (second, branch) = (text("agent_id"), text("branch"));
    for id in [&first.id, &second] {
        repo.agent_json(&["fail", id, "--reason", "said"]);
        repo.agent_json(&["reject", id, "--reason", "said"]);
    }
    let top = repo.path();
    let other = top.with_file_name("other");
    let place = other.to_str().expect("UTF-8").to_owned();
    repo.git(["worktree", "add", "--quiet", "--detach", &place]);
    // As soon as the first is gone somebody checks out the branch of the second.
    let (there, taken) = (other.clone(), branch.clone());
    let take = move |step: &str| {
        if step == "unlinked" {
            let switch = ["switch", "--quiet", "--ignore-other-worktrees", &taken];
            git_in(&there, switch);
        }
    };
    let ctx = death::ctx(&top, Arc::new(take));
    let options = GcOptions { older_than: Some(Duration::ZERO), ..GcOptions::default() };
    let report = gc::execute(&ctx, gc::plan(&ctx, options).expect("a plan")).expect("swept");
    let actions: Vec<_> = report.agents.iter().map(|one| one.action).collect();
    assert_eq!(actions, ["removed", "keep"], "{report:?}");
    assert!(report.agents[1].why.contains("is checked out at"), "{report:?}");
    assert_eq!(git_in(&other, ["branch", "--show-current"]), branch);
    git_in(&other, ["rev-parse", "--verify", "--quiet", "HEAD"]);
    git_in(&other, ["switch", "--quiet", "--detach"]);
    assert_eq!(repo.agent_json(&["discard", &second])["state"], "discarded");
}

#[test]
fn what_the_trash_takes_of_the_disk_is_told() {
    let repo = TestRepo::with_commit();
    let trash = repo.path().join(".git/agents/trash/agent-0.1-0.tmp");
    fs::create_dir_all(trash.join("src")).expect("directories");
    fs::write(trash.join("src/large"), vec![7; 100_000]).expect("written");
    let real = Seams::real();
    let clock = real.clock.clone();
    let seams =
        Seams { clock: Arc::new(move || clock() + Duration::from_secs(48 * 60 * 60)), ..real };
    let ctx = death::ctx_with(&repo.path(), seams);
    let report = gc::plan(&ctx, GcOptions::default()).expect("a plan").report(&ctx);
    let du = Command::new("du").arg("-sk").arg(&trash).output().expect("du");
    let du = String::from_utf8(du.stdout).expect("UTF-8");
    let kibibytes: u64 =
        du.split_whitespace().next().and_then(|size| size.parse().ok()).expect("a size");
    assert_eq!((report.trash, report.trash_bytes.div_ceil(1024)), (1, kibibytes));
}

#[test]
fn what_is_hinted_does_what_was_shown() {
    let agent = Agent::new();
    work(&agent);
    declare(&agent, "done", "--summary");
    agent.repo.agent_json(&["reject", &agent.id]);
    let shown = |arguments: &[&str]| {
        let output = agent.repo.agent(&[&["gc"][..], arguments].concat());
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let text = shown(&["--older-than=0s", "--expire-salvage=90d"]);
    let (_, hint) = text.split_once("to do it: git agent ").expect("a hint");
    assert_eq!(hint, "gc --older-than 0s --expire-salvage 90d --yes\n");
    let words: Vec<_> = hint.split_whitespace().collect();
    assert!(agent.repo.agent(&words).status.success());
    assert_gone(&agent, "gc --yes");
    let text = shown(&["--expire-salvage=0d"]);
    assert!(text.ends_with("git agent gc --expire-salvage 0s --yes\n"), "{text}");
}

#[test]
fn what_a_sweep_would_not_keep_is_named_and_kept_on_request() {
    let landed = || {
        let repo = TestRepo::with_commit();
        repo.write(".gitignore", "/built/\n");
        repo.commit_all("ignore");
        let agent = Agent::spawned_in(repo, TASK);
        work(&agent);
        squash(&agent);
        declare(&agent, "done", "--summary");
        agent.write("built/a", "an ignored file\n");
        agent
    };
    let agent = landed();
    let report = agent.repo.agent_json(&["gc"]);
    assert_eq!(report["agents"][0]["ignored"][0], "built/", "{report}");
    let output = agent.repo.agent(&["gc"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = format!("not kept of {}, because ignored: built/ (", &agent.id[..8]);
    assert!(text.contains(&said), "{text}");
    let output = agent.repo.agent(&["gc", "--with-ignored"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!text.contains("built/"), "{text}");
    assert!(text.ends_with("git agent gc --with-ignored --yes\n"), "{text}");
    let report = agent.repo.agent_json(&["gc", "--yes"]);
    assert_eq!(report["agents"][0]["ignored"][0], "built/", "{report}");

    let agent = landed();
    let report = agent.repo.agent_json(&["gc", "--yes", "--with-ignored"]);
    assert!(report["agents"][0]["ignored"].is_null(), "{report}");
    assert_gone(&agent, "gc --with-ignored");
    assert_kept(&agent.repo, &["an ignored file\n"], "gc --with-ignored");
}

#[test]
fn a_link_in_the_place_of_a_directory_that_is_swept_is_refused() {
    let agent = busy();
    let outside = agent.repo.path().with_file_name("outside");
    fs::create_dir_all(outside.join("photos")).expect("made");
    fs::write(outside.join("precious"), "").expect("written");
    for name in ["bases", "spawning", "locks", "trash"] {
        let place = agent.repo.path().join(".git/agents").join(name);
        let aside = place.with_extension("aside");
        let was_there = fs::rename(&place, &aside).is_ok();
        std::os::unix::fs::symlink(&outside, &place).expect("linked");
        for words in [&["gc", "--yes"][..], &["list"], &["doctor", "--fix"]] {
            let output = agent.repo.agent(words);
            let said = describe(&output);
            assert_eq!(output.status.code(), Some(4), "{said}");
            assert!(said.contains("is a symbolic link"), "{said}");
        }
        fs::remove_file(&place).expect("removed");
        if was_there {
            fs::rename(&aside, &place).expect("put back");
        }
    }
    assert!(outside.join("precious").exists() && outside.join("photos").exists());
}

#[test]
fn what_was_discarded_and_came_back_is_judged_by_what_it_has() {
    for dirty in [true, false] {
        check("keep", &["--yes"], |agent| {
            work(agent);
            for words in [&["discard", &agent.id][..], &["rescue", &agent.id, "--reopen"]] {
                agent.repo.agent_json(words);
            }
            declare(agent, "done", "--summary");
            agent.repo.agent_json(&["merge", &agent.id]);
            agent.write("src/more.rs", "more\n");
            if !dirty {
                agent.commit("more");
            }
        });
    }
}

#[test]
fn a_commit_that_comes_while_others_are_swept_keeps_its_agent() {
    let (agent, id, worktree) = two_landed();
    let ctx = death::ctx(&agent.repo.path(), death::unwatched());
    let plan = gc::plan(&ctx, GcOptions::default()).expect("a plan");
    agent.write("src/late.rs", "late\n");
    agent.commit("late");
    let report = gc::execute(&ctx, plan).expect("swept");
    let actions: Vec<_> =
        report.agents.iter().map(|item| (item.agent_id.as_str(), item.action)).collect();
    assert!(actions.contains(&(agent.id.as_str(), "keep")), "{report:?}");
    assert!(actions.contains(&(id.as_str(), "removed")), "{report:?}");
    assert!(agent.worktree.join("src/late.rs").exists() && !worktree.exists());
}

#[test]
fn what_is_brought_back_while_others_are_swept_stays() {
    let agent = Agent::spawned_in(TestRepo::with_commit(), TASK);
    work(&agent);
    agent.repo.agent_json(&["merge", &agent.id]);
    let ctx = death::ctx(&agent.repo.path(), death::unwatched());
    let plan = gc::plan(&ctx, GcOptions::default()).expect("a plan");
    agent.repo.agent_json(&["undo"]);
    let report = gc::execute(&ctx, plan).expect("swept");
    let [item] = &report.agents[..] else { panic!("{report:?}") };
    assert_eq!(item.action, "keep", "{report:?}");
    assert!(item.why.contains("was merged when it was looked at"), "{item:?}");
    assert!(agent.worktree.exists());
}

#[test]
fn what_is_written_while_others_are_swept_keeps_its_agent() {
    let (agent, id, worktree) = two_landed();
    let ctx = death::ctx(&agent.repo.path(), death::unwatched());
    let plan = gc::plan(&ctx, GcOptions::default()).expect("a plan");
    agent.write("src/late.rs", "late\n");
    // What a file manager leaves is no work.
    fs::write(worktree.join(".DS_Store"), "left").expect("write");
    let report = gc::execute(&ctx, plan).expect("swept");
    let kept = report.agents.iter().find(|item| item.agent_id == agent.id).expect("listed");
    assert_eq!(kept.action, "keep", "{report:?}");
    assert!(kept.why.ends_with("its worktree holds uncommitted work"), "{kept:?}");
    assert!(report.agents.iter().any(|item| item.agent_id == id && item.action == "removed"));
    assert_eq!(agent.git(&["status", "--porcelain"]), "?? src/late.rs");
    assert!(!worktree.exists());
}

#[test]
fn a_commit_that_no_branch_has_keeps_its_agent() {
    let squashed = |agent: &Agent| {
        work(agent);
        squash(agent);
    };
    let merged = |agent: &Agent| {
        work(agent);
        declare(agent, "done", "--summary");
        drop(agent.repo.agent_json(&["merge", &agent.id]));
    };
    for land in [&squashed as &dyn Fn(&Agent), &merged] {
        for switch in [&["--detach"][..], &["--create", "elsewhere"]] {
            check("keep", &["--yes"], |agent| {
                land(agent);
                agent.git(&[&["switch", "--quiet"], switch].concat());
                agent.write("src/more.rs", "more\n");
                agent.commit("more");
            });
        }
        // These commits stay when the agent goes.
        for at in ["HEAD~1", "main"] {
            check("removed", &["--yes"], |agent| {
                land(agent);
                agent.git(&["switch", "--quiet", "--detach", at]);
            });
        }
    }
}
