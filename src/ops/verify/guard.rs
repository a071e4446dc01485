//! `guard`: may a branch land that `git agent` did not make?
//!
//! Nothing is recorded about such a branch, so the repository says what it may touch: `[[guard]]` in
//! `.config/git-agent.toml` of the commit to land on, or globs on the command line. Every commit is judged by itself, as
//! `verify` does it, and so is how the branch would merge. Nothing is written and nothing of the branch is run.

use super::report::{FindingReport, MergeReport, findings, merge};
use super::{judged_trees, landing};
use crate::agents::who::scope_guard::{SharedLinks, other_names, spell_out_directories};
use crate::agents::work::landing_revision;
use crate::agents::{Ctx, Scratch};
use crate::domain::boundary::guard::GuardRule;
use crate::domain::judge::evidence::Contract;
use crate::domain::judge::finding::verdict_word;
use crate::domain::judge::judge;
use crate::domain::paths::removal::IN_WORKTREE;
use crate::domain::settings::repository_settings::PATH;
use crate::domain::{
    Change, Evidence, Finding, FindingCode, Glob, Oid, ReportRules, RepositorySettings, RoleSet,
    branch_name,
};
use crate::error::{Code, Error, Result};
use crate::git::repo::Resolved;
use crate::ops::agent_report::TargetReport;
use crate::ops::verify::judged_trees::JudgedTrees;
use crate::store::settings::{repository_settings, roles};
use serde::Serialize;
use serde_with_macros::skip_serializing_none;

/// The role whose denylist holds where the settings name none.
const ROLE: &str = "edit-local";

/// What the caller asked for.
#[derive(Clone, Debug, Default)]
pub struct GuardOptions {
    /// The revision to land on, whose settings hold.
    pub base: String,
    /// The revision to judge; `HEAD` when absent.
    pub tip: Option<String>,
    /// The name of the branch, where the revision does not tell.
    pub branch: Option<String>,
    /// What may be touched, instead of what the rules say.
    pub scope: Vec<String>,
    /// What may not be touched, instead of what the rules say.
    pub deny: Vec<String>,
}

/// The answer of `guard`: `git-agent.guard/2`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.guard/2")]
pub struct GuardReport {
    /// The short name of the branch; absent where it is not known and was not needed.
    pub branch: Option<String>,
    /// The rule that holds; absent where none is for the branch.
    pub rule: Option<RuleReport>,
    /// `accept` or `reject`; null where no rule is for the branch, which was therefore not judged.
    #[serialize_always]
    pub verdict: Option<&'static str>,
    /// The commit that was judged.
    pub tip: String,
    /// What it would land on.
    pub target: TargetReport,
    /// The tree that landing would give; absent when it cannot land, and where no rule holds.
    pub merged_tree: Option<String>,
    /// How it would land; absent where no rule holds.
    pub merge: Option<MergeReport>,
    /// What was found, check by check.
    pub findings: Vec<FindingReport>,
}

/// A rule, as far as it decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleReport {
    /// The glob of branches that the rule is for; absent for one of the command line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// What may be touched.
    pub scope: Vec<String>,
    /// What may not be touched, whatever says so.
    pub deny: Vec<String>,
}

/// Judges a branch by the rules of the commit to land on.
///
/// # Errors
/// `base-not-commit`, `settings-invalid`; `usage` for a glob that is none, and where the rules go by branches and the
/// branch is not known; `history-incomplete`, `repo-corrupt`; those of git and the file system.
pub fn guard(ctx: &Ctx, options: &GuardOptions) -> Result<GuardReport> {
    // What git is asked about does not go into the repository.
    let scratch = Scratch::make(ctx, "verify")?;
    let apart = ctx.with_scratch_objects(scratch.path())?;
    // Rules are those of the commit to land on: the branch could write its own.
    let base = landing_revision(&apart.repo, &options.base)?;
    let tip = apart.repo.resolve_commit(options.tip.as_deref().unwrap_or("HEAD"))?;
    let roles = roles::load(&apart.repo, base.commit)?;
    let settings = repository_settings::load(&apart.repo, base.commit, &roles)?;
    // A branch of a remote goes by the name that it has there.
    // A forge's CI may give the full name, which no rule would match.
    let named = options.branch.as_deref().map(|name| branch_name(name).to_owned());
    let branch = named.or_else(|| short_name(&tip));
    let mut report = GuardReport {
        rule: None,
        verdict: None,
        tip: tip.commit.to_hex(),
        target: TargetReport::new(base.refname.as_deref(), Some(base.commit)),
        merged_tree: None,
        merge: None,
        findings: Vec::new(),
        branch,
    };
    let is_given = !options.scope.is_empty() || !options.deny.is_empty();
    let rule = if is_given {
        Some(GuardRule::of_all(&options.scope, &options.deny).map_err(|why| {
            Error::new(Code::Usage, why)
                .hint("to see how globs are written, run git agent help guard")
        })?)
    } else {
        rule_for(report.branch.as_deref(), tip.commit, &settings)?.cloned()
    };
    let Some(mut rule) = rule else {
        report.findings = vec![FindingReport::from(&no_rule(report.branch.as_deref()))];
        return Ok(report);
    };
    let mut deny = denied_to_all(&settings, &roles);
    // Names of directories are those of the commit to land on, as the rules are.
    let tree = apart.repo.tree_of(base.commit)?;
    for (globs, is_denylist) in
        [(&mut rule.scope, false), (&mut rule.deny, true), (&mut deny, true)]
    {
        spell_out_directories(&apart.repo, &[tree], globs, is_denylist)?;
    }
    report.rule = Some(told(&rule, &deny, is_given));
    let boundary = rule.boundary(&deny).map_err(|why| Error::new(Code::Usage, why))?;
    // No agent of ours made the branch, so there is neither a bundle nor a specification to hold it
    // to.
    let contract = Contract {
        agent: None,
        boundary,
        bundle_required: false,
        spec_sha: String::new(),
        uncounted_tests: 0,
        report: ReportRules::default(),
    };
    let evidence = gather(&apart, &contract, &base, tip.commit)?;
    let mut found = judge(&contract, &evidence);
    for finding in &mut found {
        // No agent of ours made the branch, so there is no worktree of one.
        if let Some(command) = finding.fix.strip_prefix(IN_WORKTREE) {
            finding.fix = format!("in a worktree of the branch, run {command}");
        }
    }
    report.verdict = Some(verdict_word(!found.iter().any(Finding::rejects)));
    report.findings = findings(evidence.landing.as_ref(), &found);
    if let Some(landing) = &evidence.landing {
        report.merged_tree = landing.outcome.tree().map(Oid::to_hex);
        report.merge = Some(merge(landing));
    }
    Ok(report)
}

