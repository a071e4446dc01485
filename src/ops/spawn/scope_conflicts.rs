//! Who else may touch what a new agent may touch.

use crate::agents::Ctx;
use crate::domain::boundary::scope::Intersection;
use crate::domain::{AgentId, AgentName, Glob, ScopeLanguage};
use crate::error::{Code, Error, Result};
use crate::ops::error_report::to_have_what_others_keep;
use crate::ops::spawn::SpawnPlan;
use crate::store::ledger::row_index::{BoundScope, ScopeCache, ScopeText};
use crate::wire::row::journal::{JournalScope, SpawnJournal};
use std::collections::HashMap;

/// How many scope_conflicts are named.
const NAMED: usize = 3;

/// What a journal tells others about the scope; `None` for an agent that may change nothing.
pub(super) fn journal_scope(plan: &SpawnPlan) -> Option<JournalScope> {
    let terms = &plan.commit.terms;
    terms.edits.then(|| JournalScope {
        whitelist: terms.whitelist.clone(),
        denylist: terms.wholly_denied(),
    })
}

/// The live agents that may be in a plan's way, as people know them, oldest first.
#[derive(Default)]
pub(super) struct Contenders {
    /// Those whose scopes meet the plan's, spawns under way among them.
    meeting: Vec<String>,
    /// Those that work for another clone, so what they may touch is unknown here.
    unknown: Vec<String>,
    /// How to fetch what tells their scopes.
    to_know: String,
}

/// Finds the live agents, and those being spawned, that may touch what the plan's may. `under_way` has to be
/// read before this is called, so that a spawn that ends meanwhile is in the ledger.
///
/// # Errors
/// `repo-corrupt`; those of the ledger.
pub(super) fn scope_conflicts(
    ctx: &Ctx,
    plan: &SpawnPlan,
    under_way: &[SpawnJournal],
) -> Result<Contenders> {
    // One that changes nothing is in the way of none.
    if !plan.role.edits {
        return Ok(Contenders::default());
    }
    let mut neighbours = Neighbours {
        own: { plan.commit.terms.language() }.map_err(Error::bug)?,
        globs: HashMap::new(),
        known: HashMap::new(),
    };
    let (mut meeting, mut unknown) = (Vec::new(), Vec::new());
    let mut scopes = ScopeCache::open(&ctx.repo);
    for agent in ctx.ledger().live_agents()? {
        // Its spawn is still under way, so its journal tells the scope.
        if agent.policy.is_none() {
            continue;
        }
        let meets = match scopes.of_agent(&agent) {
            Ok(BoundScope::Nothing) => false,
            Ok(BoundScope::Globs(scope)) => neighbours.meets(scope)?,
            // A policy that this version cannot read may allow anything.
            Ok(BoundScope::Unknown) => true,
            // The row was fetched by a sync, but not the policy that it names.
            Err(error) if error.code() == Code::HistoryIncomplete => {
                unknown.push(known_as(agent.id, agent.name.as_ref()));
                continue;
            }
            Err(error) => return Err(error),
        };
        if meets {
            meeting.push((agent.id, agent.name));
        }
    }
    scopes.keep();
    for journal in under_way {
        let (Some(id), Some(scope)) = (AgentId::parse(&journal.agent), &journal.scope) else {
            continue;
        };
        // A spawn that ended since the journals were read is in the ledger too.
        let known = id == plan.id || meeting.iter().any(|(other, _)| *other == id);
        let scope = ScopeText::of(&scope.whitelist, &scope.denylist);
        if !known && neighbours.meets(scope)? {
            meeting.push((id, None));
        }
    }
    let meeting = meeting.iter();
    Ok(Contenders {
        meeting: meeting.map(|(id, name)| known_as(*id, name.as_ref())).collect(),
        unknown,
        to_know: to_have_what_others_keep(),
    })
}

/// Says who may touch what the new agent may, where that is no reason to refuse.
///
/// # Errors
/// As [`scope_conflicts`].
pub(super) fn warn(ctx: &Ctx, plan: &mut SpawnPlan, under_way: &[SpawnJournal]) -> Result<()> {
    // A scope of everything meets every other one, which says nothing; what agents really change is for `overlap`.
    let is_everything = plan.task.whitelist.iter().any(Glob::is_bare);
    if !plan.exclusive && !is_everything {
        let scope_conflicts = scope_conflicts(ctx, plan, under_way)?;
        plan.warnings.extend(scope_conflicts.warnings());
    }
    Ok(())
}

