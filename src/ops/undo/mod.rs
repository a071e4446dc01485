//! `undo`: what a command did is taken back, as far as nothing was built on it.
//!
//! ```text
//! plan     rows ─> operations ─> the one that is meant ─> its effects ─> what stands on them ─> UndoPlan
//! execute  keep what branches leave ─> [ref lock: worktrees, ref] each ─> worktrees back ─> one `undone` for all rows
//! ```
//!
//! An operation is what one command wrote: its events have one id. Nothing else is stored, so what it moved is read from the events
//! and from the commits that they name. Rows are never deleted: `undone` is an event, and taking that back does the
//! operation again.
//!
//! The row comes last. A kill before that leaves branches where they are to be and rows that still say the opposite, and running
//! the command again completes it: a branch that is there already is not moved, a worktree that is back is not made.
//!
//! Where the branch has gone on, or where the landing is on a remote or below another branch, nothing moves. `--revert` makes the
//! commit that takes the change back on top instead.

mod execute;
mod operations;

use crate::agents::context::branch_swap::{git_on, index_scratch};
use crate::agents::context::ctx::Ctx;
use crate::agents::life::at_work;
use crate::agents::who::authority::require_orchestrator;
use crate::domain::life::agent::Agent;
use crate::domain::life::id::OperationId;
use crate::domain::life::operation::retreat;
use crate::domain::paths::path::Quoted;
use crate::domain::value::named::branch_name;
use crate::domain::value::oid::Oid;
use crate::domain::value::shell;
use crate::error::{Code, Error, Result};
use crate::git::refs::Tip;
use crate::git::repo::Repo;
use crate::ops::agent_report::{AgentRef, AgentReport, Reporter};
pub use execute::{execute, rehearse};
pub use operations::list;
use operations::{BranchMove, Effect, Obstacle, Operation};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The steps of an undo that moves a branch which is checked out, in order, under the names given to
/// [`crate::agents::context::ctx::Seams::reached`].
pub const STEPS: [&str; 7] = ["kept", "locked", "emptied", "written", "indexed", "moved", "undone"];

/// What the caller asked for.
#[derive(Clone, Debug, Default)]
pub struct UndoOptions {
    /// An operation or an agent; the newest operation of this clone when absent.
    pub what: Option<String>,
    /// Makes a revert commit where the branch cannot be moved back.
    pub revert: bool,
}

/// What an undo would do.
pub struct UndoPlan {
    operation: OperationId,
    agents: Vec<Agent>,
    /// Where each branch goes.
    moves: Vec<BranchMove>,
    /// What is taken back by a commit of its own, newest first: landings that something stands on.
    reverts: Vec<BranchMove>,
    /// The agents' landings among these.
    landings: Vec<(Oid, Oid)>,
    restored: Vec<Agent>,
    removed: Vec<Agent>,
    /// What the caller should know.
    warnings: Vec<String>,
}

