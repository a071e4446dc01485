//! The one error type: a stable code, what failed and on what, why, and what to do next.
//!
//! Every layer builds [`Error`]s; only `cli` prints them. The code decides the exit status, so the
//! place that fails also decides what the calling script sees. Messages are lower case, name their
//! object and carry no final full stop; a [`hint`](Error::hint) ends with a command to run.

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::path::PathBuf;

/// Declares an enum of stable codes. Each line has a variant, the name that users and scripts see, the grade, and the
/// sentence, which is the variant's documentation, too.
macro_rules! codes {
    (
        $(#[$about:meta])* pub enum $code:ident;
        $(#[$grades:meta])* pub fn $grade:ident -> $of:ident;
        $(#[$says:meta])* pub fn $sentence:ident;
        $($variant:ident, $name:literal, $value:ident, $text:literal;)*
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum $code {
            $(#[doc = $text] $variant,)*
        }

        impl $code {
            /// All of them, in the order of the documentation.
            pub const ALL: &'static [$code] = &[$($code::$variant,)*];

            /// The name that users and scripts see.
            pub fn name(self) -> &'static str {
                match self { $($code::$variant => $name,)* }
            }

            $(#[$grades])*
            pub fn $grade(self) -> $of {
                match self { $($code::$variant => $of::$value,)* }
            }

            $(#[$says])*
            pub fn $sentence(self) -> &'static str {
                match self { $($code::$variant => $text,)* }
            }
        }

        impl std::fmt::Display for $code {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

pub(crate) use codes;

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What a process of ours ends with (the table of exit codes in README.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Exit {
    /// Done, yes, accepted, in scope.
    Yes,
    /// The answer is no: rejected, out of scope, nothing to receive.
    No,
    /// Usage, invalid task, unknown agent or role.
    Usage,
    /// A hook's no to an agent host, which knows it by this number.
    Denied,
    /// Refused, to protect work.
    Refused,
    /// The environment: git, the file system, an unsupported repository.
    Environment,
    /// A lost race, or a lock waited for too long: try again.
    TryAgain,
    /// A bug in this program.
    Bug,
    /// A command cannot be run, as a shell says it.
    NotRunnable,
    /// A command does not exist, as a shell says it.
    NotFound,
    /// The status of a child process, passed on.
    Child(u8),
}

impl Exit {
    /// The status of an answer that is yes or no.
    pub fn answer(is_yes: bool) -> Exit {
        if is_yes { Exit::Yes } else { Exit::No }
    }

    /// The number given to the operating system.
    pub fn code(self) -> u8 {
        match self {
            Exit::Yes => 0,
            Exit::No => 1,
            Exit::Usage | Exit::Denied => 2,
            Exit::Refused => 3,
            Exit::Environment => 4,
            Exit::TryAgain => 5,
            Exit::Bug => 70,
            Exit::NotRunnable => 126,
            Exit::NotFound => 127,
            Exit::Child(code) => code,
        }
    }
}

codes! {
    /// Stable names of everything that can go wrong. Never reused, never renamed.
    pub enum Code;
    /// The exit status that an error with this code ends in.
    pub fn exit -> Exit;
    /// What the code means, in one line.
    pub fn meaning;

    Usage, "usage", Usage, "The command line does not add up.";
    TaskUnreadable, "task-unreadable", Usage, "A task file could not be read.";
    TaskInvalid, "task-invalid", Usage, "A task file breaks one or more rules; all of them are listed.";
    ScopeUnmatched, "scope-unmatched", Usage, "A glob of a typed scope matches nothing in the base.";
    RoleUnknown, "role-unknown", Usage, "No role of that name is built in or defined in the base commit.";
    RoleInvalid, "role-invalid", Usage, "A role file in the base commit breaks a rule.";
    SettingsInvalid, "settings-invalid", Usage, "The settings file of the repository, in the base commit, breaks one or more rules.";
    AgentTypeUnknown, "agent-type-unknown", Usage, "No roster or profile has that agent type, or several have it.";
    RosterInvalid, "roster-invalid", Usage, "A roster of agent types, or a file of one, cannot be read.";
    PromptExposed, "prompt-exposed", Usage, "The prompt would stand where every process of the machine can read it.";
    OutputOutside, "output-outside", Usage, "An output file would be outside of the output directory.";
    OutputExists, "output-exists", Refused, "The output file exists already.";
    RoleNotSpawnable, "role-not-spawnable", Usage, "The role exists but may not be given to an agent.";
    AgentUnknown, "agent-unknown", Usage, "No agent goes by that id, name, branch or path, or a commit is on no agent's branch.";
    AgentAmbiguous, "agent-ambiguous", Usage, "More than one agent goes by that prefix or name.";
    AgentNeedsNewer, "agent-needs-newer", Environment, "An event of the agent's row is understood by a newer git-agent alone.";
    AgentBusy, "agent-busy", Refused, "Something is at work in the agent, so it is not landed or amended; a landing takes what is there with --now.";
    AgentState, "agent-state", Refused, "The agent is not in a state that allows this.";
    MessageInvalid, "message-invalid", Usage, "A message breaks one or more rules; all of them are listed.";
    MessageUnknown, "message-unknown", Usage, "There is no message with that id, or it is for another reader.";
    EventTooLong, "event-too-long", Usage, "A fact does not fit into a line of the ledger.";
    BaseNotCommit, "base-not-commit", Usage, "A revision, such as the base, names no commit of this repository.";
    NoTarget, "no-target", Usage, "The agent started at no branch of this clone, so it has none to land on.";
    HeadUnborn, "head-unborn", Environment, "HEAD points at a branch without commits.";
    BranchInvalid, "branch-invalid", Usage, "That is no valid branch name for an agent.";
    BranchGone, "branch-gone", Environment, "The agent's branch does not exist any more.";
    BranchForeign, "branch-foreign", Refused, "The branch that a row names is not proved to be the agent's.";
    BranchExists, "branch-exists", Refused, "The branch exists already.";
    PathInvalid, "path-invalid", Usage, "A worktree cannot be at that path.";
    PathExists, "path-exists", Refused, "Something is at that path already.";
    HookRefused, "hook-refused", Refused, "A git hook refused it: one of the repository, or the one that keeps an agent's worktree to its own branch.";
    OrchestratorOnly, "orchestrator-only", Refused, "An agent tried to do what is for those who started it.";
    OutOfScope, "out-of-scope", Refused, "Some of the work is out of the agent's scope; nothing was committed.";
    CommitRefused, "commit-refused", Refused, "A hook of the repository, or git itself, refused the commit.";
    NothingToLand, "nothing-to-land", No, "The agent changed nothing that could be committed or merged.";
    NotAccepted, "not-accepted", Refused, "The work has no accepting verdict, so it does not land.";
    BaseUnpushed, "base-unpushed", Refused, "The work stands on commits that the remote's branch lacks, so it cannot land there yet.";
    NotFastForward, "not-fast-forward", Refused, "The branch to land on has moved on, so it cannot just be moved.";
    TargetDirty, "target-dirty", Refused, "Landing would touch files with uncommitted changes; nothing was moved.";
    WorktreeBusy, "worktree-busy", Refused, "The worktree is in the middle of something, or not on its branch.";
    WorktreeForeign, "worktree-foreign", Usage, "The directory is not the worktree of that agent.";
    LayerInvalid, "layer-invalid", Refused, "The files of a layered worktree are not what an overlay mount leaves, so its work cannot be read.";
    WorktreeDirty, "worktree-dirty", Refused, "The agent's worktree has uncommitted work; nothing was changed.";
    UpdateConflicts, "update-conflicts", Refused, "The agent's branch conflicts with what it lands on; nothing was changed.";
    OperationUnknown, "operation-unknown", Usage, "No operation that can be taken back goes by that id, or none was done.";
    UndoBuiltUpon, "undo-built-upon", Refused, "Something stands on what was done, or it was pushed; nothing was moved.";
    DiscardRefused, "discard-refused", Refused, "Removing that worktree or branch could lose or disturb something; nothing was removed.";
    UninstallRefused, "uninstall-refused", Refused, "Agents have something left in this clone; nothing was removed.";
    HostSettingsInvalid, "host-settings-invalid", Refused, "The settings file of an agent host cannot be edited safely; nothing was written.";
    ScopeOverlap, "scope-overlap", Refused, "A live agent may touch what the new one, which is to be the only one, may.";
    RecursionRefused, "recursion-refused", Refused, "An agent tried to spawn an agent.";
    ClaimHeld, "claim-held", Refused, "Another clone or process works on that task.";
    ClaimLost, "claim-lost", Refused, "Another clone took the task over before this one was done with it.";
    RunActive, "run-active", Refused, "A run of that agent is under way, and there is one at a time.";
    SandboxUnavailable, "sandbox-unavailable", Environment, "The sandbox that was asked for cannot be had here; nothing was run.";
    CommandNotRunnable, "command-not-runnable", NotRunnable, "The command exists and cannot be run.";
    CommandNotFound, "command-not-found", NotFound, "There is no such command.";
    SetupFailed, "setup-failed", Environment, "A set-up command of the task failed; the spawn was undone.";
    HookFailed, "hook-failed", Refused, "A command of `[hooks]` failed, so what it comes before was not done.";
    LeaseExhausted, "lease-exhausted", TryAgain, "Every value that a lease could have is taken; the spawn was undone.";
    RepoNotFound, "repo-not-found", Environment, "There is no git repository here.";
    RepoUnsupportedFormat, "repo-unsupported-format", Environment, "The repository uses a format that this program cannot open.";
    RepoUnsafeOwner, "repo-unsafe-owner", Environment, "The repository belongs to another user and is not marked safe.";
    MainWorktreeGone, "main-worktree-gone", Environment, "The main worktree is not where core.worktree says.";
    MainWorktreeUnknown, "main-worktree-unknown", Environment, "The git directory is apart from the main worktree, and core.worktree does not name that.";
    RepoCorrupt, "repo-corrupt", Environment, "An object or ref that must be there is missing or broken.";
    ObjectTooLarge, "object-too-large", Environment, "What an agent wrote as objects would take more memory or time than is allowed; it is kept where it is.";
    FileTooLong, "file-too-long", Environment, "A file in a worktree is longer than those that are turned into objects, or a tree stands for more paths than can be listed.";
    HistoryIncomplete, "history-incomplete", Environment, "The clone lacks objects that the answer depends on: it is shallow, did not fetch the keep chain, or lost them.";
    RepoReadOnly, "repo-read-only", Environment, "The repository cannot be written.";
    DiskFull, "disk-full", Environment, "There is no space left.";
    GitMissing, "git-missing", Environment, "The git command was not found.";
    GitFailed, "git-failed", Environment, "A git command or a libgit2 call failed.";
    RemoteUnreachable, "remote-unreachable", Environment, "The remote could not be reached, or is no git repository.";
    RemoteRefused, "remote-refused", Environment, "The remote does not take what was pushed: a hook, a rule, hidden refs or missing rights.";
    Io, "io", Environment, "A file-system operation failed.";
    LimitReached, "limit-reached", Refused, "A limit of the clone leaves no room for it; nothing was begun.";
    LockHeld, "lock-held", TryAgain, "A command in the sandbox holds a lock that this command waits for.";
    LockTimeout, "lock-timeout", TryAgain, "Another process held a lock for too long.";
    LostRace, "lost-race", TryAgain, "Another process changed the same thing at the same moment.";
    RemoteBusy, "remote-busy", TryAgain, "The remote did not answer in time, or other clones kept moving its refs.";
    Bug, "bug", Bug, "This program contradicts itself; please report it.";
}

/// A line of advice.
#[derive(Clone, Debug)]
enum Hint {
    Text(String),
    /// What for, and what to do.
    Remedy(String, Remedy),
}

/// One failed intention.
#[derive(Debug)]
pub struct Error {
    // Boxed so that `Result<T>` stays one word wider than `T` on the happy path.
    inner: Box<Inner>,
}

#[derive(Debug)]
struct Inner {
    code: Code,
    message: String,
    details: Vec<String>,
    hints: Vec<Hint>,
    facts: ErrorFacts,
    is_absence: bool,
    layered: Option<String>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// An error that says what failed and on what.
    pub fn new(code: Code, message: impl Into<String>) -> Error {
        Error {
            inner: Box::new(Inner {
                code,
                message: message.into(),
                details: Vec::new(),
                hints: Vec::new(),
                facts: ErrorFacts::default(),
                is_absence: false,
                layered: None,
                source: None,
            }),
        }
    }

    /// An error of the file system; full disks and read-only media get a code of their own.
    pub fn io(what: impl Into<String>, source: std::io::Error) -> Error {
        use std::io::ErrorKind;
        let (code, hint) = match source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => (
                Code::DiskFull,
                Some("free some space and try again; to see what is full, run df -h"),
            ),
            ErrorKind::ReadOnlyFilesystem => {
                (Code::RepoReadOnly, Some("to see how it is mounted, run findmnt --target ."))
            }
            _ => (Code::Io, None),
        };
        let error = Error::new(code, what).because(source);
        match hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }

    /// A contradiction inside this program.
    pub fn bug(message: impl Into<String>) -> Error {
        Error::new(Code::Bug, message)
    }

    /// Adds a line of advice. It is shown after `hint: ` and ends with a command where there is one.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Error {
        self.inner.hints.push(Hint::Text(hint.into()));
        self
    }

    /// Adds advice to run this program: what for, and what it should do.
    #[must_use]
    pub fn remedy(mut self, purpose: impl Into<String>, remedy: Remedy) -> Error {
        self.inner.hints.push(Hint::Remedy(purpose.into(), remedy));
        self
    }

    /// Gives this advice in place of all other.
    #[must_use]
    pub fn hint_only(mut self, hint: impl Into<String>) -> Error {
        self.inner.hints = vec![Hint::Text(hint.into())];
        self
    }

    /// Adds a block that is shown below the message as it is, such as a source excerpt.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Error {
        self.inner.details.push(detail.into());
        self
    }

    /// Adds the codes and values that programs read in the place of the details.
    #[must_use]
    pub fn facts(mut self, facts: ErrorFacts) -> Error {
        self.inner.facts = facts;
        self
    }

    /// Names the error below this one. One that says nothing, as of a child that ended in silence, explains
    /// nothing.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        self.inner.source = Some(source.into()).filter(|source| !source.to_string().is_empty());
        self
    }

    /// Says that what failed is to read an object that is not there at all.
    #[must_use]
    pub fn absence(mut self) -> Error {
        self.inner.is_absence = true;
        self
    }

    /// Says that it would go well where the layered worktree of this agent is mounted, and that nothing was changed yet.
    #[must_use]
    pub fn unless_mounted(mut self, agent: impl Into<String>) -> Error {
        self.inner.layered = Some(agent.into());
        self
    }

    /// The agent whose layered worktree has to be mounted for it.
    pub fn needs_mount_of(&self) -> Option<&str> {
        self.inner.layered.as_deref()
    }

    /// Whether an object is missing, not broken.
    pub fn is_absence(&self) -> bool {
        self.inner.is_absence
    }

    /// The stable name of what went wrong.
    pub fn code(&self) -> Code {
        self.inner.code
    }

    /// What failed and on what.
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// Blocks shown below the message.
    pub fn details(&self) -> &[String] {
        &self.inner.details
    }

    /// What programs read in the place of the details.
    pub fn told(&self) -> &ErrorFacts {
        &self.inner.facts
    }

    /// Lines of advice; `command` says what a remedy is called on the command line.
    pub fn hints(&self, command: impl Fn(&Remedy) -> String) -> Vec<String> {
        let line = |hint: &Hint| match hint {
            Hint::Text(text) => text.clone(),
            Hint::Remedy(purpose, remedy) => format!("{purpose}, run {}", command(remedy)),
        };
        self.inner.hints.iter().map(line).collect()
    }

    /// The first advice; where a command of ours follows it, what that is for and which it is.
    pub fn first_hint(&self) -> Option<(&str, Option<&Remedy>)> {
        self.inner.hints.first().map(|hint| match hint {
            Hint::Text(text) => (text.as_str(), None),
            Hint::Remedy(purpose, remedy) => (purpose.as_ref(), Some(remedy)),
        })
    }

    /// The messages of the errors below this one, nearest first.
    pub fn causes(&self) -> Vec<String> {
        let mut causes = Vec::new();
        let mut next = self.source();
        while let Some(error) = next {
            causes.push(error.to_string());
            next = error.source();
        }
        causes
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.inner.message)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.inner.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}

/// Gives file-system results their context: `fs::read(p).at("could not read", p)?`.
pub trait IoContext<T> {
    /// Turns an I/O error into one that names what was tried and the path.
    ///
    /// # Errors
    /// The I/O error, as [`Error::io`] classes it.
    fn at(self, what: &str, path: impl AsRef<std::path::Path>) -> Result<T>;

    /// As [`at`](IoContext::at), and `None` where there is nothing at the path.
    ///
    /// # Errors
    /// As [`at`](IoContext::at).
    fn at_if_there(self, what: &str, path: impl AsRef<std::path::Path>) -> Result<Option<T>>;
}

impl<T> IoContext<T> for std::io::Result<T> {
    fn at(self, what: &str, path: impl AsRef<std::path::Path>) -> Result<T> {
        self.map_err(|source| Error::io(format!("{what} {}", path.as_ref().display()), source))
    }

    fn at_if_there(self, what: &str, path: impl AsRef<std::path::Path>) -> Result<Option<T>> {
        match self {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            other => other.at(what, path).map(Some),
        }
    }
}

// What an error tells programs: codes and values in the place of sentences.

/// Codes and values. Empty lists are left out of the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorFacts {
    /// The codes of the findings that reject the work.
    pub findings: Vec<&'static str>,
    /// The paths on which the work conflicts.
    pub conflicts: Vec<Vec<u8>>,
    /// The paths that are in the way, or out of scope.
    pub paths: Vec<Vec<u8>>,
    /// What is wrong with a file that was read, in order of position.
    pub problems: Vec<FileProblem>,
}

/// One thing that is wrong with a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileProblem {
    /// The file, as it was given.
    pub file: String,
    /// The line and the column in characters, both from 1; `None` where it is about the whole file.
    pub position: Option<(usize, usize)>,
    /// The key that it is about; without one the text, which is `None` where it may hold a secret.
    pub key: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What to do instead.
    pub suggestion: Option<String>,
}

impl ErrorFacts {
    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        *self == ErrorFacts::default()
    }
}

// What can be done about an error with this program, in words that no command line is needed for.

/// How git reaches a worktree from outside of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GitPlace {
    /// By its path.
    At(PathBuf),
    /// In the mount of the agent with these first eight hex digits. No file is at the path of such a worktree, so git would take each for
    /// deleted there, and what it writes would lie beneath the mount.
    Mount(String),
}

