//! `git agent verify`

use crate::agents::place::{projects, worktree};
use crate::agents::{Ctx, CurrentAgent, stock::layered};
use crate::cli::input::args::or_current;
use crate::cli::out::format::{CopyArgs, with_findings};
use crate::cli::out::markdown::{Summary, part_line};
use crate::cli::out::render::table::wrapped;
use crate::cli::out::render::{counted, finding_text, sarif_of, verdict_word};
use crate::cli::out::terminal::{BAD, BOLD, DIM, GOOD, HINT, paint, width};
use crate::cli::out::ui::{Answer, Format, Ui};
use crate::domain::boundary::scope::is_control_file;
use crate::domain::judge::evidence::{CommandEnd, Commands, Landing, MergeOutcome};
use crate::domain::judge::folded_paths::by_code;
use crate::domain::mail::message::plain;
use crate::domain::paths::glob::{escaped, seen_from};
use crate::domain::paths::removal::IN_WORKTREE;
use crate::domain::work::task::parse_duration;
use crate::domain::{
    CommandRun, Finding, FindingCode, Quoted, State, Verdict, branch_name, value::shell,
    work::bundle,
};
use crate::error::{Exit, Result};
use crate::ops::verify::{
    self, AttestedOptions, AttestedReport, CiAnswer, FindingReport, PartsReport, Recording,
    VerifyOptions, VerifyReport,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How many globs an advice gives; of very many a person knows a shorter one.
const MOST_GLOBS: usize = 5;

/// Judge an agent's work: bundle, scope, provenance, merge, check commands, ledger
///
/// The verdict on finished work is recorded: an accepting verdict makes the agent done, a rejecting one makes it idle.
/// Work is finished once a run has ended or `git agent mark done` was called; a verdict on other work is shown and
/// changes nothing. If an agent verifies its own work, nothing is recorded.
#[derive(Debug, clap::Args)]
#[command(arg = with_findings())]
pub(in crate::cli) struct VerifyArgs {
    /// Agent: its id or a prefix of 4 digits or more, its name, its branch or its worktree; without one, the agent whose
    /// worktree this is or, elsewhere, whose spawn commit the branch of --tip holds
    #[arg(value_name = "AGENT")]
    agent: Option<String>,
    /// Worktree of the agent; refused if it is another agent's
    #[arg(value_name = "WORKTREE")]
    worktree: Option<PathBuf>,
    /// Land on this revision instead of the branch the agent started from
    #[arg(long, value_name = "REV")]
    base: Option<String>,
    /// Judge this revision instead of the branch and uncommitted changes; needs no worktree
    #[arg(long, value_name = "REV", conflicts_with = "worktree")]
    tip: Option<String>,
    /// Find the agent by the spawn commit on the branch of --tip, or of HEAD
    #[arg(long, conflicts_with = "worktree")]
    ci: bool,
    /// With --ci: name of the branch under review, if --tip is not a branch; a branch with an agent's name must hold an agent's
    /// work
    #[arg(long, value_name = "BRANCH", requires = "ci")]
    branch: Option<String>,
    /// Skip the check commands; an accepting verdict is then not recorded
    #[arg(long)]
    no_commands: bool,
    /// Run the check commands once more, although they succeeded on the same before
    #[arg(long, conflicts_with = "no_commands")]
    fresh: bool,
    /// Also record the verdict on unfinished work
    #[arg(long, conflicts_with_all = ["ci", "attested"])]
    record: bool,
    /// How long one check command may take [default: 10m]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    timeout: Option<Duration>,
    #[command(flatten)]
    copies: CopyArgs,
    /// Write an accepting verdict to a file, as an in-toto statement signed with your ssh key
    #[arg(long, value_name = "FILE")]
    attest: Option<PathBuf>,
    /// Check a file that --attest wrote instead, by itself or for the commit of --tip
    #[arg(long, value_name = "FILE", conflicts_with_all = ["agent", "worktree", "base", "ci", "no_commands", "fresh", "timeout", "attest", "also"])]
    attested: Option<PathBuf>,
    /// List of allowed signers [default: gpg.ssh.allowedSignersFile]
    #[arg(long, value_name = "FILE", requires = "attested")]
    signers: Option<PathBuf>,
}

impl VerifyArgs {
    /// Which attestation is checked, where that is what was asked for.
    pub(in crate::cli) fn attested(&self) -> Option<AttestedOptions> {
        Some(AttestedOptions {
            file: self.attested.clone()?,
            tip: self.tip.clone(),
            signers: self.signers.clone(),
        })
    }
}

/// `--attested`: a file is checked where it is needed, be there a repository or not.
pub(in crate::cli) fn run_attested(ui: &mut Ui, options: &AttestedOptions) -> Result<Exit> {
    let (ctx, directory) = Ctx::anywhere()?;
    let report = verify::attested(&ctx, options, directory.is_none())?;
    ui.answer(&report)?;
    Ok(Exit::answer(report.verdict == "accept"))
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: VerifyArgs) -> Result<Exit> {
    // Where there is no agent's worktree to stand in, as in CI, the branch says whose it is.
    let is_by_branch = args.agent.is_none()
        && args.tip.is_some()
        && !args.record
        && CurrentAgent::find(&ctx.env, &[&ctx.env.directory])?.is_none();
    let ci = args.ci || is_by_branch;
    let agent = if ci { args.agent } else { Some(or_current(ctx, ui, args.agent.as_deref())?) };
    let options = VerifyOptions {
        agent,
        worktree: args.worktree,
        base: args.base,
        tip: args.tip,
        ci,
        no_commands: args.no_commands,
        fresh: args.attest.is_some(),
        again: args.fresh,
        limit: args.timeout,
        recording: if args.record { Recording::Requested } else { Recording::ByOthers },
        ..VerifyOptions::default()
    };
    let verdict = if options.ci {
        match verify::verify_ci(ctx, &options, args.branch.as_deref())? {
            CiAnswer::Agent(verdict) => *verdict,
            CiAnswer::Parts(report) => {
                ui.answer_also(&report, ctx, &args.copies.also)?;
                return Ok(match report.verdict {
                    Some("accept") => Exit::Yes,
                    Some(_) => Exit::No,
                    // Neither yes nor no: no agent is known whose policy could tell.
                    None => Exit::Usage,
                });
            }
        }
    } else {
        verify::verify(ctx, &options)?
    };
    if let Some(file) = &args.attest {
        verify::attest(ctx, &verdict, file)?;
    }
    if ui.format() == Format::Text
        && let Some(text) = artefacts_missing(&verdict)
    {
        ui.say(&text);
    }
    let report = VerifyReport {
        is_layered: layered::of(&ctx.repo, verdict.agent).is_some(),
        is_here: worktree::admin_dir(&ctx.repo, verdict.agent).exists(),
        directory: projects::directory_in_repository(ctx),
        verdict,
    };
    ui.answer_also(&report, ctx, &args.copies.also)?;
    if ui.format() == Format::Text
        && report.verdict.is_accepted()
        && let Ok(agent) = ctx.ledger().find(&report.verdict.agent.to_string())
        && agent.state == State::Rejected
    {
        let id = agent.id.short();
        ui.warn(&format!(
            "agent {id} was rejected by hand, so it does not land; to see what can be taken back, run git agent undo --list"
        ));
    }
    Ok(Exit::answer(report.verdict.is_accepted()))
}

/// The list of what is wrong with the six files, for standard error; `None` when nothing is.
pub(in crate::cli) fn artefacts_missing(verdict: &Verdict) -> Option<String> {
    let missing = verdict.bundle_errors();
    let lines: String = missing.map(|finding| format!("  {}\n", finding.message)).collect();
    (!lines.is_empty()).then(|| format!("MISSING for {}:\n{lines}", verdict.agent))
}

impl Answer for VerifyReport {
    fn text(&self) -> String {
        let verdict = &self.verdict;
        let mut text = String::new();
        if has_bundle(verdict) {
            text.push_str(&format!(
                "OK: all {} artefacts present for {}\n",
                bundle::FILES.len(),
                verdict.agent
            ));
        }
        let word =
            if verdict.is_accepted() { paint(GOOD, "accepted") } else { paint(BAD, "rejected") };
        let facts = format!("{} {}", verdict.agent.short(), facts(verdict));
        // The word and the colon stand on the first line.
        let facts = wrapped(&facts, "accepted: ".len(), width());
        text.push_str(&format!("{word}: {facts}\n"));
        text.push_str(&bundle_text(verdict));
        text.push_str(&findings_text(&verdict.findings));
        if self.is_here {
            text.push_str(&ways_text(verdict, self.is_layered, &self.directory));
        }
        text.push_str(&projects_text(&verdict.commands));
        failed(&verdict.commands).for_each(|command| text.push_str(&command_text(command)));
        text
    }

    fn rows(&self) -> Vec<Value> {
        let findings =
            self.verdict.findings.iter().map(|finding| json!(FindingReport::from(finding)));
        findings.chain([json!(self)]).collect()
    }

    fn sarif(&self) -> Option<Value> {
        let findings: Vec<FindingReport> =
            self.verdict.findings.iter().map(FindingReport::from).collect();
        Some(sarif_of("verify", &findings))
    }

    fn markdown(&self) -> Option<String> {
        let verdict = &self.verdict;
        let findings: Vec<_> = verdict.findings.iter().map(FindingReport::from).collect();
        let merge = self.merge();
        let base = verdict.base_ref.as_deref().unwrap_or_default();
        let summary = Summary {
            verdict: Some(self.word()),
            what: format!("agent {}", verdict.agent.short()),
            tip: &verdict.tip.to_hex(),
            target: branch_name(base),
            merge: merge.as_ref(),
            findings: &findings,
            commands: ran(&verdict.commands),
        };
        Some(summary.text())
    }
}

impl Answer for PartsReport {
    fn text(&self) -> String {
        let what = match &self.branch {
            Some(branch) => format!("{branch} at {}", &self.tip[..7]),
            None => self.tip[..7].to_owned(),
        };
        let mut text = format!("{}: {what}\n", verdict_word(self.verdict));
        for part in &self.parts {
            let subject = Quoted(part.subject.as_bytes());
            text.push_str(&format!(
                "  {} {} {subject}{}\n",
                verdict_word(part.verdict),
                &part.commit[..7],
                paint(DIM, &part.origin())
            ));
        }
        self.findings.iter().for_each(|finding| text.push_str(&finding_text(finding)));
        text
    }

    fn rows(&self) -> Vec<Value> {
        let findings = self.findings.iter().map(|finding| json!(finding));
        findings.chain([json!(self)]).collect()
    }

    fn sarif(&self) -> Option<Value> {
        Some(sarif_of("verify", &self.findings))
    }

    fn markdown(&self) -> Option<String> {
        let branch = self.branch.as_deref();
        let mut summary = Summary {
            verdict: self.verdict,
            what: branch.map_or_else(String::new, |branch| format!("branch {branch}")),
            tip: &self.tip,
            target: self.target.short(),
            merge: None,
            findings: &self.findings,
            commands: &[],
        }
        .text();
        for part in &self.parts {
            summary.push_str(&part_line(part));
        }
        Some(summary)
    }
}

fn ran(commands: &Commands) -> &[CommandRun] {
    match commands {
        Commands::Ran(ran) => ran,
        Commands::None | Commands::Skipped => &[],
    }
}

/// The commands that did not succeed.
fn failed(commands: &Commands) -> impl Iterator<Item = &CommandRun> {
    let ran = ran(commands).iter();
    ran.filter(|run| run.end != CommandEnd::Status(0))
}

/// Where checks are of projects, a line for each that ran: whether it succeeded, and whether it ran for this verdict.
fn projects_text(commands: &Commands) -> String {
    let checks: Vec<_> = ran(commands).iter().filter(|run| !run.is_setup).collect();
    if checks.iter().all(|run| run.project.is_none()) {
        return String::new();
    }
    let line = |run: &&CommandRun| {
        let word = if run.is_success() { paint(GOOD, "passed") } else { paint(BAD, "failed") };
        let from = run.taken_over_from.map_or_else(String::new, |tree| {
            let short = &tree.to_hex()[..7];
            format!(", taken over from tree {short}: only other projects differ there")
        });
        let project = run.project.as_ref().map_or_else(String::new, |name| format!("{name}: "));
        format!("  {project}`{}` {word}{from}\n", run.command)
    };
    checks.iter().map(line).collect()
}

/// Whether the six files had to be there and no finding is about them.
fn has_bundle(verdict: &Verdict) -> bool {
    let of_bundle = |finding: &Finding| finding.code.is_of_bundle();
    verdict.bundle_required && !verdict.findings.iter().any(of_bundle)
}

/// What was judged, and whether and how it can be merged, in one line.
fn facts(verdict: &Verdict) -> String {
    let base = match &verdict.base_ref {
        Some(name) => branch_name(name).to_owned(),
        None => verdict.base.to_hex()[..7].to_owned(),
    };
    let mut facts = format!("at {}", &verdict.tip.to_hex()[..7]);
    let mut details = Vec::new();
    if let Some(landing) = &verdict.landing {
        facts.push_str(&format!(" {}", landing_text(landing, &base, verdict.is_accepted())));
        details.extend(how(landing));
        details.push(counted(landing.ahead, "commit", ""));
    }
    details.push(counted(verdict.uncommitted, "file", " not yet committed"));
    if let Some(landing) = &verdict.landing {
        details.push(counted(landing.behind, "commit", &format!(" behind {base}")));
    }
    details.push(counted(verdict.ignored.unwrap_or(0), "ignored path", ""));
    details.push(counted(verdict.from_setup.unwrap_or(0), "path", " from setup"));
    details.retain(|detail| !detail.is_empty());
    if !details.is_empty() {
        facts.push_str(&format!(" ({})", details.join(", ")));
    }
    facts
}

fn landing_text(landing: &Landing, base: &str, accepted: bool) -> String {
    match &landing.outcome {
        MergeOutcome::Landed { how, .. } => {
            format!("is merged into {base} already, by {}", how.as_str())
        }
        MergeOutcome::Nothing { .. } => format!("has nothing to merge into {base}"),
        _ if accepted => format!("can be merged into {base}"),
        _ => format!("cannot be merged into {base}"),
    }
}

/// How it would land, where it is to.
fn how(landing: &Landing) -> Option<String> {
    match &landing.outcome {
        MergeOutcome::Landed { .. } | MergeOutcome::Nothing { .. } => None,
        MergeOutcome::Clean { .. } => Some("clean merge".to_owned()),
        other => Some(other.as_str().to_owned()),
    }
}

/// Whether a finding rejects one of the six files.
fn is_of_file(finding: &Finding) -> bool {
    finding.rejects() && finding.code.is_of_bundle() && finding.path.is_some()
}

/// What is wrong with the six files, a line for each code: what it is with each of them is said on standard error.
fn bundle_text(verdict: &Verdict) -> String {
    let mut names: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for finding in verdict.findings.iter().filter(|one| is_of_file(one)) {
        let path = finding.path.as_deref().unwrap_or_default();
        let names = names.entry(finding.code.name()).or_default();
        names.push(Quoted(path).to_string());
    }
    let lines =
        names.iter().map(|(code, names)| format!("  {} {}\n", paint(BAD, code), names.join(", ")));
    let mut text: String = lines.collect();
    let changed = FindingCode::BundleSpecChanged;
    let others = names.keys().any(|name| *name != changed.name());
    let of_spec =
        verdict.findings.iter().find(|one| one.code == changed).map(|one| one.fix.clone());
    let short = verdict.agent.short();
    let of_others = others.then(|| {
        format!("the agent writes them; to see what is left to write, run git agent bundle {short}")
    });
    for fix in of_spec.into_iter().chain(of_others) {
        text.push_str(&format!("    {} {fix}\n", paint(HINT, "fix:")));
    }
    text
}

/// Findings for a person. Where one code has many, the first one is told, and where the others are.
fn findings_text(findings: &[Finding]) -> String {
    // What rejects a file of the bundle stands above.
    let others = findings.iter().filter(|one| !is_of_file(one));
    let mut text = String::new();
    for folded in by_code(others) {
        for finding in folded.named {
            text.push_str(&finding_text(&FindingReport::from(finding)));
        }
        if folded.more > 0 {
            let advice = paint(HINT, "to see them all:");
            let (more, code) = (folded.more, folded.code);
            text.push_str(&format!(
                "  {more} more {code}; {advice} the same command with --format json\n"
            ));
        }
        for place in folded.places {
            text.push_str(&format!("    {place}\n"));
        }
    }
    text
}

/// Where the commands above work, and what the owner of an agent can do instead.
fn ways_text(verdict: &Verdict, is_layered: bool, here: &Path) -> String {
    // Where no row tells of the agent, as in a fresh clone, no command knows its id.
    if verdict.has(FindingCode::LedgerNotJudged) || verdict.has(FindingCode::LedgerMissing) {
        return String::new();
    }
    let id = verdict.agent.short();
    let mut text = String::new();
    // What the default denylist has, such as secrets, no scope opens.
    let opened = verdict
        .findings
        .iter()
        .filter(|one| match one.code {
            FindingCode::ScopeNotInWhitelist => true,
            FindingCode::ScopeDenylist => one.path.as_deref().is_some_and(is_control_file),
            _ => false,
        })
        .filter_map(|one| std::str::from_utf8(one.path.as_deref()?).ok());
    let glob = |path: &str| shell::word(seen_from(here, &escaped(path)).as_bytes());
    let globs: BTreeSet<String> = opened.map(glob).collect();
    if !globs.is_empty() {
        let option = |glob: &String| {
            // An option's value that looks like an option itself is bound to it.
            let bound = if glob.starts_with('-') { '=' } else { ' ' };
            format!(" --add-scope{bound}{glob}")
        };
        let given: String = globs.iter().take(MOST_GLOBS).map(option).collect();
        let which = match globs.len() {
            ..=MOST_GLOBS => "it".to_owned(),
            all => format!("the first {MOST_GLOBS} of {all}"),
        };
        text.push_str(&format!("to let the agent change {which}: git agent amend {id}{given}\n"));
    }
    // Last, because a path of the line above is read from where its reader stands.
    let takes_back = |one: &&Finding| one.fix.starts_with(IN_WORKTREE);
    if verdict.findings.iter().any(|one| takes_back(&one)) {
        // The files of a layered worktree are there behind its mount alone.
        let way = if is_layered {
            format!("git agent enter {id}")
        } else {
            format!("cd \"$(git agent path {id})\"")
        };
        text.push_str(&format!("to go there: {way}\n"));
    }
    text
}

fn command_text(command: &CommandRun) -> String {
    let title = paint(BOLD, &format!("output of `{}`:", command.command));
    format!("{title}\n{}\n", command.output.trim_end())
}

// `git agent verify --attested`

impl Answer for AttestedReport {
    fn text(&self) -> String {
        let word = match self.verdict {
            "accept" => paint(GOOD, "accepted"),
            _ => paint(BAD, "rejected"),
        };
        let mut text = word;
        if let Some(statement) = &self.statement {
            // The file may be a stranger's: a cut at a byte could fall into a character.
            let short = |text: &str, length| text.chars().take(length).collect::<String>();
            let tip = short(statement.tip.as_deref().unwrap_or_default(), 7);
            let agent = plain(&statement.short_id);
            text.push_str(&format!(": {agent} at {tip}"));
            let time = plain(&statement.verified_at);
            text.push_str(&paint(DIM, &format!(" (judged {time})")));
        }
        if let Some(signer) = &self.signer {
            text.push_str(&format!(", signed by {}", plain(signer)));
        }
        text.push('\n');
        for finding in &self.findings {
            text.push_str(&finding_text(finding));
        }
        text
    }

    fn sarif(&self) -> Option<Value> {
        Some(sarif_of("attested", &self.findings))
    }
}
