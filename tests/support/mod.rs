//! Real repositories in temporary directories, driven by the real `git`, with nothing of the
//! machine's own configuration or environment showing through.

pub mod agent;
pub mod death;
pub mod forge;
pub mod hub;
pub mod saved;
pub mod signing;
pub mod terminal;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

/// A repository of its own, removed when dropped.
pub struct TestRepo {
    dir: tempfile::TempDir,
}

impl TestRepo {
    /// An empty repository with branch `main`, without commits.
    pub fn empty() -> TestRepo {
        let repo = TestRepo { dir: tempfile::tempdir().expect("temporary directory") };
        std::fs::create_dir(repo.path()).expect("create the worktree");
        repo.git(["init", "--quiet", "--initial-branch=main"]);
        for directory in [".git/hooks", ".git/info"] {
            std::fs::create_dir(repo.path().join(directory)).expect("new");
        }
        repo
    }

    /// A repository with one commit on `main`: `README.md`, `src/lib.rs`, `src/bin/tool.rs`.
    pub fn with_commit() -> TestRepo {
        let repo = TestRepo::empty();
        repo.write("README.md", "# Test\n");
        repo.write("src/lib.rs", "pub fn one() -> u32 {\n    1\n}\n");
        repo.write("src/bin/tool.rs", "fn main() {}\n");
        repo.commit_all("first commit");
        repo
    }

    /// Makes a repository with one file beside this one, to be a submodule of it.
    pub fn make_inner(&self) -> PathBuf {
        let inner = self.path().with_file_name("inner");
        std::fs::create_dir(&inner).expect("made");
        git_in(&inner, ["init", "--quiet"]);
        std::fs::write(inner.join("file"), "content\n").expect("written");
        git_in(&inner, ["add", "file"]);
        git_in(&inner, ["commit", "--quiet", "-m", "inner"]);
        inner
    }

    /// The top of the main worktree, free of symlinks.
    pub fn path(&self) -> PathBuf {
        std::fs::canonicalize(self.dir.path()).expect("temporary directory").join("repo")
    }

    /// Remembers the repository and what lies beside it, as they are now.
    pub fn save(&self) -> saved::Saved {
        saved::Saved::of(self.path().parent().expect("above"))
    }

    /// Writes a file below the worktree, making its directories.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().expect("below the worktree")).expect("directories");
        std::fs::write(path, content).expect("write");
    }

    /// Commits everything and gives the commit's name.
    pub fn commit_all(&self, message: &str) -> String {
        self.git(["add", "--all"]);
        self.git(["commit", "--quiet", "--allow-empty", "-m", message]);
        self.git(["rev-parse", "HEAD"])
    }

    /// What `git fsck` has to say. The lock file of a ref that a kill has left is a ref with bad content for git 2.54.
    pub fn fsck(&self) -> String {
        let words = ["fsck", "--strict", "--no-progress", "--no-dangling"];
        let output = git_output(&self.path(), words);
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let lines = said.lines().filter(|line| !line.contains(".lock: badRefContent"));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Runs git in the main worktree, which must succeed; gives its trimmed standard output.
    pub fn git<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> String {
        git_in(&self.path(), arguments)
    }
}

impl Drop for TestRepo {
    fn drop(&mut self) {
        make_hooks_writable(self.dir.path());
    }
}

/// An agent's hooks are in a directory without write permission, which only root can empty.
fn make_hooks_writable(directory: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let agents = std::fs::read_dir(directory.join("repo/.git/agents"));
    for agent in agents.into_iter().flatten().flatten() {
        let writable = std::fs::Permissions::from_mode(0o755);
        let _ = std::fs::set_permissions(agent.path().join("hooks"), writable);
    }
}

/// What gets an agent's git past its own hooks: the directory of hooks is another one, and what the configuration names, from git 2.54
/// on, is off.
pub const PAST_HOOKS: [&str; 12] = [
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "hook.git-agent-pre-commit.enabled=false",
    "-c",
    "hook.git-agent-pre-merge-commit.enabled=false",
    "-c",
    "hook.git-agent-commit-msg.enabled=false",
    "-c",
    "hook.git-agent-reference-transaction.enabled=false",
    "-c",
    "hook.git-agent-pre-push.enabled=false",
];

