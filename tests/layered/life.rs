//! One life twice, in a copied worktree and in a layered one: the same commands give the same answers and the same trees.

use super::{ORACLE, id, layer, oracle, repo, run, spawn};
use crate::support::TestRepo;
use crate::support::agent::{agent_command, describe};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::Barrier;

/// Numbers that are the same in each run (Marsaglia's xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(end).expect("small")).expect("small")
    }
}

/// A line of shell that changes something, whatever is there.
fn edit(random: &mut Random, number: usize) -> String {
    const PATHS: [&str; 12] = [
        "lib/a.txt",
        "lib/b.txt",
        "lib/deep/a.txt",
        "lib/deep/c.txt",
        "docs/a.md",
        "docs/new/x.md",
        "new.txt",
        "lib",
        "lib/deep",
        "docs",
        "link",
        "src/lib.rs",
    ];
    let one = PATHS[random.below(PATHS.len())];
    let other = PATHS[random.below(PATHS.len())];
    match random.below(27) {
        0..3 => format!("mkdir -p \"$(dirname {one})\"; echo {number} >> {one}"),
        3 => format!("rm -rf {one}"),
        4 => format!("rm -rf {one}; mkdir -p {one}; echo {number} > {one}/again.txt"),
        5 => format!("rm -rf {one}; mkdir -p \"$(dirname {one})\"; echo {number} > {one}"),
        6 => format!("rm -rf {one}; mkdir -p \"$(dirname {one})\"; ln -s to-{number} {one}"),
        7 => format!("chmod u+x {one}"),
        8 => format!("touch {one}"),
        9 => format!("mv {one} {other}"),
        10 => format!("cp -r {one} copy-{number}"),
        11 => {
            format!("echo {number} > {number}.out; mkdir -p lib; echo {number} > lib/{number}.tmp")
        }
        12 => "rm -f lib/.gitignore".to_owned(),
        13 => "echo 'new.txt' >> .gitignore".to_owned(),
        14 => "git add -A".to_owned(),
        15 => format!("git rm -r -q --cached {one}"),
        16 => format!("git commit -q -m {number}"),
        17 => format!("git mv {one} moved-{number}"),
        18 => "git reset -q".to_owned(),
        19 => "git add -f made.out built lib/*.tmp || git add -f built".to_owned(),
        20 => format!("echo {number} > .gitignore"),
        21 => "git checkout -q HEAD -- .gitignore; echo '!tool' >> .gitignore; echo 'built/*' >> .gitignore".to_owned(),
        22 => "mkdir -p lib; echo '*.txt -text' >> lib/.gitattributes; rm -f .gitignore".to_owned(),
        23 => format!("git update-index --chmod=+x {one}"),
        24 => format!("git update-index --split-index; git add {one}"),
        25 => "git rm -q -r --cached built made.out; echo mine > built/tool".to_owned(),
        _ => format!("git checkout -q -- {one}"),
    }
}

/// What git ignores in a new worktree of either kind.
const SETUP: &str = "[setup]\nrun = [\"mkdir built; echo made > built/tool; echo made > made.out; echo made > lib/made.tmp\"]\n";

/// Two agents of two repositories that hold the same.
struct Twins {
    repos: [TestRepo; 2],
    agents: [Value; 2],
    /// What was done so far, for the one who looks into a failure.
    done: RefCell<String>,
}

impl Twins {
    /// `None` where the kernel has no layered worktrees.
    fn new(settings: &str) -> Option<Twins> {
        let repos = [repo(settings), repo(settings)];
        let layered = spawn(&repos[1], true)?;
        let copied = spawn(&repos[0], false).expect("an agent");
        Some(Twins { repos, agents: [copied, layered], done: RefCell::default() })
    }

    /// Does the same in both.
    fn each<T>(&self, mut step: impl FnMut(&TestRepo, &Value) -> T) -> [T; 2] {
        [0, 1].map(|at| step(&self.repos[at], &self.agents[at]))
    }

