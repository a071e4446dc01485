//! What happened to an agent: the immutable rows of the ledger.
//!
//! An event says what happened, never what state that leads to; the fold in [`super::agent`] decides that. Facts too big for
//! a line of 1 KB are objects named by oid.

use super::id::{AgentId, AgentName, OperationId};
use super::report::Audited;
use crate::domain::value::named::named;
use crate::domain::value::oid::Oid;
use crate::domain::value::stamp::Stamp;
use serde::Serialize;
use std::fmt;

/// One line of an agent's note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it happened, unique within the row.
    pub at: Stamp,
    /// Whom it happened to.
    pub agent: AgentId,
    /// Who says so: a user name, `git-agent`, or an agent's id.
    pub by: String,
    /// What the events of one command have in common; absent in rows of old.
    pub operation: Option<OperationId>,
    /// The first 16 hex digits of the SHA-256 of the line before; `None` on the first line.
    pub previous: Option<String>,
    /// The digests, as in `previous`, of lines that were there already although their stamps are not lower than this
    /// one's: the clocks they were taken from were ahead. They come before this event, whatever their stamps say.
    pub ahead: Vec<String>,
    /// What happened.
    pub what: What,
}

/// What can happen to an agent. The names of its facts are those of the ledger's lines, so none is ever renamed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum What {
    /// A spawn began; everything it may leave behind is named.
    Spawning(Spawning),
    /// The spawn ended well: the agent can start.
    Spawned(Spawned),
    /// A run of the agent's command began.
    Started(Started),
    /// That run ended.
    Exited(Exited),
    /// Work of the agent was committed on its branch by us.
    Committed {
        /// The new tip.
        commit: Oid,
        /// Its tree.
        tree: Oid,
    },
    /// The work was judged.
    Verified(Verified),
    /// A run ended well, and its work could not be judged: it does not count as done.
    Unjudged {
        /// Why.
        reason: String,
    },
    /// The work was declared finished.
    Done {
        /// What was achieved, in the words of the declaration.
        summary: String,
        /// The blob of all of it, where a line cannot hold that.
        whole: Option<Oid>,
    },
    /// The work was declared failed.
    Failed {
        /// Why.
        reason: String,
        /// The blob of all of it, where a line cannot hold that.
        whole: Option<Oid>,
    },
    /// The work landed.
    Merged {
        /// The commit that brought it.
        commit: Oid,
        /// The full name of the branch it landed on.
        into: String,
        /// The tip of the agent's branch that it holds: what comes after that is new. Absent in rows of old, and where
        /// another program landed it.
        tip: Option<Oid>,
        /// Where that branch was before. Absent in rows of old, and where the branch had the work already and did not move.
        from: Option<Oid>,
    },
    /// The work was turned down; its branch stays.
    Rejected {
        /// Why.
        reason: String,
        /// The blob of all of it, where a line cannot hold that.
        whole: Option<Oid>,
    },
    /// The decision about finished work was put off.
    Deferred {
        /// Why.
        reason: String,
        /// The blob of all of it, where a line cannot hold that.
        whole: Option<Oid>,
    },
    /// Its owner gave it another policy.
    Amended {
        /// The blob of the policy that binds from now on.
        policy: Oid,
        /// Why.
        reason: String,
        /// The blob of all of it, where a line cannot hold that.
        whole: Option<Oid>,
    },
    /// It did a task that others did as well, and was compared with them.
    Competed(Competed),
    /// Another agent audited its work, or a person accepts the work in spite of that.
    Audited(Audited),
    /// Worktree and branch were removed.
    Discarded {
        /// The branch's last commit; absent when there was no branch.
        tip: Option<Oid>,
    },
    /// Uncommitted work was put under the keep chain.
    Salvaged {
        /// The commit that holds it.
        commit: Oid,
    },
    /// Kept work was given back.
    Rescued {
        /// The branch or directory it was given back to.
        to: String,
    },
    /// Work came after its landing, and a decision about that follows.
    Reopened {},
    /// Commits that were kept are kept no more.
    Expired {
        /// As many as fit into a line.
        commits: Vec<Oid>,
    },
    /// It goes by another name, or its task by other words, from now on.
    Renamed {
        /// The name; absent where another agent took over the one that it had.
        name: Option<AgentName>,
        /// The task in a line, where it was not known before.
        task: Option<String>,
    },
    /// What an operation decided about the agent was taken back.
    Undone {
        /// That operation; one that had taken another back is done again by it.
        operation: OperationId,
        /// The commit that reverts its landing, where the branch had gone on and was not moved back.
        revert: Option<Oid>,
    },
    /// A remark; changes nothing.
    Noted {
        /// The remark.
        text: String,
    },
    /// A line whose kind, or whose facts, this version does not know. It is kept and otherwise ignored.
    Unknown {
        /// The value of the line's `e` key.
        #[serde(skip)]
        kind: String,
        /// The lowest version that understands it, where the line names one above ours: what other events of the row mean
        /// may depend on it.
        #[serde(skip)]
        needs: Option<ProgramVersion>,
    },
}

