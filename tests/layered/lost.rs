//! What a person takes away or moves under a layered worktree: git's record of it, its directory, its base, the whole repository.

use super::{id, layer, repo, run, spawn};
use crate::support::TestRepo;
use crate::support::agent::{agent_command, describe};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const WORK: &str = "echo hours of work >> lib/a.txt; echo new > new.txt; rm lib/b.txt";

fn place(spawned: &Value) -> PathBuf {
    PathBuf::from(spawned["worktree_abspath"].as_str().expect("a path"))
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("changed");
}

/// The base of the only agents.
fn base(repo: &TestRepo) -> PathBuf {
    let status = repo.agent_json(&["pool", "status"]);
    PathBuf::from(status["bases"][0]["worktree_abspath"].as_str().expect("a path"))
}

/// An agent that has worked, what it changed, and its base, in which anything can be done.
fn over_open_base(repo: &TestRepo) -> Option<(Value, Value, PathBuf)> {
    let spawned = spawn(repo, true)?;
    run(repo, &spawned, WORK);
    let changes = repo.agent_json(&["diff", id(&spawned)])["changes"].clone();
    let base = base(repo);
    set_mode(&base, 0o755);
    Some((spawned, changes, base))
}

#[track_caller]
fn refused(repo: &TestRepo, words: &[&str], code: &str) {
    let output = repo.agent(words);
    let said = describe(&output);
    assert!(!output.status.success() && said.contains(code), "{words:?}\n{said}");
}

#[test]
fn a_worktree_that_git_removed_is_made_again_with_its_work() {
    let repo = repo("");
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    let (agent, place) = (id(&spawned), place(&spawned));
    run(&repo, &spawned, WORK);
    let before = repo.agent_json(&["diff", agent])["changes"].clone();
    // Of a user who is not root, git can remove nothing from the closed place.
    fs::set_permissions(&place, Permissions::from_mode(0o755)).expect("opened");
    repo.git(["worktree", "remove", "-f", "-f", place.to_str().expect("UTF-8")]);

    // No command takes the work for gone.
    for (words, code) in [
        (&["diff", agent][..], "[agent-state]"),
        (&["verify", agent], "[agent-state]"),
        (&["merge", agent], "[agent-state]"),
        (&["discard", agent], "[discard-refused]"),
        (&["discard", "--force", agent], "[discard-refused]"),
        (&["uninstall", "--yes"], "[uninstall-refused]"),
    ] {
        refused(&repo, words, code);
    }
    repo.agent_json(&["gc", "--yes"]);
    assert!(layer(&repo, &spawned).join("upper/new.txt").is_file());

    repo.agent(&["doctor", "--fix"]);
    assert_eq!(repo.agent_json(&["diff", agent])["changes"], before);
    let seen = run(&repo, &spawned, "cat lib/a.txt new.txt; ls lib/b.txt || git status --short");
    assert_eq!(seen, "a\nhours of work\nnew\n M lib/a.txt\n D lib/b.txt\n?? new.txt\n");
    repo.agent_json(&["discard", agent]);
    let to = repo.path().with_file_name("rescued");
    repo.agent_json(&["rescue", agent, "--to", to.to_str().expect("UTF-8")]);
    assert!(to.join("new.txt").is_file() && !to.join("lib/b.txt").exists());
}

#[test]
fn a_directory_that_was_deleted_is_made_again() {
    let repo = repo("");
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    let (agent, place) = (id(&spawned), place(&spawned));
    run(&repo, &spawned, WORK);
    let before = repo.agent_json(&["diff", agent])["changes"].clone();
    set_mode(&place, 0o755);
    fs::remove_dir_all(&place).expect("removed");
    assert_eq!(repo.agent_json(&["diff", agent])["changes"], before);
    repo.agent(&["doctor", "--fix"]);
    let names = fs::read_dir(&place).expect("listed").map(|one| one.expect("read").file_name());
    assert_eq!(names.collect::<Vec<_>>(), [".git"]);
    let mode = fs::metadata(&place).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o555);
    assert_eq!(run(&repo, &spawned, "cat new.txt"), "new\n");
}

