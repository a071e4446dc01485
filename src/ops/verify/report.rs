//! The check commands, and the answer of `verify`: `git-agent.verify/2`.

use crate::agents::checks::check_memory::{CheckMemory, Question};
use crate::agents::checks::check_run::{CheckRequest, CheckRoom};
use crate::agents::checks::check_worktree::{CheckSetup, CheckWorktree};
use crate::agents::stock::commands::leased;
use crate::agents::work::simulated;
use crate::agents::{Ctx, place::projects};
use crate::domain::judge::evidence::{Commands, Conflict, Landing, MergeOutcome};
use crate::domain::judge::finding::verdict_word;
use crate::domain::life::sandbox::Mode;
use crate::domain::{CommandRun, Evidence, Finding, FindingCode, Oid, Verdict};
use crate::error::Result;
use crate::ops::agent_report::TargetReport;
use crate::ops::error_report;
use crate::ops::verify::{COMMAND_LIMIT, Case, VerifyOptions};
use crate::store::files::{fsx, layout, lock};
use crate::wire::output::path_text::PathText;
use serde::{Serialize, Serializer};
use serde_with_macros::skip_serializing_none;
use std::path::{Path, PathBuf};

const SCHEMA: &str = "git-agent.verify/2";

/// The answer: a verdict, and how it is written as JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyReport {
    /// The verdict.
    pub verdict: Verdict,
    /// Where the caller stands, from the top of the repository: globs in printed commands are relative to it.
    pub directory: PathBuf,
    /// Whether the files of its worktree are there behind a mount alone.
    pub is_layered: bool,
    /// Whether its worktree is in this clone: elsewhere no command can go there, nor amend it.
    pub is_here: bool,
}

/// Of an agent as it is seen from the top of the repository.
impl From<Verdict> for VerifyReport {
    fn from(verdict: Verdict) -> VerifyReport {
        VerifyReport { verdict, directory: PathBuf::new(), is_layered: false, is_here: true }
    }
}

impl VerifyReport {
    /// The word for the verdict: `accept` or `reject`.
    pub fn word(&self) -> &'static str {
        verdict_word(self.verdict.is_accepted())
    }

    /// How it would land; `None` for an agent without a branch.
    pub fn merge(&self) -> Option<MergeReport> {
        self.verdict.landing.as_ref().map(merge)
    }
}

/// Writes an answer to a file.
///
/// # Errors
/// `disk-full`, `io`.
pub fn save(ctx: &Ctx, file: &Path, text: &str) -> Result<()> {
    fsx::write_out(&ctx.absolute(file), text.as_bytes())
}

impl Serialize for VerifyReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let verdict = &self.verdict;
        View {
            schema: SCHEMA,
            agent_id: verdict.agent.to_string(),
            short_id: verdict.agent.short(),
            verdict: self.word(),
            tip: verdict.tip.to_hex(),
            tree: verdict.tree.to_hex(),
            target: TargetReport::new(verdict.base_ref.as_deref(), Some(verdict.base)),
            merged_tree: verdict.merged_tree().map(Oid::to_hex),
            bundle_required: verdict.bundle_required,
            bundle_tree: verdict.bundle.map(Oid::to_hex),
            policy: verdict.policy.to_hex(),
            uncommitted: verdict.uncommitted,
            ignored_paths: verdict.ignored,
            setup_paths: verdict.from_setup,
            editor_files: PathText::all(&verdict.droppings),
            merge: self.merge(),
            commands: commands(&verdict.commands),
            findings: findings(verdict.landing.as_ref(), &verdict.findings),
        }
        .serialize(serializer)
    }
}

/// The keys of the answer.
#[skip_serializing_none]
#[derive(Serialize)]
struct View {
    /// The format's name and version.
    schema: &'static str,
    /// The agent's id.
    agent_id: String,
    /// The first eight hex digits of the id.
    short_id: String,
    /// `accept` or `reject`.
    verdict: &'static str,
    /// The commit that was judged; where none can be read, the spawn commit.
    tip: String,
    /// The tree that was judged: the tip's, or the one that committing the rest would make.
    tree: String,
    /// What it would land on.
    target: TargetReport,
    /// The tree that landing would give; absent when it cannot land.
    merged_tree: Option<String>,
    /// Whether the six files are required.
    bundle_required: bool,
    /// The tree of the bundle; absent when none could be read.
    bundle_tree: Option<String>,
    /// The blob of the policy it was judged by.
    policy: String,
    /// How many paths are not committed yet.
    uncommitted: usize,
    /// How many paths of the worktree git ignores, a directory with nothing else in it counted once: they neither
    /// land nor are they judged. Absent where no worktree was looked at.
    ignored_paths: Option<usize>,
    /// How many paths that git would add are as `[setup]` left them: they neither land nor are they judged. Absent
    /// where setup left none.
    setup_paths: Option<usize>,
    /// New files that editors and file managers left, such as `.DS_Store`: they neither land nor are they judged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    editor_files: Vec<PathText>,
    /// How it would land; absent for an agent without a branch.
    merge: Option<MergeReport>,
    /// The commands that ran, until the first that failed.
    commands: Vec<CommandReport>,
    /// What was found, check by check.
    findings: Vec<FindingReport>,
}

