//! Moving a branch while others may hold its lock, and the worktrees that have it checked out along with it.

use crate::agents::context::ctx::Ctx;
use crate::domain::{Oid, branch_name, value::shell};
use crate::error::{Code, Error, Result};
use crate::git::config::Identities;
use crate::git::refs::{REMOTE_COPIES, Swap};
use crate::git::{Checkout, Repo, Tip};
use crate::proc::signals::Deferred;
use crate::store::files::lock::PATIENCE;
use crate::store::files::{fsx, layout};
use std::path::PathBuf;

/// Moves a branch from one commit to another, doing `first` under its lock. Waits for others who have it, as long as
/// `core.filesRefLockTimeout` says if it is set. However old their lock is, it stays: a prepared transaction may take
/// its time.
pub(crate) fn swap(
    repo: &Repo,
    branch: &str,
    (old, new): (Oid, Oid),
    who: &Identities,
    reason: &str,
    first: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let mut waiting = None;
    let expected = Tip::At(old);
    loop {
        match repo.swap_ref_after(branch, expected, new, &who.committer, reason, &mut *first)? {
            Swap::Done => return Ok(()),
            Swap::Moved => return Err(moved(branch)),
            // Another git holds the lock for moments, unless it was killed.
            Swap::Locked => repo.wait_for_ref_lock(branch, &mut waiting, PATIENCE)?,
        }
    }
}

/// How a command line begins by which git acts on a branch of this clone: in the worktree that has it checked out, else after switching to it.
pub(crate) fn git_on(ctx: &Ctx, refname: &str) -> String {
    let checkouts = ctx.repo.checkouts(refname).unwrap_or_default();
    let is_here = |checkout: &Checkout| checkout.git_dir == ctx.repo.git_dir();
    match checkouts.first() {
        _ if checkouts.iter().any(is_here) => "git".to_owned(),
        Some(checkout) => format!("git -C {}", shell::path(&checkout.top)),
        None => format!("git switch {} && git", shell::word(branch_name(refname).as_bytes())),
    }
}

/// The command that brings to a branch of this clone what a remote's branch of the same name has; `copy` is what was fetched of that one.
pub(crate) fn pull(ctx: &Ctx, refname: &str, copy: &str) -> String {
    let short = branch_name(refname);
    let remote = copy.strip_prefix(REMOTE_COPIES).and_then(|copy| copy.strip_suffix(short));
    let remote = remote.map_or("origin", |remote| remote.trim_matches('/'));
    let [remote, short] = [remote, short].map(|name| shell::word(name.as_bytes()));
    // By itself git says that it does not know how to bring two branches together that have grown apart.
    format!("{} pull --no-rebase {remote} {short}", git_on(ctx, refname))
}

/// The error for a branch that is not where the plan says.
pub(crate) fn moved(branch: &str) -> Error {
    Error::new(
        Code::LostRace,
        format!("{branch} moved while the work was about to land; nothing has landed"),
    )
    .hint("to judge the work again and land it, run the same command again")
}

/// What else is done while a branch that moves is locked.
pub(crate) struct UnderLock<'a> {
    /// May object, before anything moves.
    pub(crate) require: &'a dyn Fn() -> Result<()>,
    /// The last step before the branch moves: only a failure of its own or of the disk can come after it.
    pub(crate) finish: &'a dyn Fn() -> Result<()>,
}

impl UnderLock<'_> {
    /// Nothing.
    pub(crate) const NOTHING: UnderLock<'static> =
        UnderLock { require: &|| Ok(()), finish: &|| Ok(()) };
}

/// Moves a branch from one commit to another, and with it the worktrees that have it checked out. `known` are those worktrees as the
/// caller has seen them.
///
/// # Errors
/// `lost-race` when the branch is not where the first commit says; `hook-refused`; `target-dirty`, naming the paths, `worktree-busy`;
/// what `under_lock` fails with. Neither branch nor worktrees have moved then, unless the error says so.
///
/// Requests to end this process wait from the moment in which files begin to move, and until what is returned is dropped.
pub(crate) fn move_with_worktrees(
    ctx: &Ctx,
    (branch, known): (&str, &[Checkout]),
    (from, to): (Oid, Oid),
    reason: &str,
    under_lock: &UnderLock<'_>,
) -> Result<Option<Deferred>> {
    let repo = &ctx.repo;
    // Seen from a worktree that has it checked out, so that its HEAD's reflog is written along with the branch's.
    let own = match known.first() {
        Some(checkout) => Repo::open_git_dir(&checkout.git_dir)?,
        None => Repo::open_git_dir(repo.common_dir())?,
    };
    // Who checked it out since then is asked again, under the ref's lock.
    let mut deferred = None;
    let mut carried = Vec::new();
    let mut carry = || {
        (under_lock.require)()?;
        deferred = Some(Deferred::hold()?);
        let reached = |step: &str| ctx.reached(step);
        for checkout in ctx.checkouts(branch)? {
            let note = checkout.carry(repo, (from, to), &index_scratch(repo)?, &reached)?;
            carried.push((checkout, note));
        }
        ctx.reached("moved");
        (under_lock.finish)()
    };
    let who = ctx.identities()?;
    let swapped = swap(&own, branch, (from, to), &who, reason, &mut carry);
    // It did not move: the worktrees go back. A kill before that is put right by what their notes say, which go last.
    if let Err(mut error) = swapped {
        for (checkout, note) in carried.into_iter().rev() {
            ctx.reached("refused");
            let back = checkout.carry_back(repo, (from, to), note);
            if back.is_err() {
                let top = shell::path(&checkout.top);
                error = error.hint(format!(
                    "{top} could not be moved back; to see what is staged, run git -C {top} status"
                ));
            }
        }
        return Err(error);
    }
    Ok(deferred)
}

/// An unused name on the file system of the indexes, or where a dry run may write.
pub(crate) fn index_scratch(repo: &Repo) -> Result<PathBuf> {
    let directory = match repo.scratch_directory() {
        Some(directory) => directory.to_owned(),
        None => layout::tmp_dir(repo.common_dir()),
    };
    fsx::create_dir(&directory)?;
    Ok(fsx::unique_name(&directory.join("index")))
}
