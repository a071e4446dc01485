//! The facts a judgement rests on, gathered from objects and from what the ledger recorded at spawn.
//! Plain values: gathering them decides nothing, and judging them reads nothing.

use crate::domain::boundary::violation::{Boundary, OtherNames};
use crate::domain::life::id::AgentId;
use crate::domain::life::operation::Reverted;
use crate::domain::life::report::{Audited, ReportRules, RoleReport};
use crate::domain::paths::change::Change;
use crate::domain::paths::removal::Parents;
use crate::domain::value::named::named;
use crate::domain::value::oid::Oid;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// What binds the agent: its policy, ready to be applied.
#[derive(Clone, Debug)]
pub struct Contract {
    /// The agent; `None` where no agent of ours did the work.
    pub agent: Option<AgentId>,
    /// What it may touch.
    pub boundary: Boundary,
    /// Whether the six files are required.
    pub bundle_required: bool,
    /// SHA-256 of the `spec.md` that spawn wrote, in hex.
    pub spec_sha: String,
    /// How many tests have to pass although there is no check command that could run them; none where it is 0.
    pub uncounted_tests: u32,
    /// What its final answer has to hold.
    pub report: ReportRules,
}

impl Contract {
    /// The agent as commands name it.
    pub(super) fn handle(&self) -> String {
        self.agent.map_or_else(|| "<agent>".to_owned(), AgentId::short)
    }
}

/// Everything that is known about the work.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// The agent's row.
    pub ledger: LedgerFacts,
    /// Where the commits come from; absent for an agent without a branch.
    pub history: Option<BranchHistory>,
    /// Every change, commit by commit, then the index, the files, and what landing would do.
    pub touches: Vec<Touch>,
    /// Where each of the commits comes from.
    pub parents: Parents,
    /// The other names that paths have in the base and by the work.
    pub other_names: OtherNames,
    /// The six files as they were found, in order; empty where the bundle is out of reach.
    pub bundle: Vec<Artefact>,
    /// Whether the bundle is where this clone cannot see it.
    pub bundle_out_of_reach: bool,
    /// The worktree; `None` when there is none here, or it was not looked at.
    pub worktree: Option<WorktreeFacts>,
    /// Why there is no worktree, where there is none.
    pub no_worktree: NoWorktree,
    /// The merge commit that was named, if only its second parent, the agent's branch, is judged.
    pub merge_commit: Option<Oid>,
    /// How the work would land; absent for an agent without a branch.
    pub landing: Option<Landing>,
    /// Files that landing would give conflict markers, each with the line of the first.
    pub marked: Vec<(Vec<u8>, usize)>,
    /// Dependencies that landing would change; looked for only where the policy forbids it.
    pub dependencies: Vec<DependencyChange>,
    /// The check commands.
    pub commands: Commands,
    /// What the agent's final answer says; looked for only where the policy asks for fields of it.
    pub answer: FinalAnswer,
    /// The audit that forbids the work to land.
    pub failed_audit: Option<Audited>,
    /// Whether a train rejected this very work.
    pub rejected_by_train: bool,
}

/// What the agent's final answer says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FinalAnswer {
    /// Nothing was asked of it.
    #[default]
    Free,
    /// It is where this clone cannot see it.
    OutOfReach,
    /// It says this.
    Said(RoleReport),
    /// As [`FinalAnswer::Said`], of an audit that does not count because an agent started it.
    SaidForAgent(RoleReport),
}

/// A dependency that is not what it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DependencyChange {
    /// The manifest or lock file.
    pub path: Vec<u8>,
    /// What is different, as the end of a sentence that begins with the path.
    pub what: String,
}

/// Why no worktree was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoWorktree {
    /// The agent was spawned in this clone, and its worktree is gone.
    #[default]
    Gone,
    /// The agent lives in another clone.
    Elsewhere,
    /// A commit was named, so none was looked for.
    CommitNamed,
    /// Only what the branch holds is to be judged.
    BranchOnly,
}