#[test]
fn what_changed_a_base_becomes_no_work_of_the_agent() {
    let repo = repo("[setup]\nrun = [\"mkdir built; echo made > built/tool\"]\n");
    let Some((spawned, before, base)) = over_open_base(&repo) else {
        return;
    };
    let agent = id(&spawned);
    fs::write(base.join("lib/c.txt"), "foreign\n").expect("written");
    fs::remove_file(base.join("lib/d.txt")).expect("removed");
    fs::write(base.join("foreign.txt"), "foreign\n").expect("written");
    let answer = repo.agent_json(&["materialize", agent]);
    assert_eq!(answer["warnings"].as_array().map(Vec::len), Some(1), "{answer}");
    assert_eq!(repo.agent_json(&["diff", agent])["changes"], before);
    let place = place(&spawned);
    let read = |name: &str| fs::read_to_string(place.join(name)).expect("read");
    assert_eq!(
        read("lib/a.txt") + &read("lib/c.txt") + &read("built/tool"),
        "a\nhours of work\nc\nmade\n"
    );
    assert!(!place.join("foreign.txt").exists());
}

#[test]
fn a_base_that_is_gone_leaves_the_agent_its_tracked_files() {
    let repo = repo("");
    let Some((spawned, before, base)) = over_open_base(&repo) else {
        return;
    };
    let agent = id(&spawned);
    fs::remove_dir_all(&base).expect("removed");
    repo.agent_json(&["materialize", agent]);
    assert_eq!(repo.agent_json(&["diff", agent])["changes"], before);
    assert_eq!(run(&repo, &spawned, "cat lib/deep/c.txt new.txt"), "deep c\nnew\n");
}

#[test]
fn a_base_that_has_changed_or_is_gone_is_made_anew_by_the_next_run() {
    let damages: [fn(&Path); 5] = [
        |base| fs::write(base.join("lib/c.txt"), "foreign\n").expect("written"),
        |base| fs::remove_file(base.join("built/tool")).expect("removed"),
        |base| set_mode(&base.join("lib/d.txt"), 0o755),
        |base| fs::remove_dir_all(base).expect("removed"),
        |base| fs::remove_dir_all(base.parent().expect("its record")).expect("removed"),
    ];
    for (number, damage) in damages.into_iter().enumerate() {
        let repo = repo("[setup]\nrun = [\"mkdir built; echo made > built/tool\"]\n");
        let Some((spawned, before, base)) = over_open_base(&repo) else {
            return;
        };
        let other = spawn(&repo, true).expect("an agent");
        let upper = layer(&repo, &spawned).join("upper");
        let changed = crate::support::snapshot(&upper);
        damage(&base);
        let doctor = repo.agent(&["doctor", "--format", "json"]);
        let doctor: Value = serde_json::from_slice(&doctor.stdout).expect("JSON");
        let found = doctor["findings"].as_array().expect("findings").iter();
        let found: Vec<&Value> = found.filter(|one| one["code"] == "pool.base-damaged").collect();
        assert!(!found.is_empty(), "{number}: {doctor:#}");
        let script = "cat lib/a.txt lib/c.txt new.txt built/tool; git status --short";
        let words = ["run", id(&spawned), "--no-verify", "--", "sh", "-c", script];
        let output = repo.agent(&words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("replaces it"), "{number}: {said}");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "a\nhours of work\nc\nnew\nmade\n M lib/a.txt\n D lib/b.txt\n?? new.txt\n",
            "{number}: {said}"
        );
        assert_eq!(crate::support::snapshot(&upper), changed, "{number}");
        assert_eq!(repo.agent_json(&["diff", id(&spawned)])["changes"], before);
        // The other agent is over the old base still, until it works.
        repo.agent_json(&["gc", "--yes"]);
        let bases = |repo: &TestRepo| {
            let status = repo.agent_json(&["pool", "status"]);
            status["bases"].as_array().map_or(0, Vec::len)
        };
        assert_eq!(bases(&repo), if number == 4 { 1 } else { 2 }, "{number}");
        assert_eq!(run(&repo, &other, "cat lib/c.txt built/tool"), "c\nmade\n");
        repo.agent_json(&["gc", "--yes"]);
        assert_eq!(bases(&repo), 1, "{number}");
        repo.agent_json(&["merge", id(&spawned)]);
    }
}