/// What [`What::Rescued`] says of an agent that was brought back to its own places.
pub const WORKTREE: &str = "{worktree}";

/// How an agent came out of a tournament.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Competed {
    /// The first eight hex digits of the best one's id, which names the tournament.
    pub best: String,
    /// Its place, from 1.
    pub place: u32,
    /// How many there were.
    pub of: u32,
    /// Whether its work could land; the best one won if it could.
    pub accepted: bool,
    /// The agent host that did it; absent for a command of the caller's.
    pub host: Option<String>,
}

impl What {
    /// The value of the `e` key.
    pub fn kind(&self) -> &str {
        match self {
            What::Spawning(_) => "spawning",
            What::Spawned(_) => "spawned",
            What::Started(_) => "started",
            What::Exited(_) => "exited",
            What::Committed { .. } => "committed",
            What::Verified(_) => "verified",
            What::Unjudged { .. } => "unjudged",
            What::Done { .. } => "done",
            What::Failed { .. } => "failed",
            What::Merged { .. } => "merged",
            What::Rejected { .. } => "rejected",
            What::Deferred { .. } => "deferred",
            What::Amended { .. } => "amended",
            What::Competed(_) => "competed",
            What::Audited(_) => "audited",
            What::Discarded { .. } => "discarded",
            What::Salvaged { .. } => "salvaged",
            What::Rescued { .. } => "rescued",
            What::Reopened {} => "reopened",
            What::Expired { .. } => "expired",
            What::Renamed { .. } => "renamed",
            What::Undone { .. } => "undone",
            What::Noted { .. } => "noted",
            What::Unknown { kind, .. } => kind,
        }
    }

    /// A free text, and the blob of all of it where a line cannot hold that; `None` for an event
    /// without one.
    pub fn said(&self) -> Option<(&str, Option<Oid>)> {
        match self {
            What::Done { summary: text, whole }
            | What::Failed { reason: text, whole }
            | What::Rejected { reason: text, whole }
            | What::Deferred { reason: text, whole }
            | What::Amended { reason: text, whole, .. } => Some((text, *whole)),
            _ => None,
        }
    }

    /// The lowest version that understands this event, where an older program would take other events of the row for
    /// something else than they are.
    pub fn needs(&self) -> Option<ProgramVersion> {
        match self {
            // An older program would land what failed an audit, or what was taken back.
            What::Amended { .. } | What::Audited(_) | What::Undone { .. } => {
                Some(ProgramVersion(0, 3, 0))
            }
            What::Unknown { needs, .. } => *needs,
            _ => None,
        }
    }

    /// The same with the blob that holds all of what was said.
    pub fn with_whole(mut self, blob: Oid) -> What {
        if let What::Done { whole, .. }
        | What::Failed { whole, .. }
        | What::Rejected { whole, .. }
        | What::Deferred { whole, .. }
        | What::Amended { whole, .. } = &mut self
        {
            *whole = Some(blob);
        }
        self
    }

