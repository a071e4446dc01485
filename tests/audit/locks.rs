//! Locks that killed processes leave: ours are cleared by the next command that looks, those of others stay.

use crate::support::agent::{TASK, agent_command, describe};
use crate::support::{TestRepo, git_in, isolated};
use crate::verify::{Agent, refused};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use walkdir::WalkDir;

/// The hooks that `git commit` runs, and so the moments in which it can be killed.
const MOMENTS: [&str; 6] = [
    "pre-commit",
    "prepare-commit-msg",
    "commit-msg",
    "reference-transaction",
    "post-commit",
    "post-index-change",
];

/// The lock files of git's in a repository: ours have no such names outside of `agents`.
fn locks(agent: &Agent) -> Vec<PathBuf> {
    let git_dir = agent.repo.path().join(".git");
    let entries = WalkDir::new(&git_dir).into_iter();
    let files = entries.map(|entry| entry.expect("readable").into_path());
    let shown = files.map(|path| path.strip_prefix(&git_dir).expect("below").to_owned());
    shown
        .filter(|path| path.extension().is_some_and(|end| end == "lock"))
        .filter(|path| !path.starts_with("agents"))
        .collect()
}

/// A hook of the repository that kills the process group while a file says its name.
fn deadly_hook(repo: &TestRepo, name: &str) {
    let git_dir = repo.path().join(".git");
    let hook = git_dir.join("hooks").join(name);
    let condition = match name {
        "reference-transaction" => "[ \"$1\" = prepared ] || exit 0\n",
        _ => "",
    };
    let said = git_dir.join("kill");
    let text = format!(
        "#!/bin/sh\n{condition}[ \"$(cat '{}' 2>/dev/null)\" = {name} ] || exit 0\nkill -9 0\n",
        said.display()
    );
    fs::create_dir_all(git_dir.join("hooks")).expect("made");
    fs::write(&hook, text).expect("written");
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).expect("executable");
}

/// Runs a command that a hook kills, with everything in its process group.
fn killed(agent: &Agent, moment: &str, mut command: Command) {
    let said = agent.repo.path().join(".git/kill");
    fs::write(&said, moment).expect("written");
    let output = command.process_group(0).output().expect("starts");
    let text = describe(&output);
    assert_eq!(output.status.code(), None, "{moment}: {text}");
    fs::remove_file(said).expect("removed");
}

fn commit_command(agent: &Agent) -> Command {
    let mut command = agent_command(&agent.repo.path());
    command.args(["commit", &agent.id, "-m", "Add it"]);
    command
}

#[test]
fn f13_a_commit_that_is_killed_at_any_hook_leaves_no_lock() {
    let repo = TestRepo::with_commit();
    for moment in MOMENTS {
        deadly_hook(&repo, moment);
    }
    let agent = Agent::spawned_in(repo, TASK);
    let mut by_git = Vec::new();
    for moment in MOMENTS {
        agent.write("src/two.rs", format!("// {moment}\n"));
        // Git leaves its locks there.
        let mut plain = isolated("git", &agent.worktree);
        plain.args(["commit", "--quiet", "-am", "plain"]);
        git_in(&agent.worktree, ["add", "src/two.rs"]);
        killed(&agent, moment, plain);
        for lock in locks(&agent) {
            by_git.push(lock.file_name().expect("a name").to_owned());
            fs::remove_file(agent.repo.path().join(".git").join(lock)).expect("removed");
        }
        git_in(&agent.worktree, ["reset", "--quiet"]);
        // Ours leaves none, or the next command clears it.
        agent.write("src/two.rs", format!("// {moment}, ours\n"));
        killed(&agent, moment, commit_command(&agent));
        agent.repo.agent(&["verify", &agent.id]);
        assert_eq!(locks(&agent), Vec::<PathBuf>::new(), "{moment}");
        let again = commit_command(&agent).output().expect("starts");
        assert!(matches!(again.status.code(), Some(0 | 1)), "{}", describe(&again));
        assert_eq!(agent.git(&["status", "--porcelain"]), "", "committed after {moment}");
    }
    let fsck = ["fsck", "--strict", "--no-progress", "--no-dangling"];
    assert_eq!(agent.repo.git(fsck), "");
    let branch = agent.branch.rsplit('/').next().expect("a name");
    for name in ["index.lock", "HEAD.lock", &format!("{branch}.lock")] {
        assert!(by_git.iter().any(|left| left == name), "{name}: {by_git:?}");
    }
}