    /// Runs a command in both, in which `@` stands for the agent, and wants the same status and the same answer. Gives that of the
    /// layered one.
    fn same(&self, words: &[&str]) -> Value {
        self.done.borrow_mut().push_str(&format!("{words:?}\n"));
        let [copied, layered] = self.each(|repo, agent| {
            let words: Vec<&str> = words
                .iter()
                .map(|word| if *word == "@" { id(agent) } else { word })
                .chain(["--format", "json"])
                .collect();
            let output = repo.agent(&words);
            let mut streams = [&output.stdout, &output.stderr].map(|bytes| {
                let value: Value = serde_json::from_slice(bytes).unwrap_or_default();
                // What several agents share a document with.
                neutral(&value, repo, agent)
            });
            // Only one of them has bases and layers.
            if let Some(answer) = streams[0].as_object_mut() {
                answer.remove("layered");
            }
            // Only a command of the agent sees the files of the other.
            let violations = streams[0]["violations"].as_array_mut();
            for violation in violations.into_iter().flatten() {
                violation["fix"].take();
            }
            json!([output.status.code(), streams])
        });
        let differing = differing_lines(&layered, &copied);
        assert!(
            layered == copied,
            "{words:?} differs, layered and copied:\n{differing}after\n{}",
            self.done.borrow()
        );
        layered[1][0].clone()
    }

    /// Runs a shell script as the command of both, and wants git to see the same in both worktrees.
    fn edit(&self, script: &str) {
        self.done.borrow_mut().push_str(&format!("{script}\n"));
        let script = format!("{script}\n{ORACLE}");
        let [copied, layered] =
            self.each(|repo, agent| oracle(&run(repo, agent, &script)).to_owned());
        assert_eq!(layered, copied, "{script}");
    }

    /// What all commands that look say.
    fn looks(&self) {
        for words in [
            &["diff", "@"][..],
            &["show", "@"],
            &["list"],
            &["check", "@", "--worktree"],
            &["verify", "@"],
            &["overlap"],
            &["doctor"],
        ] {
            self.same(words);
        }
    }

    /// The trees of the agent's branch and of the target are the same in both.
    fn same_trees(&self) {
        let [copied, layered] = self.each(|repo, agent| {
            let branch = agent["branch"].as_str().expect("a branch");
            let tree = |name: &str| {
                let name = format!("{name}^{{tree}}");
                String::from_utf8(
                    crate::support::git_output(
                        &repo.path(),
                        ["rev-parse", "-q", "--verify", &name],
                    )
                    .stdout,
                )
                .expect("UTF-8")
            };
            [tree(branch), tree("main")]
        });
        assert_eq!(layered, copied);
    }

    /// The same commit on the branch that the work lands on.
    fn target_moves(&self, path: &str, content: &str) {
        self.each(|repo, _| {
            repo.write(path, content);
            repo.commit_all("the target moves");
        });
    }
}

/// The lines that only one of two answers has: whole ones would hide where they differ.
fn differing_lines(one: &Value, other: &Value) -> String {
    let [one, other] = [one, other].map(|answer| format!("{answer:#}"));
    let only = |some: &str, others: &str, mark: &str| -> String {
        let lines = some.lines().filter(|line| !others.lines().any(|other| other == *line));
        lines.map(|line| format!("{mark}{line}\n")).collect()
    };
    only(&one, &other, "+") + &only(&other, &one, "-")
}

/// An answer without what differs between any two agents: ids, names of commits, times and paths of the machine.
fn neutral(value: &Value, repo: &TestRepo, agent: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let is_own = |key: &str| {
                // What set-up made is in the base, and no part of a layered worktree.
                matches!(key, "layered" | "clone_id" | "hints" | "ignored" | "ignored_paths")
                    || key == "age"
                    || key.ends_with("_at")
                    || key.ends_with("_ms")
                    || key.ends_with("_seconds")
            };
            let kept = fields.iter().filter(|(key, _)| !is_own(key));
            kept.map(|(key, value)| (key.clone(), neutral(value, repo, agent))).collect()
        }
        Value::Array(items) => items.iter().map(|item| neutral(item, repo, agent)).collect(),
        Value::String(text) => {
            let path = repo.path().display().to_string();
            let text = text.replace(agent["agent_id"].as_str().expect("an id"), "@");
            let text = text.replace(&path, "/repo");
            // Words with many digits, and those that may be the beginning of a commit's name.
            let words = text.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric());
            let words = words.map(|word| {
                let letters = word.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric());
                let is_hex =
                    letters.len() >= 7 && letters.bytes().all(|byte| byte.is_ascii_hexdigit());
                let digits = letters.bytes().filter(u8::is_ascii_digit).count();
                if is_hex || digits >= 6 {
                    format!("#{}", &word[letters.len()..])
                } else {
                    word.to_owned()
                }
            });
            words.collect::<String>().into()
        }
        other => other.clone(),
    }
}