    /// Gives up `excess` bytes of what may be shortened, or half of it where that is less, and marks a
    /// cut text with `…`. `false` when there is nothing to give: names, paths and oids are never cut.
    pub fn shorten(&mut self, excess: usize) -> bool {
        let text = match self {
            What::Done { summary: text, .. }
            | What::Failed { reason: text, .. }
            | What::Rejected { reason: text, .. }
            | What::Deferred { reason: text, .. }
            | What::Amended { reason: text, .. }
            | What::Unjudged { reason: text }
            | What::Noted { text } => text,
            What::Started(facts) => &mut facts.command,
            What::Audited(facts) => &mut facts.reason,
            What::Spawning(facts) => &mut facts.description,
            What::Verified(verdict) => return verdict.findings.pop().is_some(),
            _ => return false,
        };
        // Shortened once already: the mark goes, and one is put at the new end.
        text.truncate(text.trim_end_matches(ELLIPSIS).len());
        if text.is_empty() {
            return false;
        }
        // At most half goes at a time: the excess is counted in bytes of JSON, in which a character
        // may take six.
        let keep = text.len() - excess.min(text.len().div_ceil(2));
        let boundary = (0..=keep).rev().find(|&at| text.is_char_boundary(at));
        text.truncate(boundary.unwrap_or(0));
        text.push(ELLIPSIS);
        true
    }
}

/// What stands where a text was cut.
const ELLIPSIS: char = '…';

named! {
    /// How an agent is set apart from its siblings.
    #[derive(Hash)]
    pub enum Isolation {
        /// A linked worktree and a branch of its own.
        Worktree = "worktree",
        /// Neither: it reads where it is started.
        Shared = "shared",
    }
}

/// Where an agent started from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Base {
    /// The branch or other ref that was named; `None` when only an object name was given.
    #[serde(rename = "base_ref")]
    pub refname: Option<String>,
    /// The commit it was at that moment.
    #[serde(rename = "base")]
    pub oid: Oid,
}

/// The facts known before anything but the spawn commit exists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Spawning {
    /// The role's name.
    pub role: String,
    /// Whether there is a worktree.
    pub isolation: Isolation,
    /// The first 60 characters of the task.
    pub description: String,
    /// The alias given by the task file or `--name`.
    pub name: Option<AgentName>,
    /// The agent that asked for this one.
    pub parent: Option<AgentId>,
    /// Where it starts from.
    #[serde(flatten)]
    pub base: Base,
    /// `sha256:` and 64 hex digits over role, task and scope.
    pub dna: String,
    /// The full name of its branch; absent when shared.
    pub branch: Option<String>,
    /// Where its worktree is, as text: relative to the root, or absolute where an older version wrote it; absent
    /// when shared or outside the root.
    pub worktree: Option<String>,
    /// The process that is at work, so that a half-made agent can be told from an abandoned one.
    pub pid: u32,
}

/// The facts known when the agent is ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Spawned {
    /// The blob that holds the binding policy: role, scope, checks, base.
    pub policy: Oid,
    /// SHA-256 of the `spec.md` that was written, in hex.
    pub spec_sha: String,
    /// The blob that says what the worktree held before the agent began; absent where that was nothing.
    pub baseline: Option<Oid>,
}

/// The facts known when a run begins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Started {
    /// Its number among the runs of its agent.
    pub run: Option<u32>,
    /// The command line, shortened, without what was put in place of its placeholders.
    pub command: String,
    /// The process that supervises it.
    pub pid: u32,
    /// How long it may take, in milliseconds.
    pub limit_ms: Option<u64>,
    /// What the sandbox enforces.
    pub sandbox: Option<String>,
    /// The model that the task or the run names.
    pub model: Option<String>,
    /// Whether a person works in it at a terminal. That work is not judged when it ends, so a good end says nothing about it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub by_hand: bool,
}

