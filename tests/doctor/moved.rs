//! Something else in the place of a worktree, and objects that are out of reach.

use super::{Patient, examine, files, problems, strings};
use crate::support::{TestRepo, git_in, isolated};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// Runs what is advised until nothing is found.
fn follow_advice(repo: &TestRepo) {
    for _ in 0..4 {
        let (_, report) = examine(repo, &["--fix"]);
        let findings = report["findings"].as_array().expect("a list");
        let Some(finding) = findings.iter().find(|one| one["severity"] == "problem") else {
            return;
        };
        let command = finding["command"].as_str().expect("a command");
        // The next round does that.
        let command = command.trim_end_matches(" && git agent doctor --fix");
        let done = isolated("sh", &repo.path()).args(["-c", command]).status();
        assert!(done.expect("starts").success(), "{command}");
    }
    panic!("{:#}", examine(repo, &[]).1);
}

fn status(top: &Path) -> String {
    git_in(top, ["status", "--porcelain"])
}

#[test]
fn nothing_is_written_or_moved_behind_a_symlink_in_the_place_of_a_worktree() {
    let patient = Patient::new();
    let foreign = patient.repo.path().with_file_name("foreign");
    fs::create_dir(&foreign).expect("made");
    fs::write(foreign.join("private"), "private\n").expect("written");
    for target in [patient.repo.path(), foreign] {
        let its_own = || {
            let is_ours = |path: &Path| path.starts_with(patient.repo.path().join(".claude"));
            let all = files(&target).into_iter();
            let all =
                all.filter(|(path, _)| !is_ours(path) && !path.starts_with(target.join(".git")));
            all.collect::<Vec<_>>()
        };
        let before = its_own();
        fs::remove_dir_all(&patient.top).expect("removed");
        symlink(&target, &patient.top).expect("linked");
        let (_, report) = patient.doctor(&["--fix"]);
        assert_eq!(problems(&report), strings(&["worktrees.unlinked"]), "{report:#}");
        follow_advice(&patient.repo);
        assert_eq!(its_own(), before);
        assert!(!target.join(".git").is_file());
        assert_eq!(status(&patient.top), "A  src/staged.rs");
        fs::remove_file(patient.top.with_extension("moved")).expect("put aside");
    }
}

#[test]
fn a_worktree_that_was_moved_behind_a_symlink_is_found_where_it_is() {
    let patient = Patient::new();
    let before = status(&patient.top);
    let place = patient.repo.path().with_file_name("bigger");
    fs::rename(&patient.top, &place).expect("moved");
    symlink(&place, &patient.top).expect("linked");
    follow_advice(&patient.repo);
    let shown = patient.repo.agent_json(&["show", &patient.id]);
    assert_eq!(shown["worktree_abspath"].as_str(), place.to_str(), "{shown:#}");
    assert_eq!(status(&place), before);
}

/// Git follows the link and works; what removes directories does not.
#[test]
fn worktrees_whose_parent_was_moved_behind_a_symlink_can_be_moved_back_and_discarded() {
    let patient = Patient::new();
    let (parent, place) =
        (patient.top.parent().expect("above"), patient.repo.path().with_file_name("bigger"));
    fs::rename(parent, &place).expect("moved");
    symlink(&place, parent).expect("linked");
    let refused = patient.repo.agent(&["discard", &patient.id]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(3), "{said}");
    let command = said.lines().find_map(|line| line.split_once("leads to, run ")).expect(&said).1;
    let done = isolated("sh", &patient.repo.path()).args(["-c", command]).status();
    assert!(done.expect("starts").success(), "{command}");
    patient.repo.agent_json(&["discard", &patient.id]);
    assert!(!patient.top.exists());
}

#[test]
fn worktrees_in_the_place_of_others_are_moved_back() {
    let repo = TestRepo::with_commit();
    let tops = ["one", "two"].map(|name| {
        let spawned = repo.agent_json(&["spawn", "do the work", "--scope", "**", "--name", name]);
        let top = spawned["worktree_abspath"].as_str().expect("a path").to_owned();
        fs::write(Path::new(&top).join("mine"), name).expect("written");
        top
    });
    let [one, two] = tops.each_ref().map(Path::new);
    let require_home = || {
        follow_advice(&repo);
        let mine = [one, two].map(|top| fs::read_to_string(top.join("mine")).expect("read"));
        assert_eq!(mine, ["one", "two"]);
        assert_eq!([one, two].map(status), ["?? mine", "?? mine"]);
    };
    let third = repo.path().with_file_name("third");
    fs::rename(one, &third).expect("moved");
    fs::rename(two, one).expect("moved");
    fs::rename(&third, two).expect("moved");
    let (_, report) = examine(&repo, &["--fix"]);
    let expected = strings(&["worktrees.unlinked", "worktrees.unlinked"]);
    assert_eq!(problems(&report), expected, "{report:#}");
    require_home();
    // One that was moved over another, which was put somewhere else.
    fs::rename(one, &third).expect("moved");
    fs::rename(two, one).expect("moved");
    let (_, report) = examine(&repo, &[]);
    let commands: Vec<_> = report["findings"].as_array().expect("a list").iter().collect();
    let commands = commands.into_iter().filter(|one| one["code"] == "worktrees.unlinked");
    let commands: Vec<&Value> = commands.map(|one| &one["command"]).collect();
    let back = format!("mv {} {}", one.display(), two.display());
    assert!(commands[0].as_str().is_some_and(|command| command.starts_with(&back)), "{commands:?}");
}

#[test]
fn what_is_borrowed_and_out_of_reach_is_not_taken_for_lost() {
    let repo = TestRepo::with_commit();
    // As `git clone --shared` makes it.
    let [place, away] = ["borrowed", "away"].map(|name| repo.path().with_file_name(name));
    let objects = repo.path().join(".git/objects");
    fs::rename(&objects, &place).expect("moved");
    fs::create_dir_all(objects.join("info")).expect("made");
    fs::write(objects.join("info/alternates"), "../../../borrowed\n").expect("written");
    let spawned = repo.agent_json(&["spawn", "do the work", "--scope", "**"]);
    let top = Path::new(spawned["worktree_abspath"].as_str().expect("a path"));
    fs::write(top.join("new"), "new\n").expect("written");
    repo.agent_json(&["discard", spawned["agent_id"].as_str().expect("an id")]);
    let kept = repo.git(["rev-parse", "refs/agents/keep"]);
    fs::rename(&place, &away).expect("moved");
    let (_, report) = examine(&repo, &["--fix"]);
    assert_eq!(problems(&report), strings(&["git.objects-away"]), "{report:#}");
    fs::rename(&away, &place).expect("moved");
    assert_eq!(repo.git(["rev-parse", "refs/agents/keep"]), kept);
    assert_eq!(problems(&examine(&repo, &["--fix"]).1), strings(&[]));
}
