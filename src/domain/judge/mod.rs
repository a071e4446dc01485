//! The judge: a contract and the evidence in, findings out. It trusts nothing and reads nothing;
//! the same evidence always gives the same findings in the same order.

pub mod diagnosis;
pub mod evidence;
pub mod finding;
pub mod folded_paths;
mod report;
pub mod test_count;
#[cfg(test)]
mod tests;

use self::evidence::{
    Artefact, ArtefactProblem, BranchHistory, ChangePlace, CommandEnd, CommandRun, Commands,
    Contract, DependencyChange, Evidence, FinalAnswer, Landing, LedgerFacts, MergeOutcome,
    NoWorktree, RowEvidence, Says, WorktreeFacts,
};
use self::finding::{Finding, FindingCode as Code};
use crate::domain::boundary::scope::Denied;
use crate::domain::boundary::violation::{BundleRule, Reason, Violation};
use crate::domain::life::operation::Reverted;
use crate::domain::paths::change::ChangeKind;
use crate::domain::paths::path::{Quoted, is_ignored_by_hfs};
use crate::domain::paths::removal::{in_worktree, out_of_branch, out_of_worktree, pathspec};
use crate::domain::value::{oid::Oid, shell::word};
use crate::domain::{branch_name, work::bundle};
use crate::error::Remedy;
use std::collections::{BTreeMap, HashSet};

/// Everything that is wrong with the work, check by check; notes included.
pub fn judge(contract: &Contract, evidence: &Evidence) -> Vec<Finding> {
    let mut findings = judge_bundle(contract, evidence);
    findings.extend(judge_scope(contract, evidence));
    if let Some(history) = &evidence.history {
        let target = evidence.landing.as_ref().and_then(|landing| landing.refname.as_deref());
        findings.extend(provenance(history, target));
        findings.extend(evidence.merge_commit.map(merge_commit));
        findings.extend(match &evidence.worktree {
            Some(facts) => worktree(facts),
            None => no_worktree(evidence.no_worktree),
        });
    }
    findings.extend(evidence.landing.iter().flat_map(|it| landing(contract, it)));
    findings.extend(evidence.marked.iter().map(marked));
    findings.extend(evidence.dependencies.iter().map(dependency));
    findings.extend(commands(&evidence.commands));
    let has_tree =
        evidence.landing.as_ref().is_some_and(|landing| landing.outcome.tree().is_some());
    if contract.uncounted_tests > 0 && has_tree {
        findings.push(test_count(format!(
            "{} tests have to pass, and there is no check command that runs any",
            contract.uncounted_tests
        )));
    }
    findings.extend(answer(contract, &evidence.answer));
    findings.extend(evidence.failed_audit.iter().map(|it| report::failed_audit(contract, it)));
    findings.extend(evidence.rejected_by_train.then(|| report::rejected_by_train(contract)));
    findings.extend(ledger(&evidence.ledger));
    findings
}

fn provenance(history: &BranchHistory, target: Option<&str>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !history.has_spawn_commit {
        let fix = match (history.spawn_commit, history.fork) {
            // A rebase would leave out what a merge changed itself.
            (Some(oid), _) if history.has_merges => {
                in_worktree(&format!("git merge --no-edit {oid}"))
            }
            // Files of another commit than the spawn commit's would take back, or repeat, what lies between the two.
            (Some(oid), Some(fork)) => in_worktree(&format!(
                "git rebase --autostash --onto {} {}",
                oid.short(),
                fork.short()
            )),
            // The files stay as they are, and become one commit on top of it.
            (Some(oid), None) => {
                in_worktree(&format!("git reset --soft {} && git commit", oid.short()))
            }
            (None, _) => "put the work back on the agent's branch".to_owned(),
        };
        let message = "the branch does not contain the commit that spawn made";
        findings.push(Finding::new(Code::ProvenanceSpawnCommit, message, fix));
    }
    let behind = history.fetched.as_ref();
    let catch_up =
        behind.map(|it| format!("bring the base branch up to date with {it}, as git pull does"));
    if let Some(base) = history.lost_base {
        let onto = target.map_or("<branch>".to_owned(), |name| word(branch_name(name).as_bytes()));
        let short = base.short();
        let rebase = || in_worktree(&history.rebase_onto(&onto, &short));
        let message = format!("the base branch does not hold {short}, where the agent started");
        let fix = catch_up.clone().unwrap_or_else(rebase);
        findings.push(Finding::new(Code::ProvenanceBaseRewritten, message, fix).at(Some(base)));
    }
    findings.extend(history.foreign.iter().map(|commit| {
        Finding::new(
            Code::ProvenanceForeign,
            format!("commit {} is neither the agent's nor the base's", commit.short()),
            catch_up.as_deref().unwrap_or("drop it with git rebase; or, if the agent made it, name it with git commit --amend"),
        )
        .at(Some(*commit))
    }));
    findings
}