/// What is wrong with a row of the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LedgerFacts {
    /// What cannot have happened, one sentence each, where that puts in doubt what binds the agent.
    pub irregular: Vec<String>,
    /// The same where it does not: two who did not know of each other settled it differently.
    pub disorder: Vec<String>,
    /// Whether there is a row.
    pub row: RowEvidence,
    /// What it says about what binds the agent that the spawn commit denies, one sentence each.
    pub altered: Vec<String>,
    /// How many lines name a line before them that was changed or removed.
    pub broken_links: usize,
}

/// Whether the ledger knows the agent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowEvidence {
    /// It has a row for the agent.
    #[default]
    Present,
    /// It has rows, and none for this agent.
    Missing,
    /// This clone has no ledger.
    NoLedger,
}

/// Where the commits of the branch come from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BranchHistory {
    /// Whether the branch holds the spawn commit, or a commit with the same nonce after a rebase.
    pub has_spawn_commit: bool,
    /// The commit that spawn made.
    pub spawn_commit: Option<Oid>,
    /// Where the branch leaves the base branch, when it lacks the spawn commit and that is another commit than the agent started from.
    pub fork: Option<Oid>,
    /// Whether merges are among the commits that the base lacks.
    pub has_merges: bool,
    /// The commit it started from, when the base branch does not hold it.
    pub lost_base: Option<Oid>,
    /// Commits that are neither the agent's nor the base's.
    pub foreign: Vec<Oid>,
    /// The short name of a copy of the base branch, as it was fetched from a remote, that holds all of these.
    pub fetched: Option<String>,
}

impl BranchHistory {
    /// The command that puts what came since the commit `base`, by its short name, onto a branch.
    pub(super) fn rebase_onto(&self, branch: &str, base: &str) -> String {
        // What a merge brought of the branch is not made again, where the branch has taken it back. A rebase leaves out what one commit
        // holds, so that one has to hold both.
        let below = if self.has_merges {
            format!("\"$(git commit-tree -p {base} -p {branch} -m below {branch}:)\"")
        } else {
            base.to_owned()
        };
        format!("git rebase --autostash --onto {branch} {below}")
    }
}

/// One path changed in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The path and what was done to it.
    pub change: Change,
    /// Where it was changed.
    pub place: ChangePlace,
}

/// Where a change is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangePlace {
    /// In a commit.
    Commit(Oid),
    /// In the index.
    Index,
    /// In the files of the worktree.
    Worktree,
    /// In the tree that landing would give, compared with the branch to land on.
    Landing,
}

/// One of the six files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artefact {
    /// Its name.
    pub name: &'static str,
    /// Its text, or why there is none.
    pub text: Result<String, ArtefactProblem>,
    /// What the text says where a rule asks more than that it is there.
    pub says: Says,
}

/// Why an artefact cannot be read as text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArtefactProblem {
    /// Nothing is there.
    Missing,
    /// A directory, a symlink, a FIFO or the like is there.
    NotFile,
    /// It is larger than a hand-written file.
    TooLarge,
    /// It is not UTF-8.
    NotUtf8,
    /// A file-system operation failed.
    Unreadable,
}

/// What a file says that has a rule of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Says {
    /// No rule asks.
    Anything,
    /// `spec.md`: the SHA-256 of its bytes, in hex.
    Digest(String),
    /// `progress.json`: the value of `status`; `None` when the file is no JSON object with a text there.
    Status(Option<String>),
}

/// A HEAD that is not on the agent's branch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeadElsewhere {
    /// The branch, or the commit.
    pub on: String,
    /// What leads back to the agent's branch, with all that was committed.
    pub command: String,
}

/// What git began in a worktree and did not end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfinished {
    /// Git's command for it, such as `merge`.
    pub what: &'static str,
    /// Whether it can neither go on nor be taken back, only be forgotten.
    pub is_broken: bool,
}

impl Unfinished {
    /// The command with its article.
    pub fn named(self) -> String {
        let article = if self.what.starts_with('a') { "an" } else { "a" };
        format!("{article} {}", self.what)
    }

    /// The words after `git` that give it up.
    pub fn give_up(self) -> String {
        let how = if self.is_broken { "--quit" } else { "--abort" };
        format!("{} {how}", self.what)
    }
}

