//! What a judgement finds: a stable code, what it is about, and what to do.

use super::evidence::{Commands, Landing, MergeOutcome};
use crate::domain::life::event::Verified;
use crate::domain::life::id::AgentId;
use crate::domain::value::named::named;
use crate::domain::value::oid::Oid;
use crate::error::{Remedy, codes};

named! {
    /// How much a finding weighs.
    #[derive(Hash, PartialOrd, Ord)]
    pub enum Severity {
        /// The work is rejected.
        Error = "error",
        /// Worth knowing; the work may still be accepted.
        Note = "note",
    }
}

codes! {
    /// Stable names of everything a judgement can find, as `<check>.<what>`. Never reused.
    pub enum FindingCode;
    /// How much it weighs.
    pub fn severity -> Severity;
    /// What the code means, in one line.
    pub fn meaning;

    BundleMissing, "bundle.missing", Error, "One of the six artefact files is not there.";
    BundleEmpty, "bundle.empty", Error, "An artefact file holds nothing but blanks.";
    BundleTemplate, "bundle.template", Error, "An artefact file is still the template that spawn wrote.";
    BundleNotFile, "bundle.not-file", Error, "Something other than a regular file is in an artefact's place.";
    BundleTooLarge, "bundle.too-large", Error, "An artefact file is larger than 4 MiB.";
    BundleNotUtf8, "bundle.not-utf8", Error, "An artefact file is not UTF-8 text.";
    BundleUnreadable, "bundle.unreadable", Error, "An artefact file could not be read.";
    BundleSpecChanged, "bundle.spec-changed", Error, "The specification is not the one that spawn wrote.";
    BundleNotDone, "bundle.not-done", Error, "progress.json is not an object whose status is \"done\".";
    BundleNotJudged, "bundle.not-judged", Note, "The six files are not in this clone, so they were not judged here.";
    ScopeDenylist, "scope.denylist", Error, "The work changes a path that a glob of the denylist matches.";
    ScopeNotInWhitelist, "scope.not-in-whitelist", Error, "The work changes a path that no glob of the whitelist matches.";
    ScopeNever, "scope.never", Error, "The work changes a path that no scope can allow, such as one in a git directory.";
    ScopeReadOnly, "scope.read-only", Error, "An agent whose role changes no files changed one.";
    ScopeBundle, "scope.bundle", Error, "A file of the bundle was committed or staged.";
    ScopeSymlinkTarget, "scope.symlink-target", Error, "A symlink leads out of the worktree, or could through another one.";
    ScopeOutsideWorktree, "scope.outside-worktree", Error, "The work changes a path outside the worktree.";
    ScopeLanding, "scope.landing", Error, "Landing would change a path that is out of scope, because files were moved on the target, or it lacks the base.";
    ScopeDependency, "scope.dependency-changed", Error, "The work adds, removes or changes a dependency, which its task or the repository forbids.";
    ProvenanceSpawnCommit, "provenance.spawn-commit", Error, "The branch contains neither the spawn commit nor a rebased copy of it, nor a commit that carries it in a header.";
    ProvenanceBaseRewritten, "provenance.base-rewritten", Error, "The commit the agent started from is not in the base branch.";
    ProvenanceForeign, "provenance.foreign-commit", Error, "The branch contains a commit that is neither the agent's nor the base branch's.";
    ProvenanceMergeCommit, "provenance.merge-commit", Note, "The commit merges the agent's branch into the base branch, so the agent's branch was judged.";
    ProvenanceMergeChanges, "provenance.merge-changes", Error, "A merge of an agent's work changes it.";
    ProvenanceNotJudged, "provenance.not-judged", Note, "Commits are no agent's, so they were not judged.";
    WorktreeInProgress, "worktree.in-progress", Error, "A merge, rebase or similar operation is unfinished.";
    WorktreeUnmerged, "worktree.unmerged", Error, "The index has unmerged paths.";
    WorktreeHead, "worktree.head", Error, "HEAD is not on the agent's branch.";
    WorktreeUnlinked, "worktree.unlinked", Error, "The worktree's .git file does not lead back to its admin directory.";
    WorktreeHooks, "worktree.hooks", Error, "The git hooks of the worktree were removed or altered.";
    WorktreeNested, "worktree.nested-repository", Error, "A git repository inside the worktree hides its files, or was added as a link to a commit that no `.gitmodules` names.";
    WorktreeUnstorable, "worktree.unstorable", Error, "Git puts a file into no commit because of its name, such as one that some system takes for `.git`.";
    WorktreeSubmodule, "worktree.submodule", Error, "A submodule holds files that are in no commit of it.";
    WorktreeUnreadable, "worktree.unreadable", Error, "A directory that cannot be read hides its files.";
    WorktreeGone, "worktree.gone", Note, "There is no worktree here, or it was not read, so only committed work was judged.";
    WorktreeNotJudged, "worktree.not-judged", Note, "The worktree is in another clone, so it was not judged here.";
    WorkUnreadable, "work.unreadable", Error, "The agent's branch, objects, index, settings or files cannot be read.";
    MergeConflict, "merge.conflict", Error, "The work conflicts with the base branch as it is now.";
    MergeMarkers, "merge.conflict-markers", Error, "The work gives a file conflict markers that it did not have.";
    MergeReverted, "merge.reverted", Error, "A landing of this branch was taken back by a commit on top, and merging it again brings none of that work.";
    MergeUnrelated, "merge.unrelated", Error, "The branch and the base branch have no common ancestor.";
    MergeBaseGone, "merge.base-gone", Error, "The base branch does not exist any more.";
    MergeNotJudged, "merge.not-judged", Note, "The base branch is not in this clone, so how the work would land was not judged.";
    MergeApproximate, "merge.approximate", Note, "This git is too old to merge without a worktree, so libgit2 answered.";
    CommandFailed, "commands.failed", Error, "A check command failed in the merged tree.";
    CommandTimedOut, "commands.timed-out", Error, "A check command took too long.";
    CommandSetupFailed, "commands.setup-failed", Error, "A set-up command failed in the merged tree, so no check command ran.";
    CommandTestCount, "commands.test-count", Error, "Fewer tests passed than the task or the repository asks for, or no check command said how many.";
    CommandsSkipped, "commands.skipped", Note, "The check commands were not run.";
    ReportFieldMissing, "report.field-missing", Error, "The agent's final answer lacks a field that its task asks for.";
    ReportContradiction, "report.contradiction", Error, "The agent's final answer says two things where one is asked for.";
    ReportValue, "report.value", Error, "A field of the agent's final answer has a value that its role does not know.";
    ReportTagMissing, "report.tag-missing", Error, "The agent's final answer has findings without one of the tags that its role asks for.";
    ReportAgentUnknown, "report.agent-unknown", Error, "A field of the agent's final answer names no agent, or none that it may report on.";
    ReportTipMismatch, "report.tip-mismatch", Error, "The agent's final answer is about another tip than the one that its subject has.";
    ReportCommitUnknown, "report.commit-unknown", Error, "A field of the agent's final answer names no commit, or one that does not hold the work.";
    ReportNotJudged, "report.not-judged", Note, "The agent's final answer is not in this clone, so its fields were not judged here.";
    AuditFailed, "audit.failed", Error, "Another agent audited the work and failed it, and neither a person nor a later audit says otherwise.";
    TrainRejected, "train.rejected", Error, "A train rejected the work because its checks failed, and neither a person nor a later train says otherwise.";
    AuditNotRecorded, "audit.not-recorded", Note, "An agent started the audit, so it does not count.";
    GuardNoRule, "guard.no-rule", Note, "No rule of the base is for the branch, so it was not judged.";
    AttestationSignature, "attestation.signature", Error, "No allowed signer signed the attestation.";
    AttestationStatement, "attestation.statement", Error, "What was signed is no accepting verdict of this program.";
    AttestationSubject, "attestation.subject", Error, "The attestation is about another commit.";
    LedgerNotJudged, "ledger.not-judged", Note, "There is no ledger in this clone, so only the policy in the spawn commit was used.";
    LedgerMissing, "ledger.missing", Error, "The ledger has no row for the agent.";
    LedgerIrregular, "ledger.irregular", Error, "The agent's row leaves in doubt what binds the agent: how it began, or whether its policy was amended.";
    LedgerDisorder, "ledger.disorder", Note, "The agent's row holds events in an order that cannot have happened.";
    LedgerPolicy, "ledger.policy", Error, "The agent's row names another policy, base, role or isolation than its spawn commit.";
    LedgerChain, "ledger.chain", Error, "Lines of the agent's row were changed or removed.";
}