fn merge_commit(commit: Oid) -> Finding {
    Finding::new(
        Code::ProvenanceMergeCommit,
        format!(
            "commit {} merges the agent's branch into the base and changes nothing, so the branch was judged",
            commit.short()
        ),
        "nothing to do; to name the branch itself, pass --tip <branch>",
    )
    .at(Some(commit))
}

fn no_worktree(why: NoWorktree) -> Vec<Finding> {
    let (code, message, fix) = match why {
        // That is what was asked for.
        NoWorktree::BranchOnly => return Vec::new(),
        NoWorktree::CommitNamed => (
            Code::WorktreeGone,
            "a commit was named, so no worktree was looked at and only committed work was judged",
            "to judge uncommitted work as well, run verify without --tip and --ci",
        ),
        NoWorktree::Gone => (
            Code::WorktreeGone,
            "there is no worktree here, so only committed work was judged",
            "to judge uncommitted work as well, run verify where the worktree is",
        ),
        NoWorktree::Elsewhere => (
            Code::WorktreeNotJudged,
            "the worktree is in another clone and was not judged here; nothing was recorded",
            "to judge uncommitted work as well, run verify in the clone that the agent was spawned in",
        ),
    };
    vec![Finding::new(code, message, fix)]
}

fn worktree(facts: &WorktreeFacts) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !facts.linked {
        let message = "the worktree's .git file does not lead to its admin directory";
        let fix = "to lead it back";
        findings.push(Finding::new(Code::WorktreeUnlinked, message, fix).remedy(Remedy::Examine));
    }
    // A rebase takes HEAD off the branch, and no switch leads back before it ends.
    if let Some(head) = facts.head_elsewhere.as_ref().filter(|_| facts.in_progress.is_empty()) {
        findings.push(Finding::new(
            Code::WorktreeHead,
            format!("HEAD is on {}, not on the agent's branch", head.on),
            in_worktree(&head.command),
        ));
    }
    findings.extend(facts.in_progress.iter().map(|unfinished| {
        Finding::new(
            Code::WorktreeInProgress,
            format!("{} is unfinished in the worktree", unfinished.named()),
            format!("finish it, or run git {}", unfinished.give_up()),
        )
    }));
    findings.extend(facts.unmerged.iter().map(|path| {
        Finding::new(
            Code::WorktreeUnmerged,
            format!("{} is unmerged in the index", Quoted(path)),
            "resolve the conflict and run git add on the path",
        )
        .on(path)
    }));
    findings.extend(facts.hooks.iter().map(|problem| {
        Finding::new(
            Code::WorktreeHooks,
            problem.clone(),
            "leave hooks and configuration alone; to put them back, outside of the agent",
        )
        .remedy(Remedy::RepairHooks(None))
    }));
    findings.extend(facts.nested.iter().map(|path| {
        Finding::new(
            Code::WorktreeNested,
            format!(
                "{} is a git repository of its own, whose files no commit would hold",
                Quoted(path)
            ),
            "remove the directory, or its .git; where it was added, run git rm --cached on it too",
        )
        .on(path)
    }));
    findings.extend(facts.refused.iter().map(|path| {
        Finding::new(
            Code::WorktreeUnstorable,
            format!("{} has a name that git puts into no commit", Quoted(path)),
            "rename the file, or remove it",
        )
        .on(path)
    }));
    findings.extend(facts.submodules.iter().map(|path| {
        Finding::new(
            Code::WorktreeSubmodule,
            format!(
                "the submodule {} holds files that no commit of it holds, and landing would leave them behind",
                Quoted(path)
            ),
            "commit them in the submodule, or remove them",
        )
        .on(path)
    }));
    findings.extend(facts.unreadable.iter().map(|path| {
        Finding::new(
            Code::WorktreeUnreadable,
            format!("{} cannot be read, so its content is unknown", Quoted(path)),
            "run chmod u+rwx on the directory, or remove what is no regular file",
        )
        .on(path)
    }));
    findings
}

