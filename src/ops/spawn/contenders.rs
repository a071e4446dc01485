//! Who else may touch what a new agent may touch.

use super::SpawnPlan;
use crate::domain::glob::Glob;
use crate::domain::id::AgentId;
use crate::domain::scope::{Meeting, Territory};
use crate::error::{Code, Error, Result};
use crate::ops::Ctx;
use crate::ops::live::is_live;
use crate::store::ledger::Ledger;
use crate::store::policy;
use crate::wire::journal::{JournalScope, SpawnJournal};
use std::collections::HashMap;

/// How many contenders are named.
const NAMED: usize = 3;

/// What a journal tells others about the scope; `None` for an agent that may change nothing.
pub(super) fn journal_scope(plan: &SpawnPlan) -> Option<JournalScope> {
    let texts = |globs: &[Glob]| globs.iter().map(ToString::to_string).collect();
    plan.role.edits.then(|| JournalScope {
        whitelist: texts(&plan.task.whitelist),
        denylist: texts(&plan.denylist),
    })
}

/// The live agents, and those being spawned, whose scopes meet the plan's, as people know them: oldest
/// first. `under_way` has to be read before this is called, so that a spawn that ends meanwhile is in the
/// ledger.
///
/// # Errors
/// `repo-corrupt`; those of the ledger.
pub(super) fn contenders(
    ctx: &Ctx,
    plan: &SpawnPlan,
    under_way: &[SpawnJournal],
) -> Result<Vec<String>> {
    if !plan.role.edits {
        return Ok(Vec::new());
    }
    let mut neighbours = Neighbours {
        own: Territory::new(&plan.task.whitelist, &plan.denylist),
        globs: HashMap::new(),
        known: HashMap::new(),
    };
    let mut found = Vec::new();
    for mut agent in Ledger::new(&ctx.repo).agents()? {
        let Some(blob) = agent.policy.filter(|_| is_live(&agent)) else {
            continue;
        };
        // A policy that this version cannot read may allow anything.
        let meets = match policy::load(&ctx.repo, blob)? {
            Some(policy) if !policy.edits => false,
            Some(policy) => neighbours.meets(policy.whitelist, policy.denylist)?,
            None => true,
        };
        if meets {
            let name = agent.name.take().map(|name| format!(" ({name})"));
            found.push((agent.id, name.unwrap_or_default()));
        }
    }
    for journal in under_way {
        let (Some(id), Some(scope)) = (AgentId::parse(&journal.agent), &journal.scope) else {
            continue;
        };
        let known = id == plan.id || found.iter().any(|(other, _)| *other == id);
        if !known && neighbours.meets(scope.whitelist.clone(), scope.denylist.clone())? {
            found.push((id, String::new()));
        }
    }
    Ok(found
        .into_iter()
        .map(|(id, name)| format!("{}{name}", id.short()))
        .collect())
}

/// What to tell somebody who spawns all the same; `None` when nobody is in the way.
pub(super) fn warning(contenders: &[String]) -> Option<String> {
    if contenders.is_empty() {
        return None;
    }
    Some(format!(
        "the scope meets that of {}; to see where, run git agent overlap --scopes",
        listed(contenders)
    ))
}

/// Refuses an exclusive spawn that somebody is in the way of.
///
/// # Errors
/// `scope-overlap`, naming them.
pub(super) fn require_none(contenders: &[String]) -> Result<()> {
    if contenders.is_empty() {
        return Ok(());
    }
    Err(Error::new(
        Code::ScopeOverlap,
        format!("the scope meets that of {}", listed(contenders)),
    )
    .hint("to see what they may touch, run git agent overlap --scopes")
    .hint("to spawn all the same, leave --exclusive out"))
}

fn listed(contenders: &[String]) -> String {
    let names = contenders[..contenders.len().min(NAMED)].join(", ");
    match contenders.len() {
        1 => format!("live agent {names}"),
        count if count <= NAMED => format!("{count} live agents: {names}"),
        count => format!("{count} live agents: {names} and {} more", count - NAMED),
    }
}

/// Compares one territory with many. Fleets share globs and whole scopes, so each is read once.
struct Neighbours {
    own: Territory,
    globs: HashMap<String, Glob>,
    known: HashMap<(Vec<String>, Vec<String>), bool>,
}

impl Neighbours {
    fn meets(&mut self, whitelist: Vec<String>, denylist: Vec<String>) -> Result<bool> {
        let key = (whitelist, denylist);
        if let Some(known) = self.known.get(&key) {
            return Ok(*known);
        }
        let theirs = Territory::new(&self.read(&key.0)?, &self.read(&key.1)?);
        let meets = self.own.meeting(&theirs) != Meeting::Never;
        self.known.insert(key, meets);
        Ok(meets)
    }

    fn read(&mut self, texts: &[String]) -> Result<Vec<Glob>> {
        let mut globs = Vec::new();
        for text in texts {
            if !self.globs.contains_key(text) {
                let glob = Glob::parse(text).map_err(|why| {
                    Error::new(Code::RepoCorrupt, "a recorded scope cannot be used").because(why)
                })?;
                self.globs.insert(text.clone(), glob);
            }
            globs.push(self.globs[text].clone());
        }
        Ok(globs)
    }
}