/// How work would land.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MergeReport {
    /// `fast-forward`, `clean`, `nothing`, `merged`, `conflicts`, `unrelated`, `base-gone`, or `not-judged` where the
    /// base branch is not in this clone.
    pub state: &'static str,
    /// For `merged`: `ancestor`, `tree` or `patch-id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub how: Option<&'static str>,
    /// Commits that the base branch does not hold.
    pub ahead: usize,
    /// Commits that only the base branch holds.
    pub behind: usize,
    /// Whether the base branch would only have to be moved.
    pub fast_forward: bool,
    /// The paths on which it conflicts.
    pub conflicts: Vec<PathText>,
}

/// A check command that ran.
#[skip_serializing_none]
#[derive(Serialize)]
struct CommandReport {
    /// The command line.
    command: String,
    /// Its status as the shell gives it; absent when it was stopped.
    exit_code: Option<u8>,
    /// The directory of the project that it belongs to; absent for one of the whole repository.
    project: Option<String>,
    /// The tree that it succeeded in, where its result was taken over from there; absent where it ran for this verdict.
    taken_over_from: Option<String>,
    /// How many tests passed, where it said so.
    tests: Option<u64>,
    /// The end of its output, when it failed.
    output: Option<String>,
    /// Whether it is a command of `[setup]`; absent for a check command.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    setup: bool,
    /// Whether it ran over a base that worktrees share; absent where it ran in a copy of all files, or not for this verdict.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    layered: bool,
}

/// One finding.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FindingReport {
    /// The stable code, `<check>.<what>`.
    pub code: &'static str,
    /// `error` or `note`.
    pub severity: &'static str,
    /// The path it is about.
    pub path: Option<PathText>,
    /// For a conflict, git's names for what is wrong, such as `contents`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    /// The commit it is about.
    pub commit: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub fix: String,
}

pub(super) fn merge(landing: &Landing) -> MergeReport {
    MergeReport {
        state: landing.outcome.as_str(),
        how: match landing.outcome {
            MergeOutcome::Landed { how, .. } => Some(how.as_str()),
            _ => None,
        },
        ahead: landing.ahead,
        behind: landing.behind,
        fast_forward: matches!(landing.outcome, MergeOutcome::FastForward { .. }),
        conflicts: { conflicts(landing).iter() }
            .map(|conflict| PathText::from(conflict.path.as_slice()))
            .collect(),
    }
}

fn conflicts(landing: &Landing) -> &[Conflict] {
    match &landing.outcome {
        MergeOutcome::Conflicts(conflicts) => conflicts,
        _ => &[],
    }
}

/// The findings; those of conflicts say which kinds git names.
pub(super) fn findings(landing: Option<&Landing>, found: &[Finding]) -> Vec<FindingReport> {
    let conflicts = landing.map_or(&[][..], conflicts);
    let report = |finding: &Finding| {
        let is_its = |one: &&Conflict| Some(&one.path) == finding.path.as_ref();
        let conflict =
            conflicts.iter().find(is_its).filter(|_| finding.code == FindingCode::MergeConflict);
        FindingReport {
            kinds: conflict.map_or(Vec::new(), |conflict| conflict.kinds.clone()),
            ..FindingReport::from(finding)
        }
    };
    found.iter().map(report).collect()
}

fn commands(commands: &Commands) -> Vec<CommandReport> {
    let Commands::Ran(runs) = commands else {
        return Vec::new();
    };
    runs.iter()
        .map(|run| CommandReport {
            command: run.command.clone(),
            exit_code: run.end.status(),
            project: run.project.clone(),
            taken_over_from: run.taken_over_from.map(Oid::to_hex),
            tests: run.tests,
            // The output of one that succeeds differs from run to run and tells nothing.
            output: (!run.is_success()).then(|| run.output.clone()),
            setup: run.is_setup,
            layered: run.is_layered,
        })
        .collect()
}

impl From<&Finding> for FindingReport {
    fn from(finding: &Finding) -> FindingReport {
        FindingReport {
            code: finding.code.name(),
            severity: finding.code.severity().as_str(),
            path: finding.path.as_deref().map(PathText::from),
            kinds: Vec::new(),
            commit: finding.commit.map(Oid::to_hex),
            message: finding.message.clone(),
            fix: error_report::fix_command(finding),
        }
    }
}

