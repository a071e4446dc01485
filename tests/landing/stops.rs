//! A landing that dies at any step (see [`death`]), or that comes too late.

use super::{answer, ready, require_sound, run, state};
use crate::support::agent::{TASK, agent_command, describe};
use crate::support::death::{self, Order, steps_of, unwatched};
use crate::support::{TestRepo, is_ignored, isolated};
use crate::verify::{Agent, refused};
use git_agent::agents::context::ctx::Ctx;
use git_agent::error::Code;
use git_agent::ops::merge;
use git_agent::ops::merge::MergeOptions;
use git_agent::ops::merge::Method;
use git_agent::ops::merge::STEPS;
use git_agent::store::files::{layout, lock};
use rustix::process::Signal;
use std::path::Path;
use std::sync::Arc;

/// Not a test: the process that dies. It does nothing unless a step is named.
#[test]
fn child() {
    let Some(order) = Order::received() else {
        return;
    };
    let method = (order.words[1] == "--squash").then_some(Method::Squash);
    let ctx = death::ctx(&order.directory, order.dying());
    let options =
        MergeOptions { method, now: order.words[1] == "--now", ..MergeOptions::default() };
    let plan = merge::judged_plan(&ctx, &order.words[0], &options)
        .expect("a plan")
        .accepted()
        .expect("accepted");
    merge::execute(&ctx, &plan).expect("landed");
}

/// The plan to land an agent whose work is accepted.
fn accepted_plan(ctx: &Ctx, agent: &Agent) -> merge::MergePlan {
    merge::judged_plan(ctx, &agent.id, &MergeOptions::default())
        .expect("a plan")
        .accepted()
        .expect("accepted")
}

#[test]
fn the_steps_are_reached_in_the_order_they_are_listed() {
    let agent = ready();
    let steps = steps_of(|reached| {
        let ctx = death::ctx(&agent.repo.path(), reached);
        let plan = accepted_plan(&ctx, &agent);
        merge::execute(&ctx, &plan).expect("landed");
    });
    assert_eq!(steps, STEPS);
}

#[test]
fn attributes_in_doubt_are_looked_into_and_land_no_other_way() {
    let repo = TestRepo::with_commit();
    repo.write(".gitattributes", "*.rs text\n");
    repo.git(["add", ".gitattributes"]);
    repo.git(["commit", "--quiet", "--message=attributes"]);
    let agent = Agent::spawned_in(repo, TASK);
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.verify(&[]);
    // As old as the files: what it remembers of them proves nothing.
    let attributes = std::fs::metadata(agent.repo.path().join(".gitattributes"));
    let moment = attributes.and_then(|file| file.modified()).expect("a time");
    let index = std::fs::File::options().write(true).open(agent.repo.path().join(".git/index"));
    index.expect("there").set_modified(moment).expect("aged");
    let steps = steps_of(|reached| {
        let ctx = death::ctx(&agent.repo.path(), reached);
        let plan = accepted_plan(&ctx, &agent);
        merge::execute(&ctx, &plan).expect("landed");
    });
    assert_eq!(steps, STEPS);
    require_sound(&agent);
}

/// Lands the work in a process that dies at a step.
pub fn die_at(agent: &Agent, step: &str, method: &str) {
    let words = [agent.id.as_str(), method];
    death::die_at("landing::stops::child", &agent.repo.path(), step, &words);
}

fn check(step: &str, method: &str) {
    let agent = ready();
    let judged = agent.verify(&[]);
    let before = agent.repo.git(["rev-parse", "main"]);
    die_at(&agent, step, method);
    if step == "merged" {
        assert_eq!(state(&agent), "merged");
        return;
    }
    answer(&agent, "merge", &[method]);
    assert_eq!(state(&agent), "merged", "after {step}");
    assert_eq!(judged["merged_tree"], agent.repo.git(["rev-parse", "main^{tree}"]), "after {step}");
    assert_eq!(judged["tree"], agent.git(&["rev-parse", "HEAD^{tree}"]));
    let count = |range: &str| agent.repo.git(["rev-list", "--count", "--first-parent", range]);
    let branch = agent.branch.as_str();
    // Spawn, the agent's commit, the work: made once, however often it was begun.
    assert_eq!(count(&format!("main~1..{branch}")), "3", "after {step}");
    let notes = agent.repo.git(["log", "-1", "--notes=agents", "main"]);
    assert!(notes.contains(&agent.id), "after {step}: {notes}");
    require_sound(&agent);
    // Whichever of the two moved the branch, it goes back.
    agent.repo.agent_json(&["undo"]);
    assert_eq!(agent.repo.git(["rev-parse", "main"]), before, "after {step}");
}

