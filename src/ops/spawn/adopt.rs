//! A linked worktree that exists already becomes that of a new agent.
//!
//! ```text
//! base ── spawn ── one' ── two'      the agent's branch, which HEAD of the worktree names from now on
//!    └── one ── two                  the branch that the worktree had; it stays where it is
//! ```
//!
//! The commits that the worktree has and the branch to land on lacks count as the agent's work, and so does what is not committed.
//! They are replayed on top of the spawn commit with the same trees, so that neither the files nor the index change. What git keeps
//! for the worktree (its index, reflog, sparse patterns, settings) moves into an admin directory with the agent's name:
//!
//! 1. `adopted`: the agent's admin directory is published, with everything that the old one held. The worktree still uses that.
//! 2. `pointed`: its `.git` file names the agent's. This comes last before the row is complete, because what happens in the worktree
//!    from here on would be lost if the agent did not stay.
//! 3. `replaced`: the old admin directory is gone. The row is complete before.

use crate::agents::{Ctx, context::untrusted, place::worktree};
use crate::domain::{Oid, branch_name, value::shell};
use crate::error::{Code, Error, IoContext, Result};
use crate::git::Repo;
use crate::git::files::admin_dir::{MODULES, leads_to};
use crate::git::landing::unfinished;
use crate::git::objects::RawCommit;
use crate::ops::spawn::contract::SpawnPlan;
use crate::ops::spawn::execute::publish;
use crate::store::files::{fsx, layout};
use crate::wire::row::journal::AdoptedJournal;
use std::fs;
use std::path::{Path, PathBuf};

/// What the agent's admin directory has of its own.
const OWN: [&str; 6] = ["HEAD", "commondir", "gitdir", "locked", "index.lock", "logs/HEAD"];

/// A linked worktree that an agent is to get.
#[derive(Clone, Debug)]
pub struct AdoptedWorktree {
    /// Where it is, free of symlinks.
    pub(super) path: PathBuf,
    /// The name of its admin directory.
    admin: String,
    /// The full name of its branch; `None` for a detached HEAD.
    pub(super) branch: Option<String>,
    /// The commit that it is at.
    pub(super) head: Oid,
    /// The tip of the agent's branch, known once the spawn commit is.
    pub(super) tip: Oid,
    /// The commits between the spawn commit and the tip.
    pub(super) commits: Vec<RawCommit>,
}

impl AdoptedWorktree {
    /// The worktree at a path, if an agent can get it.
    ///
    /// # Errors
    /// `worktree-foreign` for what is no linked worktree of this repository, `agent-state` for an agent's, `worktree-busy` for one that is
    /// locked, in the middle of something, or has submodules; `head-unborn`.
    pub(super) fn find(ctx: &Ctx, path: &Path) -> Result<AdoptedWorktree> {
        let repo = &ctx.repo;
        let path = ctx.absolute(path);
        let shown = path.display();
        let foreign = || {
            Error::new(
                Code::WorktreeForeign,
                format!("{shown} is no linked worktree of this repository"),
            )
            .hint("to see the worktrees there are, run git worktree list")
        };
        let path = fs::canonicalize(&path).map_err(|_| foreign())?;
        let mut there = repo.worktrees()?.into_iter();
        let there = there.find(|one| {
            // Both directions have to agree: git's list may still name this path for a worktree
            // that was moved away.
            fs::canonicalize(&one.path).is_ok_and(|top| top == path)
                && leads_to(&one.path, &repo.admin_dir(&one.name))
        });
        let there = there.ok_or_else(foreign)?;
        let admin = repo.admin_dir(&there.name);
        if layout::is_made_by_us(&there.name) {
            let what = format!("{shown} is a worktree of git-agent's already");
            return Err(Error::new(Code::AgentState, what)
                .hint("to see whose it is, run git agent list --all"));
        }
        let busy = |what: String, hint: String| {
            Error::new(Code::WorktreeBusy, format!("{shown} {what}")).hint(hint)
        };
        let word = shell::path(&path);
        if let Some(reason) = there.lock_reason {
            let what = format!("is locked: {}", reason.escape_debug());
            return Err(busy(
                what,
                format!("to take the lock off, run git worktree unlock {word}"),
            ));
        }
        let unfinished = unfinished(&admin).first().map(|unfinished| unfinished.named());
        let is_bisected = admin.join("BISECT_LOG").symlink_metadata().is_ok();
        if let Some(what) = unfinished.or_else(|| is_bisected.then(|| "a bisect".to_owned())) {
            let what = format!("is in the middle of {what}");
            return Err(busy(what, format!("to see how to end it, run git -C {word} status")));
        }
        if admin.join(MODULES).exists() {
            // Their `.git` files name the admin directory by its path.
            let hint = format!("to take them out, run git -C {word} submodule deinit --all");
            return Err(busy(
                "holds repositories of submodules, which would lose their place".into(),
                hint,
            ));
        }
        let said = untrusted::text(&admin, "HEAD").unwrap_or_default();
        let branch = said.trim_end().strip_prefix("ref: ").map(str::to_owned);
        let head = match &branch {
            Some(branch) => repo.tip(branch)?.oid(),
            None => Oid::from_hex(said.trim_end()),
        };
        let unborn = || Error::new(Code::HeadUnborn, format!("HEAD of {shown} names no commit"));
        let head = head.ok_or_else(unborn)?;
        Ok(AdoptedWorktree {
            path,
            admin: there.name,
            branch,
            head,
            tip: head,
            commits: Vec::new(),
        })
    }

