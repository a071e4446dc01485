//! Kills at random moments of one verb: after each, `doctor --fix` leaves nothing to mend, and at the end nothing is lost.

use super::random::{KillLoop, run};
use crate::support::agent::describe;
use crate::support::{TestRepo, git_in};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// How often each verb is killed unless more is asked for.
const SHORT: u64 = 6;

/// Writes a file in a worktree, with a content that is not to be lost.
fn write(all: &mut KillLoop, worktree: &Path, name: &str) {
    let content = format!("{name}-{}", all.promised.len());
    let file = worktree.join(format!("src/{content}"));
    fs::create_dir_all(file.parent().expect("above")).expect("made");
    fs::write(file, format!("{content}\n")).expect("written");
    all.promised.push(content);
}

/// An agent with a commit and with work that is in none.
fn work(all: &mut KillLoop) -> String {
    let (id, worktree) = all.spawn();
    write(all, &worktree, "committed");
    git_in(&worktree, ["add", "--all"]);
    git_in(&worktree, ["commit", "--quiet", "-m", "work"]);
    write(all, &worktree, "written");
    id
}

#[test]
fn merge_push() {
    let repo = TestRepo::with_commit();
    let hub = repo.path().with_file_name("hub.git");
    let place = hub.to_str().expect("UTF-8");
    repo.git(["init", "--quiet", "--bare", "--initial-branch=main", place]);
    repo.git(["remote", "add", "origin", place]);
    repo.git(["push", "--quiet", "origin", "main"]);
    // On another machine no kill reaches the process that takes a push. Here it has a process group of its own.
    if cfg!(target_os = "linux") {
        let receives = "setsid --wait git-receive-pack";
        repo.git(["config", "remote.origin.receivepack", receives]);
    }
    let mut all = KillLoop::new(repo, SHORT);
    let mut agents = Vec::new();
    while all.goes_on() {
        all.step += 1;
        if agents.is_empty() || all.below(3) == 0 {
            agents.push(work(&mut all));
        }
        let id: &String = &agents[agents.len() - 1];
        let words = ["merge", "--push", id];
        let ended = all.killed("merge", &words);
        assert!(matches!(ended, None | Some((0 | 3, _))), "{ended:?}");
        if ended.is_some() {
            agents.push(work(&mut all));
        }
        all.require_mended();
    }
    for id in &agents {
        let ended = all.repo.agent(&["merge", "--push", id]);
        let state = all.repo.agent_json(&["show", id])["state"].clone();
        assert_eq!(state, "merged", "{}", describe(&ended));
    }
    // All of it is on the remote's branch, each by one commit of that branch.
    assert_eq!(git_in(&hub, ["fsck", "--strict", "--no-dangling"]), "");
    let first = ["log", "--first-parent", "--diff-merges=first-parent", "--format="];
    let added = git_in(&hub, [&first[..], &["--name-status", "main"]].concat());
    for content in &all.promised {
        let lines: Vec<&str> =
            added.lines().filter(|line| line.ends_with(&format!("/{content}"))).collect();
        assert_eq!(lines, [format!("A\tsrc/{content}")], "{added}");
    }
    assert!(all.repo.git(["status", "--porcelain"]).is_empty());
    all.require_whole();
    all.tell("merge --push");
}

#[test]
fn discard() {
    let mut all = KillLoop::new(TestRepo::with_commit(), SHORT);
    while all.goes_on() {
        all.step += 1;
        let id = work(&mut all);
        let is_killed = all.killed("discard", &["discard", &id]).is_none();
        all.require_mended();
        if is_killed {
            let (status, _) = run(&all.repo, &["discard", &id], None).expect("to its end");
            let state = all.repo.agent_json(&["show", &id])["state"].clone();
            assert!(matches!(status, 0 | 3), "{status}");
            assert_eq!(state, "discarded");
        }
    }
    all.require_whole();
    all.tell("discard");
}

