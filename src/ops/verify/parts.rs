//! A commit that is no agent's branch: what forges make of agents' work, and what only looks like it.
//!
//! ```text
//! base ── a merge of a branch ── a squash ── rebased commits ── commits of people ── tip
//!            │                     └─ tree or patch id ─┴─> an agent's branch that is here
//!            └─ its second side, if the merge is git's own
//! ```
//!
//! Each part of the line of first parents is judged by itself: as the agent's branch that it holds, and nothing more. A
//! part that names an agent, or holds an agent's work, without being that branch is rejected: the trailer, the name of a
//! branch and a merge can be written by anyone. What is left is not judged, which is an answer of its own.

use super::origin::is_automatic;
use super::report::{FindingReport, findings};
use super::{VerifyOptions, verify};
use crate::agents::work::landing_revision;
use crate::agents::{Ctx, Scratch};
use crate::domain::judge::finding::verdict_word;
use crate::domain::{Finding, FindingCode, Oid, Verdict, branch_name};
use crate::error::{Code, Result};
use crate::ops::agent_report::TargetReport;
use crate::store::Ledger;
use crate::store::chain::remote_names::RemoteNames;
use crate::store::landing::spawn_commit::NONCE;
use serde::Serialize;
use serde_with_macros::skip_serializing_none;
use std::collections::HashSet;

/// How deep merges of merges are followed. A forge makes one level, a branch that collects agents' work a second one.
const DEPTH: usize = 8;

/// What `verify --ci` answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CiAnswer {
    /// The commit is on an agent's branch.
    Agent(Box<Verdict>),
    /// It is not, and was judged part by part.
    Parts(PartsReport),
}

/// The verdict on a commit that is on no agent's branch: `git-agent.verify-parts/1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.verify-parts/1")]
pub struct PartsReport {
    /// `reject` where one part is rejected, `accept` where each may land, else null: it was not judged.
    pub verdict: Option<&'static str>,
    /// The commit.
    pub tip: String,
    /// The short name of the branch; absent where it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// What it would land on.
    pub target: TargetReport,
    /// What the base does not have, from the oldest on.
    pub parts: Vec<CommitPartReport>,
    /// What was found, part by part.
    pub findings: Vec<FindingReport>,
}

/// A part of what would land.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommitPartReport {
    /// Its last commit.
    pub commit: String,
    /// The first line of that commit's message.
    pub subject: String,
    /// How it holds an agent's work: `merge`, `squash`, `rebase`, or `none` where it is not known to hold any.
    pub how: &'static str,
    /// The agent's id.
    pub agent_id: Option<String>,
    /// The first eight hex digits of the id.
    pub short_id: Option<String>,
    /// The tip of the agent's branch, which was judged.
    pub tip: Option<String>,
    /// `accept`, `reject`, or null where it was not judged.
    #[serialize_always]
    pub verdict: Option<&'static str>,
}

impl CommitPartReport {
    /// Whose work it is, as the end of a line; empty where no agent is known.
    pub fn origin(&self) -> String {
        let agent = self.short_id.as_ref();
        agent.map_or_else(String::new, |agent| format!(" ({} of agent {agent})", self.how))
    }
}

/// Judges a commit as `--ci` does: an agent's branch by its spawn commit, everything else part by part. `branch` is the
/// name of the branch that it is offered on.
///
/// # Errors
/// As [`verify`]; `agent-unknown` only where no base is named.
pub fn verify_ci(ctx: &Ctx, options: &VerifyOptions, branch: Option<&str>) -> Result<CiAnswer> {
    let judged = match verify(ctx, options) {
        // In a branch that is an agent's nothing has to be looked for that a forge made.
        Ok(verdict) if verdict.is_accepted() => return Ok(CiAnswer::Agent(Box::new(verdict))),
        Err(error) if error.code() != Code::AgentUnknown => return Err(error),
        judged => judged,
    };
    // An agent that is named is judged by itself, and without a base nothing says where the line
    // begins.
    let Some(base) = options.base.as_deref().filter(|_| options.agent.is_none()) else {
        return judged.map(|verdict| CiAnswer::Agent(Box::new(verdict)));
    };
    // What git is asked about does not go into the repository.
    let scratch = Scratch::make(ctx, "verify")?;
    let apart = ctx.with_scratch_objects(scratch.path())?;
    let why = judged.as_ref().err().map(ToString::to_string);
    let report = CommitLine::new(&apart, options, base)?.report(branch.map(branch_name), why)?;
    match judged {
        // The message of a squash may hold the trailers of a spawn commit, so that it looked like one.
        Ok(verdict) if report.verdict != Some("accept") => Ok(CiAnswer::Agent(Box::new(verdict))),
        _ => Ok(CiAnswer::Parts(report)),
    }
}