    /// The branch that the work lands on where the caller names none: the main worktree's.
    ///
    /// # Errors
    /// `usage` where there is no main worktree; those of opening it.
    pub(super) fn main(ctx: &Ctx) -> Result<Repo> {
        match ctx.repo.main_worktree()? {
            Some(main) => Repo::open(&main),
            None => Err(Error::new(
                Code::Usage,
                "a bare repository has no branch that the work lands on",
            )
            .hint("to name it, pass --base <branch>")),
        }
    }

    /// Where the work began: the last commit that it shares with the branch to land on.
    ///
    /// # Errors
    /// `base-not-commit` where they share none; `history-incomplete`.
    pub(super) fn start(&self, repo: &Repo, target: Oid) -> Result<Oid> {
        let shared = repo.merge_base(target, self.head)?;
        let alone = || {
            let what =
                format!("{} shares no commit with the branch to land on", self.path.display());
            Error::new(Code::BaseNotCommit, what).hint("to name another one, pass --base <branch>")
        };
        shared.ok_or_else(alone)
    }

    /// Replays its commits since `base` on top of the spawn commit, in memory.
    ///
    /// # Errors
    /// `worktree-busy` where that would change more of them than their parents.
    pub(super) fn replay(&mut self, repo: &Repo, base: Oid, spawn_commit: Oid) -> Result<()> {
        self.tip = spawn_commit;
        let own = branch_name(self.branch.as_deref().unwrap_or("<branch>"));
        let refuse = |what: &str| {
            let what = format!("the commits of {} since {base} {what}", self.path.display());
            Error::new(Code::WorktreeBusy, what).hint(format!(
                "to have the agent begin after them and land on {own}, pass --base {own}"
            ))
        };
        let line = repo.line(base, self.head);
        for lineage in line.ok_or_else(|| refuse("hold merges, or are too many to be replayed"))? {
            let commit = repo.read_raw_commit(lineage.oid)?;
            if commit.is_signed() {
                return Err(refuse("are signed, and a replayed commit has other bytes"));
            }
            let commit = commit.with_parents(&[self.tip], None);
            self.tip = commit.name()?;
            self.commits.push(commit);
        }
        Ok(())
    }

    /// Writes these commits; no ref moves.
    ///
    /// # Errors
    /// Those of [`Repo::write_blob`].
    pub(super) fn write(&self, repo: &Repo) -> Result<()> {
        let mut commits = self.commits.iter();
        commits.try_for_each(|commit| repo.write_raw_commit(commit).map(drop))
    }

    /// Refuses a worktree that has something where the bundle goes: what is written there would take its place.
    ///
    /// # Errors
    /// `path-exists`.
    pub(super) fn require_free_for_bundle(&self, bundle: &str) -> Result<()> {
        let place = self.path.join(bundle);
        if place.symlink_metadata().is_err() {
            return Ok(());
        }
        let what = format!("{} is there, where an agent's bundle goes", place.display());
        Err(Error::new(Code::PathExists, what)
            .hint("to keep bundles elsewhere, run git config agent.bundleDir <directory>"))
    }