/// The state of a worktree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorktreeFacts {
    /// Whether its `.git` file and its admin directory name each other.
    pub linked: bool,
    /// What HEAD is on, when that is not the agent's branch.
    pub head_elsewhere: Option<HeadElsewhere>,
    /// What is unfinished.
    pub in_progress: Vec<Unfinished>,
    /// Paths with more than one stage in the index.
    pub unmerged: Vec<Vec<u8>>,
    /// How our hooks differ from what spawn put there, one sentence each.
    pub hooks: Vec<String>,
    /// Directories that are repositories of their own and no submodules.
    pub nested: Vec<Vec<u8>>,
    /// Files that no commit can hold because of their names.
    pub refused: Vec<Vec<u8>>,
    /// Submodules with files that no commit of theirs holds.
    pub submodules: Vec<Vec<u8>>,
    /// Directories that could not be read.
    pub unreadable: Vec<Vec<u8>>,
}

/// How the work would land on the base branch as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Landing {
    /// The full name of the branch; absent when the base was an object name.
    pub refname: Option<String>,
    /// Commits that the base branch does not hold, the one that would be made of uncommitted work included.
    pub ahead: usize,
    /// Commits of the base branch that the agent's does not hold.
    pub behind: usize,
    /// What git says.
    pub outcome: MergeOutcome,
    /// Whether libgit2 said it in git's place.
    pub approximate: bool,
    /// What took an earlier landing of the same commits back.
    pub reverted: Option<Reverted>,
}

/// What merging would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeOutcome {
    /// The base branch does not exist.
    BaseGone,
    /// The base branch is not in this clone.
    OutOfReach {
        /// The tree that was judged.
        tree: Oid,
    },
    /// There is no common ancestor.
    Unrelated,
    /// The agent changed nothing.
    Nothing {
        /// The tree, which is the base's.
        tree: Oid,
    },
    /// The base branch holds the work already.
    Landed {
        /// The tree, which is the base's.
        tree: Oid,
        /// How that is known.
        how: Landed,
    },
    /// The base branch would only have to be moved forward.
    FastForward {
        /// The tree there would be.
        tree: Oid,
    },
    /// It merges without conflicts.
    Clean {
        /// The tree there would be.
        tree: Oid,
    },
    /// It does not.
    Conflicts(Vec<Conflict>),
}

impl MergeOutcome {
    /// The tree that landing would give.
    pub fn tree(&self) -> Option<Oid> {
        match self {
            MergeOutcome::Nothing { tree }
            | MergeOutcome::Landed { tree, .. }
            | MergeOutcome::FastForward { tree }
            | MergeOutcome::Clean { tree } => Some(*tree),
            MergeOutcome::BaseGone
            | MergeOutcome::OutOfReach { .. }
            | MergeOutcome::Unrelated
            | MergeOutcome::Conflicts(_) => None,
        }
    }

    /// The word used in JSON.
    pub fn as_str(&self) -> &'static str {
        match self {
            MergeOutcome::BaseGone => "base-gone",
            MergeOutcome::OutOfReach { .. } => "not-judged",
            MergeOutcome::Unrelated => "unrelated",
            MergeOutcome::Nothing { .. } => "nothing",
            MergeOutcome::Landed { .. } => "merged",
            MergeOutcome::FastForward { .. } => "fast-forward",
            MergeOutcome::Clean { .. } => "clean",
            MergeOutcome::Conflicts(_) => "conflicts",
        }
    }
}

named! {
    /// How it is known that work has landed.
    pub enum Landed {
        /// The tip is an ancestor of the base branch.
        Ancestor = "ancestor",
        /// Merging would change nothing.
        Tree = "tree",
        /// A commit of the base branch makes the same change (git-patch-id).
        PatchId = "patch-id",
    }
}

/// A path on which a merge stopped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    /// The path.
    pub path: Vec<u8>,
    /// git's names for what is wrong there, such as `contents` or `modify/delete`.
    pub kinds: Vec<String>,
}

/// What became of the check commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Commands {
    /// There are none, or there is no merged tree to run them in.
    #[default]
    None,
    /// They were not wanted.
    Skipped,
    /// They ran, until the first that failed.
    Ran(Vec<CommandRun>),
}

/// What has to hold in a merged tree before it lands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequiredChecks {
    /// Commands that set up the projects that are checked, after the set-up of the worktree.
    pub setup: Vec<String>,
    /// The commands, in order.
    pub commands: Vec<String>,
    /// How many tests have to pass in which of them.
    pub test_bounds: Vec<TestBound>,
    /// The directory of the project that a command belongs to, for those of projects.
    pub projects: BTreeMap<String, String>,
}

