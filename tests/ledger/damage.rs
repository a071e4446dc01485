//! What a power loss, a killed process or a foreign writer can do, and that nothing is lost by it.

use super::{at, noted, oid, open};
use crate::support::agent::TASK;
use crate::support::{TestRepo, git_in, git_output};
use git_agent::domain::value::oid::Oid;
use git_agent::error::Code;
use git_agent::git::Repo;
use git_agent::store::files::{layout, lock};
use git_agent::store::ledger::Ledger;
use git_agent::store::{chain, chain::keep};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Appends one remark to each of these rows.
fn append(repo: &Repo, numbers: std::ops::Range<usize>) {
    for number in numbers {
        Ledger::new(repo).append(oid(number), "me", noted("x"), at(0)).expect("append");
    }
}

fn rows(repo: &Repo) -> usize {
    Ledger::new(repo).agents().expect("read").len()
}

/// The loose file of an object.
fn loose(git_dir: &Path, oid: &str) -> PathBuf {
    git_dir.join("objects").join(&oid[..2]).join(&oid[2..])
}

fn overwrite(path: &Path, content: &[u8]) {
    std::fs::remove_file(path).expect("remove");
    std::fs::write(path, content).expect("write");
}

/// Damages a ledger of five rows in some way, then expects to read `left` rows and to write on.
fn check(what: &str, left: usize, damage: impl Fn(&TestRepo, &Path)) {
    let test = TestRepo::with_commit();
    append(&open(&test), 0..5);
    damage(&test, &test.path().join(".git"));
    let repo = open(&test);
    assert_eq!(rows(&repo), left, "{what}: read");
    append(&repo, 5..6);
    assert_eq!(rows(&open(&test)), left + 1, "{what}: written on");
    let note = ["notes", "--ref=agents", "show"];
    test.git(note.into_iter().chain([oid(5).to_hex().as_str()]));
}

#[test]
fn a_damaged_ledger_is_recovered_and_never_reset() {
    check("nothing", 5, |_, _| {});
    check("empty ref file", 5, |_, git| {
        overwrite(&git.join(layout::LEDGER_REF), b"");
    });
    check("garbled ref file", 5, |_, git| {
        overwrite(&git.join(layout::LEDGER_REF), &[0; 41]);
    });
    check("zero oid in the ref file", 5, |_, git| {
        overwrite(&git.join(layout::LEDGER_REF), format!("{}\n", Oid::ZERO).as_bytes());
    });
    check("lost ref file", 5, |_, git| {
        std::fs::remove_file(git.join(layout::LEDGER_REF)).expect("remove");
    });
    check("zero-length tip", 4, |test, git| {
        let tip = test.git(["rev-parse", layout::LEDGER_REF]);
        overwrite(&loose(git, &tip), b"");
    });
    check("missing tip and tree of the one before", 3, |test, git| {
        let names = test.git(["rev-parse", "refs/notes/agents", "refs/notes/agents~1^{tree}"]);
        for oid in names.lines() {
            std::fs::remove_file(loose(git, oid)).expect("remove");
        }
    });
    check("missing tree", 4, |test, git| {
        let tree = test.git(["rev-parse", "refs/notes/agents^{tree}"]);
        std::fs::remove_file(loose(git, &tree)).expect("remove");
    });
    check("garbled end of the reflog", 5, |_, git| {
        overwrite(&git.join(layout::LEDGER_REF), b"");
        let log = git.join("logs").join(layout::LEDGER_REF);
        let mut content = std::fs::read(&log).expect("reflog");
        content.extend_from_slice(&[0; 200]);
        overwrite(&log, &content);
    });
}

#[test]
fn an_append_that_was_killed_before_its_last_step_is_finished() {
    let test = TestRepo::with_commit();
    append(&open(&test), 0..4);
    let ledger = test.path().join(".git").join(layout::LEDGER_REF);
    let before = std::fs::read(&ledger).expect("the ref");
    append(&open(&test), 4..5);
    // What a kill between the line in the reflog and the rename of the ref leaves.
    overwrite(&ledger, &before);
    assert_eq!(rows(&open(&test)), 4);
    append(&open(&test), 5..6);
    assert_eq!(rows(&open(&test)), 6);
    let repo = open(&test);
    let foreign = chain::foreign_writes(&repo).expect("looked");
    assert_eq!(foreign, chain::Foreign::default());
    // One of another program is not.
    let before = std::fs::read(&ledger).expect("the ref");
    let object = oid(0).to_hex();
    test.git(["notes", "--ref=agents", "append", "-m", "x", &object]);
    overwrite(&ledger, &before);
    append(&open(&test), 6..7);
    let parent = test.git(["rev-parse", &format!("{}^", layout::LEDGER_REF)]);
    assert_eq!(parent.as_bytes(), before.trim_ascii());
    // One that somebody took back is not.
    let latest = test.git(["rev-parse", layout::LEDGER_REF]);
    let parent = test.git(["rev-parse", &format!("{latest}^")]);
    test.git(["update-ref", layout::LEDGER_REF, &parent]);
    append(&repo, 7..8);
    assert_eq!(rows(&open(&test)), 7);
}