/// Spawns and runs of layered agents, `materialize` and `discard`, in any order.
#[test]
fn layered() {
    let mut all = KillLoop::new(TestRepo::with_commit(), SHORT);
    // A long loop fills the repository, and git would then collect in the background, with a lock, for as long as that takes.
    all.repo.git(["config", "gc.auto", "0"]);
    let spawn = [
        "spawn",
        "--layered=on",
        "Write a file with some content.",
        "--scope=src/**",
        "--format=json",
    ];
    let mut agents: Vec<String> = Vec::new();
    while all.goes_on() {
        all.step += 1;
        let verb = ["spawn", "run", "run", "materialize", "discard"][all.below(5)];
        let content = format!("layered-{}", all.step);
        let script = format!("echo {content} > src/{content}");
        let id = agents.last().cloned().unwrap_or_default();
        let (verb, words): (&str, &[&str]) = match verb {
            _ if agents.is_empty() => ("spawn", &spawn),
            "spawn" => ("spawn", &spawn),
            "run" => ("run", &["run", &id, "--no-verify", "--", "sh", "-c", &script]),
            verb => (verb, &[verb, &id]),
        };
        let ended = all.killed(verb, words);
        if let Some((status, said)) = &ended {
            if verb == "spawn" && *status != 0 {
                // This kernel has no layered worktrees.
                assert!(agents.is_empty(), "{status}");
                return;
            }
            if verb == "spawn" {
                let report: Value = serde_json::from_slice(said).expect("JSON");
                agents.push(report["agent_id"].as_str().expect("an id").to_owned());
            } else if verb == "run" && *status == 0 {
                all.promised.push(content);
            }
        }
        all.require_mended();
        let shown = all.repo.agent_json(&["list", "--all"])["agents"].clone();
        let is_live = |id: &String| {
            let row =
                shown.as_array().and_then(|rows| rows.iter().find(|row| row["agent_id"] == **id));
            row.is_some_and(|row| row["state"] != "discarded")
        };
        agents.retain(is_live);
    }
    for id in &agents {
        let ran = all.repo.agent(&["run", id, "--no-verify", "--", "true"]);
        assert!(ran.status.success(), "{}", describe(&ran));
    }
    all.require_whole();
    all.tell("layered agents");
}

#[test]
fn uninstall() {
    let repo = TestRepo::with_commit();
    let own = ["config", "info/exclude"].map(|name| repo.path().join(".git").join(name));
    let read = || own.each_ref().map(|path| fs::read(path).unwrap_or_default());
    let before = read();
    let mut all = KillLoop::new(repo, SHORT);
    while all.goes_on() {
        all.step += 1;
        let id = work(&mut all);
        all.repo.agent_json(&["discard", &id]);
        if all.killed("uninstall", &["uninstall", "--yes"]).is_none() && all.below(2) == 0 {
            all.require_mended();
        }
        if all.below(3) == 0 {
            let (status, _) = run(&all.repo, &["uninstall", "--yes"], None).expect("to its end");
            assert_eq!(status, 0);
            assert_eq!(read(), before, "step {}", all.step);
        }
    }
    let (status, _) = run(&all.repo, &["uninstall", "--yes"], None).expect("to its end");
    assert_eq!(status, 0);
    assert_eq!(read(), before);
    all.require_whole();
    all.tell("uninstall");
}

/// The warm worktrees that git knows.
fn slots(repo: &TestRepo) -> Vec<PathBuf> {
    let listed = repo.git(["worktree", "list", "--porcelain"]);
    let paths =
        listed.lines().filter_map(|line| line.strip_prefix("worktree ")).map(PathBuf::from).filter(
            |path| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with("warm-") && path.join("src/lib.rs").exists()
            },
        );
    paths.collect()
}