impl RequiredChecks {
    /// Adds what is not there yet.
    pub fn add(&mut self, more: &RequiredChecks) {
        for (own, more) in [(&mut self.setup, &more.setup), (&mut self.commands, &more.commands)] {
            for command in more {
                if !own.contains(command) {
                    own.push(command.clone());
                }
            }
        }
        self.projects.extend(more.projects.clone());
        // Each counts its own commands: others would make up for tests that are gone.
        for bound in &more.test_bounds {
            if !self.test_bounds.contains(bound) {
                self.test_bounds.push(bound.clone());
            }
        }
    }

    /// Has the bounds that are there count the tests of these commands, too.
    pub fn count<'c>(&mut self, commands: impl IntoIterator<Item = &'c String> + Clone) {
        for bound in &mut self.test_bounds {
            bound.commands.extend(commands.clone().into_iter().cloned());
        }
    }
}

/// How many tests have to pass in some of the commands together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestBound {
    /// The commands; without any, nothing is asked.
    pub commands: BTreeSet<String>,
    /// How many tests.
    pub wanted: u32,
}

impl TestBound {
    /// A bound for commands; `None` where no tests are wanted.
    pub fn new(commands: &[String], wanted: Option<u32>) -> Option<TestBound> {
        let wanted = wanted.filter(|wanted| *wanted > 0)?;
        Some(TestBound { commands: commands.iter().cloned().collect(), wanted })
    }
}

/// One check command that ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandRun {
    /// The command line.
    pub command: String,
    /// How it ended.
    pub end: CommandEnd,
    /// The end of what it wrote, both streams.
    pub output: String,
    /// Whether it is a command of `[setup]`, without which no check command runs.
    pub is_setup: bool,
    /// How long it took; zero for an answer that was known.
    pub took: Duration,
    /// How many tests passed, where it said so.
    pub tests: Option<u64>,
    /// The directory of the project that it belongs to; absent for one of the whole repository.
    pub project: Option<String>,
    /// The tree that it succeeded in, where it did not run in this one because nothing that matters to it differs.
    pub taken_over_from: Option<Oid>,
    /// Whether it ran over a base that others share, and not in a copy of all files.
    pub is_layered: bool,
}

impl CommandRun {
    /// One that ended well, in which so many tests passed.
    pub fn passed(command: &str, tests: Option<u64>) -> CommandRun {
        CommandRun {
            command: command.to_owned(),
            end: CommandEnd::Status(0),
            output: String::new(),
            is_setup: false,
            took: Duration::ZERO,
            tests,
            project: None,
            taken_over_from: None,
            is_layered: false,
        }
    }

    /// Whether it ended well.
    pub fn is_success(&self) -> bool {
        self.end == CommandEnd::Status(0)
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandEnd {
    /// With a status as the shell gives it: 128 + n for signal n.
    Status(u8),
    /// It was stopped after this time.
    TimedOut(Duration),
    /// It succeeded, and in all commands together too few tests passed, or none of them said how many.
    TooFewTests {
        /// How many passed.
        found: Option<u64>,
        /// How many have to.
        wanted: u32,
    },
}

impl CommandEnd {
    /// The status as a shell gives it; `None` for what was stopped.
    pub fn status(self) -> Option<u8> {
        match self {
            CommandEnd::Status(status) => Some(status),
            // The command itself has succeeded; what is missing is tests.
            CommandEnd::TooFewTests { .. } => Some(0),
            CommandEnd::TimedOut(_) => None,
        }
    }
}

/// The end of a sentence about the command.
impl fmt::Display for CommandEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandEnd::Status(status) => write!(f, "ended with status {status}"),
            CommandEnd::TimedOut(limit) => write!(f, "was stopped after {} s", limit.as_secs()),
            CommandEnd::TooFewTests { found: Some(found), wanted } => {
                write!(f, "passed {found} of at least {wanted} tests")
            }
            CommandEnd::TooFewTests { found: None, .. } => {
                f.write_str("does not say how many tests passed")
            }
        }
    }
}