#[test]
fn random_lives_are_the_same_in_a_copy_and_in_a_layer() {
    let lives: usize =
        std::env::var("GIT_AGENT_LIVES").map_or(2, |lives| lives.parse().expect("a number"));
    let first: usize =
        std::env::var("GIT_AGENT_SEED").map_or(0, |seed| seed.parse().expect("a number"));
    for seed in first..first + lives {
        let mut random = Random(0x9e37_79b9 + u64::try_from(seed).expect("small") * 7919);
        for _ in 0..5 {
            random.below(2);
        }
        let Some(twins) = Twins::new(SETUP) else {
            return;
        };
        // Two runs: the second one mounts what the first has left.
        for part in 0..2 {
            let edits: Vec<String> = (0..6)
                .map(|number| edit(&mut random, seed * 100 + part * 10 + number))
                // What one edit cannot do in either is passed over.
                .map(|edit| format!("({edit}) >/dev/null 2>&1 || true"))
                .collect();
            twins.edit(&edits.join("\n"));
            twins.looks();
        }
        // What was staged alone is committed alone, so that the rest takes a second commit.
        for _ in 0..2 {
            twins.same(&["commit", "@", "-m", "work"]);
            twins.same_trees();
        }
        let path = ["lib/a.txt", "docs/c.md", "other.txt"][random.below(3)];
        twins.target_moves(path, "of the target\n");
        twins.same(&["update", "@", "--conflicts"]);
        twins.same_trees();
        twins.looks();
        twins.edit("for one in $(git diff --name-only --diff-filter=U); do echo solved > \"$one\"; done; echo more > more.txt");
        twins.same(&["update", "@"]);
        twins.same(&["merge", "@"]);
        twins.same_trees();
        twins.same(&["undo"]);
        twins.same_trees();
        twins.edit("echo left > left.txt");
        twins.same(&["discard", "@"]);
        twins.same(&["rescue", "@", "--branch", "rescued"]);
        let [copied, layered] = twins.each(|repo, _| repo.git(["rev-parse", "rescued^{tree}"]));
        assert_eq!(layered, copied, "{seed}");
        twins.each(|repo, _| repo.git(["fsck", "--strict", "--no-dangling"]));
    }
}