fn landing(contract: &Contract, landing: &Landing) -> Vec<Finding> {
    let branch = landing.refname.as_deref().unwrap_or("the base");
    let mut findings = match &landing.outcome {
        MergeOutcome::BaseGone => vec![Finding::new(
            Code::MergeBaseGone,
            format!("{branch} does not exist any more"),
            "name the branch to land on with --base <branch>",
        )],
        MergeOutcome::OutOfReach { .. } => vec![Finding::new(
            Code::MergeNotJudged,
            format!(
                "{branch} is not in this clone, so how the work would land on it was not judged"
            ),
            "fetch the branch, or name the commit to land on with --base <commit>",
        )],
        MergeOutcome::Unrelated => vec![Finding::new(
            Code::MergeUnrelated,
            format!("the branch of the work and {branch} have no common ancestor"),
            "name the branch to land on with --base <branch>",
        )],
        MergeOutcome::Conflicts(conflicts) => conflicts
            .iter()
            .map(|conflict| {
                let (path, kinds) = (Quoted(&conflict.path), conflict.kinds.join(", "));
                let what = format!("{path} conflicts with {branch} ({kinds})");
                let finding = if landing.behind > 0 {
                    // A plain merge would bring back what the agent took back of its landed work.
                    Finding::new(
                        Code::MergeConflict,
                        what,
                        "commit the work; to resolve the path in its worktree",
                    )
                    .remedy(Remedy::Update(contract.handle()))
                } else {
                    // All that the branch lacks is what the agent began with of the owner's.
                    let own = "commit your own changes on";
                    let fix = format!("{own} {branch} first: the work stands on them");
                    Finding::new(Code::MergeConflict, what, fix)
                };
                finding.on(&conflict.path)
            })
            .collect(),
        MergeOutcome::Nothing { .. }
        | MergeOutcome::Landed { .. }
        | MergeOutcome::FastForward { .. }
        | MergeOutcome::Clean { .. } => Vec::new(),
    };
    findings.extend(landing.reverted.as_ref().map(reverted));
    if landing.approximate {
        findings.push(Finding::new(
            Code::MergeApproximate,
            "git is older than 2.38, so libgit2 answered, which disagrees with it now and then",
            "install a newer git",
        ));
    }
    findings
}

fn reverted(reverted: &Reverted) -> Finding {
    Finding::new(Code::MergeReverted, reverted.meaning(), "to bring that work back first")
        .at(Some(reverted.commit))
        .remedy(reverted.way_back())
}

fn marked((path, line): &(Vec<u8>, usize)) -> Finding {
    Finding::new(
        Code::MergeMarkers,
        format!("{} has a conflict marker on line {line}", Quoted(path)),
        "resolve the conflict; for a file that is to show one, set conflict-marker-size in .gitattributes of the base",
    )
    .on(path)
}

fn commands(commands: &Commands) -> Vec<Finding> {
    match commands {
        Commands::None => Vec::new(),
        Commands::Skipped => vec![Finding::new(
            Code::CommandsSkipped,
            "the check commands were not run, so an accepting verdict is not recorded",
            "run verify without --no-commands",
        )],
        Commands::Ran(runs) => runs.iter().filter_map(command).collect(),
    }
}