/// The facts known when a run is over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Exited {
    /// The number of the run.
    pub run: Option<u32>,
    /// The exit status as a shell would give it: 128 + n for signal n, 124 for a timeout.
    pub code: u8,
    /// What ended it.
    pub ended: Option<Ending>,
    /// How many bytes it wrote to both of its streams.
    pub log_bytes: Option<u64>,
    /// Whether the agent waited for an answer when it ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub asked: bool,
    /// What the host told of its session.
    #[serde(flatten)]
    pub session: HostSession,
}

/// What a host told of the session of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HostSession {
    /// By what the host continues it.
    #[serde(rename = "session")]
    pub id: Option<String>,
    /// What it cost, in millionths of a US dollar.
    pub cost_micro_usd: Option<u64>,
    /// How many tokens the models were given.
    pub input_tokens: Option<u64>,
    /// How many tokens the models gave.
    pub output_tokens: Option<u64>,
}

impl HostSession {
    /// The longest id that is kept, in bytes: a row's lines are short.
    const LONGEST_ID: usize = 100;

    /// Whether a text may be kept as the id of a session: a host's output is not trusted.
    pub fn is_id(text: &str) -> bool {
        let plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        // It becomes an argument of the host, for which one that begins so would be an option.
        let is_option = text.starts_with('-');
        plain && !is_option && !text.is_empty() && text.len() <= HostSession::LONGEST_ID
    }

    /// What is counted here beyond another count of the same session.
    #[must_use]
    pub fn beyond(self, other: &HostSession) -> HostSession {
        let less = |one: Option<u64>, other: Option<u64>| {
            one.map(|one| one.saturating_sub(other.unwrap_or_default()))
        };
        HostSession {
            cost_micro_usd: less(self.cost_micro_usd, other.cost_micro_usd),
            input_tokens: less(self.input_tokens, other.input_tokens),
            output_tokens: less(self.output_tokens, other.output_tokens),
            id: self.id,
        }
    }

    /// What it cost, in US dollars.
    pub fn cost_usd(&self) -> Option<f64> {
        Some(self.cost_micro_usd? as f64 / 1e6)
    }
}

impl Exited {
    /// Whether the command did what it was asked to. Rows of old do not say what ended it.
    pub fn is_success(&self) -> bool {
        self.code == 0 && matches!(self.ended, Some(Ending::Exit) | None)
    }
}

/// What a verdict was about and how it came out. A later commit on the branch voids it; one on the branch to land on voids
/// what was said of the merge, its scope and the commands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Whether the work was accepted.
    pub accepted: bool,
    /// The branch's tip.
    pub tip: Oid,
    /// The tree that was judged: the tip's, or with work not yet committed the tree that committing
    /// it would make.
    pub tree: Oid,
    /// The tip of the branch it would land on.
    pub base: Oid,
    /// The tree of the simulated merge; absent when it conflicts.
    pub merged_tree: Option<Oid>,
    /// The tree of the bundle; absent when none is required.
    pub bundle: Option<Oid>,
    /// The blob of the policy it was judged by.
    pub policy: Oid,
    /// The codes of the findings that rejected it, as many as fit into the line.
    pub findings: Vec<String>,
    /// The agent together with whose work, and only together, its checks fail.
    pub fails_with: Option<AgentId>,
    /// The branch that a train ran its checks for, full name; absent of every other judgement.
    pub into: Option<String>,
}

impl Verified {
    /// Whether it is that of a train which accepted this tree for this branch.
    pub fn accepts(&self, tree: Oid, into: Option<&str>) -> bool {
        self.accepted && self.tree == tree && self.into.is_some() && self.into.as_deref() == into
    }
}

// Versions of this program, as the events of the ledger name them.

/// A version in three numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProgramVersion(pub u32, pub u32, pub u32);

impl ProgramVersion {
    /// The version whose events this program understands: the next one that is released from these sources. It is raised
    /// together with the first event that an older program would misjudge a row without.
    pub const UNDERSTOOD: ProgramVersion = ProgramVersion(0, 3, 0);

    /// A version that cannot be read: newer than every program.
    pub const UNREADABLE: ProgramVersion = ProgramVersion(u32::MAX, u32::MAX, u32::MAX);

