//! Takes everything of a site that no ref will name any more, and keeps it.

use super::gate::{Place, Site};
use super::protection::refused;
use super::{DiscardOptions, tip_of};
use crate::domain::agent::Agent;
use crate::domain::event::What;
use crate::domain::oid::Oid;
use crate::error::{IoContext, Result};
use crate::git::Repo;
use crate::git::ignore::Rules;
use crate::git::objects::Commit;
use crate::git::salvage::{missed, unkeepable, write_bundle, write_work};
use crate::git::uncommitted::{self, Source};
use crate::ops::Ctx;
use crate::ops::verify::ignore_rules;
use crate::store::ledger::Ledger;
use crate::store::{fsx, keep, layout, policy};
use std::fs;
use std::path::{Path, PathBuf};

/// What was found, as commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Salvage {
    /// What was staged, modified or untracked.
    pub work: Option<Oid>,
    /// The bundle.
    pub bundle: Option<Oid>,
    /// Commits that only reflogs and the like still name.
    pub leftovers: Vec<Oid>,
}

impl Salvage {
    /// Reads everything and writes objects; no ref yet.
    pub(super) fn take(
        ctx: &Ctx,
        agent: &Agent,
        site: &Site,
        options: DiscardOptions,
    ) -> Result<Salvage> {
        let policy = policy::of_agent(&ctx.repo, agent)?;
        let bundle_dir = policy.and_then(|policy| policy.bundle_dir);
        let tip = ctx.repo.read_commit(tip_of(agent, site))?;
        let whose = format!("Agent-Id: {}", agent.id);
        let mut salvage = Salvage::default();
        if let Some(place) = &site.place {
            let branch = agent.branch.as_deref();
            salvage.leftovers = ctx
                .repo
                .leftover_commits(&place.admin_dir, branch, tip.oid)?;
            salvage.work = work(ctx, agent, place, &tip, bundle_dir.as_deref(), options)?;
        } else if let Some((name, _)) = &site.branch {
            let nothing = layout::tmp_dir(ctx.repo.common_dir()).join("none");
            salvage.leftovers = ctx.repo.leftover_commits(&nothing, Some(name), tip.oid)?;
        }
        let files = site.place.as_ref().and_then(|place| place.files.as_ref());
        let bundle = match (&bundle_dir, files) {
            (Some(inside), Some(files)) => real_directory(files, inside),
            (None, None) => Some(layout::agent_dir(ctx.repo.common_dir(), agent.id).join("bundle")),
            _ => None,
        };
        if let Some(bundle) = bundle {
            salvage.bundle = write_bundle(&ctx.repo, &tip, &bundle, &whose)?;
        }
        Ok(salvage)
    }

    /// Keeps the tip and everything found by one append, then tells the row.
    pub(super) fn keep(&self, ctx: &Ctx, agent: &Agent, tip: Option<Oid>) -> Result<()> {
        let found = [tip, self.work, self.bundle].into_iter().flatten();
        let mut commits: Vec<Oid> = found.chain(self.leftovers.iter().copied()).collect();
        commits.retain(|commit| *commit != agent.spawn_commit);
        if commits.is_empty() {
            return Ok(());
        }
        let why = format!("discard {}", agent.id);
        keep::keep(&ctx.repo, &commits, &why, ctx.now()).map(|_| ())
    }

    /// Names what was found in the agent's row, unless it stands there already.
    pub(super) fn record(&self, ctx: &Ctx, agent: &Agent) -> Result<()> {
        let ledger = Ledger::new(&ctx.repo);
        let events = ledger.events(agent.spawn_commit)?;
        for commit in [self.bundle, self.work].into_iter().flatten() {
            let what = What::Salvaged { commit };
            if !events.iter().any(|event| event.what == what) {
                ledger.append(agent.spawn_commit, &ctx.actor()?, what, ctx.now())?;
            }
        }
        Ok(())
    }
}

/// The bundle's directory, unless a symlink stands in for a part of the way.
fn real_directory(top: &Path, inside: &str) -> Option<PathBuf> {
    let mut path = top.to_owned();
    for part in inside.split('/') {
        path.push(part);
        if !fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir()) {
            return None;
        }
    }
    Some(path)
}

/// A directory of files that go when it does.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn work(
    ctx: &Ctx,
    agent: &Agent,
    place: &Place,
    tip: &Commit,
    bundle_dir: Option<&str>,
    options: DiscardOptions,
) -> Result<Option<Oid>> {
    let scratch = layout::tmp_dir(ctx.repo.common_dir());
    let scratch = Scratch(fsx::unique_name(&scratch.join("salvage")));
    let (ignore, index, empty) = (
        scratch.0.join("ignore"),
        scratch.0.join("index"),
        scratch.0.join("empty"),
    );
    fs::create_dir_all(&empty).at("could not make", &empty)?;
    let rules = match options.with_ignored {
        true => Rules::all_but(bundle_dir),
        false => ignore_rules(&ctx.repo, agent, bundle_dir)?,
    };
    let settings = Repo::open_git_dir(&place.admin_dir)?;
    let source = Source {
        repo: &settings,
        worktree: place.files.as_deref().unwrap_or(&empty),
        admin_dir: &place.admin_dir,
        tip: tip.oid,
        staged: true,
        sparse: settings.config_bool("core.sparseCheckout")? == Some(true),
        rules: &rules,
        besides: bundle_dir,
        ignore: &ignore,
        index: &index,
    };
    let mut found = uncommitted::write_trees(&source)?;
    if !found.unmerged.is_empty() {
        let shown = place.path.display();
        return Err(refused(format!("{shown} has unmerged paths"))
            .hint(format!("to see them, run git -C {shown} status")));
    }
    let whose = format!("Agent-Id: {}", agent.id);
    if place.files.is_none() {
        // Somebody removed the files. What is staged is in the index, and nowhere else.
        let staged = found.staged.unwrap_or(tip.tree);
        if is_salvaged(ctx, agent, staged)? {
            return Ok(None);
        }
        found.tree = staged;
        return write_work(&ctx.repo, tip, &found, &whose);
    }
    let bundle = bundle_dir.filter(|inside| real_directory(source.worktree, inside).is_some());
    let missed = missed(&source, bundle.map(Path::new))?;
    if !missed.is_empty() {
        return Err(unkeepable(&missed));
    }
    write_work(&ctx.repo, tip, &found, &whose)
}

/// Whether a salvage in the agent's row holds this tree, as its worktree or as its index.
fn is_salvaged(ctx: &Ctx, agent: &Agent, tree: Oid) -> Result<bool> {
    for event in Ledger::new(&ctx.repo).events(agent.spawn_commit)? {
        let What::Salvaged { commit } = event.what else {
            continue;
        };
        // One that has expired holds nothing.
        let Ok(commit) = ctx.repo.read_commit(commit) else {
            continue;
        };
        let index = match commit.parents.get(1) {
            Some(index) => Some(ctx.repo.read_commit(*index)?.tree),
            None => None,
        };
        if commit.tree == tree || index == Some(tree) {
            return Ok(true);
        }
    }
    Ok(false)
}
