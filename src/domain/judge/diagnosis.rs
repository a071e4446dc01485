//! What an examination of a repository finds: a stable code, what it is about, why it matters, and the
//! command that puts it right.

use crate::domain::value::named::named;
use crate::error::codes;

named! {
    /// How much a diagnosis weighs.
    #[derive(Hash, PartialOrd, Ord)]
    pub enum Weight {
        /// The repository is not as it should be.
        Problem = "problem",
        /// Worth knowing; nothing is wrong.
        Information = "information",
    }
}

codes! {
    /// Stable names of everything that an examination can find, as `<family>.<what>`. Never reused.
    pub enum Sign;
    /// How much it weighs.
    pub fn weight -> Weight;
    /// Why it matters, in one line.
    pub fn why;

    Unexamined, "doctor.unexamined", Problem, "A family of checks could not be completed, so what it looks for may be there.";
    GitMissing, "git.missing", Problem, "Worktree status, merge verdicts and the network are the user's git's business.";
    GitTooOld, "git.too-old", Problem, "Before 2.38 git cannot merge without a worktree; libgit2 answers then, which disagrees on some merges.";
    GitFallsBack, "git.falls-back", Information, "What this git cannot do is done in another way.";
    ObjectsAway, "git.objects-away", Problem, "What this repository borrows from another one is out of reach, and a repair would take it for lost.";
    ManPageMissing, "git.man-page-missing", Information, "git shows --help as the page git-agent(1), which man does not find; -h and help work without it.";
    ManPageOutdated, "git.man-page-outdated", Information, "The page git-agent(1) describes another version than the one that runs.";
    CompletionMissing, "git.completion-missing", Information, "The user's shell completes no commands, options and agents of git agent.";
    CompletionOutdated, "git.completion-outdated", Information, "What completes git-agent in the user's shell came with another version and may ask for what is not there.";
    MainIsBare, "settings.main-is-bare", Problem, "While core.bare is true, git refuses every command that needs the main worktree.";
    PlaceShared, "settings.place-shared", Problem, "With extensions.worktreeConfig on, a shared core.bare or core.worktree applies to every linked worktree too.";
    MainLedAway, "settings.main-led-away", Problem, "Git commands in the main worktree work on another directory, such as an agent's.";
    WorktreeLedAway, "settings.worktree-led-away", Problem, "Git commands in an agent's worktree fail, or work on another directory.";
    WorktreeConfigOff, "settings.worktree-config-off", Problem, "Git passes over config.worktree, and with it over the hooks of agents' worktrees.";
    HooksLedAway, "settings.hooks-led-away", Problem, "The repository's own hooks do not run, because every worktree uses the hooks of one agent.";
    PrunesAtOnce, "settings.prunes-at-once", Problem, "git gc deletes unreachable objects at once, also those that a command is about to use.";
    SettingsUnusable, "settings.unusable", Problem, "Settings or limits of this repository cannot be used, so spawns, runs and messages are refused.";
    LimitsHold, "settings.limits", Information, "What agents take of the disk and cost is bounded by what is free and by the limits that are set; spawns and runs beyond are refused or wait.";
    HostDistrusts, "settings.host-distrusts", Information, "Hooks that are registered in the project do not run in the sessions of this host, so only commits are held to an agent's scope.";
    SpawnAbandoned, "spawns.abandoned", Problem, "A spawn was interrupted; a branch, a worktree and a row may be half made.";
    SpawnUnfinished, "spawns.unfinished", Problem, "The ledger says that an agent is being made, and no process is making it.";
    LockUnfinished, "spawns.lock-unfinished", Problem, "A worktree is locked as being made by a process that is gone.";
    RunDead, "runs.dead", Problem, "A supervisor was killed: the row says that a command is at work for the agent, or takes work for done that nothing judged.";
    RunRefused, "runs.refused", Problem, "What the agent committed last is not on its branch, so its work is neither judged nor landed.";
    VerifyLeft, "verify.left-over", Problem, "An unused worktree takes up space and shows in git worktree list.";
    DirectoryGone, "worktrees.directory-gone", Problem, "The index of the worktree may hold staged work that is nowhere else.";
    IndexEmptied, "worktrees.index-emptied", Problem, "A power loss can leave an index empty, and git does nothing in that worktree then.";
    DirectoryAside, "worktrees.put-aside", Problem, "A discard was interrupted; the worktree is not in its place.";
    DiscardUnfinished, "worktrees.discard-unfinished", Problem, "A discard was interrupted after everything was kept; what is left of the worktree, the branch and the row do not agree.";
    AdminGone, "worktrees.admin-gone", Problem, "Git knows nothing of the worktree any more, and what is in it is in no commit and in no salvage.";
    WorktreeUnlinked, "worktrees.unlinked", Problem, "The .git file of the worktree is gone or leads elsewhere, so no command here reads or removes what is in it.";
    WorktreeRemoved, "worktrees.removed", Problem, "The agent is neither landed nor discarded and has no worktree to go on in; what was not committed in it is gone, unless it was rescued.";
    WorktreeUnreadable, "worktrees.unreadable", Problem, "What the agent changed cannot be told, so it is neither judged nor landed, and no command takes it for no work.";
    WorktreeUnknown, "worktrees.no-row", Problem, "The worktree is ours and no row says whose; no command of ours can name it.";
    BranchUnknown, "branches.no-row", Problem, "The branch starts from a spawn commit that has no row here; no command of ours can name it.";
    BranchGone, "branches.gone", Problem, "An agent that is neither landed nor discarded has lost its branch; git gc may delete its commits.";
    BranchEmptied, "branches.emptied", Problem, "A power loss can leave the file of a branch empty, and git refuses to list or collect anything then.";
    RefLocked, "locks.stale", Problem, "While the lock file of a killed process is there, git cannot move the ref or write the index.";
    LandingInterrupted, "landing.interrupted", Problem, "A landing was killed while it moved files, so index, files and branch of the worktree may not agree.";
    LedgerDamaged, "ledger.damaged", Problem, "The ledger's ref leads to nothing whole; its rows are read from the reflog, which expires.";
    LedgerLost, "ledger.lost", Problem, "Neither the ledger's ref nor its reflog leads to anything readable: no agent can be named.";
    LinesDropped, "ledger.lines-dropped", Problem, "A writer other than git-agent dropped events, which are still in the history.";
    ClockAhead, "ledger.clock-ahead", Information, "The clock of the machine that wrote the event is wrong, or the line was made up. The next event of the row puts it in its place.";
    NoteTooLarge, "ledger.note-too-large", Problem, "No row is that long, so another writer made the note; nothing in it is read, and its agent is unknown here.";
    LandingUnproven, "ledger.landing-unproven", Information, "A row is a claim. Either the branch that took the work was not fetched or was rewritten, or the claim is false.";
    SpawnCommitGone, "ledger.commit-gone", Problem, "git notes prune would delete the row, because the commit it is on is gone.";
    KeepDamaged, "keep.damaged", Problem, "The keep chain's ref leads to nothing readable; git gc may delete what it held.";
    KeepIncomplete, "keep.incomplete", Problem, "A commit was kept that leads to missing objects: git gc and git fsck fail, and the ref cannot be pushed.";
    NotKept, "keep.missing", Problem, "Without the keep chain, squash, gc and git notes prune together delete the row.";
    WorkNotKept, "keep.work-missing", Problem, "Without the keep chain git gc deletes the work, and rescue cannot give it back.";
    KeptElsewhere, "keep.elsewhere", Information, "What agents of other clones need is kept there; it is in this clone too once every clone synchronises all.";
    KeptGone, "keep.work-gone", Problem, "What was kept is not in the repository any more; another clone may have it.";
    MailDamaged, "mail.damaged", Problem, "The ref leads to nothing whole, or another program moved it away from messages; its reflog has them, and expires.";
    MailLost, "mail.lost", Problem, "Neither the ref nor its reflog leads to anything readable: messages, or who has read them, are lost here.";
    SpoolWaiting, "mail.spool-waiting", Problem, "Messages of an agent that could not write refs were not sent, because the run that would do it is over.";
    HooksInert, "hooks.inert", Problem, "The agent's worktree is not fenced; a forbidden change is noticed only by verify.";
    OutsideMount, "worktrees.outside-mount", Problem, "A file lies where a layered worktree is and was written by no command of its agent, so no look at the agent's work sees it.";
    BaseDamaged, "pool.base-damaged", Problem, "A base that layered worktrees share was changed: no agent gets it any more, and the next run of each agent over it takes another.";
    SlotHalfMade, "pool.half-made", Problem, "What a killed process left of a warm worktree takes up space and shows in git worktree list.";
    SlotStale, "pool.stale", Information, "A spawn from HEAD does not get the warm worktree, which takes up space.";
    PoolNotFilled, "pool.not-filled", Problem, "Spawns find no warm worktree and make their own, which takes longer.";
    BriefingLeft, "debris.briefing", Information, "What an agent was told may hold credentials, and it is deleted once the agent is merged or discarded.";
    TemporaryLeft, "debris.temporary", Information, "What a killed command put among the temporary files takes up space; the next command that needs such a directory removes it, too.";
    Debris, "debris.old", Problem, "What a killed process left half written or on its way out takes up space.";
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Diagnosis {
    /// What kind of thing.
    pub sign: Sign,
    /// What is the matter and with what, in one line.
    pub what: String,
    /// The command that puts it right, or shows the way.
    pub command: String,
}

impl Diagnosis {
    /// A diagnosis for which there is a command.
    pub fn new(sign: Sign, what: impl Into<String>, command: impl Into<String>) -> Diagnosis {
        Diagnosis { sign, what: what.into(), command: command.into() }
    }

    /// Whether the repository is not as it should be.
    pub fn is_problem(&self) -> bool {
        self.sign.weight() == Weight::Problem
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn signs_are_unique_and_name_their_family() {
        let names: HashSet<_> = Sign::ALL.iter().map(|sign| sign.name()).collect();
        assert_eq!(names.len(), Sign::ALL.len());
        for name in names {
            let (family, what) = name.split_once('.').expect("a family and a what");
            let word = |text: &str| text.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
            assert!(word(family) && word(what), "{name}");
        }
    }
}
