//! Damage of every kind: seen, put right by `--fix`, gone the second time, and nothing lost by it.

/// What killed verifies and landings leave.
mod leftovers;
/// Other processes at work.
mod meanwhile;
mod moved;
/// Settings, refs and the two chains.
mod repository;
/// Spawns that stopped half way.
mod spawns;

use crate::support::agent::{TASK, agent_command, describe};
use crate::support::{TestRepo, git_in, git_output, isolated};
use git_agent::domain::judge::diagnosis::Sign;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A repository with one agent that has uncommitted, staged and committed work.
struct Patient {
    repo: TestRepo,
    id: String,
    top: PathBuf,
    branch: String,
}

impl Patient {
    fn new() -> Patient {
        let repo = TestRepo::with_commit();
        let spawned = repo.spawn_task(TASK, &[]);
        let text = |key: &str| spawned[key].as_str().expect("a text").to_owned();
        let patient = Patient {
            id: text("agent_id"),
            top: PathBuf::from(text("worktree_abspath")),
            branch: text("branch"),
            repo,
        };
        patient.work("src/committed.rs");
        git_in(&patient.top, ["add", "src/committed.rs"]);
        git_in(&patient.top, ["commit", "--quiet", "-m", "work"]);
        patient.work("src/staged.rs");
        git_in(&patient.top, ["add", "src/staged.rs"]);
        patient.work("src/untracked.rs");
        patient
    }

    fn work(&self, name: &str) {
        std::fs::write(self.top.join(name), format!("// {name}\n")).expect("write");
    }

    fn git_dir(&self) -> PathBuf {
        self.repo.path().join(".git")
    }

    fn short(&self) -> &str {
        &self.id[..8]
    }

    fn admin(&self) -> PathBuf {
        self.git_dir().join("worktrees/agent-").with_file_name(format!("agent-{}", self.short()))
    }

    /// The status and the report; standard error is empty.
    fn doctor(&self, arguments: &[&str]) -> (i32, Value) {
        examine(&self.repo, arguments)
    }
}

fn examine(repo: &TestRepo, arguments: &[&str]) -> (i32, Value) {
    let output = agent_command(&repo.path())
        .args(["doctor", "--format=json"])
        .args(arguments)
        // Where no other test leaves something to be found.
        .env("TMPDIR", repo.path().with_file_name("temporary"))
        .output()
        .expect("starts");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    (output.status.code().expect("a status"), report)
}

/// Asks until the answer is that one. An ordinary user cannot see where a git of their own behind a fence is at work, as another test may
/// have one at this moment: that one may hold a lock, and it ends soon.
fn comes_to(repo: &TestRepo, arguments: &[&str], status: i32, expected: &[String]) -> Value {
    let ask = || {
        let (status, report) = examine(repo, arguments);
        (status, problems(&report), report)
    };
    let is_so = |answer: &(i32, Vec<String>, Value)| (answer.0, &*answer.1) == (status, expected);
    let answer = std::iter::repeat_with(ask).take(50).find(is_so);
    answer.unwrap_or_else(|| panic!("{:#?}", ask())).2
}

/// The codes of the problems in a report.
fn problems(report: &Value) -> Vec<String> {
    let findings = report["findings"].as_array().expect("a list");
    let problems = findings.iter().filter(|one| one["severity"] == "problem");
    let codes = problems.map(|one| one["code"].as_str().expect("a code").to_owned());
    codes.collect()
}

/// Every file that an agent can have written, with its content.
fn files(top: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    if !top.exists() {
        return Vec::new();
    }
    let entries = walkdir::WalkDir::new(top).sort_by_file_name();
    let files = entries
        .into_iter()
        .map(|entry| entry.expect("readable"))
        .filter(|entry| entry.file_type().is_file());
    files
        .map(|entry| (entry.path().to_owned(), std::fs::read(entry.path()).expect("read")))
        .collect()
}

fn assert_sound(repo: &TestRepo, what: &str) {
    let fsck = git_output(&repo.path(), ["fsck", "--strict", "--no-progress", "--no-dangling"]);
    assert!(fsck.status.success(), "{what}: {fsck:?}");
}

