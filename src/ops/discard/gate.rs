//! What there is of an agent in this clone, and the proof that it is the agent's.

use crate::agents::ctx::Ctx;
use crate::agents::untrusted;
use crate::domain::agent::Agent;
use crate::domain::event::Isolation;
use crate::domain::oid::Oid;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::files::admin_dir::belongs_to;
use crate::git::files::layer::WorktreeLayer;
use crate::git::refs::Tip;
use crate::git::worktree::WorktreeCache;
use crate::ops::discard::protection::refused;
use crate::ops::discard::protection::require_unprotected;
use crate::store::agent_branch::OwnBranch;
use crate::store::layout;
use crate::store::place::RecordedPlaces;
use std::fs;
use std::path::{Path, PathBuf};

/// What an agent has left in this clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::ops) struct Site {
    /// Its worktree or what is left of it.
    pub place: Option<Place>,
    /// Its branch.
    pub branch: Option<OwnBranch>,
    /// Where that is; `None` where no commit can be read there.
    pub tip: Option<Oid>,
    /// The branch that its row names, where there is one and it is not proved to be the agent's. It stays.
    pub foreign_branch: Option<String>,
}

/// A worktree on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::ops) struct Place {
    /// Where it was made.
    pub path: PathBuf,
    /// Where its files are now: there, or where an interrupted discard put them; `None` when they are
    /// gone.
    pub files: Option<PathBuf>,
    /// Its admin directory.
    pub admin_dir: PathBuf,
}

impl Place {
    /// Where what the agent wrote is, if it is anywhere: of a layered worktree, not where its files seem to be.
    pub(in crate::ops) fn contents(&self) -> Option<PathBuf> {
        // The place of a layered worktree is a mount, below which nothing lies while no run is at
        // work.
        let layer = WorktreeLayer::of(&self.admin_dir).map(|layer| layer.upper);
        layer.or_else(|| self.files.clone())
    }

    /// The directory of its layer, or of what a killed command left of one.
    pub(in crate::ops) fn layer_dir(&self) -> Option<PathBuf> {
        WorktreeLayer::directory(&self.admin_dir).filter(|directory| directory.is_dir())
    }

    /// Refuses what has appeared where a layered worktree is, which no mount wrote and no look at the agent's work sees.
    fn require_bare(&self) -> Result<()> {
        let (Some(_), Some(files)) = (WorktreeLayer::of(&self.admin_dir), &self.files) else {
            return Ok(());
        };
        let names = untrusted::names(files).into_iter();
        let Some(first) = names.filter(|name| name != ".git").min() else {
            return Ok(());
        };
        let path = files.join(first);
        let path = path.display();
        Err(
            refused(format!("{path} was written outside of the agent's mount"))
                .hint(format!("to keep it, run mv {path} <elsewhere>")),
        )
    }

    /// The hidden name that the worktree bears on its way out.
    pub(in crate::ops) fn aside(&self) -> PathBuf {
        let name = self.admin_dir.file_name().unwrap_or_default();
        layout::aside(&self.path, &name.to_string_lossy())
    }
}

/// Every worktree of the repository, read once for many agents.
#[derive(Default)]
pub(in crate::ops) struct WorktreeSnapshot {
    linked: WorktreeCache,
    /// Where the main worktree is, and the text of its `HEAD`.
    main: (PathBuf, String),
}

impl WorktreeSnapshot {
    /// Reads them.
    ///
    /// # Errors
    /// `io`.
    pub(in crate::ops) fn read(ctx: &Ctx) -> Result<WorktreeSnapshot> {
        let mut around = WorktreeSnapshot::default();
        around.refresh(ctx)?;
        Ok(around)
    }

    /// Reads what has changed.
    pub(super) fn refresh(&mut self, ctx: &Ctx) -> Result<()> {
        self.linked.refresh(&ctx.repo)?;
        let head = fs::read_to_string(ctx.repo.common_dir().join("HEAD"));
        self.main = (ctx.repo.root()?, head.unwrap_or_default());
        Ok(())
    }
}

impl Site {
    pub(super) fn look(ctx: &Ctx, agent: &Agent, around: &WorktreeSnapshot) -> Result<Site> {
        if agent.isolation == Some(Isolation::Shared) {
            return Ok(Site {
                place: None,
                branch: None,
                tip: None,
                foreign_branch: None,
            });
        }
        let branch = OwnBranch::of(&ctx.repo, agent)?;
        // A branch of that name that is not the agent's own is told of and left.
        let named = { agent.branch.iter() }.filter(|_| branch.is_none());
        let mut named = named.filter(|name| ctx.repo.tip(name).is_ok_and(|tip| tip != Tip::Absent));
        let mut site = Site {
            place: None,
            tip: tip_of(ctx, branch.as_ref())?,
            foreign_branch: named.next().cloned(),
            branch,
        };
        site.require_branch_free(agent, around)?;
        site.place = place_of(ctx, agent, &around.linked)?;
        Ok(site)
    }