    /// What the journal says of it.
    pub(super) fn journal(&self, bundle: &str) -> AdoptedJournal {
        AdoptedJournal {
            admin: self.admin.clone(),
            tip: self.tip.to_hex(),
            bundle: bundle.to_owned(),
        }
    }

    /// Makes the agent's admin directory, with everything that the old one holds. Until the second step no git may write there: the
    /// lock of its index, which is given, sees to that.
    ///
    /// # Errors
    /// `worktree-busy` while a git works there, `lost-race` where it has moved since; `io`, `disk-full`.
    pub(super) fn publish(&self, ctx: &Ctx, plan: &SpawnPlan, branch: &str) -> Result<HeldIndex> {
        let repo = &ctx.repo;
        let old = repo.admin_dir(&self.admin);
        let lock = HeldIndex::take(&old, &plan.id.to_string())?;
        ctx.reached("index-locked");
        // As it was when it was planned, which from here on stays so.
        let now = AdoptedWorktree::find(ctx, &self.path)?;
        if (now.head, &now.branch, &now.admin) != (self.head, &self.branch, &self.admin) {
            let what = format!("HEAD of {} has moved meanwhile", self.path.display());
            return Err(Error::new(Code::LostRace, what).hint("to try again, run the same command"));
        }
        publish(ctx, plan, &self.path, branch, |new| {
            repo.add_admin_dir(new, |half_made| {
                for file in untrusted::files(&old) {
                    if !OWN.iter().any(|own| file == Path::new(own)) {
                        link(&old.join(&file), &half_made.join(&file))?;
                    }
                }
                // One entry joins the old oids and the replayed ones, so that the reflog explains
                // why HEAD differs.
                let mut log = untrusted::log(&old, Path::new("logs/HEAD"));
                let (head, tip, who) =
                    (self.head, self.tip, plan.spawner.identities.committer.stamp());
                log.extend(format!("{head} {tip} {who}\tgit-agent: adopt\n").bytes());
                let path = half_made.join("logs/HEAD");
                fs::write(&path, log).at("could not write", &path)
            })
        })?;
        ctx.reached("adopted");
        Ok(lock)
    }

    /// Lets the worktree use the agent's admin directory.
    ///
    /// # Errors
    /// `io`, `disk-full`.
    pub(super) fn point(&self, ctx: &Ctx, plan: &SpawnPlan, lock: HeldIndex) -> Result<()> {
        let admin = worktree::admin_dir(&ctx.repo, plan.id);
        ctx.repo.point_worktree(&self.path, &admin)?;
        drop(lock);
        ctx.reached("pointed");
        Ok(())
    }

    /// Removes the old admin directory.
    ///
    /// # Errors
    /// `io`.
    pub(super) fn end(&self, ctx: &Ctx) -> Result<()> {
        fsx::remove_by_trash(ctx.repo.common_dir(), &ctx.repo.admin_dir(&self.admin))?;
        ctx.reached("replaced");
        Ok(())
    }
}

/// Git replaces the files of an admin directory and writes into none but logs, so a second name will do, and keeps the times by which
/// git knows that an index is as old as its files.
fn link(from: &Path, to: &Path) -> Result<()> {
    if let Some(parent) = to.parent() {
        fsx::create_dir(parent)?;
    }
    // A file that the new admin directory already has, such as `ORIG_HEAD`, gives way to the old
    // one's.
    let _ = fs::remove_file(to);
    fs::hard_link(from, to).at("could not link", from)
}

/// The lock that git takes before it changes the index of a worktree.
pub(super) struct HeldIndex(PathBuf);

impl HeldIndex {
    fn take(admin: &Path, id: &str) -> Result<HeldIndex> {
        let path = admin.join("index.lock");
        // The id tells a later cleanup that the lock is ours; a lock that git left is never
        // removed.
        if fsx::create_atomic(&path, id.as_bytes())? {
            return Ok(HeldIndex(path));
        }
        let what = format!("another git works in the worktree: {} is there", path.display());
        Err(Error::new(Code::WorktreeBusy, what).hint("to try again, wait until it is done"))
    }
}

impl Drop for HeldIndex {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