/// Runs git in any directory, which must succeed; gives its trimmed standard output.
pub fn git_in<A: AsRef<OsStr>>(directory: &Path, arguments: impl IntoIterator<Item = A>) -> String {
    let output = git_output(directory, arguments);
    assert!(output.status.success(), "git failed: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// Runs git in any directory, whatever its status.
pub fn git_output<A: AsRef<OsStr>>(
    directory: &Path,
    arguments: impl IntoIterator<Item = A>,
) -> Output {
    isolated("git", directory).args(arguments).output().expect("git starts")
}

/// A command without the machine's configuration: no user or system git config, a fixed identity,
/// fixed dates, no repository variables.
pub fn isolated(program: impl AsRef<OsStr>, directory: &Path) -> Command {
    let program = program.as_ref();
    let mut command = Command::new(found(program));
    command.arg0(program).env_clear();
    // What a killed command of one test leaves there is nothing that a `doctor` of another should find.
    if let Some(temporary) = temporary_of(directory) {
        command.env("TMPDIR", temporary);
    }
    command
        .current_dir(directory)
        // Temporary files may lie in a repository, as those of a build do.
        .env("GIT_CEILING_DIRECTORIES", std::env::temp_dir())
        .env("PATH", &*PATH)
        .env("HOME", directory)
        .env("LC_ALL", "C")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_TEMPLATE_DIR", "")
        .env("GIT_AUTHOR_NAME", "A U Thor")
        .env("GIT_AUTHOR_EMAIL", "author@example.com")
        .env("GIT_COMMITTER_NAME", "C O Mitter")
        .env("GIT_COMMITTER_EMAIL", "committer@example.com");
    command
}

/// Where temporary files go for the commands of one test: beside its repository, in the directory that the test made for
/// itself. `None` for a directory elsewhere.
pub fn temporary_of(directory: &Path) -> Option<PathBuf> {
    let all = std::fs::canonicalize(std::env::temp_dir()).ok()?;
    let directory = std::fs::canonicalize(directory).ok()?;
    let own = directory.strip_prefix(&all).ok()?.components().next()?;
    let temporary = all.join(own).join("tmpdir");
    std::fs::create_dir_all(&temporary).ok()?;
    Some(temporary)
}

/// The machine's `PATH` without the places where a git-agent is installed, as long as git is not there too: the
/// tests bring their own.
static PATH: LazyLock<OsString> = LazyLock::new(|| {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let others = std::env::split_paths(&path)
        .filter(|place| !place.join("git-agent").exists() || place.join("git").exists());
    std::env::join_paths(others).expect("was joined before")
});

/// Where that `PATH` has a program; its name where it has none. The standard library forks for a name that another `PATH` than its
/// own is to find, and the memory of a process that runs many tests is slow to copy.
fn found(program: &OsStr) -> PathBuf {
    let is_name = Path::new(program).components().count() == 1;
    let mut places = std::env::split_paths(&*PATH).map(|place| place.join(program));
    let place = places.find(|place| is_name && place.is_file());
    place.unwrap_or_else(|| program.into())
}

/// Whether this signal was ignored where the tests were started, as nohup(1) has it (proc_pid_status(5), `SigIgn`).
pub fn is_ignored(signal: rustix::process::Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("readable");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = u64::from_str_radix(mask.expect("a mask").trim(), 16).expect("hex digits");
    mask & (1 << (signal.as_raw() - 1)) != 0
}

/// Lets others work before the next look at what they do: a loop without it takes a core from them.
pub fn pause() {
    std::thread::sleep(std::time::Duration::from_millis(2));
}

/// Every path below a directory with its content, to see that nothing changed. What is removed while it is read,
/// as a trash is in the background, is not in it.
pub fn snapshot(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let gone = |error: &walkdir::Error| {
        error.io_error().map(std::io::Error::kind) == Some(std::io::ErrorKind::NotFound)
    };
    walkdir::WalkDir::new(directory)
        .into_iter()
        .filter(|entry| !entry.as_ref().is_err_and(gone))
        .map(|entry| entry.expect("readable").into_path())
        .map(|path| {
            let content = std::fs::read(&path).unwrap_or_default();
            (path, content)
        })
        .collect()
}

/// Fails with the names of what was added, removed or changed.
pub fn assert_unchanged(
    before: &BTreeMap<PathBuf, Vec<u8>>,
    after: &BTreeMap<PathBuf, Vec<u8>>,
    who: &str,
) {
    let paths = before.keys().chain(after.keys());
    let changed: BTreeSet<_> = paths.filter(|path| before.get(*path) != after.get(*path)).collect();
    assert!(changed.is_empty(), "{who} touched {changed:?}");
}