/// What a user can do about an error, where it takes this program. What the command is called is not for the layer that
/// fails to know.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remedy {
    /// Accept work that an audit or a train rejected.
    Accept(String),
    /// See all agents.
    Agents,
    /// See how an agent stands.
    Agent(String),
    /// See where an agent's worktree is.
    Place(String),
    /// Make an ordinary worktree of an agent's layered one.
    Materialize(String),
    /// Commit a merge that was left in an agent's worktree.
    CommitMerge(String),
    /// Merge what an agent lands on into its branch, and leave conflicts in its worktree.
    Update(String),
    /// See the events of an agent.
    History(String),
    /// See the events of agents.
    Histories,
    /// Wait until the run of an agent is over.
    Wait(String),
    /// End the run of an agent.
    Stop(String),
    /// Give an agent's work back.
    Rescue(String),
    /// Make the worktree of an agent again.
    Reopen(String),
    /// Take back an operation.
    Undo(String),
    /// See what can be taken back.
    Operations,
    /// Give the task of an agent to another one.
    Retry(String),
    /// Take back what a commit changed.
    Revert(String),
    /// Land an agent on another branch.
    LandElsewhere(String),
    /// See the status of a worktree whose files only a command of its agent sees.
    StatusInside(String),
    /// Call git in a worktree, with each of these words in turn.
    GitIn(GitPlace, Vec<String>),
    /// See the runs that go on.
    Running,
    /// See every setting.
    Settings,
    /// Remove what is finished.
    Collect,
    /// See the roles.
    Roles,
    /// Look for damage.
    Examine,
    /// Repair damage.
    Repair,
    /// Repair the hooks of one agent's worktree, or of all.
    RepairHooks(Option<&'static str>),
    /// See messages: those for a reader, or one's own.
    Messages(Option<String>),
    /// Delete old messages.
    ExpireMessages,
    /// Spawn an agent from a task file, or from standard input.
    SpawnFrom(Cow<'static, str>),
    /// Spawn from another commit.
    SpawnFromCommit,
    /// Check a task file without spawning.
    CheckTask(String),
    /// Exchange the ledger with a remote.
    Synchronise,
    /// Exchange with a remote all that clones share, what they keep included.
    SynchroniseAll,
    /// Register a host's hooks.
    Register(String),
}

// One failure that ends several things.

impl Error {
    /// The same error once more, for another thing that failed with it.
    #[must_use]
    pub fn repeated(&self) -> Error {
        let inner = &self.inner;
        let copy = Error {
            inner: Box::new(Inner {
                code: inner.code,
                message: inner.message.clone(),
                details: inner.details.clone(),
                hints: inner.hints.clone(),
                facts: inner.facts.clone(),
                is_absence: inner.is_absence,
                layered: inner.layered.clone(),
                source: None,
            }),
        };
        match self.causes().first() {
            Some(cause) => copy.because(cause.clone()),
            None => copy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn code_names_are_unique_and_kebab_case() {
        let names: HashSet<_> = Code::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(names.len(), Code::ALL.len());
        for name in names {
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{name}");
        }
    }
}
