//! What git does not look into: directories that cannot be read, submodules.

use super::{Agent, codes, refused, report};
use crate::support::agent::{TASK, agent_command, describe};
use crate::support::{TestRepo, assert_unchanged, git_in, isolated, snapshot};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// Nobody's user and group on every Linux.
const NOBODY: &str = "65534";

/// Whether files that nobody may read can be read all the same.
fn reads_everything(directory: &Path) -> bool {
    let probe = directory.with_file_name("probe");
    fs::create_dir_all(&probe).expect("made");
    fs::set_permissions(&probe, fs::Permissions::from_mode(0o000)).expect("mode");
    fs::read_dir(&probe).is_ok()
}

/// A command of somebody who cannot read everything; `None` where nobody but such a one is here and
/// cannot be got rid of.
fn as_ordinary_user(agent: &Agent, arguments: &[&str]) -> Option<Command> {
    let main = agent.repo.path();
    let ours = agent_command(&main);
    if !reads_everything(&main) {
        let mut command = ours;
        command.args(arguments);
        return Some(command);
    }
    let above = main.parent().expect("a temporary directory");
    let owner = format!("{NOBODY}:{NOBODY}");
    let owned = Command::new("chown")
        .args(["-R", &owner])
        .arg(above)
        .status();
    let mut command = isolated("setpriv", &main);
    command
        .args([&format!("--reuid={NOBODY}"), &format!("--regid={NOBODY}")])
        .args(["--clear-groups", "--"])
        .arg(ours.get_program());
    let mut probe = isolated("setpriv", &main);
    let dropped = probe
        .args([&format!("--reuid={NOBODY}"), &format!("--regid={NOBODY}")])
        .args(["--clear-groups", "--"])
        .arg(ours.get_program())
        .arg("list")
        .status();
    let possible =
        owned.is_ok_and(|status| status.success()) && dropped.is_ok_and(|status| status.success());
    command.args(arguments);
    possible.then_some(command)
}

#[test]
fn a_directory_that_cannot_be_read_rejects() {
    let agent = Agent::new();
    agent.write("src/hidden/file", "x");
    agent.write("src/two.rs", "");
    let arguments = ["verify", &agent.id, "--format=json"];
    let Some(mut command) = as_ordinary_user(&agent, &arguments) else {
        return;
    };
    let hidden = agent.worktree.join("src/hidden");
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o000)).expect("mode");
    let answer = report(&command.output().expect("starts"));
    assert_eq!(codes(&answer), ["worktree.unreadable"], "{answer}");
    assert_eq!(answer["findings"][0]["path"], "src/hidden/");
    let tracked = agent.worktree.join("src/bin");
    fs::set_permissions(&tracked, fs::Permissions::from_mode(0o000)).expect("mode");
    let answer = report(&command.output().expect("starts"));
    assert_eq!(
        codes(&answer),
        ["worktree.unreadable", "worktree.unreadable"],
        "{answer}"
    );
    for directory in [&hidden, &tracked] {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).expect("mode");
    }
    let answer = report(&command.output().expect("starts"));
    assert_eq!(answer["verdict"], "accept", "{answer}");
}

/// An agent whose worktree has the submodule `src/sub` checked out.
fn with_submodule() -> Agent {
    let repo = TestRepo::with_commit();
    let inner = repo.path().with_file_name("inner");
    fs::create_dir(&inner).expect("made");
    git_in(&inner, ["init", "--quiet"]);
    fs::write(inner.join("file"), "content\n").expect("written");
    git_in(&inner, ["add", "file"]);
    git_in(&inner, ["commit", "--quiet", "-m", "inner"]);
    let allow = ["-c", "protocol.file.allow=always"];
    let add = [
        "submodule",
        "--quiet",
        "add",
        inner.to_str().expect("UTF-8"),
        "src/sub",
    ];
    repo.git([&allow[..], &add].concat());
    repo.commit_all("a submodule");
    let agent = Agent::spawned_in(repo, TASK);
    agent.write("src/two.rs", "");
    agent
}

