//! A list that is looked at again and again.
//!
//! Every look reads what costs next to nothing: the ledger's tip, and per agent the tips of its branch and
//! its target, the times of its index, its worktree's top and its bundle. Only an agent for which one of
//! these moved is looked at in full. Edits deep inside a worktree move none of them, so all agents are
//! looked at in full as often as keeps that below a small share of the time.

use crate::agents::ctx::Ctx;
use crate::agents::{work, worktree};
use crate::domain::agent::Agent;
use crate::domain::bundle::FILES;
use crate::domain::id::AgentId;
use crate::domain::oid::Oid;
use crate::error::Result;
use crate::git::files::separate::FileStamp;
use crate::ops::agent_report::Reporter;
use crate::ops::list::{ListOptions, ListReport, ListedAgent, SCHEMA, Sort, select};
use crate::ops::status::{OverlapSet, Places, WorkStatus, survey};
use crate::store::layout;
use chrono::{DateTime, Utc};
use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// A full look at everything takes at most one part in this many of the time.
const SHARE: u32 = 50;

/// Where the bundle is unless a setting says otherwise; a wrong guess only delays what is seen.
const BUNDLE: &str = ".agent";

/// A list and what is remembered from one look to the next.
pub struct Watch<'c> {
    ctx: &'c Ctx,
    options: ListOptions,
    ledger: Option<Oid>,
    agents: Vec<Agent>,
    known: HashMap<AgentId, (Fingerprint, WorkStatus)>,
    thorough: Option<(Instant, Duration)>,
}

/// What moves when an agent does something that git or the bundle shows.
#[derive(Clone)]
struct Fingerprint {
    updated: DateTime<Utc>,
    tip: Option<Oid>,
    target: Option<Oid>,
    files: Vec<Option<FileStamp>>,
}

impl Fingerprint {
    /// Whether nothing has moved since this one was taken.
    fn is_still(&self, now: &Fingerprint) -> bool {
        let refs = |of: &Fingerprint| (of.updated, of.tip, of.target);
        let mut files = self.files.iter().zip(&now.files);
        refs(self) == refs(now)
            && self.files.len() == now.files.len()
            && files.all(|(before, now)| FileStamp::is_unchanged(before.as_ref(), now.as_ref()))
    }
}

impl<'c> Watch<'c> {
    /// A watch that has not looked yet.
    pub fn new(ctx: &'c Ctx, options: ListOptions) -> Watch<'c> {
        Watch {
            ctx,
            options,
            ledger: None,
            agents: Vec::new(),
            known: HashMap::new(),
            thorough: None,
        }
    }

    /// The list as it is now.
    ///
    /// # Errors
    /// As [`super::each`].
    pub fn look(&mut self) -> Result<ListReport> {
        let ledger = self.ctx.repo.tip(layout::LEDGER_REF)?.oid();
        if self.thorough.is_none() || ledger != self.ledger {
            self.agents = select::select(self.ctx, &self.options)?;
            self.ledger = ledger;
        }
        if !self.options.fast {
            self.refresh()?;
        }
        let reporter = Reporter::new(self.ctx)?;
        let mut agents: Vec<ListedAgent> = self
            .agents
            .iter()
            .map(|agent| {
                let standing = match self.known.get(&agent.id) {
                    Some((_, standing)) => standing.clone(),
                    None => WorkStatus::default(),
                };
                ListedAgent::new(reporter.agent(agent), standing, &self.options)
            })
            .filter(|agent| agent.is_wanted(&self.options))
            .collect();
        if self.options.sort == Sort::Activity {
            select::by_activity(&mut agents);
        }
        OverlapSet::fill(&mut agents, |agent| &mut agent.standing);
        Ok(ListReport {
            schema: SCHEMA,
            agents,
            warnings: Vec::new(),
        })
    }

    /// Looks again at those that did something, or at all when that is due.
    fn refresh(&mut self) -> Result<()> {
        let begin = Instant::now();
        let due = self
            .thorough
            .is_none_or(|(last, cost)| last.elapsed() >= cost * SHARE);
        let places = Places::load(&self.ctx.repo)?;
        let fingerprints: Vec<Fingerprint> = self
            .agents
            .iter()
            .map(|agent| fingerprint(self.ctx, agent, places.of(agent)))
            .collect();
        let moved = |(agent, fingerprint): &(&Agent, &Fingerprint)| {
            let known = self.known.get(&agent.id);
            due || known.is_none_or(|(last, _)| !last.is_still(fingerprint))
        };
        let (wanted, fingerprints): (Vec<&Agent>, Vec<&Fingerprint>) =
            self.agents.iter().zip(&fingerprints).filter(moved).unzip();
        let mut found = Vec::with_capacity(wanted.len());
        survey(self.ctx, &wanted, &places, |index, standing| {
            found.push((wanted[index].id, (fingerprints[index].clone(), standing)));
            Ok(())
        })?;
        self.known.extend(found);
        if due {
            self.thorough = Some((begin, begin.elapsed()));
        }
        Ok(())
    }
}

fn fingerprint(ctx: &Ctx, agent: &Agent, worktree: Option<&Path>) -> Fingerprint {
    let tip = work::tip_of(ctx, agent).ok();
    let target = work::base_of(ctx, agent, None).ok();
    let mut files = Vec::new();
    if let Some(top) = worktree {
        let admin = worktree::admin_dir(&ctx.repo, agent.id);
        files.push(FileStamp::of(&admin.join("index")));
        files.push(FileStamp::of(top));
        let bundle = top.join(BUNDLE);
        files.extend(FILES.map(|(name, _)| FileStamp::of(&bundle.join(name))));
    }
    Fingerprint {
        updated: agent.updated,
        tip,
        target: target.and_then(|(_, tip)| tip),
        files,
    }
}