/// Does some damage, expects to hear of exactly this, has it fixed, and expects to find everything in
/// order and all work in its place.
#[track_caller]
fn heals(expected: &[&str], damage: impl Fn(&Patient)) {
    let patient = Patient::new();
    damage(&patient);
    let (before, tip) = (files(&patient.top), tip(&patient));
    let (status, report) = patient.doctor(&[]);
    assert_eq!((status, problems(&report)), (1, strings(expected)), "{report:#}");
    assert_eq!(files(&patient.top), before, "looking changes nothing");

    let (status, report) = patient.doctor(&["--fix"]);
    assert_eq!((status, problems(&report)), (0, vec![]), "{report:#}");
    let fixed = report["fixed"].as_array().expect("a list");
    // The first finding may have been the cause of the others.
    for code in &expected[..1] {
        assert!(fixed.iter().any(|one| one["code"] == *code), "{report:#}");
    }

    let (status, report) = patient.doctor(&["--fix"]);
    assert_eq!(status, 0, "{report:#}");
    assert_eq!(report["fixed"], Value::Array(vec![]), "{report:#}");
    for file in before {
        assert!(files(&patient.top).contains(&file), "{:?} is gone", file.0);
    }
    assert_eq!(self::tip(&patient), tip, "{expected:?}");
    let row = patient.repo.agent_json(&["show", &patient.id]);
    assert_eq!(row["state"], "idle", "{expected:?}: {row}");
    assert_sound(&patient.repo, expected[0]);
    let status = git_in(&patient.top, ["status", "--porcelain"]);
    assert!(status.contains("A  src/staged.rs"), "{expected:?}: {status}");
}

/// Expects to hear of this, and that `--fix` leaves it to a person and changes no ref.
#[track_caller]
fn is_left_alone(expected: &[&str], damage: impl Fn(&Patient)) {
    let patient = Patient::new();
    damage(&patient);
    let (before, refs) = (files(&patient.top), patient.repo.git(["for-each-ref"]));
    for arguments in [&[][..], &["--fix"]] {
        let (status, report) = patient.doctor(arguments);
        assert_eq!((status, problems(&report)), (1, strings(expected)), "{report:#}");
    }
    assert_eq!(files(&patient.top), before, "{expected:?}");
    assert_eq!(patient.repo.git(["for-each-ref"]), refs, "{expected:?}");
}