#[test]
fn whatever_a_kill_leaves_the_next_landing_finishes_it() {
    for step in STEPS {
        check(step, "--no-ff");
    }
}

#[test]
fn the_same_for_a_squash() {
    for step in ["moved", "landed", "forgotten"] {
        check(step, "--squash");
    }
}

#[test]
fn a_kill_while_a_refused_landing_goes_back_leaves_nothing_staged() {
    use std::os::unix::fs::PermissionsExt;
    let repo = TestRepo::with_commit();
    let task = format!("{TASK}[bundle]\nrequired = false\n");
    let other = repo.spawn_task(&task, &[]);
    let worktree = Path::new(other["worktree_abspath"].as_str().expect("a path"));
    std::fs::write(worktree.join("src/three.rs"), "pub fn three() {}\n").expect("written");
    let agent = Agent::spawned_with(repo, &task, &["--branch", "topic/mine"]);
    agent.write("src/two.rs", "pub fn two() {}\n");
    // The commit of the agent's work is refused after the worktrees of the target have moved.
    let hook = agent.repo.path().join(".git/hooks/reference-transaction");
    let script = "#!/bin/sh\ncase $1:$(cat) in prepared:*refs/heads/topic/*) exit 1 ;; esac\n";
    std::fs::create_dir_all(hook.parent().expect("above it")).expect("made");
    std::fs::write(&hook, script).expect("written");
    std::fs::set_permissions(&hook, PermissionsExt::from_mode(0o755)).expect("executable");
    die_at(&agent, "refused", "--no-ff");
    agent.repo.agent_json(&["merge", other["agent_id"].as_str().expect("an id")]);
    assert_eq!(agent.repo.git(["status", "--porcelain"]), "");
    assert!(!agent.repo.path().join("src/two.rs").exists());
    // The same without a kill.
    refused(&run(&agent, "merge", &[]), "hook-refused", 3);
    assert_eq!(agent.repo.git(["status", "--porcelain"]), "");
    std::fs::remove_file(&hook).expect("removed");
    answer(&agent, "merge", &[]);
    require_sound(&agent);
}

/// An agent whose work does to files whatever can be done to them.
fn ready_with_every_kind() -> Agent {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let agent = Agent::new();
    let source = agent.worktree.join("src");
    std::fs::remove_file(source.join("bin/tool.rs")).expect("removed");
    std::fs::set_permissions(source.join("lib.rs"), PermissionsExt::from_mode(0o755))
        .expect("executable");
    symlink("lib.rs", source.join("link")).expect("a link");
    agent.write("src/deep/two.rs", "pub fn two() {}\n");
    agent
}

#[test]
fn a_kill_in_the_middle_of_moving_files_is_made_good_whatever_becomes_of_them() {
    for step in ["locked", "emptied", "written", "indexed"] {
        let agent = ready_with_every_kind();
        agent.verify(&[]);
        die_at(&agent, step, "--no-ff");
        assert!(agent.repo.path().join(".git/index.lock").exists(), "{step}");
        answer(&agent, "merge", &[]);
        assert!(!agent.repo.path().join("src/bin").exists(), "after {step}");
        require_sound(&agent);
    }
}