impl FindingCode {
    /// Whether it is about the six files.
    pub fn is_of_bundle(self) -> bool {
        self.name().starts_with("bundle.")
    }
}

/// One thing that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What kind of thing.
    pub code: FindingCode,
    /// The path it is about, as git knows it.
    pub path: Option<Vec<u8>>,
    /// The commit it is about; absent for work that is not committed.
    pub commit: Option<Oid>,
    /// What is wrong, in one line.
    pub message: String,
    /// What to do about it, in one line; where there is a remedy, what that is for.
    pub fix: String,
    /// What this program can do about it.
    pub remedy: Option<Remedy>,
}

impl Finding {
    /// A finding about the work as a whole.
    pub fn new(code: FindingCode, message: impl Into<String>, fix: impl Into<String>) -> Finding {
        Finding {
            code,
            path: None,
            commit: None,
            message: message.into(),
            fix: fix.into(),
            remedy: None,
        }
    }

    /// Says what this program can do about it.
    #[must_use]
    pub fn remedy(mut self, remedy: Remedy) -> Finding {
        self.remedy = Some(remedy);
        self
    }

    /// Says which path it is about.
    #[must_use]
    pub fn on(mut self, path: &[u8]) -> Finding {
        self.path = Some(path.to_owned());
        self
    }