fn tip(patient: &Patient) -> String {
    patient.repo.git(["rev-parse", &patient.branch])
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn a_healthy_repository_is_healthy() {
    let patient = Patient::new();
    let (status, report) = patient.doctor(&["--fix"]);
    assert_eq!((status, problems(&report)), (0, vec![]), "{report:#}");
    assert_eq!(report["healthy"], true);
    assert_eq!(report["families"].as_array().expect("a list").len(), 15);
    let output = patient.repo.agent(&["doctor"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("hooks") && text.contains("ok"), "{text}");
    let empty = TestRepo::empty();
    assert_eq!(examine(&empty, &["--fix"]).0, 0);
    assert!(!empty.path().join(".git/agents").exists(), "looking makes nothing");
}

#[test]
fn a_worktree_without_its_git_file_is_found_again() {
    heals(&["worktrees.unlinked"], |patient| {
        std::fs::remove_file(patient.top.join(".git")).expect("removed");
    });
    let patient = Patient::new();
    std::fs::remove_file(patient.top.join(".git")).expect("removed");
    git_in(&patient.top, ["init", "--quiet"]);
    let (status, report) = patient.doctor(&["--fix"]);
    assert_eq!((status, problems(&report)), (1, strings(&["worktrees.unlinked"])), "{report:#}");
    let finding = report["findings"].as_array().expect("a list");
    let finding = finding.iter().find(|one| one["code"] == "worktrees.unlinked").expect("one");
    let advice = finding["command"].as_str().expect("a command");
    let before = advice.split(" && ").next().expect("a command");
    let moved = crate::support::isolated("sh", &patient.repo.path()).args(["-c", before]).status();
    assert!(moved.expect("starts").success(), "{advice}");
    let (status, report) = patient.doctor(&["--fix"]);
    assert_eq!((status, problems(&report)), (0, vec![]), "{report:#}");
    assert_eq!(git_in(&patient.top, ["log", "-1", "--format=%s"]), "work");
}

#[test]
fn a_worktree_whose_directory_is_gone_comes_back_with_what_was_staged() {
    heals(&["worktrees.directory-gone"], |patient| {
        std::fs::remove_dir_all(patient.repo.path().join(".claude")).expect("removed");
    });
}

/// Whatever is staged on the same file stays as it was staged.
#[test]
fn a_worktree_whose_branch_went_on_without_it_comes_back_at_its_tip() {
    for (new, staged) in [("src/new.rs", "A  src/staged.rs"), ("src/staged.rs", "M  src/staged.rs")]
    {
        let patient = Patient::new();
        std::fs::remove_dir_all(&patient.top).expect("removed");
        let place = patient.repo.path().with_file_name("other");
        let other = place.to_str().expect("UTF-8");
        patient.repo.git(["worktree", "add", "--force", "--quiet", other, &patient.branch]);
        std::fs::write(place.join(new), "// elsewhere\n").expect("written");
        git_in(&place, ["add", "."]);
        git_in(&place, ["commit", "--quiet", "-m", "elsewhere"]);
        patient.repo.git(["worktree", "remove", other]);
        let (status, report) = patient.doctor(&["--fix"]);
        assert_eq!((status, problems(&report)), (0, vec![]), "{report:#}");
        assert_eq!(git_in(&patient.top, ["status", "--porcelain"]), staged);
    }
}

#[test]
fn an_index_that_a_power_loss_emptied_is_written_anew() {
    // Of a file whose length was written and whose content was not, the disk gives zeros.
    for left in [&b""[..], &[0; 100]] {
        let patient = Patient::new();
        let (before, tip) = (files(&patient.top), tip(&patient));
        std::fs::write(patient.admin().join("index"), left).expect("emptied");
        let expected = strings(&["worktrees.index-emptied"]);
        let (status, report) = patient.doctor(&[]);
        assert_eq!((status, problems(&report)), (1, expected), "{report:#}");
        let (status, report) = patient.doctor(&["--fix"]);
        assert_eq!((status, problems(&report)), (0, vec![]), "{report:#}");
        assert_eq!((files(&patient.top), self::tip(&patient)), (before, tip));
        // What was staged is there as what was never added.
        let status = git_in(&patient.top, ["status", "--porcelain"]);
        assert!(status.contains("?? src/staged.rs"), "{status}");
    }
    is_left_alone(&["worktrees.index-emptied"], |patient| {
        let admin = patient.admin();
        std::fs::create_dir_all(admin.join("info")).expect("made");
        std::fs::write(admin.join("info/sparse-checkout"), "/*\n").expect("sparse");
        std::fs::write(admin.join("index"), "").expect("emptied");
    });
}

#[test]
fn a_worktree_on_a_missing_disk_is_not_made_up() {
    let repo = TestRepo::with_commit();
    let away = tempfile::tempdir().expect("directory");
    let place = away.path().join("disk/agent");
    repo.spawn_task(TASK, &["--path", place.to_str().expect("UTF-8")]);
    std::fs::remove_dir_all(away.path().join("disk")).expect("removed");
    let (status, report) = examine(&repo, &["--fix"]);
    assert_eq!((status, problems(&report)), (1, strings(&["worktrees.directory-gone"])));
    assert!(!place.exists());
}

#[test]
fn a_worktree_that_was_moved_with_its_repository_is_found_again() {
    let repo = TestRepo::with_commit();
    let spawned = repo.agent_json(&["spawn", "do the work", "--scope", "**"]);
    let id = spawned["agent_id"].as_str().expect("an id");
    let place = spawned["worktree_path"].as_str().expect("a path");
    let moved = repo.path().with_file_name("moved");
    std::fs::rename(repo.path(), &moved).expect("moved");
    let top = moved.join(place);
    std::fs::write(top.join("src/two.rs"), "// two\n").expect("written");
    let run = |words: &[&str]| {
        let output = agent_command(&moved).args(words).output().expect("starts");
        (output.status.code(), describe(&output))
    };
    // Half of the work is committed, and the other half is what no command of git finds.
    let half =
        ["GIT_DIR=../../../.git/worktrees/", &top.file_name().expect("a name").to_string_lossy()];
    let commit = "git commit --quiet --allow-empty --message half";
    let line = format!("{} GIT_WORK_TREE=. {commit}", half.concat());
    let committed = isolated("sh", &top).args(["-c", &line]).status();
    assert!(committed.expect("starts").success());
    let (status, said) = run(&["merge", id]);
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("worktree.unlinked"), "{said}");
    let (status, said) = run(&["doctor"]);
    assert!(status == Some(1) && said.contains("was moved"), "{said}");
    let (status, said) = run(&["doctor", "--fix"]);
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(git_in(&top, ["status", "--porcelain"]), "?? src/two.rs");
    let (status, said) = run(&["merge", id]);
    assert_eq!(status, Some(0), "{said}");
    assert!(moved.join("src/two.rs").is_file());
    // That of an agent that has landed is found again as well.
    std::fs::rename(&moved, repo.path()).expect("moved back");
    let output = agent_command(&repo.path()).args(["doctor", "--fix"]).output().expect("starts");
    assert!(describe(&output).contains("was moved"), "{}", describe(&output));
    repo.agent_json(&["discard", id]);
}

#[test]
fn a_worktree_beside_its_repository_is_found_again_after_a_move_and_left_to_the_original_of_a_copy()
{
    let repo = TestRepo::with_commit();
    repo.git(["config", "agent.worktreeDir", "../beside/{id}"]);
    let spawned = repo.agent_json(&["spawn", "do the work", "--scope", "**"]);
    let id = spawned["agent_id"].as_str().expect("an id");
    let place = Path::new(spawned["worktree_abspath"].as_str().expect("a path"));
    let other = |name: &str| repo.path().with_file_name(name);
    let run = |top: &Path, words: &[&str]| {
        let output = agent_command(top).args(words).output().expect("starts");
        (output.status.code(), describe(&output))
    };
    // A copy says whose the worktree is, and takes nothing from the original.
    let copy = other("copy");
    git_in(&other(""), ["clone", "--quiet", "repo", "copy"]);
    std::fs::remove_dir_all(copy.join(".git")).expect("removed");
    let cp = isolated("cp", &other("")).args(["-r", "repo/.git", "copy/.git"]).status();
    assert!(cp.expect("starts").success());
    let pointer = std::fs::read_to_string(place.join(".git")).expect("a pointer");
    let (status, said) = run(&copy, &["doctor", "--fix"]);
    let show = format!("git -C {} agent show {}", repo.path().display(), &id[..8]);
    assert!(status == Some(1) && said.contains("worktrees.unlinked"), "{said}");
    assert!(said.contains(&show), "{said}");
    let (status, said) = run(&copy, &["rescue", id, "--reopen"]);
    assert!(status == Some(2) && said.contains("worktree-foreign"), "{said}");
    assert!(said.contains(&show) && !said.contains("run mv"), "{said}");
    assert_eq!(std::fs::read_to_string(place.join(".git")).expect("a pointer"), pointer);
    assert_eq!(run(&repo.path(), &["doctor"]).0, Some(0));
    // One that was moved finds its worktree again.
    // Only root removes what is in the directories of hooks as they are.
    let opened = isolated("chmod", &other("")).args(["-R", "u+w", "copy"]).status();
    assert!(opened.expect("starts").success());
    std::fs::remove_dir_all(&copy).expect("removed");
    let moved = other("moved");
    std::fs::rename(repo.path(), &moved).expect("moved");
    let (status, said) = run(&moved, &["doctor"]);
    assert!(status == Some(1) && said.contains("worktrees.unlinked"), "{said}");
    let (status, said) = run(&moved, &["doctor", "--fix"]);
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(run(&moved, &["discard", id]).0, Some(0));
    std::fs::rename(&moved, repo.path()).expect("moved back");
}

#[test]
fn a_landing_on_a_branch_that_was_renamed_or_by_a_commit_that_was_amended_is_not_unproven() {
    for words in [&["branch", "--move", "main", "trunk"][..], &["commit", "--amend", "-m", "mine"]]
    {
        let repo = TestRepo::with_commit();
        let spawned = repo.agent_json(&["spawn", "do the work", "--scope", "**", "--name=one"]);
        let worktree = Path::new(spawned["worktree_abspath"].as_str().expect("a path"));
        std::fs::write(worktree.join("new"), "1\n").expect("written");
        repo.agent_json(&["merge", "one"]);
        repo.git(words);
        let report = repo.agent_json(&["doctor"]);
        assert!(!report.to_string().contains("landing-unproven"), "{report:#}");
    }
}

#[test]
fn hooks_that_do_not_run_are_written_anew() {
    heals(&["hooks.inert"], |patient| {
        let admin = patient.admin();
        let config = std::fs::read_to_string(admin.join("config.worktree")).expect("settings");
        assert!(config.contains("hook"), "{config}");
        std::fs::write(admin.join("config.worktree"), "").expect("write");
    });
}

#[test]
fn what_only_a_person_can_decide_is_reported() {
    is_left_alone(&["branches.gone"], |patient| {
        let name = format!("refs/heads/{}", patient.branch);
        patient.repo.git(["update-ref", "-d", &name]);
    });
    // A branch of the user's at a commit of an agent that has a row is no agent's.
    is_left_alone(&["ledger.lost", "worktrees.no-row", "branches.no-row"], |patient| {
        patient.repo.git(["branch", "--force", "agent/mine", &patient.branch]);
        let (_, report) = patient.doctor(&[]);
        assert!(!problems(&report).contains(&"branches.no-row".to_owned()), "{report:#}");
        patient.repo.git(["branch", "-D", "agent/mine"]);
        patient.repo.git(["update-ref", "-d", "refs/notes/agents"]);
    });
}

#[test]
fn a_branch_that_a_power_loss_emptied_is_at_its_last_commit_again() {
    let empty = |patient: &Patient, branch: &str| {
        let file = patient.git_dir().join("refs/heads").join(branch);
        std::fs::write(file, "").expect("written");
    };
    let mend = |patient: &Patient| {
        let (status, report) = patient.doctor(&[]);
        let expected = strings(&["branches.emptied"]);
        assert_eq!((status, problems(&report)), (1, expected), "{report:#}");
        let (status, report) = patient.doctor(&["--fix"]);
        assert_eq!((status, problems(&report)), (0, vec![]), "{report:#}");
        patient.repo.git(["log", "--all", "--oneline"]);
    };
    let patient = Patient::new();
    let before = tip(&patient);
    empty(&patient, &patient.branch);
    mend(&patient);
    assert_eq!(tip(&patient), before);
    // The file of the newest commit may have been emptied as well.
    git_in(&patient.top, ["commit", "--quiet", "--allow-empty", "-m", "lost"]);
    let lost = tip(&patient);
    let object = patient.git_dir().join("objects").join(&lost[..2]).join(&lost[2..]);
    std::fs::remove_file(&object).expect("removed");
    std::fs::write(&object, "").expect("emptied");
    mend(&patient);
    assert_eq!(tip(&patient), before);
    // Where its reflog is gone too, it begins anew with its spawn commit.
    empty(&patient, &patient.branch);
    let log = patient.git_dir().join("logs/refs/heads");
    std::fs::remove_file(log.join(&patient.branch)).expect("removed");
    mend(&patient);
    let row = patient.repo.agent_json(&["show", &patient.id]);
    assert_eq!(row["spawn_commit"], tip(&patient).as_str());
    // HEAD of its worktree has a reflog as well, which knows the newest commit.
    let other = Patient::new();
    let before = tip(&other);
    empty(&other, &other.branch);
    let log = other.git_dir().join("logs/refs/heads");
    std::fs::remove_file(log.join(&other.branch)).expect("removed");
    mend(&other);
    assert_eq!(tip(&other), before);
    // Of one that a spawn had not noted yet nothing is known, and nothing is lost.
    let unknown = "agent/third-20260101T000000Z-0123abcd";
    empty(&patient, unknown);
    mend(&patient);
    assert!(!patient.git_dir().join("refs/heads").join(unknown).exists());
}

#[test]
fn a_copy_of_a_remotes_branch_that_a_power_loss_emptied_is_there_again() {
    let patient = Patient::new();
    let repo = &patient.repo;
    repo.git(["clone", "--quiet", "--bare", ".", "../server.git"]);
    repo.git(["remote", "add", "origin", "../server.git"]);
    repo.git(["fetch", "--quiet", "origin"]);
    repo.git(["remote", "set-head", "origin", "main"]);
    let main = repo.git(["rev-parse", "main"]);
    let copies = patient.git_dir().join("refs/remotes/origin");
    // A name of a branch that is no more, and what is no ref at all, are not emptied.
    std::fs::write(copies.join("HEAD"), "ref: refs/remotes/origin/gone\n").expect("written");
    std::fs::write(copies.join(".DS_Store"), "Bud1").expect("written");
    for (left, has_reflog) in [(&b""[..], true), (&[0; 41], true), (b"", false)] {
        std::fs::write(copies.join("main"), left).expect("written");
        if !has_reflog {
            let log = patient.git_dir().join("logs/refs/remotes/origin/main");
            std::fs::remove_file(log).expect("removed");
        }
        let (status, report) = patient.doctor(&[]);
        let expected = strings(&["branches.emptied"]);
        assert_eq!((status, problems(&report)), (1, expected), "{report:#}");
        let (status, report) = patient.doctor(&["--fix"]);
        assert_eq!((status, problems(&report)), (0, vec![]), "{report:#}");
        repo.git(["log", "--all", "--oneline"]);
        if has_reflog {
            assert_eq!(repo.git(["rev-parse", "origin/main"]), main);
        }
        repo.git(["fetch", "--quiet", "origin"]);
        assert_eq!(repo.git(["rev-parse", "origin/main"]), main);
    }
    assert!(copies.join("HEAD").exists() && copies.join(".DS_Store").exists());
}

#[test]
fn the_branch_that_is_gone_is_named_with_its_last_commit() {
    let patient = Patient::new();
    let tip = tip(&patient);
    let name = format!("refs/heads/{}", patient.branch);
    patient.repo.git(["update-ref", "-d", &name]);
    let (_, report) = patient.doctor(&[]);
    let expected = format!("git branch {} {tip}", patient.branch);
    let findings = report["findings"].as_array().expect("a list");
    assert!(findings.iter().any(|one| one["command"] == expected), "{report:#}");
}

#[test]
fn worktrees_and_branches_of_others_are_nobodys_business() {
    let patient = Patient::new();
    let theirs = patient.repo.path().join(".claude/worktrees/agent-0123abcd");
    let theirs = theirs.to_str().expect("UTF-8");
    patient.repo.git(["worktree", "add", "--quiet", "-b", "agent/theirs", theirs, "main"]);
    let (status, report) = patient.doctor(&["--fix"]);
    assert_eq!((status, problems(&report)), (0, vec![]), "{report:#}");
}

/// The status and the report while git says that it is of this version.
fn examine_with_git(version: &str) -> (i32, Value) {
    use std::os::unix::fs::PermissionsExt;
    let patient = Patient::new();
    let path = std::env::var("PATH").expect("PATH");
    let bin = tempfile::tempdir().expect("directory");
    let git = bin.path().join("git");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = version ] && echo git version {version} && exit\nPATH='{path}' exec git \"$@\"\n"
    );
    std::fs::write(&git, script).expect("write");
    std::fs::set_permissions(&git, std::fs::Permissions::from_mode(0o755)).expect("mode");
    let output = agent_command(&patient.repo.path())
        .env("PATH", format!("{}:{path}", bin.path().display()))
        .args(["doctor", "--format=json"])
        .output()
        .expect("starts");
    let report = serde_json::from_slice(&output.stdout).expect("JSON");
    (output.status.code().expect("a status"), report)
}

