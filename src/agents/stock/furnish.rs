//! Making a warm worktree: checked out, set up, and written down.

use crate::agents::context::ctx::Ctx;
use crate::agents::place::ignored_files::{self, WantedFiles};
use crate::agents::place::kept_worktree;
use crate::agents::place::worktree::{self, AgentWorktree};
use crate::agents::stock::commands::{self, CommandSubject};
use crate::agents::stock::pool::{self, Slot};
use crate::agents::work::uncommitted::look;
use crate::domain::Oid;
use crate::error::{IoContext, Result};
use crate::git::{NewWorktree, core::command};
use crate::hosts::WORKTREE_DIR;
use crate::store::files::{added, layout, lock};
use crate::wire::row::journal::SlotRecord;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The steps of making one, in order, under the names given to [`crate::agents::context::ctx::Seams::reached`].
pub const STEPS: [&str; 5] =
    ["slot-begun", "slot-added", "slot-populated", "slot-set-up", "slot-ready"];

/// Files above this size are not searched for the path of the worktree that they are in.
const LARGE: u64 = 1 << 20;

/// What a warm worktree is to hold.
pub(crate) struct WantedContent<'a> {
    pub(crate) commit: Oid,
    pub(crate) tree: Oid,
    pub(crate) files: WantedFiles<'a>,
    pub(crate) run: &'a [String],
}

impl WantedContent<'_> {
    /// As [`pool::wanted_setup`].
    pub(crate) fn setup(&self, ctx: &Ctx) -> Result<String> {
        pool::wanted_setup(ctx, &self.files, self.run)
    }
}

/// Makes a slot; nothing of it is left where that fails, but for what a person wrote in it meanwhile.
///
/// # Errors
/// `setup-failed`; those of making a worktree.
pub(crate) fn make(ctx: &Ctx, wanted: &WantedContent<'_>) -> Result<Slot> {
    let mut slot = Slot::begin(ctx)?;
    ctx.reached(STEPS[0]);
    match furnish(ctx, wanted, &slot) {
        Ok(record) => {
            slot.write(Some(record))?;
            ctx.reached(STEPS[4]);
            Ok(slot)
        }
        // A removal that fails as well is the error: files would stay that no process knows.
        Err(error) => Err(match slot.remove(ctx)? {
            Some(kept) => error.hint(kept.sentence()),
            None => error,
        }),
    }
}

/// Makes the worktree of a slot and sets it up.
fn furnish(ctx: &Ctx, wanted: &WantedContent<'_>, slot: &Slot) -> Result<SlotRecord> {
    // The worktree, at a detached HEAD: no branch is taken before there is an agent.
    let common = ctx.repo.common_dir();
    added::add_exclude(&ctx.repo, &[WORKTREE_DIR])?;
    {
        let _spawns = lock::hold(common, layout::SPAWN_LOCK)?;
        ctx.repo.add_worktree(&NewWorktree {
            name: &slot.name,
            path: &slot.path,
            branch: None,
            commit: wanted.commit,
            scratch: &layout::tmp_dir(common),
            lock_reason: layout::SLOT_LOCK_REASON,
            identity: &ctx.identities()?.committer,
        })?;
    }
    ctx.reached(STEPS[1]);
    let what = "checking out files for a warm worktree";
    worktree::check_out(ctx, what, &slot.path, &slot.admin_dir, wanted.commit)?;
    ctx.reached(STEPS[2]);

    // What the repository wants in it, which may change while it is copied.
    let setup = wanted.setup(ctx)?;
    let files = &wanted.files;
    if let (Some(root), true) = (ctx.repo.main_worktree()?, !files.is_empty()) {
        ignored_files::bring(ctx, &root, &slot.path, files)?;
    }
    // Nothing of ours has changed a file yet that git does not ignore. What differs is a person's, and no agent gets it.
    let place = AgentWorktree::new(&slot.path, &slot.admin_dir);
    let is_edited = look(ctx, wanted.commit, &place, None, false)?.1.tree.is_some();
    let subject = CommandSubject { id: None, branch: None, worktree: Some(&slot.path) };
    commands::set_up(ctx, &subject, wanted.run, &slot.path, None)?;
    ctx.reached(STEPS[3]);

    // What a claim has to know of it. A person may have written while the commands ran, which cannot be told from what they made.
    let (_, found) = look(ctx, wanted.commit, &place, None, false)?;
    let is_edited = is_edited || wanted.run.is_empty() && found.tree.is_some();
    let made = found.tree.filter(|_| !is_edited);
    // What set-up left and git does not ignore cannot be told from a person's files later, so it is
    // kept at once.
    if let Some(made) = made {
        kept_worktree::keep_tree(ctx, &place, wanted.commit, made)?;
    }
    Ok(SlotRecord {
        commit: wanted.commit.to_hex(),
        tree: wanted.tree.to_hex(),
        setup,
        // Only set-up commands write paths; files that were copied serve anywhere.
        pinned: !wanted.run.is_empty() && holds_its_path(&slot.path)?,
        leftovers: found.tree.is_some(),
        made: made.map(Oid::to_hex),
        apart: pool::apart(&found),
    })
}

/// Whether set-up wrote the worktree's own path into a file or a symlink, as virtual environments have it: such a worktree
/// works nowhere else.
fn holds_its_path(worktree: &Path) -> Result<bool> {
    let own = worktree.as_os_str().as_bytes();
    let listed = command::run(worktree, ["ls-files", "-z", "--others"])?;
    // Ignored files are among them: that is where virtual environments are.
    for name in command::names(&listed) {
        let path = worktree.join(OsStr::from_bytes(name));
        let Ok(found) = fs::symlink_metadata(&path) else {
            continue;
        };
        let content = if found.is_symlink() {
            let target = fs::read_link(&path).at("could not read", &path)?;
            target.as_os_str().as_bytes().to_vec()
        } else if found.is_file() && found.len() <= LARGE {
            fs::read(&path).at("could not read", &path)?
        } else {
            continue;
        };
        if contains(&content, own) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a path occurs in some bytes.
fn contains(content: &[u8], path: &[u8]) -> bool {
    memchr::memmem::find(content, path).is_some()
}