fn command(run: &CommandRun) -> Option<Finding> {
    let CommandRun { end, project, .. } = run;
    let of_project = project.iter().map(|path| format!(" of project {path}"));
    let command = format!("`{}`{}", run.command, of_project.collect::<String>());
    let code = match end {
        CommandEnd::Status(0) => return None,
        CommandEnd::TooFewTests { .. } => {
            return Some(test_count(format!("{command} {end} in the merged tree")));
        }
        CommandEnd::Status(_) => Code::CommandFailed,
        CommandEnd::TimedOut(_) => Code::CommandTimedOut,
    };
    // Never with a place that the command names: it would choose what its owner opens.
    let opened = "where the sandbox refused a write, git config --add agent.run.allowWrite <directory> opens a cache";
    if run.is_setup {
        return Some(Finding::new(
            Code::CommandSetupFailed,
            format!("the set-up command {command} {end} in the merged tree, so no check ran"),
            format!(
                "mend what the command reports, or [setup] in the settings of the target; {opened}"
            ),
        ));
    }
    let fix = match code {
        Code::CommandTimedOut => "make it faster, or run verify with a longer --timeout".to_owned(),
        _ => format!("run it in a merge of the two branches and mend what it reports; {opened}"),
    };
    Some(Finding::new(code, format!("{command} {end} in the merged tree"), fix))
}

fn test_count(message: String) -> Finding {
    Finding::new(
        Code::CommandTestCount,
        message,
        "put the tests back, or make a check command print its runner's summary or write a report in JUnit's format",
    )
}

fn answer(contract: &Contract, answer: &FinalAnswer) -> Vec<Finding> {
    match answer {
        FinalAnswer::Free => Vec::new(),
        FinalAnswer::OutOfReach => vec![Finding::new(
            Code::ReportNotJudged,
            "the agent's final answer is not in this clone, so its fields were not judged here",
            "to judge them, run verify in the clone that the agent was spawned in",
        )],
        FinalAnswer::Said(report) => report::judge(&contract.report, report),
        FinalAnswer::SaidForAgent(said) => {
            let mut findings = report::judge(&contract.report, said);
            findings.push(Finding::new(
                Code::AuditNotRecorded,
                "an agent started this audit, so it neither stands against another agent nor clears one",
                "start the audit from outside of every agent",
            ));
            findings
        }
    }
}

fn dependency(change: &DependencyChange) -> Finding {
    Finding::new(
        Code::ScopeDependency,
        format!("{} {}", Quoted(&change.path), change.what),
        "put the dependency back as the base has it",
    )
    .on(&change.path)
}

fn row(row: RowEvidence) -> Option<Finding> {
    let (code, what) = match row {
        RowEvidence::Present => return None,
        RowEvidence::Missing => (
            Code::LedgerMissing,
            "the ledger of this clone has no row for the agent, so whether it was spawned is not known",
        ),
        RowEvidence::NoLedger => (
            Code::LedgerNotJudged,
            "there is no ledger here, so the work was judged by the policy in its spawn commit alone",
        ),
    };
    let finding = Finding::new(code, what, "to judge by the ledger too");
    Some(finding.remedy(Remedy::Synchronise))
}

fn ledger(facts: &LedgerFacts) -> Vec<Finding> {
    let look = "see git log refs/notes/agents for who wrote it, and to read the row";
    let unclear = |code, sentence: &String| {
        Finding::new(code, sentence.clone(), look).remedy(Remedy::Histories)
    };
    let mut findings = Vec::from_iter(row(facts.row));
    findings
        .extend(facts.irregular.iter().map(|sentence| unclear(Code::LedgerIrregular, sentence)));
    findings.extend(facts.disorder.iter().map(|sentence| unclear(Code::LedgerDisorder, sentence)));
    findings.extend(facts.altered.iter().map(|sentence| {
        let fix = "the spawn commit binds; restore the row from a clone that has it right, or, to examine it";
        Finding::new(Code::LedgerPolicy, sentence.clone(), fix).remedy(Remedy::Examine)
    }));
    if facts.broken_links > 0 {
        findings.push(
            Finding::new(
                Code::LedgerChain,
                format!("lines of the row were changed or removed ({})", facts.broken_links),
                "to put back what another writer took out",
            )
            .remedy(Remedy::Repair),
        );
    }
    findings
}