/// Looks at what would move; writes nothing.
///
/// # Errors
/// `orchestrator-only`; `operation-unknown`, `agent-unknown`; `agent-state` for what was done in another clone, or is taken back
/// already; `undo-built-upon`; `agent-busy`; `target-dirty`, naming the paths; those of git.
pub fn plan(ctx: &Ctx, options: &UndoOptions) -> Result<UndoPlan> {
    require_orchestrator(ctx)?;
    let operation = operations::meant(ctx, options.what.as_deref())?;
    if let Some(obstacle) = operation.obstacle() {
        return Err(refusal(ctx, &operation, obstacle)?);
    }
    let mut plan = UndoPlan {
        operation: operation.id.clone(),
        agents: Vec::new(),
        moves: Vec::new(),
        reverts: Vec::new(),
        landings: Vec::new(),
        restored: Vec::new(),
        removed: Vec::new(),
        warnings: Vec::new(),
    };
    let mut by_branch: BTreeMap<String, Vec<BranchMove>> = BTreeMap::new();
    // An undo that was killed has taken back a part of them.
    for part in operation.parts.iter().filter(|part| !part.is_taken_back) {
        let agent = ctx.ledger().agent(part.spawn_commit)?;
        let agent = agent.ok_or_else(|| Error::bug("an operation must be in a row"))?;
        agent.require_understood()?;
        // Work that goes on is not held up by what was said of it before.
        if part.is_judged_only() && at_work::at_work(ctx, &agent).is_some() {
            continue;
        }
        at_work::require_idle(ctx, &agent)?;
        for effect in &part.effects {
            match effect {
                Effect::Moved(one) => {
                    if !operation.is_undo() {
                        require_backwards(ctx, one)?;
                    }
                    plan.landings.push((agent.spawn_commit, one.to));
                    // The row may have the name from before the branch was renamed.
                    let refname = ctx.repo.branch_behind(&one.refname);
                    let one = BranchMove { refname: refname.clone(), ..one.clone() };
                    by_branch.entry(refname).or_default().push(one);
                }
                Effect::Removed => plan.restored.push(agent.clone()),
                Effect::Restored => plan.removed.push(agent.clone()),
                // A decision moves nothing; the event alone takes it back.
                Effect::Decided | Effect::Judged => {}
            }
        }
        let is_lifted = part.is_judged_only() && agent.rejections_by_trains().next().is_some();
        if is_lifted && !operation.is_undo() {
            let id = agent.id.short();
            plan.warnings.push(format!(
                "that a train rejected agent {id} is taken back, too; to check its work again, run git agent train {id}"
            ));
        }
        plan.agents.push(agent);
    }
    // Landings on one branch go back together: each but the last is in the way of the one before
    // it.
    for (refname, moves) in by_branch {
        match back(ctx, &plan.agents, &refname, &moves)? {
            Back::To(one) => plan.moves.push(one),
            Back::BuiltUpon(why) => {
                let refused = built_upon(&operation.id, &why);
                let asked = options.what.as_deref().unwrap_or(operation.id.as_str());
                if let Some(hint) = no_revert(ctx, &plan.agents, asked, &refname, &moves)? {
                    return Err(refused.hint(hint));
                }
                if !options.revert {
                    return Err(refused.hint(format!(
                        "to take it back by a commit on top, run git agent undo --revert {asked}"
                    )));
                }
                plan.reverts.extend(newest_first(ctx, moves)?);
            }
        }
    }
    // All are asked before any moves, so that one dirty worktree does not leave the undo half done.
    for one in &plan.moves {
        require_unblocked(ctx, one)?;
    }
    Ok(plan)
}

/// Checks that no worktree has changes where the move of its branch would touch them.
///
/// # Errors
/// `target-dirty`, naming the paths; those of git.
fn require_unblocked(ctx: &Ctx, one: &BranchMove) -> Result<()> {
    for checkout in ctx.checkouts(&one.refname)? {
        let tree = ctx.repo.tree_of(one.to)?;
        checkout.require_unblocked(&ctx.repo, one.from, tree, &index_scratch(&ctx.repo)?)?;
    }
    Ok(())
}

/// Whether a branch can be moved back.
enum Back {
    /// To there, from where it is.
    To(BranchMove),
    /// Not, for this reason.
    BuiltUpon(String),
}

/// The refs that hold a commit; none where it is gone.
fn holders(repo: &Repo, commit: Oid) -> Result<Vec<String>> {
    if repo.has_object(commit) { repo.refs_holding(commit) } else { Ok(Vec::new()) }
}

/// Where a branch goes. The moves that are taken back lead, one from the other, to where it is; other refs must not hold what it
/// leaves.
fn back(ctx: &Ctx, agents: &[Agent], refname: &str, moves: &[BranchMove]) -> Result<Back> {
    let repo = &ctx.repo;
    let Tip::At(tip) = repo.tip(refname)? else {
        return Ok(Back::BuiltUpon(format!("{refname} is gone")));
    };
    let pairs: Vec<(Oid, Oid)> = moves.iter().map(|one| (one.from, one.to)).collect();
    let Some(at) = retreat(tip, &pairs) else {
        return Ok(Back::BuiltUpon(format!("{refname} has gone on since, to {}", tip.short())));
    };
    // Going forward again leaves nothing behind. One that is back already leaves what another ref has, too, as the remote's where this
    // branch never followed.
    if at == tip || !repo.is_ancestor(tip, at)? {
        // An agent's own branch holds its work by nature, and stays where it is.
        let own: Vec<&str> = agents.iter().filter_map(|it| it.branch.as_deref()).collect();
        let lowest = moves.iter().find(|one| one.from == at).map_or(tip, |one| one.to);
        // A branch or a tag elsewhere keeps the landing alive, so work was built on it or it was
        // published.
        let mut others = holders(repo, lowest)?
            .into_iter()
            .filter(|name| name != refname && !own.contains(&name.as_str()));
        if let Some(other) = others.next() {
            return Ok(Back::BuiltUpon(format!("{other} holds commit {}", lowest.short())));
        }
    }
    Ok(Back::To(BranchMove { refname: refname.to_owned(), from: tip, to: at }))
}