/// An agent's branch that is here.
struct AgentBranch {
    tip: Oid,
    /// What it changes as a whole: the trees before and after.
    whole: (Oid, Oid),
    /// The trees before and after each of its commits that changes anything; `None` where it holds a merge.
    steps: Option<Vec<(Oid, Oid)>>,
}

/// What is looked at.
struct CommitLine<'c> {
    ctx: &'c Ctx,
    options: &'c VerifyOptions,
    tip: Oid,
    /// The name of the tip, if it was given as a ref.
    refname: Option<String>,
    target: TargetReport,
    base: Oid,
    /// The commits that the base does not have.
    ahead: HashSet<Oid>,
    names: RemoteNames,
    /// The full names of branches that rows name.
    branches: HashSet<String>,
    candidates: Option<Vec<AgentBranch>>,
    parts: Vec<CommitPartReport>,
    findings: Vec<FindingReport>,
}

impl<'c> CommitLine<'c> {
    fn new(ctx: &'c Ctx, options: &'c VerifyOptions, base: &str) -> Result<CommitLine<'c>> {
        let repo = &ctx.repo;
        let base = landing_revision(repo, base)?;
        let tip = repo.resolve_commit(options.tip.as_deref().unwrap_or("HEAD"))?;
        let divergence = repo.divergence(base.commit, tip.commit, None)?;
        let agents = Ledger::new(repo).agents()?.into_iter();
        Ok(CommitLine {
            ctx,
            options,
            tip: tip.commit,
            refname: tip.refname,
            target: TargetReport::new(base.refname.as_deref(), Some(base.commit)),
            base: base.commit,
            ahead: divergence.ahead.iter().map(|one| one.oid).collect(),
            names: RemoteNames::configured(repo)?,
            branches: agents.filter_map(|agent| agent.branch).collect(),
            candidates: None,
            parts: Vec::new(),
            findings: Vec::new(),
        })
    }

    /// The report. `why` says why the commit as a whole is no agent's.
    fn report(mut self, branch: Option<&str>, why: Option<String>) -> Result<PartsReport> {
        let own = self.refname.as_deref().and_then(short).map(str::to_owned);
        let branch = branch.map(str::to_owned).or(own);
        self.walk(self.tip, 0)?;
        let is_none = |part: &CommitPartReport| part.agent_id.is_none() && part.verdict.is_none();
        if let Some(name) = branch.as_deref().filter(|name| self.is_agents(name))
            && !self.parts.is_empty()
            && self.parts.iter().all(is_none)
        {
            let what =
                format!("branch {name} is an agent's by its name, and holds no spawn commit");
            self.reject(self.tip, what);
        }
        let mut verdicts = self.parts.iter().map(|part| part.verdict);
        let verdict = if self.findings.iter().any(|one| one.severity == "error") {
            Some("reject")
        } else if !self.parts.is_empty() && verdicts.all(|verdict| verdict == Some("accept")) {
            Some("accept")
        } else {
            let unknown: Vec<&CommitPartReport> =
                self.parts.iter().filter(|part| is_none(part)).collect();
            let what = match (unknown.as_slice(), why) {
                // Where all or none of it is unknown, this says more.
                (all, Some(why)) if all.is_empty() || all.len() == self.parts.len() => why,
                ([], _) => format!("commit {} is no agent's", self.tip),
                ([one], _) => format!("commit {} is no agent's", one.commit),
                ([first, more @ ..], _) => {
                    format!("commit {} and {} more are no agent's", first.commit, more.len())
                }
            };
            let what = format!("{what}; what is not an agent's was not judged");
            let fix = "review them, or add a [[guard]] for the branch, by which git agent guard judges it";
            let finding = Finding::new(FindingCode::ProvenanceNotJudged, what, fix);
            self.findings.push(FindingReport::from(&finding));
            None
        };
        Ok(PartsReport {
            verdict,
            tip: self.tip.to_hex(),
            branch,
            target: self.target,
            parts: self.parts,
            findings: self.findings,
        })
    }

    /// Judges the line of first parents from the base to `tip`, from its oldest commit on.
    fn walk(&mut self, tip: Oid, depth: usize) -> Result<()> {
        let repo = &self.ctx.repo;
        let mut line = Vec::new();
        let mut next = Some(tip);
        while let Some(oid) = next.filter(|oid| self.ahead.contains(oid)) {
            let parents = repo.read_raw_commit(oid)?.parents();
            next = parents.first().copied();
            line.push((oid, parents));
        }
        // From the base upwards, because a branch that was rebased is found by its first commit.
        line.reverse();
        let mut at = 0;
        while let Some((oid, parents)) = line.get(at) {
            if let [first, sides @ ..] = parents.as_slice()
                && !sides.is_empty()
            {
                self.merge(*oid, *first, sides, depth)?;
                at += 1;
                continue;
            }
            let rest: Vec<Oid> = line
                .iter()
                .skip(at)
                .take_while(|(_, parents)| parents.len() < 2)
                .map(|(oid, _)| *oid)
                .collect();
            at += match self.landed_as(&rest)? {
                Some(count) => count,
                None => {
                    // One commit further, and the next one may begin an agent's work again.
                    self.unknown(*oid)?;
                    1
                }
            };
        }
        Ok(())
    }

    /// A merge: the agent's branch on its other side, where it is git's own merge of both.
    fn merge(&mut self, merge: Oid, first: Oid, sides: &[Oid], depth: usize) -> Result<()> {
        // A branch that took the base in has nothing of an agent's thereby.
        if sides.iter().all(|side| !self.ahead.contains(side)) {
            return self.unknown(merge);
        }
        let before = (self.parts.len(), self.findings.len());
        for side in sides {
            if !self.ahead.contains(side) {
                continue;
            }
            match self.judged(*side)? {
                Some(verdict) => self.accept_as(merge, "merge", &verdict)?,
                // Merges of merges are made by machines too, and each level walks again.
                None if depth < DEPTH => self.walk(*side, depth + 1)?,
                None => {
                    self.reject(merge, "merges are nested too deeply to be judged".to_owned());
                    let part = self.part(merge, "none", Some("reject"))?;
                    self.parts.push(part);
                }
            }
        }
        let has_agent = |part: &CommitPartReport| part.agent_id.is_some() || part.verdict.is_some();
        let is_agents = self.parts.iter().skip(before.0).any(has_agent);
        if !is_agents {
            // The commits of a branch of people count as one part, which the merge names.
            self.parts.truncate(before.0);
            self.findings.truncate(before.1);
            return self.unknown(merge);
        }
        // A merge of more than two parents cannot be made again to compare it.
        let is_own = match sides {
            [second] => is_automatic(&self.ctx.repo, merge, first, *second)?,
            _ => false,
        };
        if !is_own {
            let what = format!("commit {merge} merges an agent's work and changes it");
            let fix = "merge the branch again without changes, and commit what else is wanted in the agent's worktree";
            let mut finding = Finding::new(FindingCode::ProvenanceMergeChanges, what, fix);
            finding.commit = Some(merge);
            self.findings.push(FindingReport::from(&finding));
            for part in self.parts.iter_mut().skip(before.0) {
                part.verdict = Some("reject");
            }
        }
        Ok(())
    }

    /// The verdict on an agent's branch; `None` for a commit that is on none.
    fn judged(&self, tip: Oid) -> Result<Option<Verdict>> {
        let options = VerifyOptions { tip: Some(tip.to_hex()), ..self.options.clone() };
        match verify(self.ctx, &options) {
            Ok(verdict) => Ok(Some(verdict)),
            Err(error) if error.code() == Code::AgentUnknown => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn accept_as(&mut self, commit: Oid, how: &'static str, verdict: &Verdict) -> Result<()> {
        let word = verdict_word(verdict.is_accepted());
        let found = findings(verdict.landing.as_ref(), &verdict.findings);
        self.findings.extend(found);
        let mut part = self.part(commit, how, Some(word))?;
        part.agent_id = Some(verdict.agent.to_string());
        part.short_id = Some(verdict.agent.short());
        part.tip = Some(verdict.tip.to_hex());
        self.parts.push(part);
        Ok(())
    }

    /// A commit that is not known to hold an agent's work. One that says so is rejected.
    fn unknown(&mut self, oid: Oid) -> Result<()> {
        let commit = self.ctx.repo.read_raw_commit(oid)?;
        let named = ["Agent-Id", NONCE].iter().find_map(|name| commit.trailer(name));
        let verdict = named.as_ref().map(|_| "reject");
        if let Some(named) = named {
            self.reject(oid, format!("commit {oid} names agent {named}, whose branch it is not"));
        }
        let part = self.part(oid, "none", verdict)?;
        self.parts.push(part);
        Ok(())
    }

    fn reject(&mut self, commit: Oid, what: String) {
        let fix =
            "offer the agent's branch as it is, or make it known here: git fetch origin <branch>";
        let mut finding = Finding::new(FindingCode::ProvenanceSpawnCommit, what, fix);
        finding.commit = Some(commit);
        self.findings.push(FindingReport::from(&finding));
    }

    fn part(
        &self,
        oid: Oid,
        how: &'static str,
        verdict: Option<&'static str>,
    ) -> Result<CommitPartReport> {
        Ok(CommitPartReport {
            commit: oid.to_hex(),
            subject: self.ctx.repo.read_raw_commit(oid)?.subject(),
            how,
            agent_id: None,
            short_id: None,
            tip: None,
            verdict,
        })
    }

    /// How many of these commits, which follow one another, are what a squash or a rebase made of an agent's branch that
    /// is here, which is then judged.
    fn landed_as(&mut self, commits: &[Oid]) -> Result<Option<usize>> {
        let candidates = match self.candidates.take() {
            Some(candidates) => candidates,
            None => self.find_candidates()?,
        };
        let mut found = None;
        for candidate in &candidates {
            if let Some((how, count)) = self.matches(candidate, commits)?
                && let Some(last) = commits.iter().take(count).next_back()
                && let Some(verdict) = self.judged(candidate.tip)?
            {
                found = Some((*last, how, count, verdict));
                break;
            }
        }
        self.candidates = Some(candidates);
        let Some((last, how, count, verdict)) = found else {
            return Ok(None);
        };
        self.accept_as(last, how, &verdict)?;
        Ok(Some(count))
    }

    fn matches(
        &self,
        candidate: &AgentBranch,
        commits: &[Oid],
    ) -> Result<Option<(&'static str, usize)>> {
        let Some(oldest) = commits.first() else {
            return Ok(None);
        };
        let parents = self.ctx.repo.read_raw_commit(*oldest)?.parents();
        let (Some(first), Some(parent)) = (self.trees(*oldest)?, parents.first()) else {
            return Ok(None);
        };
        if self.is_same(candidate.whole, first)? {
            return Ok(Some(("squash", 1)));
        }
        // On a base that has moved on, a squash has another patch where both sides changed a file.
        // Then git's own merge shows whether it is the same.
        // A commit that changes nothing is what any branch that changes nothing would leave.
        if first.0 != first.1 && self.paths(first)? == self.paths(candidate.whole)? {
            let merged = self.ctx.repo.merge(*parent, candidate.tip)?;
            if merged.result.clean() == Some(first.1) {
                return Ok(Some(("squash", 1)));
            }
        }
        // Each commit by itself: one that is taken back by a later one is not to be seen in the whole.
        let mut steps = candidate.steps.iter().flatten();
        let mut is_begun = false;
        for (count, commit) in commits.iter().enumerate() {
            let Some(trees) = self.trees(*commit)? else {
                return Ok(None);
            };
            // A rebase may leave empty commits out, or keep them.
            if trees.0 == trees.1 {
                continue;
            }
            let Some(step) = steps.next() else {
                return Ok(is_begun.then_some(("rebase", count)));
            };
            if !self.is_same(*step, trees)? {
                return Ok(None);
            }
            is_begun = true;
        }
        let is_whole = is_begun && steps.next().is_none();
        Ok(is_whole.then_some(("rebase", commits.len())))
    }

    /// Whether two changes are the same, as git-patch-id sees it.
    fn is_same(&self, one: (Oid, Oid), other: (Oid, Oid)) -> Result<bool> {
        let repo = &self.ctx.repo;
        // No change is like no change, and would make any empty commit an agent's.
        Ok(one.0 != one.1
            && self.paths(one)? == self.paths(other)?
            && repo.patch_id(one.0, one.1)? == repo.patch_id(other.0, other.1)?)
    }

    fn paths(&self, (old, new): (Oid, Oid)) -> Result<Vec<Vec<u8>>> {
        self.ctx.repo.changed_paths(old, new)
    }

    /// The trees before and after a commit; `None` for one without a parent.
    fn trees(&self, commit: Oid) -> Result<Option<(Oid, Oid)>> {
        let repo = &self.ctx.repo;
        let [parent] = repo.read_raw_commit(commit)?.parents()[..] else {
            return Ok(None);
        };
        Ok(Some((repo.tree_of(parent)?, repo.tree_of(commit)?)))
    }

    /// The agents' branches that are here and have not landed.
    fn find_candidates(&self) -> Result<Vec<AgentBranch>> {
        let repo = &self.ctx.repo;
        let mut tips = HashSet::new();
        let mut candidates = Vec::new();
        let heads = repo.refs_below("refs/heads/")?.into_iter();
        for (name, tip) in heads.chain(repo.refs_below("refs/remotes/")?) {
            let is_agents = short(&name).is_some_and(|name| self.is_agents(name));
            // What has landed already is no origin of a commit that the base lacks.
            // A branch and its copy on a remote are one candidate.
            if !is_agents || !tips.insert(tip) || repo.is_ancestor(tip, self.base)? {
                continue;
            }
            // The fork that a merge of the base into the branch has moved along.
            let Some(fork) = repo.merge_base(self.base, tip)? else {
                continue;
            };
            candidates.push(AgentBranch {
                tip,
                whole: (repo.tree_of(fork)?, repo.tree_of(tip)?),
                steps: self.steps(fork, tip)?,
            });
        }
        Ok(candidates)
    }

    fn steps(&self, fork: Oid, tip: Oid) -> Result<Option<Vec<(Oid, Oid)>>> {
        let mut steps = Vec::new();
        let mut at = tip;
        while at != fork {
            let parents = self.ctx.repo.read_raw_commit(at)?.parents();
            let ([parent], Some(trees)) = (parents.as_slice(), self.trees(at)?) else {
                return Ok(None);
            };
            steps.extend(Some(trees).filter(|(old, new)| old != new));
            at = *parent;
        }
        steps.reverse();
        Ok(Some(steps))
    }

    /// Whether a branch of that short name is an agent's: by its place, or because a row names it.
    fn is_agents(&self, name: &str) -> bool {
        let full = format!("refs/heads/{name}");
        name.starts_with("agent/")
            || self.names.has_prefix_of(&full)
            || self.branches.contains(&full)
    }
}

/// The name of a branch without its place, here or in the copy of a remote.
fn short(refname: &str) -> Option<&str> {
    let of_remote = || Some(refname.strip_prefix("refs/remotes/")?.split_once('/')?.1);
    refname.strip_prefix("refs/heads/").or_else(of_remote)
}