// The six files.

/// What is wrong with the bundle. One that is not required is not looked at.
fn judge_bundle(contract: &Contract, evidence: &Evidence) -> Vec<Finding> {
    if !contract.bundle_required {
        return Vec::new();
    }
    if evidence.bundle_out_of_reach {
        return vec![
            Finding::new(
                Code::BundleNotJudged,
                "the bundle is not in this clone and was not judged here",
                "after verify in the clone that the agent was spawned in, and in both clones",
            )
            .remedy(Remedy::SynchroniseAll),
        ];
    }
    let bundle = &evidence.bundle;
    bundle.iter().filter_map(|artefact| problem(contract, artefact)).collect()
}

fn problem(contract: &Contract, artefact: &Artefact) -> Option<Finding> {
    let name = artefact.name;
    // The order is from what cannot be read to what is read and wrong, so that each file has one
    // finding.
    let (code, what, fix) = match (&artefact.text, &artefact.says) {
        (Err(problem), _) => unreadable(*problem),
        (Ok(text), _) if !text.chars().any(is_written) => {
            (Code::BundleEmpty, "is empty".to_owned(), "write what belongs there")
        }
        (Ok(text), _) if bundle::is_template(name, text) => (
            Code::BundleTemplate,
            "is still the template that spawn wrote".to_owned(),
            "replace the template with what it asks for",
        ),
        (Ok(_), Says::Digest(digest)) if *digest != contract.spec_sha => (
            Code::BundleSpecChanged,
            "is not the specification that spawn wrote".to_owned(),
            "put back what spawn wrote; the specification is not the agent's to change",
        ),
        (Ok(_), Says::Status(status)) if status.as_deref() != Some("done") => (
            Code::BundleNotDone,
            match status {
                Some(status) => format!("says that the status is {status:?}, not \"done\""),
                None => "is not a JSON object with a `status`".to_owned(),
            },
            "finish the work, then write {\"status\": \"done\"}",
        ),
        (Ok(_), _) => return None,
    };
    // From the top of the worktree, as every other path is.
    let path = match &contract.boundary.bundle {
        Some(directory) => [directory.as_bytes(), b"/", name.as_bytes()].concat(),
        None => name.as_bytes().to_vec(),
    };
    Some(Finding::new(code, format!("{name} {what}"), fix).on(&path))
}

/// Whether a character says something to a reader.
fn is_written(c: char) -> bool {
    !(c.is_whitespace() || c.is_control() || is_ignored_by_hfs(c))
}

fn unreadable(problem: ArtefactProblem) -> (Code, String, &'static str) {
    let (code, what, fix) = match problem {
        ArtefactProblem::Missing => (Code::BundleMissing, "is missing", "write the file"),
        ArtefactProblem::NotFile => {
            (Code::BundleNotFile, "is not a regular file", "put a regular file there")
        }
        ArtefactProblem::TooLarge => {
            (Code::BundleTooLarge, "is larger than 4 MiB", "shorten the file")
        }
        ArtefactProblem::NotUtf8 => {
            (Code::BundleNotUtf8, "is not UTF-8 text", "write the file as UTF-8 text")
        }
        ArtefactProblem::Unreadable => {
            (Code::BundleUnreadable, "could not be read", "see that the file may be read")
        }
    };
    (code, what.to_owned(), fix)
}

// Every path that was touched, wherever it was, against the boundary. A path is reported once for
// each reason, at the first place that touched it.