#[test]
fn no_git_clean_of_the_main_worktree_reaches_a_base() {
    for force in ["-fdxq", "-ffdxq"] {
        let repo = repo("[setup]\nrun = [\"mkdir built; echo made > built/tool\"]\n");
        let Some(spawned) = spawn(&repo, true) else {
            return;
        };
        run(&repo, &spawned, WORK);
        let base = base(&repo);
        let before = crate::support::snapshot(&base);
        // To all but root the place of the worktree is closed, and git says so.
        let cleaned = crate::support::git_output(&repo.path(), ["clean", force]);
        let is_root = rustix::process::geteuid().is_root();
        assert!(cleaned.status.success() || !is_root, "{force}: {}", describe(&cleaned));
        assert_eq!(crate::support::snapshot(&base), before, "{force}");
        // The second force takes all worktrees away.
        repo.agent(&["doctor", "--fix"]);
        let script = "cat lib/c.txt new.txt built/tool";
        assert_eq!(run(&repo, &spawned, script), "c\nnew\nmade\n", "{force}");
        assert_eq!(repo.agent_json(&["pool", "status"])["bases"][0]["state"], "ready");
    }
}

#[test]
fn a_moved_repository_keeps_its_layers_and_bases() {
    for by_git in [true, false] {
        is_kept_in_moved_repository(by_git);
    }
}