fn populate(agent: &Agent) {
    let allow = ["-c", "protocol.file.allow=always"];
    let update = ["submodule", "--quiet", "update", "--init"];
    agent.git(&[&allow[..], &update].concat());
}

#[test]
fn files_in_a_submodule_are_not_left_behind_unseen() {
    let agent = with_submodule();
    assert_eq!(agent.codes(), [""; 0], "an empty directory");
    fs::write(agent.worktree.join("src/sub/stray"), "x").expect("written");
    assert_eq!(
        agent.codes(),
        ["worktree.submodule"],
        "no submodule is there"
    );
    fs::remove_file(agent.worktree.join("src/sub/stray")).expect("removed");
    populate(&agent);
    assert_eq!(agent.codes(), [""; 0], "a clean submodule");

    let inside = agent.worktree.join("src/sub");
    fs::write(inside.join("new"), "x").expect("written");
    git_in(&inside, ["config", "status.showUntrackedFiles", "no"]);
    let answer = agent.verify(&[]);
    assert_eq!(codes(&answer), ["worktree.submodule"]);
    assert_eq!(answer["findings"][0]["path"], "src/sub");
    fs::remove_file(inside.join("new")).expect("removed");
    fs::write(inside.join("file"), "changed\n").expect("written");
    assert_eq!(agent.codes(), ["worktree.submodule"]);
    git_in(&inside, ["add", "file"]);
    assert_eq!(agent.codes(), ["worktree.submodule"]);
    // The new commit is a change of the path itself, which is in scope.
    git_in(&inside, ["commit", "--quiet", "-m", "changed"]);
    let answer = agent.verify(&[]);
    assert_eq!(answer["verdict"], "accept", "{answer}");
    assert_eq!(answer["uncommitted"], 2);
}

#[test]
fn a_file_that_is_too_long_is_named_with_its_length_and_the_limit() {
    let agent = Agent::new();
    agent.write("src/huge.bin", "");
    let file = std::fs::File::options()
        .append(true)
        .open(agent.worktree.join("src/huge.bin"));
    file.and_then(|file| file.set_len(3 << 30))
        .expect("a sparse file");
    let said = "src/huge.bin is 3221225472 bytes long, and the limit is 2147483648 bytes";
    let output = agent.repo.agent(&["diff", &agent.id]);
    super::refused(&output, "file-too-long", 4);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains(said), "{error}");
    let report = agent.verify(&[]);
    assert_eq!(super::codes(&report), ["work.unreadable"]);
    let message = report["findings"][0]["message"]
        .as_str()
        .expect("a message");
    assert!(message.ends_with(said), "{message}");
}

#[test]
fn a_repository_that_cannot_be_written_is_looked_at_and_a_verdict_for_it_refused() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    let Some(mut verify) = as_ordinary_user(&agent, &["verify", &agent.id]) else {
        return;
    };
    let chmod = |mode: &str| {
        let git_dir = agent.repo.path().join(".git");
        let changed = Command::new("chmod")
            .args(["-R", mode])
            .arg(git_dir)
            .status();
        assert!(changed.expect("chmod starts").success());
    };
    let before = snapshot(&agent.repo.path());
    chmod("a-w");
    let refusal = verify.output().expect("starts");
    let looks = [
        &["list"][..],
        &["show", &agent.id],
        &["merge", &agent.id, "--dry-run"],
    ];
    let looked = looks.map(|words| {
        let mut look = as_ordinary_user(&agent, words).expect("as before");
        look.output().expect("starts")
    });
    chmod("u+w");
    refused(&refusal, "repo-read-only", 4);
    for (words, output) in looks.iter().zip(looked) {
        assert!(output.status.success(), "{words:?}: {}", describe(&output));
    }
    assert_unchanged(&before, &snapshot(&agent.repo.path()), "looks");
    // What was refused works as soon as it can be recorded.
    let mut verify = as_ordinary_user(&agent, &["verify", &agent.id]).expect("as before");
    let output = verify.output().expect("starts");
    assert!(output.status.success(), "{}", describe(&output));
}