#[test]
fn what_somebody_writes_after_a_kill_is_in_the_way_of_the_next_landing() {
    for step in ["emptied", "written"] {
        for name in ["src/lib.rs", "src/two.rs"] {
            let agent = ready();
            agent.verify(&[]);
            die_at(&agent, step, "--no-ff");
            agent.repo.write(name, "mine\n");
            let output = run(&agent, "merge", &[]);
            refused(&output, "target-dirty", 3);
            let path = agent.repo.path().join(name);
            let mine = std::fs::read_to_string(&path).expect("mine");
            assert_eq!(mine, "mine\n", "{name} after {step}");
            std::fs::remove_file(path).expect("moved away");
            answer(&agent, "merge", &[]);
            require_sound(&agent);
        }
    }
}

#[test]
fn what_somebody_staged_after_a_kill_is_not_the_landings() {
    let agent = ready();
    agent.verify(&[]);
    die_at(&agent, "written", "--no-ff");
    std::fs::remove_file(agent.repo.path().join(".git/index.lock")).expect("removed");
    agent.repo.write("src/lib.rs", "mine\n");
    agent.repo.git(["add", "src/lib.rs"]);
    // As it stands it could be a file that the landing began to write.
    agent.repo.write("src/lib.rs", "");
    refused(&run(&agent, "merge", &[]), "target-dirty", 3);
    let path = agent.repo.path().join("src/lib.rs");
    assert_eq!(std::fs::read(path).expect("there"), b"");
    assert_eq!(agent.repo.git(["show", ":src/lib.rs"]), "mine");
}

#[test]
fn a_file_that_a_kill_left_half_written_is_not_in_the_way() {
    for (name, begun) in
        [("src/three.rs", ""), ("src/lib.rs", "pub fn one()"), ("src/two.rs", "pub fn ")]
    {
        let agent = ready();
        agent.verify(&[]);
        die_at(&agent, "locked", "--no-ff");
        // As a process that was killed between making a file and filling it.
        agent.repo.write(name, begun);
        answer(&agent, "merge", &[]);
        require_sound(&agent);
        let left = std::fs::read_dir(agent.repo.path().join(".git/agents/locks"));
        assert_eq!(left.map_or(0, Iterator::count), 0, "{name}");
    }
    // Without a kill it is not the landing's.
    let agent = ready();
    agent.repo.write("src/three.rs", "");
    refused(&run(&agent, "merge", &[]), "target-dirty", 3);
    assert!(agent.repo.path().join("src/three.rs").exists());
}

#[test]
fn what_appears_while_files_move_stays_and_the_others_move_back() {
    for name in ["src/lib.rs", "src/two.rs"] {
        let agent = with_attributes(ready(), WAYS[1]);
        let path = agent.repo.path().join(name);
        let mine = path.clone();
        let write = move |step: &str| {
            if step == "emptied" {
                std::fs::write(&mine, "mine\n").expect("written");
            }
        };
        let ctx = death::ctx(&agent.repo.path(), Arc::new(write));
        let main = agent.repo.git(["rev-parse", "main"]);
        let plan = accepted_plan(&ctx, &agent);
        let error = merge::execute(&ctx, &plan).expect_err("in the way");
        assert_eq!(error.code(), Code::TargetDirty, "{name}");
        assert_eq!(agent.repo.git(["rev-parse", "main"]), main);
        let mine = std::fs::read_to_string(&path).expect("mine");
        assert_eq!(mine, "mine\n", "{name}");
        let status = agent.repo.git(["status", "--porcelain"]);
        assert!(status.ends_with(name) && status.lines().count() == 1, "{status}");
        std::fs::remove_file(path).expect("moved away");
        answer(&agent, "merge", &[]);
        require_sound(&agent);
    }
}

/// As on a full disk, but without one: no file may become longer than the limit.
#[test]
fn files_move_back_where_one_cannot_be_written() {
    check_unwritable("*.txt eol=crlf\n");
}

#[test]
fn files_that_git_writes_move_back_as_well() {
    check_unwritable("*.rs eol=crlf\n");
}

/// Makes a file older than the index that lists it.
pub(super) fn age(file: &Path) {
    let file = std::fs::File::options().write(true).open(file).expect("opens");
    file.set_modified(std::time::UNIX_EPOCH).expect("set");
}