    /// Says which commit it is about.
    #[must_use]
    pub fn at(mut self, commit: Option<Oid>) -> Finding {
        self.commit = commit;
        self
    }

    /// Whether the finding rejects the work.
    pub fn rejects(&self) -> bool {
        self.code.severity() == Severity::Error
    }
}

// Whether an agent's work may land, and what that answer rests on.

/// The judgement of one agent's work at one moment. Nothing in it depends on the time or the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The agent.
    pub agent: AgentId,
    /// The commit that was judged.
    pub tip: Oid,
    /// The tree that was judged: the tip's, or the one that committing the rest would make.
    pub tree: Oid,
    /// The full name of the branch to land on; absent when the base is a mere commit.
    pub base_ref: Option<String>,
    /// The commit that branch is at; when the branch is gone, the one that the agent started from.
    pub base: Oid,
    /// Whether the six files are required.
    pub bundle_required: bool,
    /// The tree of the bundle; absent when no file could be read.
    pub bundle: Option<Oid>,
    /// The blob of the policy that the work was judged by.
    pub policy: Oid,
    /// How many paths are not committed yet.
    pub uncommitted: usize,
    /// How many paths of the worktree git ignores; absent where no worktree was looked at.
    pub ignored: Option<usize>,
    /// How many paths are as `[setup]` left them; absent where setup left none.
    pub from_setup: Option<usize>,
    /// New files that editors and file managers left: they are no work and do not land.
    pub droppings: Vec<Vec<u8>>,
    /// How the work would land; absent for an agent without a branch.
    pub landing: Option<Landing>,
    /// The check commands that ran.
    pub commands: Commands,
    /// What was found, check by check.
    pub findings: Vec<Finding>,
}

/// The word for a verdict.
pub fn verdict_word(is_accepted: bool) -> &'static str {
    if is_accepted { "accept" } else { "reject" }
}

impl Verdict {
    /// Whether the work may land.
    pub fn is_accepted(&self) -> bool {
        !self.findings.iter().any(Finding::rejects)
    }

    /// Whether there is work that may land, or has landed.
    pub fn can_land(&self) -> bool {
        self.is_accepted() && !matches!(self.outcome(), Some(MergeOutcome::Nothing { .. }))
    }

    /// What landing would come to; absent for an agent without a branch.
    pub fn outcome(&self) -> Option<&MergeOutcome> {
        Some(&self.landing.as_ref()?.outcome)
    }

    /// Whether a part was left out that could have rejected the work.
    pub fn is_partial(&self) -> bool {
        self.has(FindingCode::CommandsSkipped) || self.lacks_bundle()
    }

    /// Why the work could not be read, where that is so.
    pub fn unreadable(&self) -> Option<&str> {
        let is_it = |finding: &&Finding| finding.code == FindingCode::WorkUnreadable;
        self.findings.iter().find(is_it).map(|finding| finding.message.as_str())
    }

    /// Whether the bundle was left out, which could have rejected the work.
    pub fn lacks_bundle(&self) -> bool {
        self.has(FindingCode::BundleNotJudged)
    }

    /// Whether a finding of this kind is among them.
    pub fn has(&self, code: FindingCode) -> bool {
        self.findings.iter().any(|finding| finding.code == code)
    }

    /// The tree that landing would give; absent when the work cannot land.
    pub fn merged_tree(&self) -> Option<Oid> {
        self.outcome()?.tree()
    }

    /// The findings that are about the six files and reject the work.
    pub fn bundle_errors(&self) -> impl Iterator<Item = &Finding> {
        let about_bundle = |finding: &&Finding| finding.rejects() && finding.code.is_of_bundle();
        self.findings.iter().filter(about_bundle)
    }

    /// The verdict as the ledger records it.
    pub fn recorded(&self) -> Verified {
        let rejecting = self.findings.iter().filter(|finding| finding.rejects());
        let mut codes: Vec<String> =
            rejecting.map(|finding| finding.code.name().to_owned()).collect();
        codes.dedup();
        Verified {
            accepted: self.is_accepted(),
            tip: self.tip,
            tree: self.tree,
            base: self.base,
            merged_tree: self.merged_tree(),
            bundle: self.bundle,
            policy: self.policy,
            findings: codes,
            fails_with: None,
            into: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn codes_are_unique_and_name_their_check() {
        let names: HashSet<_> = FindingCode::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(names.len(), FindingCode::ALL.len());
        for name in names {
            let (check, what) = name.split_once('.').expect("a check and a what");
            let word = |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
            assert!(word(check) && word(what), "{name}");
        }
    }
}