#[test]
fn f13_a_discard_that_is_killed_over_the_configuration_leaves_no_lock() {
    let agent = Agent::new();
    let (root, config_lock) = (agent.repo.path(), PathBuf::from("config.lock"));
    let described = format!("branch.{}.description", agent.branch);
    agent.repo.git(["config", &described, "a section of its own"]);
    // A git that is killed, with what started it, when it is to remove the section.
    let found = Command::new("sh").args(["-c", "command -v git"]).output();
    let git = String::from_utf8(found.expect("starts").stdout).expect("UTF-8");
    let programs = root.with_file_name("programs");
    fs::create_dir(&programs).expect("made");
    let text = format!(
        "#!/bin/sh\ncase \"$*\" in *--remove-section*) kill -9 0 ;; esac\nexec {} \"$@\"\n",
        git.trim()
    );
    fs::write(programs.join("git"), text).expect("written");
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(programs.join("git"), executable).expect("executable");
    let path = std::env::var("PATH").expect("UTF-8");
    let mut discard = agent_command(&root);
    discard
        .args(["discard", &agent.id])
        .env("PATH", format!("{}:{path}", programs.display()))
        .process_group(0);
    let output = discard.output().expect("starts");
    assert_eq!(output.status.code(), None, "{}", describe(&output));
    assert_eq!(locks(&agent), [config_lock]);
    agent.repo.agent(&["doctor", "--fix"]);
    assert_eq!(locks(&agent), Vec::<PathBuf>::new());
    agent.repo.agent_json(&["discard", &agent.id]);
    agent.repo.git(["config", "user.name", "can be written"]);
}

#[test]
fn a_discard_removes_what_is_configured_for_the_branch() {
    let agent = Agent::new();
    let described = format!("branch.{}.description", agent.branch);
    agent.repo.git(["config", &described, "a section of its own"]);
    agent.repo.agent_json(&["discard", &agent.id]);
    let config = fs::read_to_string(agent.repo.path().join(".git/config")).expect("readable");
    assert!(!config.contains("[branch"), "{config}");
}

/// A landing that waits in a filter of the user's, while it holds the index of the main worktree.
struct Landing {
    agent: Agent,
    gate: PathBuf,
    filter: i32,
    process: std::process::Child,
}

impl Landing {
    fn begun() -> Landing {
        let agent = Agent::new();
        let root = agent.repo.path();
        agent.write("src/two.rs", "pub fn two() {}\n");
        agent.commit("two");
        let (gate, pid) = (root.join(".git/gate"), root.join(".git/pid"));
        fs::write(&gate, "").expect("written");
        let filter = format!(
            "echo $$ > '{pid}.new'; mv '{pid}.new' '{pid}'; while [ -e '{gate}' ]; do sleep 0.02; done; cat",
            pid = pid.display(),
            gate = gate.display()
        );
        agent.repo.git(["config", "filter.wait.smudge", &filter]);
        fs::write(root.join(".git/info/attributes"), "src/two.rs filter=wait\n").expect("written");
        let mut process = agent_command(&root)
            .args(["merge", &agent.id])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        while !pid.exists() {
            let ended = process.try_wait().expect("a child");
            assert_eq!(ended, None, "it landed without the filter");
            crate::support::pause();
        }
        let text = fs::read_to_string(&pid).expect("a pid");
        Landing { agent, gate, filter: text.trim().parse().expect("a number"), process }
    }

    fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        let done = Command::new("kill").args([name, &pid]).status();
        assert!(done.expect("starts").success());
    }
}

fn index_lock(agent: &Agent) -> PathBuf {
    agent.repo.path().join(".git/index.lock")
}