#[test]
fn what_another_program_wrote_is_of_a_chain_only_where_notes_are_its_content() {
    use chain::Chain;
    let test = TestRepo::with_commit();
    append(&open(&test), 0..1);
    let object = oid(0).to_hex();
    test.git(["notes", "--ref=agents", "append", "-m", "x", &object]);
    let foreign = test.git(["rev-parse", layout::LEDGER_REF]);
    let foreign = Oid::from_hex(&foreign).expect("an oid");
    let chains = [Chain::Keep, Chain::Ledger, Chain::Mail, Chain::Receipts];
    let is_of = chains.map(|chain| chain::is_of_chain(&open(&test), chain, foreign));
    assert_eq!(is_of, [false, true, false, true]);
}

#[test]
fn a_bare_repository_is_recovered_too() {
    let directory = tempfile::tempdir().expect("directory");
    git_in(directory.path(), ["init", "--quiet", "--bare"]);
    let repo = Repo::open(directory.path()).expect("open");
    append(&repo, 0..3);
    keep::keep(&repo, &[], "test", at(0)).expect("keep");
    overwrite(&repo.common_dir().join(layout::LEDGER_REF), b"");
    append(&repo, 3..5);
    assert_eq!(rows(&repo), 5);
    let log = git_in(directory.path(), ["reflog", "show", layout::LEDGER_REF]);
    assert_eq!(log.lines().count(), 5);
    let log = git_in(directory.path(), ["reflog", "show", layout::KEEP_REF]);
    assert_eq!(log.lines().count(), 1);
}

#[test]
fn a_ledger_without_anything_readable_is_an_error() {
    let test = TestRepo::with_commit();
    append(&open(&test), 0..1);
    let git = test.path().join(".git");
    overwrite(&git.join(layout::LEDGER_REF), b"");
    std::fs::remove_file(git.join("logs").join(layout::LEDGER_REF)).expect("remove");
    let repo = open(&test);
    let ledger = Ledger::new(&repo);
    let error = ledger.agents().expect_err("damaged");
    assert_eq!(error.code(), Code::RepoCorrupt);
    let error = ledger.append(oid(1), "me", noted("x"), at(0)).expect_err("damaged");
    assert_eq!(error.code(), Code::RepoCorrupt);
    assert_eq!(std::fs::read(git.join(layout::LEDGER_REF)).expect("ref"), b"");
}

#[test]
fn a_deleted_ledger_begins_anew() {
    let test = TestRepo::with_commit();
    append(&open(&test), 0..3);
    test.git(["update-ref", "-d", layout::LEDGER_REF]);
    let repo = open(&test);
    assert_eq!(rows(&repo), 0);
    append(&repo, 3..4);
    assert_eq!(rows(&repo), 1);
}

#[test]
fn the_keep_chain_goes_on_after_damage() {
    let test = TestRepo::with_commit();
    let head = Oid::from_hex(&test.git(["rev-parse", "HEAD"])).expect("oid");
    let repo = open(&test);
    for _ in 0..3 {
        keep::keep(&repo, &[head], "test", at(0)).expect("keep");
    }
    let git = test.path().join(".git");
    let tip = test.git(["rev-parse", layout::KEEP_REF]);
    overwrite(&loose(&git, &tip), b"");
    let repo = open(&test);
    keep::keep(&repo, &[head], "test", at(1)).expect("keep");
    std::fs::remove_file(loose(&git, &tip)).expect("remove");
    let count = ["rev-list", "--count", "--grep=^agent: keep", layout::KEEP_REF];
    assert_eq!(test.git(count), "3");
}

#[test]
fn a_ref_lock_of_another_program_stays_however_old_it_is() {
    let test = TestRepo::with_commit();
    // How long git itself would wait.
    test.git(["config", "core.filesRefLockTimeout", "100"]);
    let repo = open(&test);
    append(&repo, 0..1);
    let lock = repo.ref_lock_path(layout::LEDGER_REF);
    let file = File::create(&lock).expect("lock");
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    file.set_modified(long_ago).expect("age");
    let output = test.agent(&["spawn", &test.task_file(TASK)]);
    crate::verify::refused(&output, "lock-timeout", 5);
    assert!(lock.exists());
    std::fs::remove_file(&lock).expect("removed");
    append(&repo, 1..2);
    assert_eq!(rows(&repo), 2);
}