/// Lets the files of the target be written by other rules than those of the repository.
fn with_attributes(agent: Agent, attributes: &str) -> Agent {
    let own = agent.repo.path().join(".git/info/attributes");
    std::fs::write(own, attributes).expect("written");
    agent.repo.git(["rm", "--quiet", "--cached", "-r", "."]);
    agent.repo.git(["reset", "--quiet", "--hard"]);
    agent
}

/// Files that are their blobs' bytes, and files that git alone can write.
const WAYS: [&str; 2] = ["", "*.rs eol=crlf\n"];

#[test]
fn a_landing_that_was_killed_while_files_moved_is_found_and_put_back() {
    for step in ["locked", "emptied", "written", "indexed"] {
        for attributes in WAYS {
            let agent = with_attributes(ready_with_every_kind(), attributes);
            let repo = &agent.repo;
            agent.verify(&[]);
            die_at(&agent, step, "--no-ff");
            let is_there = repo.path().join("src/lib.rs").is_file();
            assert!(is_there || !attributes.is_empty(), "{step} removed it");
            let found = describe(&repo.agent(&["doctor"]));
            assert!(found.contains("landing.interrupted"), "{step}: {found}");
            let cured = describe(&repo.agent(&["doctor", "--fix"]));
            assert!(cured.contains("put index and files back"), "{step}: {cured}");
            assert_eq!(repo.git(["status", "--porcelain"]), "", "after {step}");
            answer(&agent, "merge", &[]);
            require_sound(&agent);
        }
    }
}

#[test]
fn other_work_that_lands_after_a_kill_brings_back_what_was_removed() {
    for attributes in WAYS {
        let agent = with_attributes(ready_with_every_kind(), attributes);
        let repo = &agent.repo;
        agent.verify(&[]);
        // What a person removed stays away.
        std::fs::remove_file(repo.path().join("README.md")).expect("removed");
        die_at(&agent, "emptied", "--no-ff");
        let report = repo.spawn_task(&format!("{TASK}[bundle]\nrequired = false\n"), &[]);
        let worktree = Path::new(report["worktree_abspath"].as_str().expect("a path"));
        std::fs::write(worktree.join("src/other.rs"), "// other\n").expect("written");
        repo.agent_json(&["merge", report["agent_id"].as_str().expect("an id")]);
        assert_eq!(repo.git(["status", "--porcelain"]), " D README.md");
    }
}

#[test]
fn a_request_to_end_waits_until_the_work_has_landed() {
    use std::os::unix::process::ExitStatusExt;
    let signals = [("HUP", Signal::HUP), ("INT", Signal::INT), ("TERM", Signal::TERM)];
    for (signal, _) in signals.into_iter().filter(|(_, signal)| !is_ignored(*signal)) {
        let agent = ready_with_every_kind();
        let repo = &agent.repo;
        let pid = repo.path().join(".git/pid");
        // Git starts it in the middle of the files that it writes.
        let filter = format!("kill -{signal} $(cat '{}'); cat", pid.display());
        let agent = with_attributes(agent, "src/deep/** filter=ends\n");
        let repo = &agent.repo;
        repo.git(["config", "filter.ends.smudge", &filter]);
        repo.git(["config", "filter.ends.clean", "cat"]);
        let program = agent_command(&repo.path());
        let output = isolated("sh", &repo.path())
            .args(["-c", "echo $$ >\"$0\"; exec \"$@\""])
            .arg(&pid)
            .arg(program.get_program())
            .args(["merge", &agent.id])
            .output()
            .expect("starts");
        let said = describe(&output);
        assert!(output.status.signal().is_some(), "{signal}: {said}");
        assert!(!repo.path().join(".git/index.lock").exists(), "{signal}");
        assert_eq!(state(&agent), "merged", "{signal}: {said}");
        require_sound(&agent);
    }
}