#[test]
fn f13_a_lock_counts_as_left_when_the_git_that_was_started_is_dead_too() {
    let mut landing = Landing::begun();
    assert!(index_lock(&landing.agent).exists());
    // A process that is stopped is alive.
    landing.signal("-STOP");
    landing.agent.repo.agent(&["doctor", "--fix"]);
    assert!(index_lock(&landing.agent).exists(), "stopped");
    // The one that holds the lock is dead, but its git still writes files.
    landing.process.kill().expect("killed");
    landing.process.wait().expect("ended");
    landing.agent.repo.agent(&["doctor", "--fix"]);
    assert!(index_lock(&landing.agent).exists(), "its git is alive");
    fs::remove_file(&landing.gate).expect("removed");
    let proc = PathBuf::from(format!("/proc/{}", landing.filter));
    while proc.exists() || is_git_at_work(&landing.agent.repo.path()) {
        crate::support::pause();
    }
    let fixed = landing.agent.repo.agent(&["doctor", "--fix"]);
    assert!(!index_lock(&landing.agent).exists(), "{}", describe(&fixed));
    assert_eq!(locks(&landing.agent), Vec::<PathBuf>::new());
    let id = landing.agent.id.clone();
    let merged = landing.agent.repo.agent_json(&["merge", &id]);
    assert_eq!(merged["outcome"], "merged");
    assert_eq!(landing.agent.repo.git(["status", "--porcelain"]), "");
}

/// Whether a git of the killed landing still works in the main worktree.
fn is_git_at_work(root: &Path) -> bool {
    let processes = fs::read_dir("/proc").expect("readable").flatten();
    let mut names = processes.map(|process| process.path());
    names.any(|process| {
        let is_git = fs::read_to_string(process.join("comm")).is_ok_and(|name| name == "git\n");
        is_git && fs::read_link(process.join("cwd")).is_ok_and(|directory| directory == root)
    })
}

#[test]
fn f13_the_lock_of_another_program_is_never_taken() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    let admin_dir = PathBuf::from(agent.git(&["rev-parse", "--absolute-git-dir"]));
    let branch = format!("{}.lock", agent.repo.path().join(".git").join(full(&agent)).display());
    for lock in [admin_dir.join("index.lock"), branch.into()] {
        // It stays open: `doctor --fix` takes away one that is ten seconds old and that no process has open.
        let _held = fs::File::create(&lock).expect("locked");
        let output = commit_command(&agent).output().expect("starts");
        refused(&output, "lock-timeout", 5);
        agent.repo.agent(&["doctor", "--fix"]);
        fs::remove_file(&lock).expect("still there");
    }
    let output = commit_command(&agent).output().expect("starts");
    assert!(output.status.success(), "{}", describe(&output));
}

/// What a power loss leaves of a lock file of ours: the names, and nothing in the note.
#[test]
fn f13_a_lock_whose_note_a_power_loss_emptied_is_cleared() {
    let agent = Agent::new();
    let git_dir = agent.repo.path().join(".git");
    let notes = git_dir.join("agents/locks");
    fs::create_dir_all(&notes).expect("made");
    let lost =
        [("1-0", "refs/agents/keep.lock"), ("1-1", "index.lock"), ("1-2", "refs/heads/main.lock")];
    for (note, lock) in lost {
        fs::write(notes.join(note), "").expect("written");
        let body = notes.join(format!("{note}.body"));
        fs::write(&body, "").expect("written");
        fs::hard_link(&body, git_dir.join(lock)).expect("linked");
    }
    // One that no note of ours is a name of is another program's.
    fs::write(git_dir.join("refs/notes/mine.lock"), "").expect("written");
    agent.repo.agent_json(&["spawn", "-m", "a task of another agent"]);
    assert_eq!(locks(&agent), [PathBuf::from("refs/notes/mine.lock")]);
    assert_eq!(fs::read_dir(&notes).expect("there").count(), 0);
}

fn full(agent: &Agent) -> String {
    agent.git(&["symbolic-ref", "HEAD"])
}