/// Without the hooks that a git from 2.54 on has put into the configuration, which an older one passes over.
fn problems_of_an_older_git(report: &Value) -> Vec<String> {
    let found = problems(report).into_iter();
    found.filter(|code| code != "hooks.inert").collect()
}

#[test]
fn an_old_git_is_noticed() {
    let (status, report) = examine_with_git("2.30.2");
    assert_eq!(problems_of_an_older_git(&report), ["git.too-old"], "{report:#}");
    assert_eq!(status, 1);
}

#[test]
fn what_an_older_git_is_spared_is_said() {
    let (status, report) = examine_with_git("2.40.1");
    let found = problems_of_an_older_git(&report);
    assert_eq!(found, Vec::<String>::new(), "{report:#}");
    assert_eq!(status, i32::from(!problems(&report).is_empty()));
    let findings = report["findings"].as_array().expect("a list");
    let said =
        findings.iter().find(|one| one["code"] == "git.falls-back").expect("information")["what"]
            .as_str()
            .expect("a text");
    assert!(said.contains("before 2.54") && said.contains("before 2.43"), "{said}");
}

#[test]
fn the_documentation_lists_every_finding() {
    let mut rows = String::new();
    for sign in Sign::ALL {
        let (name, weight) = (sign.name(), sign.weight().as_str());
        rows.push_str(&format!("| `{name}` | {weight} | {} |\n", sign.why()));
    }
    let head = "| code | weight | why it matters |\n|---|---|---|\n";
    crate::docs::generated::table_up_to_date("docs/doctor.md", head, &rows);
}