fn check_unwritable(attributes: &str) {
    let agent = with_attributes(ready_with_every_kind(), attributes);
    agent.write("src/large", vec![b'x'; 1 << 20]);
    // Else it would be looked at once more, by a copy of it that is too long as well.
    age(&agent.worktree.join("src/large"));
    agent.commit("every kind");
    agent.verify(&[]);
    let program = agent_command(&agent.repo.path());
    let output = isolated("sh", &agent.repo.path())
        .args(["-c", "trap '' XFSZ; ulimit -f 512; exec \"$0\" \"$@\""])
        .arg(program.get_program())
        .args(["merge", &agent.id])
        .output()
        .expect("starts");
    refused(&output, "io", 4);
    assert!(describe(&output).contains("src/large"), "{}", describe(&output));
    require_sound(&agent);
    assert!(agent.repo.path().join("src/bin/tool.rs").is_file());
    assert!(!agent.repo.path().join("src/deep").exists());
    answer(&agent, "merge", &[]);
    require_sound(&agent);
}

#[test]
fn doctor_unlocks_the_index_that_a_killed_landing_had() {
    let agent = ready();
    agent.verify(&[]);
    die_at(&agent, "locked", "--no-ff");
    let output = agent.repo.agent(&["doctor", "--fix"]);
    let said = describe(&output);
    assert!(said.contains("left the lock file of the index of"), "{said}");
    agent.repo.git(["update-index", "--refresh"]);
    answer(&agent, "merge", &[]);
    require_sound(&agent);
}

#[test]
fn a_lock_of_gits_own_is_waited_for_and_never_cleared() {
    let agent = ready();
    agent.verify(&[]);
    let lock = agent.repo.path().join(".git/index.lock");
    std::fs::write(&lock, "").expect("locked");
    refused(&run(&agent, "merge", &[]), "lock-timeout", 5);
    std::fs::remove_file(&lock).expect("still there");
    answer(&agent, "merge", &[]);
    require_sound(&agent);
}

/// Plans, lets `meanwhile` happen, and carries the plan out, which must be told that it came too late.
fn check_race(meanwhile: impl Fn(&Agent)) {
    let agent = ready();
    let ctx = death::ctx(&agent.repo.path(), unwatched());
    let plan = accepted_plan(&ctx, &agent);
    meanwhile(&agent);
    let main = agent.repo.git(["rev-parse", "main"]);
    let status = agent.repo.git(["status", "--porcelain"]);
    let error = merge::execute(&ctx, &plan).expect_err("too late");
    assert_eq!(error.code(), Code::LostRace);
    assert_eq!(error.code().exit().code(), 5);
    assert_eq!(agent.repo.git(["rev-parse", "main"]), main);
    assert_eq!(agent.repo.git(["status", "--porcelain"]), status);
    assert_eq!(state(&agent), "idle");
    answer(&agent, "merge", &[]);
    require_sound(&agent);
}

#[test]
fn a_base_that_moved_loses_the_race() {
    check_race(|agent| {
        agent.repo.write("MORE.md", "more\n");
        agent.repo.commit_all("main moves again");
    });
}

#[test]
fn a_branch_that_moved_loses_the_race() {
    check_race(|agent| {
        agent.write("src/four.rs", "pub fn four() {}\n");
        agent.commit("four");
    });
}

#[test]
fn a_file_that_appears_after_the_plan_is_not_touched() {
    let agent = ready();
    let ctx = death::ctx(&agent.repo.path(), unwatched());
    let plan = accepted_plan(&ctx, &agent);
    agent.repo.write("src/two.rs", "mine\n");
    let main = agent.repo.git(["rev-parse", "main"]);
    let error = merge::execute(&ctx, &plan).expect_err("in the way");
    assert_eq!(error.code(), Code::TargetDirty);
    assert_eq!(agent.repo.git(["rev-parse", "main"]), main);
    assert_eq!(agent.repo.git(["status", "--porcelain"]), "?? src/two.rs");
    let mine = std::fs::read_to_string(agent.repo.path().join("src/two.rs")).expect("mine");
    assert_eq!(mine, "mine\n");
    let output = run(&agent, "merge", &[]);
    refused(&output, "target-dirty", 3);
    assert!(describe(&output).contains("src/two.rs"));
}