    /// Reads `1.2.3`; what follows a third number, such as `-rc.1`, is passed over.
    pub fn parse(text: &str) -> Option<ProgramVersion> {
        let mut numbers = text.splitn(3, '.');
        let mut next = || numbers.next();
        let (major, minor, rest) = (next()?, next()?, next()?);
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number = |text: &str| text.parse().ok();
        Some(ProgramVersion(number(major)?, number(minor)?, number(&rest[..digits])?))
    }
}

impl fmt::Display for ProgramVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == ProgramVersion::UNREADABLE {
            return f.write_str("(a version that cannot be read)");
        }
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

// How a command ended.

named! {
    /// What ended a command.
    pub enum Ending {
        /// It ended by itself.
        Exit = "exit",
        /// A signal of another process ended it.
        Signal = "signal",
        /// Its time was up.
        Timeout = "timeout",
        /// We were asked to end it.
        Stopped = "stopped",
        /// Its supervisor was killed, so it was ended too.
        Lost = "lost",
        /// Its processes took more memory than a run may.
        LimitMemory = "limit-memory",
        /// It had more processes than a run may.
        LimitPids = "limit-pids",
        /// It, or the day, has cost what it may.
        LimitCost = "limit-cost",
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What ended it.
    pub ending: Ending,
    /// The status as a shell gives it: its own, 128 + n for signal n, 124 when its time was up.
    pub code: u8,
}

impl Outcome {
    /// The status of a command whose time was up, as timeout(1) has it.
    pub const TIMEOUT: Outcome = Outcome { ending: Ending::Timeout, code: 124 };
    /// What is said of a command that was ended because it held a lock that other commands wait for. No signal stops a command with that
    /// status.
    pub const LOCK_HELD: Outcome = Outcome::ended_by_us(Ending::Stopped);
    /// What is said of a command that took more memory than a run may. No signal stops a command with that status.
    pub const LIMIT_MEMORY: Outcome = Outcome::ended_by_us(Ending::LimitMemory);
    /// What is said of a command that had more processes than a run may.
    pub const LIMIT_PIDS: Outcome = Outcome::ended_by_us(Ending::LimitPids);
    /// What is said of a command that was ended because it, or the day, has cost what it may.
    pub const LIMIT_COST: Outcome = Outcome::ended_by_us(Ending::LimitCost);
    /// What is said of a command of whose end nothing is known but that it was killed.
    pub const LOST: Outcome = Outcome { ending: Ending::Lost, code: 137 };

    /// The status that no signal stops a command with.
    const fn ended_by_us(ending: Ending) -> Outcome {
        Outcome { ending, code: 125 }
    }

    /// Whether the command did what it was asked to.
    pub fn is_success(self) -> bool {
        self.ending == Ending::Exit && self.code == 0
    }

    /// The outcome as one line of text: `exit 3`.
    pub fn to_line(self) -> String {
        format!("{} {}\n", self.ending.as_str(), self.code)
    }

    /// Reads that line back; `None` for anything else.
    pub fn parse(line: &str) -> Option<Outcome> {
        let (ending, code) = line.strip_suffix('\n')?.split_once(' ')?;
        let (ending, code) = (Ending::parse(ending)?, code.parse().ok()?);
        Some(Outcome { ending, code })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared_by_their_numbers() {
        let parse = ProgramVersion::parse;
        assert_eq!(parse("0.3.0"), Some(ProgramVersion(0, 3, 0)));
        assert_eq!(parse("1.10.2-rc.1"), Some(ProgramVersion(1, 10, 2)));
        assert!(parse("0.10.0") > parse("0.9.9"));
        for wrong in ["", "1", "1.2", "a.b.c", "1.2.", "-1.0.0", "99999999999.0.0"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
        assert_eq!(
            parse(&ProgramVersion::UNDERSTOOD.to_string()),
            Some(ProgramVersion::UNDERSTOOD)
        );
        assert!(Some(ProgramVersion::UNDERSTOOD) >= parse(env!("CARGO_PKG_VERSION")));
    }
}