/// Does for `--dry-run` what [`super::execute`] does about other agents' scopes.
///
/// # Errors
/// `scope-overlap`; those of the ledger.
pub(super) fn preview(ctx: &Ctx, plan: &mut SpawnPlan) -> Result<()> {
    if plan.exclusive {
        scope_conflicts(ctx, plan, &[])?.require_none()
    } else {
        warn(ctx, plan, &[])
    }
}

impl Contenders {
    /// What to tell a caller that spawns all the same; nothing when no agent overlaps.
    pub(super) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if !self.meeting.is_empty() {
            warnings.push(format!(
                "the scope meets that of {}; to see where, run git agent overlap --scopes",
                listed(&self.meeting)
            ));
        }
        if !self.unknown.is_empty() {
            warnings.push(format!(
                "the scope may meet that of {}, which is not in this clone; {}",
                listed(&self.unknown),
                self.to_know
            ));
        }
        warnings
    }

    /// Refuses an exclusive spawn that overlaps a live agent, or may.
    ///
    /// # Errors
    /// `scope-overlap`, naming them.
    pub(super) fn require_none(&self) -> Result<()> {
        let refused = |what: String| {
            let first = self.meeting.iter().chain(&self.unknown).next();
            let first = first.and_then(|known_as| known_as.split(' ').next()).unwrap_or_default();
            Err(Error::new(Code::ScopeOverlap, what)
                .hint(format!("to see what it may touch, run git agent show {first}"))
                .hint("to spawn all the same, leave --exclusive out"))
        };
        match (self.meeting.as_slice(), self.unknown.as_slice()) {
            ([], []) => Ok(()),
            ([], unknown) => refused(format!(
                "the scope may meet that of {}, which is not in this clone",
                listed(unknown)
            ))
            .map_err(|error: Error| error.hint(self.to_know.clone())),
            (meeting, _) => refused(format!("the scope meets that of {}", listed(meeting))),
        }
    }
}

fn known_as(id: AgentId, name: Option<&AgentName>) -> String {
    let name = name.map(|name| format!(" ({name})"));
    format!("{}{}", id.short(), name.unwrap_or_default())
}

fn listed(scope_conflicts: &[String]) -> String {
    let names = scope_conflicts.get(..NAMED).unwrap_or(scope_conflicts);
    let names = names.join(", ");
    match scope_conflicts.len() {
        1 => format!("live agent {names}"),
        count if count <= NAMED => format!("{count} live agents: {names}"),
        count => format!("{count} live agents: {names} and {} more", count - NAMED),
    }
}

/// Compares one language with many. Fleets share globs and whole scopes, so each is read once.
struct Neighbours {
    own: ScopeLanguage,
    globs: HashMap<String, Glob>,
    known: HashMap<ScopeText, bool>,
}

impl Neighbours {
    fn meets(&mut self, scope: ScopeText) -> Result<bool> {
        // Agents of a fleet mostly have the same scope.
        if let Some(known) = self.known.get(&scope) {
            return Ok(*known);
        }
        let (whitelist, denylist) = scope.globs().ok_or_else(unusable)?;
        let theirs = ScopeLanguage::new(&self.read(&whitelist)?, &self.read(&denylist)?);
        let meets = self.own.intersection(&theirs) != Intersection::Empty;
        self.known.insert(scope, meets);
        Ok(meets)
    }

    fn read(&mut self, texts: &[String]) -> Result<Vec<Glob>> {
        let mut globs = Vec::new();
        for text in texts {
            globs.push(match self.globs.get(text) {
                Some(known) => known.clone(),
                None => {
                    let glob = Glob::parse(text).map_err(|why| unusable().because(why))?;
                    self.globs.insert(text.clone(), glob.clone());
                    glob
                }
            });
        }
        Ok(globs)
    }
}

fn unusable() -> Error {
    Error::new(Code::RepoCorrupt, "a recorded scope cannot be used")
}