// The check commands, run in a worktree of the merge as it would be.
//
// The worktree stands beside those of the agents, not in the git dir, where test runners look for no
// tests. An OS lock per agent keeps every other verify away from its place, so what a verify made and is
// still there was left by a killed one and is removed first. Anything else there stays.

/// Runs the commands of the policy one after the other, until one fails.
pub(super) fn run(
    ctx: &Ctx,
    options: &VerifyOptions,
    case: &Case<'_>,
    evidence: &Evidence,
) -> Result<Commands> {
    let outcome = evidence.landing.as_ref().map(|landing| &landing.outcome);
    let Some(
        MergeOutcome::Clean { tree }
        | MergeOutcome::FastForward { tree }
        | MergeOutcome::OutOfReach { tree },
    ) = outcome
    else {
        return Ok(Commands::None);
    };
    let policy = case.fence.policy();
    let base = case.subject.base.unwrap_or(case.started);
    let before = ctx.repo.tree_of(base)?;
    let projects = projects::bound(&ctx.repo, policy)?;
    // The commands of the whole repository come first, as they always ran.
    let mut checks = policy.required_checks();
    let is_by_project = checks.commands.is_empty();
    let of_projects = projects::checks_of(&ctx.repo, &projects, before, *tree)?;
    checks.count(&of_projects.commands);
    checks.add(&of_projects);
    if checks.commands.is_empty() {
        return Ok(Commands::None);
    }
    if options.no_commands {
        return Ok(Commands::Skipped);
    }
    // The same each time, so that what is remembered of it is found again.
    let commit = simulated(&ctx.repo, *tree, &[base, case.subject.tip])?;
    let setup = CheckSetup::for_work(ctx, policy, base)?;
    // The merged tree is the agent's work: what runs in it runs behind the fence that a run has by itself.
    let enforcement = ctx.kernel()?.enforcement(Mode::Auto)?;
    let remembers = !ctx.repo.is_scratch() && !case.subject.is_foreign;
    let recalls = remembers && !options.again;
    let mut memory = CheckMemory::open(ctx, &enforcement)?;
    memory.set_up_with(&setup);
    let question = memory.question(commit, &checks);
    let known = |question: &Question, from: Option<Oid>| {
        let mut tests = memory.recall_tests(question).into_iter();
        let commands = checks.commands.iter();
        let runs = commands.map(|command| CommandRun {
            project: checks.projects.get(command).cloned(),
            taken_over_from: from,
            ..CommandRun::passed(command, tests.next().flatten())
        });
        Commands::Ran(runs.collect())
    };
    if recalls && memory.recall(&question) == Some(true) {
        return Ok(known(&question, None));
    }
    let agent = case.subject.agent.id;
    if recalls
        && options.by_train
        && let Some(checked) = memory.train_tree(agent, &[case.work.tree, base, case.policy])
    {
        return Ok(known(&question, Some(checked)));
    }
    // A command of the whole repository reads all of it, and who reads a signature takes the checks for run on what is signed.
    let reuses = setup.reuses_checks && recalls && is_by_project && !options.fresh;
    if reuses
        && ctx.repo.config_bool("agent.sign")? != Some(true)
        && let Some(checked) = memory.green_tree(agent, &checks)
        && ctx.repo.is_at_hand(checked)
        && projects::is_apart(&ctx.repo, &projects, before, checked, *tree)?
    {
        return Ok(known(&question, Some(checked)));
    }
    // Where nothing may be written, or is to be left, the commit is checked out apart.
    let mut _alone = None;
    let mut place = None;
    if remembers {
        let common = ctx.repo.common_dir();
        let id = case.subject.agent.id;
        let short = id.short();
        fsx::create_dir(&layout::agent_dir(common, id))?;
        _alone = Some(lock::hold(common, &layout::verify_lock(&short))?);
        place = Some(CheckWorktree::of(ctx, &short)?);
    }
    let request = CheckRequest {
        for_commands: true,
        commit,
        place,
        setup: &setup,
        fence: (Mode::Auto, &enforcement),
        variables: &leased(ctx, case.subject.agent.id)?,
    };
    let limit = options.limit.unwrap_or(COMMAND_LIMIT);
    let runs = CheckRoom::open(ctx, request)?.check(&checks, limit, false)?;
    // A failure is not remembered: the machine may have been the reason.
    if remembers && runs.iter().all(CommandRun::is_success) {
        memory.keep_tests(&question, &runs);
        memory.keep_green_tree(agent, &checks, *tree);
        memory.keep(question, true);
    } else if remembers && options.again {
        memory.refute(question);
    }
    Ok(Commands::Ran(runs))
}