#[test]
fn a_worktree_whose_admin_directory_is_gone_gets_it_back_with_every_file() {
    let patient = Patient::new();
    std::fs::remove_dir_all(patient.admin()).expect("removed");
    let output = patient.repo.agent(&["commit", &patient.id, "-m", "not yet"]);
    crate::verify::refused(&output, "agent-state", 3);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("its admin directory") && said.contains("doctor --fix"), "{said}");
    // The files are there, and half of the work does not land.
    let judged = describe(&patient.repo.agent(&["verify", &patient.id]));
    assert!(judged.contains("work.unreadable") && judged.contains("doctor --fix"), "{judged}");
    let output = patient.repo.agent(&["merge", &patient.id]);
    crate::verify::refused(&output, "not-accepted", 3);
    let before = files(&patient.top);
    let (status, report) = patient.doctor(&[]);
    assert_eq!((status, problems(&report)), (1, strings(&["worktrees.admin-gone"])), "{report:#}");
    let (status, report) = patient.doctor(&["--fix"]);
    assert_eq!((status, problems(&report)), (0, vec![]), "{report:#}");
    assert_eq!(files(&patient.top), before);
    assert_eq!(
        git_in(&patient.top, ["status", "--porcelain"]),
        "?? src/staged.rs\n?? src/untracked.rs"
    );
    let fence = git_output(&patient.top, ["commit", "--allow-empty", "--quiet", "-m", "x"]);
    assert!(fence.status.success(), "{fence:?}");
    let trailer = ["log", "-1", "--format=%(trailers:key=Agent-Id,valueonly)"];
    assert_eq!(git_in(&patient.top, trailer).trim(), patient.id);
    patient.repo.agent_json(&["commit", &patient.id, "-m", "now"]);
    assert_eq!(git_in(&patient.top, ["status", "--porcelain"]), "");
    assert_sound(&patient.repo, "the admin directory");
    patient.repo.agent_json(&["discard", &patient.id]);
}