#[test]
fn pool() {
    let repo = TestRepo::with_commit();
    let settings =
        "[bundle]\nrequired = false\n[pool]\nsize = 2\n[setup]\nrun = [\"echo x > made.o\"]\n";
    repo.write(".config/git-agent.toml", settings);
    repo.write(".gitignore", "*.o\n");
    repo.commit_all("settings");
    let mut all = KillLoop::new(repo, SHORT);
    while all.goes_on() {
        all.step += 1;
        // What a person writes in a warm worktree, as two kinds of work.
        let edited = slots(&all.repo);
        for slot in edited.iter().take(all.below(3)) {
            write(&mut all, slot, "edited");
            if all.below(2) == 0 {
                git_in(slot, ["add", "--all"]);
                git_in(slot, ["commit", "--quiet", "-m", "by hand"]);
            }
        }
        match all.below(3) {
            0 => all.killed("drain", &["pool", "drain"]),
            1 => all.killed("fill", &["pool", "fill"]),
            _ => {
                let id = all.spawn().0;
                all.repo.agent_json(&["discard", &id]);
                all.killed("drain", &["pool", "drain"])
            }
        };
        all.require_mended();
        if all.below(3) == 0 {
            run(&all.repo, &["pool", "fill"], None);
        }
    }
    let drained = || {
        let (status, _) = run(&all.repo, &["pool", "drain"], None).expect("to its end");
        (status, slots(&all.repo))
    };
    // What a spawn began to fill in the background comes after a drain, and ends.
    let end = std::iter::repeat_with(drained).take(50).find(|(_, slots)| slots.is_empty());
    assert_eq!(end, Some((0, Vec::new())));
    all.require_whole();
    all.tell("pool");
}

#[test]
fn amend() {
    let mut all = KillLoop::new(TestRepo::with_commit(), SHORT);
    let id = work(&mut all);
    let scope = |all: &KillLoop| {
        let shown = all.repo.agent_json(&["show", &id]);
        assert!(shown.get("irregular").is_none(), "{shown}");
        shown["whitelist"].clone()
    };
    while all.goes_on() {
        all.step += 1;
        let before = scope(&all);
        let new = format!("extra{}/**", all.step);
        let words = ["amend", &id, "--scope", "src/**", "--new", &new];
        let ended = all.killed("amend", &words);
        all.require_mended();
        let after = scope(&all);
        let amended = serde_json::json!(["src/**", new]);
        match ended {
            Some((status, _)) => assert_eq!((status, after), (0, amended)),
            // All of it, or nothing.
            None => assert!(after == before || after == amended, "{before} {after}"),
        }
    }
    // What binds it in the end is what is judged.
    let (status, _) = run(&all.repo, &["verify", &id], None).expect("to its end");
    assert_eq!(status, 0);
    all.require_whole();
    all.tell("amend");
}

#[test]
fn undo() {
    let mut all = KillLoop::new(TestRepo::with_commit(), SHORT);
    while all.goes_on() {
        all.step += 1;
        let id = work(&mut all);
        let verb = ["merge", "discard"][usize::from(all.below(2) == 0)];
        let before = all.repo.git(["rev-parse", "main"]);
        all.repo.agent_json(&[verb, &id]);
        let is_killed = all.killed("undo", &["undo", &id]).is_none();
        all.require_mended();
        if is_killed {
            let output = all.repo.agent(&["undo", &id]);
            // Or the killed one had come to its end.
            let status = output.status.code();
            assert!(matches!(status, Some(0 | 2)), "{verb}: {}", describe(&output));
        }
        let shown = all.repo.agent_json(&["show", &id]);
        let state = shown["state"].as_str().expect("a state");
        assert!(!["merged", "discarded"].contains(&state), "{verb}: {state}");
        assert_eq!(all.repo.git(["rev-parse", "main"]), before, "{verb}");
        assert_eq!(all.repo.git(["status", "--porcelain"]), "", "{verb}");
        let worktree = shown["worktree_abspath"].as_str().expect("a worktree");
        let written = &all.promised[all.promised.len() - 1];
        assert!(Path::new(worktree).join("src").join(written).exists(), "{verb}");
    }
    all.require_whole();
    all.tell("undo");
}