/// Landings on one branch, those that stand on others before them.
fn newest_first(ctx: &Ctx, moves: Vec<BranchMove>) -> Result<Vec<BranchMove>> {
    let mut ranked = Vec::new();
    for one in &moves {
        // Ranked by how many of the others each one holds; commit times prove no order.
        let mut below = 0;
        for other in &moves {
            below += usize::from(ctx.repo.is_ancestor(other.to, one.to)?);
        }
        ranked.push((below, one.clone()));
    }
    ranked.sort_by_key(|(below, _)| std::cmp::Reverse(*below));
    Ok(ranked.into_iter().map(|(_, one)| one).collect())
}

fn built_upon(operation: &OperationId, why: &str) -> Error {
    let what =
        format!("{operation} cannot be taken back by moving a branch: {why}; nothing was moved");
    Error::new(Code::UndoBuiltUpon, what)
}

/// What to do where no commit on top can take the moves of a branch back; `None` where one can.
fn no_revert(
    ctx: &Ctx,
    agents: &[Agent],
    asked: &str,
    refname: &str,
    moves: &[BranchMove],
) -> Result<Option<String>> {
    let is_own = |agent: &&Agent| agent.branch.as_deref() == Some(refname);
    if let Some(agent) = agents.iter().find(is_own) {
        // The branch would land the revert, which takes the target's own commits out of the target.
        return Ok(Some(format!(
            "an update can stay: it lands nothing; to see what does, run git agent diff {}",
            agent.id.short()
        )));
    }
    let Some(tip) = ctx.repo.tip(refname)?.oid() else {
        return Ok(Some("to see the branches, run git branch --all".to_owned()));
    };
    for one in moves {
        // Amended or rebased since, it is there under another name.
        if !ctx.repo.has_object(one.to) || !ctx.repo.is_ancestor(one.to, tip)? {
            let holding = holders(&ctx.repo, one.to)?;
            let mut copies = holding.iter().filter_map(|name| name.strip_prefix("refs/remotes/"));
            if let Some(copy) = copies.next() {
                // A pull fails where the two have gone apart, unless a setting says how to join them.
                let copy = shell::word(copy.as_bytes());
                let git = git_on(ctx, refname);
                return Ok(Some(format!(
                    "to take it back by a commit on top, run {git} merge {copy} && git agent undo --revert {asked}"
                )));
            }
            let branch = shell::word(branch_name(refname).as_bytes());
            return Ok(Some(format!(
                "the commit may be there in another form, which git revert takes back; to find it, run git log {branch}"
            )));
        }
    }
    Ok(None)
}

/// The error for an operation that is not taken back as it stands.
fn refusal(ctx: &Ctx, operation: &Operation, obstacle: Obstacle) -> Result<Error> {
    let id = &operation.id;
    let what = match obstacle {
        Obstacle::OtherClone => {
            format!("{id} was done in another clone, and only there can it be taken back")
        }
        Obstacle::MadeOrRan => {
            format!("{id} made an agent or ran a command, which is not taken back")
        }
        Obstacle::TakenBack => format!("{id} is taken back already"),
        Obstacle::BuiltUpon(spawn_commit, later) => {
            let agent = ctx.ledger().agent(spawn_commit)?;
            let agent = agent.map_or_else(String::new, |agent| agent.id.short());
            let what = format!("agent {agent} was decided about again after {id}");
            let all = operations::all(ctx)?;
            let by = match all.iter().find(|one| one.id == later).and_then(Operation::obstacle) {
                Some(Obstacle::MadeOrRan) => Some(", by what made an agent or ran a command"),
                Some(Obstacle::OtherClone) => Some(", in another clone"),
                _ => None,
            };
            if let Some(by) = by {
                let what = format!("{what}{by}");
                return Ok(Error::new(Code::UndoBuiltUpon, what)
                    .hint("to see what can be taken back, run git agent undo --list"));
            }
            return Ok(Error::new(Code::UndoBuiltUpon, what)
                .hint(format!("to take that back first, run git agent undo {later}")));
        }
    };
    let hint = "to see what can be taken back, run git agent undo --list";
    Ok(Error::new(Code::AgentState, what).hint(hint))
}