/// What was touched and must not have been.
fn judge_scope(contract: &Contract, evidence: &Evidence) -> Vec<Finding> {
    let mut seen = HashSet::new();
    let mut paths = HashSet::new();
    let violations = evidence.touches.iter().filter_map(|touch| {
        // The files of the bundle were left out where they may be, which is in the worktree.
        let rule = BundleRule::NeverCommitted;
        let boundary = &contract.boundary;
        let violation = boundary.violation(&touch.change, rule, &evidence.other_names)?;
        Some((violation, touch.place))
    });
    let found: Vec<_> = violations
        .filter(|(violation, place)| {
            let is_new = paths.insert(violation.path.clone());
            let code = code(&violation.reason);
            // What a commit did is named there. Git can do more when it lands the work: it applies a change to where a file is
            // on the target, and moves new files along with a directory.
            (is_new || *place != ChangePlace::Landing)
                && seen.insert((code, violation.path.clone()))
        })
        .collect();
    // One command for all: after the first of several, the others would name commits that are gone. Commits come parents first.
    let of_commits = found.iter().filter_map(|(violation, place)| match place {
        ChangePlace::Commit(commit) => Some((commit, violation)),
        _ => None,
    });
    let commits: Vec<_> = of_commits.clone().map(|(commit, _)| *commit).collect();
    let mend = (!commits.is_empty()).then(|| {
        let mut paths = BTreeMap::new();
        for (_, violation) in of_commits {
            let path = violation.path.as_slice();
            paths.entry(path).or_insert(violation.removal());
        }
        let foreign = evidence.history.iter().flat_map(|it| &it.foreign);
        in_worktree(&out_of_branch(&commits, foreign, &evidence.parents, paths))
    });
    found.iter().map(|(violation, place)| finding(violation, *place, mend.as_deref())).collect()
}

fn code(reason: &Reason) -> Code {
    match reason {
        Reason::Scope(denied) | Reason::Alias { denied, .. } => match denied {
            Denied::ByDenylist(_) => Code::ScopeDenylist,
            Denied::NotInWhitelist => Code::ScopeNotInWhitelist,
            Denied::Never(_) => Code::ScopeNever,
        },
        Reason::ReadOnly => Code::ScopeReadOnly,
        Reason::Bundle => Code::ScopeBundle,
        Reason::Link { .. } => Code::ScopeSymlinkTarget,
        Reason::Outside => Code::ScopeOutsideWorktree,
        Reason::Unseen => Code::WorktreeNested,
    }
}

/// `mend` is the command for what commits did.
fn finding(violation: &Violation, place: ChangePlace, mend: Option<&str>) -> Finding {
    let path = Quoted(&violation.path);
    let code = match place {
        ChangePlace::Landing => Code::ScopeLanding,
        _ => code(&violation.reason),
    };
    // The command that the hook after a tool names.
    let take_back = |kind| out_of_worktree("", b"", kind, &violation.path);
    let (place, fix, commit) = match place {
        ChangePlace::Commit(commit) => (
            format!("in commit {}", commit.short()),
            mend.unwrap_or_default().to_owned(),
            Some(commit),
        ),
        ChangePlace::Index => (
            "in the index".to_owned(),
            match violation.reason {
                // It has to stay where it is.
                Reason::Bundle => {
                    let path = pathspec(&violation.path);
                    in_worktree(&format!("git restore --staged -- {path}"))
                }
                _ => in_worktree(&take_back(violation.kind)),
            },
            None,
        ),
        ChangePlace::Worktree => (
            "in the worktree".to_owned(),
            // What is new and staged was found in the index before.
            in_worktree(&take_back(match violation.kind {
                ChangeKind::Added => ChangeKind::Untracked,
                kind => kind,
            })),
            None,
        ),
        ChangePlace::Landing => (
            "by the landing: files were moved on the target, or it lacks the base".to_owned(),
            "take the change out, rebase it, or start the task again from the target".to_owned(),
            None,
        ),
    };
    let (kind, reason) = (violation.kind, &violation.reason);
    let message = format!("{path} ({kind} {place}): {reason}");
    Finding::new(code, message, fix).on(&violation.path).at(commit)
}