fn is_kept_in_moved_repository(by_git: bool) {
    let repo = repo("");
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    run(&repo, &spawned, WORK);
    let base = base(&repo);
    let moved = repo.path().with_file_name("moved");
    fs::rename(repo.path(), &moved).expect("moved");
    let there = |path: &Path| moved.join(path.strip_prefix(repo.path()).expect("below"));
    let agent = |words: &[&str]| {
        let output = agent_command(&moved).args(words).output().expect("started");
        assert!(output.status.success(), "{words:?}\n{}", describe(&output));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let place = there(&place(&spawned));
    if by_git {
        crate::support::git_output(&moved, ["worktree", "repair", place.to_str().expect("UTF-8")]);
    } else {
        let doctor = agent_command(&moved).args(["doctor", "--fix"]).output().expect("started");
        let said = describe(&doctor);
        assert!(said.contains("git finds it again"), "{said}");
        let verdict = describe(
            &agent_command(&moved).args(["verify", id(&spawned)]).output().expect("started"),
        );
        assert!(!verdict.contains("worktree."), "{verdict}");
    }
    let seen = agent(&[
        "run",
        id(&spawned),
        "--no-verify",
        "--",
        "sh",
        "-c",
        "cat lib/c.txt new.txt; git status --short",
    ]);
    assert_eq!(seen, "c\nnew\n M lib/a.txt\n D lib/b.txt\n?? new.txt\n");
    // In a mount of the program's own git finds the repository, too.
    agent(&["commit", id(&spawned), "-m", "work"]);
    agent(&["update", id(&spawned)]);
    agent(&["discard", id(&spawned)]);
    assert!(there(&base).exists());
    agent(&["gc", "--yes"]);
    assert!(!there(&base).exists());
}

#[test]
fn sweeps_of_one_base_at_once_all_succeed() {
    let repo = repo("");
    for _ in 0..3 {
        let Some(spawned) = spawn(&repo, true) else {
            return;
        };
        repo.agent_json(&["discard", id(&spawned)]);
        let started: Vec<Child> = (0..6)
            .map(|_| {
                let mut gc = agent_command(&repo.path());
                gc.args(["gc", "--yes"]).stdout(Stdio::null()).spawn().expect("started")
            })
            .collect();
        for mut gc in started {
            assert!(gc.wait().expect("waited for").success());
        }
    }
}

// What comes to an agent's branch while a run works in its worktree.

/// A run that works until it is stopped, after a script.
fn working(repo: &TestRepo, spawned: &Value, script: &str) -> Child {
    let script = format!("{script}; echo begun; exec sleep 1000");
    let mut run = agent_command(&repo.path())
        .args(["run", id(spawned), "--no-verify", "--", "sh", "-c", &script])
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut line = String::new();
    let said = run.stdout.take().expect("piped");
    BufReader::new(said).read_line(&mut line).expect("read");
    assert_eq!(line, "begun\n");
    run
}

/// A parent, layered or not, and an agent that has committed on top of it.
fn parent_and_child(repo: &TestRepo, layered: bool) -> Option<[Value; 2]> {
    let parent = spawn(repo, layered)?;
    let branch = parent["branch"].as_str().expect("a branch");
    let words = ["spawn", "--layered=off", "--base", branch, "Build on it", "--scope", "**"];
    let child = repo.agent_json(&words);
    run(repo, &child, "echo child >> lib/b.txt; echo child > lib/new.txt");
    repo.agent_json(&["commit", id(&child), "-m", "work"]);
    Some([parent, child])
}

fn stop(repo: &TestRepo, parent: &Value, mut run: Child) {
    repo.agent(&["stop", id(parent)]);
    run.wait().expect("waited for");
}

#[test]
fn nothing_lands_on_a_branch_in_whose_worktree_a_run_works() {
    for layered in [false, true] {
        let repo = repo("");
        let Some([parent, child]) = parent_and_child(&repo, layered) else {
            return;
        };
        let run_of_parent = working(&repo, &parent, "true");
        refused(&repo, &["merge", id(&child)], "[agent-busy]");
        stop(&repo, &parent, run_of_parent);
        repo.agent_json(&["merge", id(&child)]);
        let seen = run(&repo, &parent, "cat lib/b.txt lib/new.txt; git status --porcelain");
        assert_eq!(seen, "b\nchild\nchild\n", "{layered}");
    }
}

#[test]
fn a_worktree_follows_what_came_to_its_branch_meanwhile_or_is_committed_by_none() {
    for layered in [false, true] {
        let repo = repo("");
        let Some([parent, child]) = parent_and_child(&repo, layered) else {
            return;
        };
        let [branch, tip] = [&parent, &child].map(|one| one["branch"].as_str().expect("a branch"));
        let branch = repo.git(["rev-parse", "--symbolic-full-name", branch]);
        let follows = |script: &str| {
            let run_of_parent = working(&repo, &parent, script);
            repo.git(["update-ref", branch.trim(), tip]);
            stop(&repo, &parent, run_of_parent);
        };
        follows("echo own > own.txt");
        let seen = run(&repo, &parent, "cat lib/b.txt lib/new.txt own.txt; git status --porcelain");
        assert_eq!(seen, "b\nchild\nchild\nown\n?? own.txt\n", "{layered}");

        // What cannot be brought there is not taken back by a commit either.
        let parent = spawn(&repo, layered).expect("an agent");
        let branch = repo.git([
            "rev-parse",
            "--symbolic-full-name",
            parent["branch"].as_str().expect("a branch"),
        ]);
        let run_of_parent = working(&repo, &parent, "echo mine > lib/b.txt");
        let other = repo.git([
            "commit-tree",
            &format!("{tip}^{{tree}}"),
            "-p",
            branch.trim(),
            "-m",
            "other",
        ]);
        repo.git(["update-ref", branch.trim(), other.trim()]);
        stop(&repo, &parent, run_of_parent);
        for words in [
            &["commit", id(&parent), "-m", "work"][..],
            &["merge", id(&parent)],
            &["run", id(&parent), "--no-verify", "--", "true"],
        ] {
            refused(&repo, words, "[target-dirty]");
        }
        assert_eq!(repo.git(["rev-parse", branch.trim()]), other);
        repo.agent_json(&["discard", id(&parent)]);
    }
}

#[test]
fn a_long_file_comes_back_as_the_agent_left_it() {
    let repo = repo("");
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    let (agent, length) = (id(&spawned), 65 << 20);
    run(
        &repo,
        &spawned,
        &format!("truncate -s {length} lib/a.txt new.bin; echo changed > lib/b.txt"),
    );
    repo.agent_json(&["discard", agent]);
    let to = repo.path().with_file_name("rescued");
    repo.agent_json(&["rescue", agent, "--to", to.to_str().expect("UTF-8")]);
    let length_of = |name: &str| fs::metadata(to.join(name)).expect("there").len();
    assert_eq!(
        [length_of("lib/a.txt"), length_of("new.bin"), length_of("lib/b.txt")],
        [length, length, 8]
    );
}

#[test]
fn what_was_written_outside_of_the_mount_is_moved_away_by_the_advice() {
    for names in [&["one"][..], &["one", "two", "with space"]] {
        let repo = repo("");
        let Some(spawned) = spawn(&repo, true) else {
            return;
        };
        let place = place(&spawned);
        set_mode(&place, 0o755);
        names.iter().for_each(|name| fs::write(place.join(name), "x").expect("written"));
        let said = describe(&repo.agent(&["discard", id(&spawned)]));
        let (_, advised) = said.split_once("to keep it, run ").expect("advice");
        let elsewhere = repo.path().with_file_name("elsewhere");
        fs::create_dir(&elsewhere).expect("made");
        let advised = advised.lines().next().expect("a line");
        let advised = advised.replace("<elsewhere>", elsewhere.to_str().expect("UTF-8"));
        let mut shell = crate::support::isolated("sh", &repo.path());
        assert!(shell.args(["-c", &advised]).status().expect("a shell").success(), "{advised}");
        repo.agent_json(&["discard", id(&spawned)]);
        assert!(names.iter().all(|name| elsewhere.join(name).is_file()), "{advised}");
    }
}

#[test]
fn what_a_sparse_checkout_leaves_out_is_not_deleted() {
    // In a layered worktree and in a copied one, told to the worktree and, by the old idiom, to its repository.
    for (layered, before) in [false, true]
        .into_iter()
        .flat_map(|it| [(it, ""), (it, "git config core.sparseCheckout true;")])
    {
        let repo = repo("");
        let Some(spawned) = spawn(&repo, layered) else {
            return;
        };
        let agent = id(&spawned);
        let set = "git sparse-checkout set --no-cone '/*' '!docs' && echo q >> lib/a.txt";
        run(&repo, &spawned, &format!("{before} {set}"));
        if layered {
            refused(&repo, &["diff", agent], "[layer-invalid]");
            refused(&repo, &["merge", agent], "[layer-invalid]");
            repo.agent_json(&["materialize", agent]);
        }
        let seen = run(&repo, &spawned, "git status --short; ls -d docs || true");
        assert_eq!(seen, " M lib/a.txt\n", "{layered}");
        let diff = repo.agent_json(&["diff", agent]);
        assert_eq!(diff["changes"].as_array().map(Vec::len), Some(1), "{diff}");
        repo.agent_json(&["merge", agent]);
        assert_eq!(repo.git(["diff", "--name-only", "HEAD~1", "HEAD"]), "lib/a.txt");
    }
}

#[test]
fn a_layer_that_is_gone_deletes_nothing_and_becomes_an_ordinary_worktree() {
    // All of the layer; one of its two parts; the agent's own directory.
    for lost in ["layer", "layer/record", "layer/upper", ""] {
        let repo = repo("");
        let Some(spawned) = spawn(&repo, true) else {
            return;
        };
        let (agent, place) = (id(&spawned), place(&spawned));
        let committed = format!("{WORK}; git add -A && git commit -q -m work; echo z > z.txt");
        run(&repo, &spawned, &committed);
        let gone = layer(&repo, &spawned).with_file_name(lost);
        if gone.is_dir() {
            fs::remove_dir_all(&gone).expect("removed");
        } else {
            fs::remove_file(&gone).expect("removed");
        }
        for (words, code) in [
            (&["verify", agent][..], "[agent-state]"),
            (&["merge", agent], "[agent-state]"),
            (&["diff", agent], "[agent-state]"),
            (&["run", agent, "--", "true"], "[agent-state]"),
            (&["discard", agent], "[discard-refused]"),
        ] {
            refused(&repo, words, code);
        }
        let report = describe(&repo.agent(&["doctor", "--fix"]));
        let upper = layer(&repo, &spawned).join("upper");
        if upper.exists() {
            // What the agent changed is there still, and nobody knows over what.
            assert!(report.contains("worktrees.unreadable"), "{report}");
            assert!(upper.join("z.txt").is_file());
            fs::rename(upper, repo.path().with_file_name("kept")).expect("moved");
            repo.agent(&["doctor", "--fix"]);
        }
        assert!(place.join("lib/a.txt").is_file(), "{lost}: {report}");
        assert_eq!(repo.agent_json(&["verify", agent])["verdict"], "accept", "{lost}");
        repo.agent_json(&["merge", agent]);
        let landed = repo.git(["diff", "--name-status", "HEAD^", "HEAD"]);
        assert_eq!(landed, "M\tlib/a.txt\nD\tlib/b.txt\nA\tnew.txt", "{lost}");
    }
}

#[test]
fn a_copy_of_the_repository_leaves_the_worktrees_of_the_original_alone() {
    let repo = repo("");
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    let agent = id(&spawned);
    run(&repo, &spawned, WORK);
    let before = repo.agent_json(&["diff", agent])["changes"].clone();
    let copy = repo.path().with_file_name("copy");
    let copied = Command::new("cp").arg("-a").args([&repo.path(), &copy]).status();
    assert!(copied.expect("cp starts").success());
    let output = agent_command(&copy).args(["materialize", agent]).output().expect("starts");
    let said = describe(&output);
    assert!(!output.status.success() && said.contains("worktree-foreign"), "{said}");
    assert!(copy.join(".git/agents").join(&agent[..8]).join("layer/upper/new.txt").exists());
    assert_eq!(repo.agent_json(&["diff", agent])["changes"], before);
    repo.agent_json(&["materialize", agent]);
    assert_eq!(repo.agent_json(&["diff", agent])["changes"], before);
}