/// Taking something back for the first time brings a branch nothing that it did not have before.
fn require_backwards(ctx: &Ctx, one: &BranchMove) -> Result<()> {
    if ctx.repo.is_ancestor(one.from, one.to)? {
        return Ok(());
    }
    let (name, from, to) = (Quoted(one.refname.as_bytes()), one.from.short(), one.to.short());
    let what = format!(
        "commit {to} on {name} does not build upon {from}, where that is said to have been"
    );
    Err(Error::new(Code::AgentState, what).hint("to take it back all the same, run git revert"))
}

impl UndoPlan {
    /// What would be done.
    ///
    /// # Errors
    /// Those of the ledger.
    pub fn report(&self, ctx: &Ctx) -> Result<UndoReport> {
        let reporter = Reporter::new(ctx)?;
        let agents = self.agents.iter().map(|agent| reporter.agent(ctx, agent));
        let mut report = self.answer("planned");
        report.agents = agents.collect();
        let reverted: BTreeSet<&String> = self.reverts.iter().map(|one| &one.refname).collect();
        for refname in reverted {
            if let Some(tip) = ctx.repo.tip(refname)?.oid() {
                report.moves.push(BranchMoveReport {
                    refname: refname.clone(),
                    from: tip.to_hex(),
                    to: None,
                });
            }
        }
        Ok(report)
    }

    /// The answer without the agents.
    fn answer(&self, outcome: &'static str) -> UndoReport {
        // Not every agent has a worktree and a branch.
        let refs = |agents: &[Agent]| {
            let own = agents.iter().filter(|agent| agent.branch.is_some());
            own.map(AgentRef::of).collect()
        };
        UndoReport {
            schema: "git-agent.undo/1",
            outcome,
            operation: self.operation.to_string(),
            undone_by: None,
            agents: Vec::new(),
            moves: { self.moves.iter() }
                .filter(|one| one.from != one.to)
                .map(BranchMoveReport::from)
                .collect(),
            restored: refs(&self.restored),
            removed: refs(&self.removed),
            warnings: self.warnings.clone(),
        }
    }
}

// What `undo` answers.

/// Where a branch was moved, or would be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BranchMoveReport {
    /// The full name of the branch.
    #[serde(rename = "ref")]
    pub refname: String,
    /// The commit that it was at.
    pub from: String,
    /// The commit that it is at after it; absent before a revert is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

impl From<&BranchMove> for BranchMoveReport {
    fn from(one: &BranchMove) -> BranchMoveReport {
        BranchMoveReport {
            refname: one.refname.clone(),
            from: one.from.to_hex(),
            to: Some(one.to.to_hex()),
        }
    }
}

/// The answer of `undo --list`: `git-agent.operations/1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OperationsReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// What was done, newest first.
    pub operations: Vec<ListedOperation>,
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ListedOperation {
    /// Its id.
    pub operation: String,
    /// When, as RFC 3339.
    pub recorded_at: String,
    /// Who.
    pub by: String,
    /// The clone that it was done in: four hex digits.
    pub clone: String,
    /// What it wrote into the rows: the kinds of the events.
    pub events: Vec<String>,
    /// The agents that it was about.
    pub agents: Vec<AgentRef>,
    /// The branches that it moved.
    pub moves: Vec<BranchMoveReport>,
    /// Whether all of it is taken back.
    pub undone: bool,
    /// Whether `undo` may take it back here, as far as its rows and its branches tell.
    pub undoable: bool,
    /// Why it may not: `undone`, `built-upon`, `other-clone` or `made-or-ran`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<&'static str>,
}

/// The answer of `undo`: `git-agent.undo/1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UndoReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// `planned` or `undone`.
    pub outcome: &'static str,
    /// What is taken back.
    pub operation: String,
    /// The operation that did that, which can be taken back itself; absent before it is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undone_by: Option<String>,
    /// The agents, as they stand after it.
    pub agents: Vec<AgentReport>,
    /// The branches that move.
    pub moves: Vec<BranchMoveReport>,
    /// The agents whose worktree and branch are brought back.
    pub restored: Vec<AgentRef>,
    /// The agents whose worktree and branch are removed again.
    pub removed: Vec<AgentRef>,
    /// What the caller should know.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}