#[test]
fn what_git_is_to_end_it_ends_where_the_files_are() {
    let Some(twins) = Twins::new("") else {
        return;
    };
    twins.edit("echo mine > lib/a.txt; git commit --quiet -am mine");
    twins.target_moves("lib/a.txt", "of the target\n");
    twins.same(&["update", "@", "--conflicts"]);
    let [copied, layered] = twins.each(|repo, agent| {
        let output = repo.agent(&["discard", id(agent)]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let advice = said.split("to give it up, run ").nth(1).expect("an advice").trim().to_owned();
        let mut shell = crate::support::isolated("sh", &repo.path());
        // There is no terminal here, and a run is what `enter` advises then.
        let words = advice.replace(
            "git agent enter",
            concat!(env!("CARGO_BIN_EXE_git-agent"), " run --no-verify"),
        );
        let status = shell.args(["-c", &words]).status();
        assert!(status.expect("a shell").success(), "{advice}");
        advice
    });
    assert!(copied.starts_with("git -C ") && layered.starts_with("git agent enter "), "{layered}");
    twins.same(&["diff", "@"]);
    twins.edit("cat lib/a.txt; git status --porcelain");
}

#[test]
fn what_stands_in_the_place_of_the_bundle_is_seen() {
    let Some(twins) = Twins::new("") else {
        return;
    };
    twins.edit("rm -rf .agent; ln -s /etc .agent; echo mine > lib/a.txt");
    for words in [&["diff", "@"][..], &["verify", "@"]] {
        assert!(twins.same(words).to_string().contains("\".agent\""), "{words:?}");
    }
    twins.same(&["discard", "@"]);
}

#[test]
fn git_moves_a_directory_of_the_base() {
    let Some(twins) = Twins::new("") else {
        return;
    };
    // Of one directory all, into another one that is there, and two at once; what is untracked in one goes along.
    twins.edit("echo mine > lib/a.txt; echo new > lib/deep/new.txt; git mv lib/deep docs && git mv docs lib/ moved 2>/dev/null; mkdir moved && git mv docs lib/ moved");
    twins.looks();
    twins.edit("test -f moved/docs/deep/new.txt && test ! -e lib && test \"$(cat moved/lib/a.txt)\" = mine && git mv -n moved back && git mv moved back");
    twins.edit("git mv nothing there || true; git mv . there || true; git -C back mv docs others");
    twins.looks();
    twins.same(&["commit", "@", "-m", "work"]);
    twins.same_trees();
    twins.same(&["merge", "@"]);
    twins.same_trees();
}

#[test]
fn an_update_moves_the_files_of_a_layer() {
    let Some(twins) = Twins::new("") else {
        return;
    };
    twins.edit("echo mine > lib/a.txt; rm lib/deep/b.txt");
    twins.same(&["commit", "@", "-m", "work"]);
    twins.target_moves("lib/b.txt", "theirs\n");
    twins.target_moves("added/one.txt", "theirs\n");
    let updated = twins.same(&["update", "@"]);
    assert_eq!(updated["outcome"], "updated");
    twins.same_trees();
    twins.looks();
    // In the next run they are there, and git has nothing to say of them.
    let script = "test -z \"$(git status --porcelain)\" && cat lib/a.txt lib/b.txt added/one.txt && test ! -e lib/deep/b.txt";
    let [copied, layered] = twins.each(|repo, agent| run(repo, agent, script));
    assert_eq!(
        (layered.as_str(), copied.as_str()),
        ("mine\ntheirs\ntheirs\n", "mine\ntheirs\ntheirs\n")
    );
    // Uncommitted work is not written over, in either.
    twins.edit("echo not committed > lib/b.txt");
    twins.target_moves("lib/b.txt", "theirs again\n");
    twins.same(&["update", "@"]);
    twins.edit("grep -q 'not committed' lib/b.txt");
    // Taking it back moves the files back.
    twins.edit("git checkout -q -- lib/b.txt");
    twins.same(&["undo"]);
    twins.same_trees();
    twins.edit("grep -q '^b$' lib/b.txt && test ! -e added");
    assert_eq!(work_directories(&twins), 0);
}

/// What mounts have left beside the upper directory.
fn work_directories(twins: &Twins) -> usize {
    let entries = fs::read_dir(layer(&twins.repos[1], &twins.agents[1])).expect("listed");
    let names = entries.map(|entry| entry.expect("read").file_name());
    names.filter(|name| name.to_string_lossy().starts_with("work")).count()
}

#[test]
fn hooks_of_the_repository_see_the_files_of_a_layer() {
    let Some(twins) = Twins::new("") else {
        return;
    };
    twins.each(|repo, _| {
        // It looks at a file of the base, and at one of the agent's.
        let hook = "#!/bin/sh\ntest -f lib/c.txt || { echo no base >&2; exit 1; }\nif grep -q bad lib/a.txt; then echo a.txt is bad >&2; exit 1; fi\n";
        repo.write(".git/hooks/pre-commit", hook);
        let path = repo.path().join(".git/hooks/pre-commit");
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("changed");
    });
    twins.edit("echo bad > lib/a.txt");
    twins.same(&["commit", "@", "-m", "work"]);
    // The advice works where the files are.
    let layered = id(&twins.agents[1]);
    let refused = twins.repos[1].agent(&["commit", layered, "-m", "work"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    let advice = format!("git agent run {layered} --no-verify -- git status --ignored");
    assert!(said.contains(&advice), "{said}");
    twins.edit("echo good > lib/a.txt; rm lib/b.txt");
    twins.same(&["commit", "@", "-m", "work"]);
    twins.same_trees();
    twins.looks();
    // A run commits by itself what it changed, and its verdict says so.
    let [copied, layered] = twins.each(|repo, agent| {
        let output = repo.agent(&["run", id(agent), "--", "sh", "-c", "echo more > lib/more.txt"]);
        assert!(output.status.success(), "{}", describe(&output));
        repo.agent_json(&["show", id(agent)])["state"].clone()
    });
    assert_eq!(layered, copied);
    twins.same_trees();
    twins.same(&["merge", "@"]);
    twins.same_trees();
}

#[test]
fn a_landing_moves_a_layered_worktree_that_has_the_target_checked_out() {
    let Some(twins) = Twins::new("") else {
        return;
    };
    let above = twins.each(|repo, agent| {
        let branch = agent["branch"].as_str().expect("a branch");
        let how = if agent["layered"] == true { "--layered" } else { "--layered=off" };
        let above =
            repo.agent_json(&["spawn", how, "--base", branch, "Build on it", "--scope", "**"]);
        run(repo, &above, "echo above > lib/above.txt; rm lib/d.txt");
        above
    });
    for (at, repo) in twins.repos.iter().enumerate() {
        repo.agent_json(&["merge", id(&above[at])]);
    }
    twins.same_trees();
    twins.edit("grep -q above lib/above.txt && test ! -e lib/d.txt && test -z \"$(git status --porcelain)\"");
    twins.looks();
}

/// How many agents begin at the same moment.
const CROWD: usize = 16;

#[test]
fn many_begin_at_once_over_one_base() {
    let repo = repo("[setup]\nrun = [\"mkdir built; echo made > built/tool\"]\n");
    if spawn(&repo, true).is_none() {
        return;
    }
    let barrier = Barrier::new(CROWD);
    let outputs = std::thread::scope(|scope| {
        let start = |number: usize| {
            let (repo, barrier) = (&repo, &barrier);
            scope.spawn(move || {
                let script = format!("cat built/tool && echo {number} > lib/a.txt && rm lib/b.txt");
                let name = format!("agent-{number}");
                let words = [
                    "run",
                    "change a file",
                    "--layered",
                    "--name",
                    &name,
                    "--scope",
                    "**",
                    "--",
                    "sh",
                    "-c",
                    &script,
                ];
                barrier.wait();
                repo.agent(&words)
            })
        };
        let started: Vec<_> = (0..CROWD).map(start).collect();
        let ended = started.into_iter().map(|one| one.join().expect("joined"));
        ended.collect::<Vec<_>>()
    });
    for (number, output) in outputs.iter().enumerate() {
        assert!(output.status.success(), "{}", describe(output));
        let name = format!("agent-{number}");
        repo.agent_json(&["commit", &name, "-m", "work"]);
        let branch = repo.agent_json(&["show", &name])["branch"].clone();
        let branch = branch.as_str().expect("a branch");
        assert_eq!(repo.git(["show", &format!("{branch}:lib/a.txt")]), number.to_string());
        assert_eq!(
            repo.git(["diff", "--name-status", "main", branch]),
            "M\tlib/a.txt\nD\tlib/b.txt"
        );
    }
    let bases = repo.agent_json(&["pool", "status"])["bases"].clone();
    assert_eq!(bases.as_array().expect("bases").len(), 1, "{bases}");
    nothing_is_left(&repo);
}

/// Nothing of a mount is seen outside, no process of an agent lives, and `doctor` knows of no damage.
fn nothing_is_left(repo: &TestRepo) {
    let path = repo.path().display().to_string();
    let mounts = fs::read_to_string("/proc/self/mounts").expect("read");
    assert!(!mounts.contains(&path), "{mounts}");
    let doctor = repo.agent_json(&["doctor"]);
    let families = doctor["families"].as_array().expect("families").iter();
    let problems: Vec<_> = families.filter(|family| family["problems"] != 0).collect();
    assert!(problems.is_empty(), "{doctor:#}");
}

#[test]
fn a_killed_run_leaves_what_was_acknowledged_and_no_mount() {
    let repo = repo("");
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    run(&repo, &spawned, "echo first > first.txt; rm lib/a.txt");
    let script = "echo second > second.txt; echo begun; exec sleep 1000";
    let mut killed = agent_command(&repo.path())
        .args(["run", id(&spawned), "--no-verify", "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .expect("git-agent starts");
    let mut line = String::new();
    let said = killed.stdout.take().expect("piped");
    BufReader::new(said).read_line(&mut line).expect("read");
    assert_eq!(line, "begun\n");
    killed.kill().expect("killed");
    killed.wait().expect("waited for");
    // Its processes go with it, which takes a moment; until then the next one is refused.
    let begins = (0..200).any(|_| {
        let output = repo.agent(&["run", id(&spawned), "--no-verify", "--", "true"]);
        assert!(
            output.status.success() || describe(&output).contains("[run-active]"),
            "{}",
            describe(&output)
        );
        output.status.success()
    });
    assert!(begins);
    let seen =
        run(&repo, &spawned, "cat first.txt second.txt; test ! -e lib/a.txt && cat lib/b.txt");
    assert_eq!(seen, "first\nsecond\nb\n");
    nothing_is_left(&repo);
}

#[test]
fn an_embedded_repository_is_the_same_work_in_both() {
    let Some(twins) = Twins::new("") else {
        return;
    };
    // The same commit in both.
    const COMMIT: &str = "GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000' git -C dep commit -q -a -m one";
    twins.edit(&format!("git init -q dep && echo x > dep/f && git -C dep add f && {COMMIT} && git add -A && git ls-files --stage dep"));
    twins.looks();
    twins.edit("echo more >> dep/f; echo new > dep/new");
    twins.looks();
    twins.edit(COMMIT);
    twins.looks();
    twins.edit("rm dep/new");
    twins.same(&["commit", "@", "-m", "work"]);
    twins.same_trees();
    twins.edit("rm -r dep/.git dep/f");
    twins.looks();
    twins.edit("rm -r dep; echo file > dep; git add -A");
    twins.looks();
    twins.same(&["commit", "@", "-m", "no repository"]);
    twins.same(&["merge", "@"]);
    twins.same_trees();
}

#[test]
fn what_is_said_of_a_worktree_does_not_lead_to_its_empty_place() {
    let repo = repo("");
    let Some(agent) = spawn(&repo, true) else {
        return;
    };
    let said = |words: &[&str]| describe(&repo.agent(&[words, &[id(&agent)]].concat()));
    let empty = agent["worktree_abspath"].as_str().expect("a path");
    let nothing = said(&["commit", "-m", "none"]);
    assert!(nothing.contains("run git agent diff") && !nothing.contains(empty), "{nothing}");
    repo.agent_json(&["amend", id(&agent), "--scope=lib/**"]);
    run(&repo, &agent, "echo more >> docs/a.md; echo new > lib/x");
    let verdict = said(&["verify"]);
    let way = format!("to go there: git agent enter {}", id(&agent));
    assert!(verdict.contains(&way), "{verdict}");
    // What lies in the way of a landing is there for a command of the agent.
    repo.git(["checkout", "--quiet", "--detach"]);
    run(&repo, &agent, "git checkout -q docs; rm lib/x; echo mine > lib/y");
    let other = repo.agent_json(&["spawn", "do it", "--scope=lib/**", "--layered=off"]);
    let place = std::path::Path::new(other["worktree_abspath"].as_str().expect("a path"));
    fs::write(place.join("lib/y"), "theirs\n").expect("written");
    let branch = agent["branch"].as_str().expect("a branch");
    let branch = branch.trim_start_matches("refs/heads/");
    let blocked = repo.agent(&["merge", id(&other), "--into", branch]);
    let blocked = describe(&blocked);
    assert!(blocked.contains("[target-dirty]"), "{blocked}");
    assert!(blocked.contains("--no-verify -- git status --ignored"), "{blocked}");
}

#[test]
fn strict_goes_as_far_in_a_layer_as_in_a_copied_worktree() {
    let repo = repo("");
    std::os::unix::fs::symlink("/", repo.path().join("out")).expect("linked");
    repo.write("lib/gone/x.txt", "x\n");
    repo.commit_all("a link");
    // Each with what can be written afterwards, and what cannot.
    let cases = [
        ("lib/**", "lib/new", "docs/new"),
        ("lib/a.txt", "lib/a.txt", "lib/new"),
        ("lib/gone/**", "lib/gone/new", "lib/new"),
        ("lib/made.txt", "lib/made.txt", "docs/new"),
        ("new/deep/**", "new/deep/x", "new/x"),
        ("docs/*.md", "docs/new.md", "lib/new"),
        ("**/*.txt", "lib/new.txt", "../../../escaped"),
        ("*.txt", "new.txt", "../../../.git/escaped"),
    ];
    for (scope, open, closed) in cases {
        let printed = [false, true].map(|layered| {
            let how = if layered { "--layered" } else { "--layered=off" };
            let words = ["spawn", how, "change it", "--new", scope, "--format=json"];
            let output = repo.agent(&words);
            if layered && describe(&output).contains("[sandbox-unavailable]") {
                return None;
            }
            assert!(output.status.success(), "{}", describe(&output));
            let spawned: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            let first = "rm -r lib/gone; ls -A";
            let prepared = ["run", id(&spawned), "--no-verify", "--", "sh", "-c", first];
            assert!(repo.agent(&prepared).status.success());
            let script = format!(
                "echo x > {open} && echo open; echo x > {closed} || echo closed; echo x > .agent/note && echo bundle; ls -A"
            );
            let words = ["run", id(&spawned), "--no-verify", "--sandbox=strict", "--", "sh", "-c"];
            let output = repo.agent(&[&words[..], &[&script]].concat());
            assert!(output.status.success(), "{}", describe(&output));
            let said = describe(&output);
            let printed = String::from_utf8(output.stdout).expect("UTF-8");
            assert!(printed.starts_with("open\nclosed\nbundle\n"), "{scope} {layered} {said}");
            Some(printed)
        });
        if let [Some(copied), Some(layered)] = printed {
            assert_eq!(copied, layered, "{scope}");
        }
    }
    let words = ["spawn", "--layered=auto", "change it", "--new", "out/etc/**", "--name=led"];
    repo.agent_json(&words);
    let led = repo.agent(&["run", "led", "--sandbox=strict", "--", "true"]);
    assert_eq!(led.status.code(), Some(4), "{}", describe(&led));
    assert!(describe(&led).contains("/out is a symlink"), "{}", describe(&led));
}

#[test]
fn an_output_file_of_a_layered_agent_is_written_and_can_be_read() {
    let repo = repo("");
    let Some(spawned) = spawn(&repo, true) else { return };
    let script = "echo said > \"$GIT_AGENT_OUTPUT_FILE\"";
    let run = |words: &[&str]| {
        let first = ["run", id(&spawned), "--no-verify", "--format=json"];
        repo.agent(&[&first[..], words, &["--", "sh", "-c", script]].concat())
    };
    let output = run(&["--output=deep/answer.md"]);
    assert!(output.status.success(), "{}", describe(&output));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let file = report["output_file"].as_str().expect("a file");
    assert_eq!(fs::read_to_string(file).expect("readable"), "said\n");
    let again = run(&["--output=deep/answer.md"]);
    assert!(describe(&again).contains("output-exists"), "{}", describe(&again));
    let again = run(&["--output=deep/answer.md", "--allow-overwrite"]);
    assert!(again.status.success(), "{}", describe(&again));
    assert_eq!(repo.agent_json(&["show", id(&spawned)])["uncommitted"], 0);
}