#[test]
fn of_many_that_land_at_once_each_lands() {
    const AGENTS: usize = 6;
    let first = Agent::new();
    let repo = &first.repo;
    let ids: Vec<String> = (0..AGENTS)
        .map(|number| {
            let report = repo.spawn();
            let worktree = Path::new(report["worktree_abspath"].as_str().expect("a path"));
            for name in ["plan.md", "chatlog.md", "handoffs.md", "review.md"] {
                std::fs::write(worktree.join(".agent").join(name), "written\n").expect("written");
            }
            let progress = worktree.join(".agent/progress.json");
            std::fs::write(progress, "{\"status\": \"done\"}\n").expect("written");
            let file = worktree.join(format!("src/from_{number}.rs"));
            std::fs::write(file, "pub fn new() {}\n").expect("written");
            report["agent_id"].as_str().expect("an id").to_owned()
        })
        .collect();
    let barrier = Arc::new(std::sync::Barrier::new(AGENTS));
    let path = repo.path();
    std::thread::scope(|scope| {
        for id in &ids {
            let (barrier, path) = (Arc::clone(&barrier), &path);
            scope.spawn(move || {
                barrier.wait();
                let output = agent_command(path).args(["merge", id]).output();
                let output = output.expect("starts");
                assert!(output.status.success(), "{}", describe(&output));
            });
        }
    });
    for number in 0..AGENTS {
        assert!(path.join(format!("src/from_{number}.rs")).is_file());
    }
    let landings = repo.git(["rev-list", "--count", "--first-parent", "main"]);
    assert_eq!(landings, (AGENTS + 1).to_string());
    require_sound(&first);
}

#[test]
fn work_is_judged_anew_when_the_target_moves_while_it_lands() {
    let agent = ready();
    let path = agent.repo.path();
    let moves = std::sync::atomic::AtomicUsize::new(1);
    let took_turn = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (top, turn) = (path.clone(), Arc::clone(&took_turn));
    let ctx = death::ctx(
        &path,
        Arc::new(move |step| {
            let left = moves.load(std::sync::atomic::Ordering::Relaxed);
            if step == "committed" && left > 0 {
                moves.store(left - 1, std::sync::atomic::Ordering::Relaxed);
                let words = ["commit", "--quiet", "--allow-empty", "-m", "meanwhile"];
                crate::support::git_in(&top, words);
            }
            if step == "moved" {
                let held = lock::is_held(&top.join(".git"), layout::LANDING_TURN);
                turn.store(held.expect("a lock"), std::sync::atomic::Ordering::Relaxed);
            }
        }),
    );
    let report = merge::land(&ctx, &agent.id, &MergeOptions::default()).expect("landed");
    assert_eq!(report.outcome.as_str(), "merged");
    assert!(took_turn.load(std::sync::atomic::Ordering::Relaxed));
    let subjects = agent.repo.git(["log", "-2", "--first-parent", "--format=%s", "main"]);
    assert!(subjects.ends_with("\nmeanwhile"), "{subjects}");
    assert_eq!(state(&agent), "merged");
    require_sound(&agent);
}

#[test]
fn files_that_another_landing_moves_are_in_nobodys_way() {
    let repo = TestRepo::with_commit();
    let lines: Vec<String> = (0..30).map(|number| format!("// {number}\n")).collect();
    repo.write("src/long.rs", lines.concat());
    repo.commit_all("a long file");
    let task = format!("{TASK}[bundle]\nrequired = false\n");
    let [first, second] = ["// 0\n", "// 29\n"].map(|line| {
        let report = repo.spawn_task(&task, &[]);
        let worktree = Path::new(report["worktree_abspath"].as_str().expect("a path"));
        let text = lines.concat().replace(line, "// changed\n");
        std::fs::write(worktree.join("src/long.rs"), text).expect("written");
        report["agent_id"].as_str().expect("an id").to_owned()
    });
    let path = repo.path();
    let log = path.with_file_name("log");
    let child = Arc::new(std::sync::Mutex::new(None));
    let (top, told, started) = (path.clone(), log.clone(), Arc::clone(&child));
    let begin = move |step: &str| {
        if step != "written" {
            return;
        }
        let mut merge = agent_command(&top);
        merge.args(["merge", &second]).env("GIT_AGENT_LOG", "debug");
        let file = std::fs::File::create(&told).expect("a log");
        merge.stdout(std::process::Stdio::null());
        let running = merge.stderr(file).spawn().expect("starts");
        *started.lock().expect("unpoisoned") = Some(running);
        // It is about to look at the files.
        let is_judged = || std::fs::read_to_string(&told).is_ok_and(|text| text.contains("judged"));
        while !is_judged() {
            crate::support::pause();
        }
    };
    let ctx = death::ctx(&path, Arc::new(begin));
    let report = merge::land(&ctx, &first, &MergeOptions::default()).expect("landed");
    assert_eq!(report.outcome.as_str(), "merged");
    let child = child.lock().expect("unpoisoned").take();
    let status = child.expect("started").wait().expect("ends");
    assert!(status.success(), "{}", std::fs::read_to_string(log).expect("a log"));
    let text = std::fs::read_to_string(path.join("src/long.rs")).expect("text");
    assert_eq!(text.matches("// changed").count(), 2, "{text}");
    assert_eq!(repo.git(["status", "--porcelain"]), "");
}