    /// Makes sure that its branch is checked out nowhere else.
    pub(super) fn require_branch_free(
        &self,
        agent: &Agent,
        around: &WorktreeSnapshot,
    ) -> Result<()> {
        let name = { self.branch.as_ref() }.map(OwnBranch::name);
        name.map_or(Ok(()), |name| require_not_elsewhere(agent, name, around))
    }

    /// Whether there is nothing left.
    pub(super) fn is_empty(&self) -> bool {
        self.branch.is_none() && self.place.is_none()
    }
}

/// The commit that a branch names, where that can be read.
fn tip_of(ctx: &Ctx, branch: Option<&OwnBranch>) -> Result<Option<Oid>> {
    let Some(oid) = branch.and_then(|own| own.tip().oid()) else {
        return Ok(None);
    };
    // A clone that lacks objects may get them.
    if ctx.repo.read_commit(oid).is_err() && (ctx.repo.is_shallow() || ctx.repo.is_partial()) {
        ctx.repo.require_commit(oid)?;
    }
    // A tip that cannot be read cannot be kept, and must not be in the way of removing the rest.
    Ok(ctx.repo.read_commit(oid).is_ok().then_some(oid))
}

/// Deleting a branch that another worktree has checked out would leave that one unborn.
fn require_not_elsewhere(agent: &Agent, branch: &str, around: &WorktreeSnapshot) -> Result<()> {
    let own = layout::worktree_name(agent.id);
    let head = format!("ref: {branch}");
    let (root, text) = &around.main;
    let main = (text.trim_end() == head).then_some(root);
    let linked = around.linked.at_head(&head);
    let linked = linked.filter(|worktree| worktree.name != own);
    let mut elsewhere = { main.into_iter() }.chain(linked.map(|worktree| &worktree.path));
    match elsewhere.next() {
        None => Ok(()),
        Some(path) => {
            let path = path.display();
            Err(refused(format!("{branch} is checked out at {path}"))
                .hint(format!("to leave it, run git -C {path} switch --detach")))
        }
    }
}

fn place_of(ctx: &Ctx, agent: &Agent, worktrees: &WorktreeCache) -> Result<Option<Place>> {
    let name = layout::worktree_name(agent.id);
    let recorded = RecordedPlaces::new(&ctx.repo)?.of(agent);
    let linked = || ctx.repo.worktree(&name).map(|worktree| worktree.path);
    // The recorded place comes first: where git says another one, a person has moved the worktree,
    // and `require_unprotected` has to see both.
    let Some(path) = recorded.or_else(linked) else {
        return Ok(None);
    };
    let mut place = Place {
        path,
        files: None,
        admin_dir: ctx.repo.admin_dir(&name),
    };
    place.files = files_of(&place, linked().as_deref())?;
    if place.files.is_none() && fs::symlink_metadata(&place.admin_dir).is_err() {
        return Ok(None);
    }
    place.require_bare()?;
    require_unprotected(ctx, agent, &place, worktrees)?;
    Ok(Some(place))
}

/// Whether a directory's `.git` file leads nowhere at all, because it is gone or garbled, while the admin directory
/// still says that this is its worktree.
fn is_unclaimed(files: &Path, place: &Place, linked: Option<&Path>) -> bool {
    let is_directory =
        fs::symlink_metadata(files.join(".git")).is_ok_and(|metadata| metadata.is_dir());
    let pointer = untrusted::text(files, ".git");
    let leads = pointer.is_some_and(|text| text.starts_with("gitdir: "));
    // git says that the worktree is here, and what should lead back was overwritten.
    !is_directory && !leads && linked == Some(&place.path)
}

/// Finds the files under one of the two names, and proves that they are the agent's.
///
/// # Errors
/// `discard-refused`, `worktree-foreign`.
fn files_of(place: &Place, linked: Option<&Path>) -> Result<Option<PathBuf>> {
    let mut found = None;
    // A discard that was killed left it under the hidden name.
    for path in [place.aside(), place.path.clone()] {
        let Ok(metadata) = fs::symlink_metadata(&path) else {
            continue;
        };
        let shown = path.display();
        let real = fs::canonicalize(&path).at("could not resolve", &path);
        // A row names this path. Through a symlink on the way another directory would be removed.
        if !metadata.is_dir() || real? != path {
            return Err(refused(format!(
                "{shown} is not the directory that was made there, or is reached through a symlink"
            ))
            .hint(format!("to see what it is, run ls -ld {shown}")));
        }
        if !belongs_to(&path, &place.admin_dir) && !is_unclaimed(&path, place, linked) {
            return Err(Error::new(
                Code::WorktreeForeign,
                format!("{shown} does not say that it is this agent's worktree"),
            )
            .hint(format!("to see whose it is, run cat {shown}/.git")));
        }
        if let Some(other) = found.replace(path.clone()) {
            return Err(refused(format!(
                "the worktree is there twice: {shown} and {}",
                other.display()
            ))
            .hint(format!("to keep one of them, run mv {shown} <elsewhere>")));
        }
    }
    Ok(found)
}