fn gather(ctx: &Ctx, contract: &Contract, base: &Resolved, tip: Oid) -> Result<Evidence> {
    let repo = &ctx.repo;
    let work = JudgedTrees::of_commit(repo, tip)?;
    let divergence = repo.divergence(base.commit, tip, None)?;
    let mut touches = judged_trees::touches(repo, &divergence, &work, |_, ours| Ok(ours))?;
    let base_tree = repo.tree_of(base.commit)?;
    let lands = landing::Lands {
        agent: None,
        tip,
        base_ref: base.refname.as_deref(),
        base: Some(base.commit),
        leaves_changes: false,
        base_out_of_reach: false,
    };
    let merge = |ours, theirs| repo.merge(ours, theirs);
    let is_touched = !touches.is_empty();
    let landing = landing::work_out(repo, &lands, &work, &divergence, is_touched, merge)?;
    touches.extend(landing::touches(repo, &landing, base.commit)?);
    let changes: Vec<Change> = touches.iter().map(|touch| touch.change.clone()).collect();
    Ok(Evidence {
        other_names: other_names(
            repo,
            &[base_tree],
            &contract.boundary,
            &changes,
            &SharedLinks::default(),
        )?,
        marked: landing::added_markers(repo, &landing, base.commit)?,
        landing: Some(landing),
        touches,
        ..Evidence::default()
    })
}

/// The first rule that names the branch.
fn rule_for<'s>(
    branch: Option<&str>,
    tip: Oid,
    settings: &'s RepositorySettings,
) -> Result<Option<&'s GuardRule>> {
    let rules = &settings.guards;
    match branch {
        Some(branch) => Ok(rules.iter().find(|rule| rule.is_for(branch))),
        // Without a rule no name is needed to say that nothing is judged.
        None if rules.is_empty() => Ok(None),
        None => Err(Error::new(
            Code::Usage,
            format!("the rules of {PATH} go by branches, and commit {tip} was not named by one"),
        )
        .hint("to name it, run git agent guard --branch <branch> --base <revision>")),
    }
}

fn no_rule(branch: Option<&str>) -> Finding {
    let message = match branch {
        Some(branch) => {
            format!("no rule of the base is for branch {branch}, so nothing was judged")
        }
        None => "the base has no rule, so nothing was judged".to_owned(),
    };
    let fix = format!("add a [[guard]] to {PATH} of the base, or pass --scope <glob>");
    Finding::new(FindingCode::GuardNoRule, message, fix)
}

/// What no branch may touch, whatever its rule says: the default denylist of tasks.
fn denied_to_all(settings: &RepositorySettings, roles: &RoleSet) -> Vec<Glob> {
    let role = roles.get(settings.role.as_deref().unwrap_or(ROLE));
    let of_role = role.map(|role| role.default_denylist.as_slice());
    [settings.deny.as_slice(), of_role.unwrap_or_default()].concat()
}

fn told(rule: &GuardRule, deny: &[Glob], is_given: bool) -> RuleReport {
    let text = |glob: &Glob| glob.as_str().to_owned();
    RuleReport {
        branch: (!is_given).then(|| text(&rule.branch)),
        scope: rule.scope.iter().map(text).collect(),
        deny: rule.deny.iter().chain(deny).map(text).collect(),
    }
}

/// The name of a branch without its directory, and without that of its remote.
fn short_name(resolved: &Resolved) -> Option<String> {
    let name = resolved.refname.as_deref()?;
    let of_remote = || Some(name.strip_prefix("refs/remotes/")?.split_once('/')?.1);
    let short = name.strip_prefix("refs/heads/").or_else(of_remote)?;
    Some(short.to_owned())
}