#[test]
fn what_was_decided_after_the_judgement_keeps_the_work_from_landing() {
    for (words, code) in
        [(["mark", "fail"], Code::AgentState), (["mark", "defer"], Code::AgentState)]
    {
        let agent = ready();
        let ctx = death::ctx(&agent.repo.path(), death::unwatched());
        let plan = accepted_plan(&ctx, &agent);
        let main = agent.repo.git(["rev-parse", "main"]);
        let decide = [words[0], words[1], &agent.id, "-m", "It is not right yet."];
        agent.repo.agent_json(&decide);
        let error = merge::execute(&ctx, &plan).expect_err("decided");
        assert_eq!(error.code(), code, "{error}");
        assert_eq!(agent.repo.git(["rev-parse", "main"]), main);
        // Who names it now knows of that.
        answer(&agent, "merge", &[]);
        require_sound(&agent);
    }
    // A run that began and ended may have left anything.
    let agent = ready();
    let ctx = death::ctx(&agent.repo.path(), death::unwatched());
    let plan = accepted_plan(&ctx, &agent);
    run(&agent, "run", &["--", "true"]);
    let error = merge::execute(&ctx, &plan).expect_err("a run");
    assert_eq!(error.code(), Code::LostRace, "{error}");
}

#[test]
fn nothing_lands_while_its_row_cannot_be_written() {
    let agent = ready();
    agent.verify(&[]);
    let before = agent.repo.git(["rev-parse", "main"]);
    // Another program has the lock of the ledger, and the landing does not wait for it.
    agent.repo.git(["config", "core.filesRefLockTimeout", "0"]);
    let lock = agent.repo.path().join(".git/refs/notes/agents.lock");
    std::fs::write(&lock, "").expect("locked");
    refused(&run(&agent, "merge", &[]), "lock-timeout", 5);
    assert_eq!(agent.repo.git(["rev-parse", "main"]), before);
    std::fs::remove_file(lock).expect("released");
    answer(&agent, "merge", &[]);
    require_sound(&agent);
}

#[test]
fn a_landing_whose_row_cannot_be_written_any_more_says_so_and_is_no_failure() {
    let agent = ready();
    agent.verify(&[]);
    agent.repo.git(["config", "core.filesRefLockTimeout", "0"]);
    let lock = agent.repo.path().join(".git/refs/notes/agents.lock");
    let taken = lock.clone();
    let take = move |step: &str| {
        if step == "landed" {
            std::fs::write(&taken, "").expect("locked");
        }
    };
    let ctx = death::ctx(&agent.repo.path(), Arc::new(take));
    let report = merge::execute(&ctx, &accepted_plan(&ctx, &agent)).expect("landed");
    let commit = report.commit.expect("a commit");
    assert_eq!(agent.repo.git(["rev-parse", "main"]), commit);
    let is_told =
        |text: &String| text.contains(&commit[..7]) && text.contains("same command again");
    assert!(report.warnings.iter().any(is_told), "{:?}", report.warnings);
    std::fs::remove_file(lock).expect("released");
    answer(&agent, "merge", &[]);
    assert_eq!(state(&agent), "merged");
    require_sound(&agent);
}