#[test]
fn an_admin_directory_that_lacks_files_gets_them_back() {
    for names in [&["gitdir"][..], &["commondir"], &["HEAD"], &["gitdir", "commondir"]] {
        let patient = Patient::new();
        let files: Vec<_> = names.iter().map(|name| patient.admin().join(name)).collect();
        let read = || files.iter().map(|file| std::fs::read(file).ok()).collect::<Vec<_>>();
        let before = read();
        for file in &files {
            if file.ends_with("HEAD") {
                std::fs::write(file, "").expect("emptied");
            } else {
                std::fs::remove_file(file).expect("removed");
            }
        }
        let output = patient.repo.agent(&["verify", &patient.id]);
        assert!(describe(&output).contains("work.unreadable"), "{names:?}: {}", describe(&output));
        let expected = (1, strings(&["worktrees.admin-gone"]));
        let (status, report) = patient.doctor(&[]);
        assert_eq!((status, problems(&report)), expected, "{names:?}: {report:#}");
        let (status, report) = patient.doctor(&["--fix"]);
        assert_eq!((status, problems(&report)), (0, vec![]), "{names:?}: {report:#}");
        assert_eq!(read(), before, "{names:?}");
    }
}

#[test]
fn a_file_in_the_place_of_a_worktree_is_to_be_moved_away() {
    let patient = Patient::new();
    std::fs::remove_dir_all(&patient.top).expect("removed");
    std::fs::write(&patient.top, "x\n").expect("written");
    let (status, report) = patient.doctor(&[]);
    let command = format!("mv {} <elsewhere>", patient.top.display());
    assert!(status == 1 && report.to_string().contains(&command), "{report:#}");
    std::fs::remove_file(&patient.top).expect("removed");
    let (status, report) = patient.doctor(&["--fix"]);
    assert_eq!((status, problems(&report)), (0, vec![]), "{report:#}");
}