#[test]
fn a_lock_is_waited_for_and_given_up() {
    let test = TestRepo::with_commit();
    let common_dir = test.path().join(".git");
    let guard = lock::hold(&common_dir, layout::LEDGER_LOCK).expect("hold");
    let patience = Duration::from_millis(1);
    let error = lock::hold_for(&common_dir, layout::LEDGER_LOCK, patience).expect_err("held");
    assert_eq!(error.code(), Code::LockTimeout);
    assert!(error.message().ends_with("agents/ledger.lock"), "{error}");
    drop(guard);
    // The waiter that gave up must not keep the lock that it got too late.
    drop(lock::hold(&common_dir, layout::LEDGER_LOCK).expect("free"));
    drop(lock::hold(&common_dir, layout::LEDGER_LOCK).expect("free"));
}

#[test]
fn a_storm_of_foreign_appends_is_repaired() {
    let test = TestRepo::with_commit();
    let path = test.path();
    let commits: Vec<String> = (0..12).map(|n| test.commit_all(&format!("c{n}"))).collect();
    let appended = std::thread::scope(|scope| {
        let storm = scope.spawn(|| {
            let append = ["notes", "--ref=agents", "append", "-m", "by hand"];
            // Some fail on our ref lock, which is theirs to retry.
            let commits = commits.iter().cycle().take(60);
            commits
                .filter(|commit| {
                    let output = git_output(&path, append.iter().copied().chain([commit.as_str()]));
                    output.status.success()
                })
                .count()
        });
        let mut appended = 0;
        while !storm.is_finished() {
            append(&open(&test), appended..appended + 1);
            appended += 1;
        }
        assert!(storm.join().expect("storm") > 0);
        appended
    });
    let repo = open(&test);
    let restored = chain::restore_foreign(&repo, at(1)).expect("restore");
    assert!(restored.foreign > 0);
    assert_eq!(rows(&repo), appended);
    let again = chain::restore_foreign(&repo, at(1)).expect("restore");
    assert!(!again.changed);
    assert_eq!(test.git(["fsck", "--strict", "--no-dangling"]), "");
}

#[test]
fn lines_that_a_foreign_commit_dropped_come_back() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    append(&repo, 0..3);
    let old = test.git(["rev-parse", "refs/notes/agents~2^{tree}"]);
    // A foreign commit on our tip with an older tree, then one of ours on top of it.
    let drop = test.git(["commit-tree", "-p", layout::LEDGER_REF, "-m", "drop", &old]);
    test.git(["update-ref", layout::LEDGER_REF, &drop]);
    append(&repo, 3..4);
    assert_eq!(rows(&repo), 2);
    let restored = chain::restore_foreign(&repo, at(1)).expect("restore");
    assert!(restored.changed);
    assert_eq!((restored.foreign, rows(&repo)), (1, 4));
}

#[test]
fn places_that_cannot_be_written_are_named() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    // A file where the directory must be stands for every refusal; root ignores permissions.
    let agents = layout::agents_dir(repo.common_dir());
    std::fs::write(&agents, "").expect("write");
    let error =
        Ledger::new(&repo).append(oid(0), "me", noted("x"), at(0)).expect_err("no directory");
    assert_eq!(error.code(), Code::Io);
    assert!(error.message().contains("/agents"), "{error}");
    assert_eq!(rows(&repo), 0);
    assert_eq!(test.git(["for-each-ref", "refs/notes"]), "");
}

#[test]
fn an_object_that_a_power_loss_left_empty_is_written_again() {
    let repository = TestRepo::empty();
    let directory = repository.path();
    let repo = Repo::open(&directory).expect("opens");
    let oid = repo.write_blob(b"kept\n").expect("written");
    let hex = oid.to_hex();
    let (start, rest) = hex.split_at(2);
    let objects = directory.join(".git/objects");
    let file = objects.join(start).join(rest);
    std::fs::remove_file(&file).expect("removed");
    std::fs::write(&file, "").expect("emptied");
    // Several commands may come upon it at once.
    let barrier = std::sync::Barrier::new(4);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let repo = Repo::open(&directory).expect("opens");
                barrier.wait();
                assert_eq!(repo.write_blob(b"kept\n").expect("written"), oid);
                assert_eq!(repo.read_blob(oid).expect("read"), b"kept\n");
            });
        }
    });
    git_in(&directory, ["fsck", "--strict"]);
    let left = std::fs::read_dir(objects).expect("read").flatten();
    let left = left.filter(|entry| entry.file_name().to_string_lossy().starts_with("tmp_"));
    assert_eq!(left.count(), 0);
}
