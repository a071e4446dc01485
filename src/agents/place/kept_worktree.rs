//! Keeping what a worktree that is no agent's holds, before it is removed: one that a host made, and a warm one that a person
//! has worked in.
//!
//! What is kept hangs on the keep chain, as what a discard keeps does, by a link that names the worktree. There is no row that
//! could name it, so who removes the worktree says how to get it back.

use crate::agents::context::ctx::Ctx;
use crate::agents::context::scratch::Scratch;
use crate::agents::context::untrusted::WorktreeView;
use crate::agents::place::worktree::AgentWorktree;
use crate::domain::{ChangeKind, Oid, Quoted, value::shell};
use crate::error::{Code, Result};
use crate::git::uncommitted::salvage::{beside, write_admin, write_files_as_they_are, write_work};
use crate::git::uncommitted::{SeenWorktree, Trees};
use crate::git::{Commit, uncommitted};
use crate::store::chain::keep;
use serde::Serialize;
use std::collections::HashSet;
use std::path::Path;

/// What was kept of a worktree that is gone, or is about to go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeptWorktree {
    /// The worktree's name.
    pub name: String,
    /// The commits that hold it: first the one with what was not committed, where there was something.
    pub commits: Vec<String>,
    /// What of its commits could not be kept, in sentences.
    #[serde(skip)]
    pub losses: Vec<String>,
}

impl KeptWorktree {
    /// What was kept, and how to get it back, in one sentence.
    pub fn sentence(&self) -> String {
        let Some((first, rest)) = self.commits.split_first() else {
            return String::new();
        };
        let also = match rest {
            [] => String::new(),
            rest => format!(" (also {})", rest.join(", ")),
        };
        let branch = shell::quoted(&format!("kept-{}", self.name));
        let losses: String = self.losses.iter().map(|loss| format!("; {loss}")).collect();
        format!(
            "what {} held is kept as {first}{also}; to get it back, run git branch {branch} {first}{losses}",
            self.name
        )
    }
}

/// Keeps the commits that only an admin directory, or the reflog of `branch`, names; `None` where there are none.
///
/// # Errors
/// Those of git and of [`keep::keep`].
pub(crate) fn keep_commits(
    ctx: &Ctx,
    admin_dir: &Path,
    branch: Option<&str>,
) -> Result<Option<KeptWorktree>> {
    let left = ctx.repo.unreferenced_commits(admin_dir, branch)?;
    hang(ctx, admin_dir, (left.commits(), left.losses()))
}

/// Keeps a tree of files that a worktree holds beside those of its commit, while it stays where it is.
///
/// # Errors
/// Those of git and of [`keep::keep`].
pub(crate) fn keep_tree(ctx: &Ctx, place: &AgentWorktree, base: Oid, tree: Oid) -> Result<()> {
    let found = Trees { staged: None, tree, unmerged: Vec::new() };
    let tip = ctx.repo.read_commit(base)?;
    let commit = write_work(&ctx.repo, &tip, &found, &whose(place))?;
    hang(ctx, &place.admin_dir, (commit.into_iter().collect(), Vec::new())).map(drop)
}

/// Keeps all that a worktree holds beside `made`, the tree that its files are known to have made when it was left: commits,
/// what is staged, modified and untracked. Files that git ignores are not kept, as a discard does not keep them; `None` where
/// there is nothing else.
///
/// # Errors
/// `discard-refused` for files that no commit can hold; those of git and of [`keep::keep`]. Nothing was removed then.
pub(crate) fn keep_all(
    ctx: &Ctx,
    place: &AgentWorktree,
    base: Oid,
    made: Oid,
) -> Result<Option<KeptWorktree>> {
    let first = all_of(ctx, place, base, made)?;
    let kept = hang(ctx, &place.admin_dir, first.clone())?;
    ctx.reached("worktree-kept");
    // A process that stands in the worktree may have written while that was read, as it may while a discard reads.
    let again = all_of(ctx, place, base, made)?;
    if again == first {
        return Ok(kept);
    }
    // Both readings stay kept, and are named: the second does not see the commits that are kept by now.
    let (Some(mut all), Some(first)) = (hang(ctx, &place.admin_dir, again)?, &kept) else {
        return Ok(kept);
    };
    let only_first = first.commits.iter().filter(|oid| !all.commits.contains(oid));
    let only_first: Vec<String> = only_first.cloned().collect();
    all.commits.extend(only_first);
    Ok(Some(all))
}

/// The commits that hold what [`keep_all`] keeps, and what is not kept, in sentences.
fn all_of(ctx: &Ctx, place: &AgentWorktree, base: Oid, made: Oid) -> Result<Kept> {
    let (mut commits, mut losses) = Kept::default();
    // What is in no commit stands on the commit that is checked out, which may be one that was made by hand.
    let head = ctx.repo.commit_at(&place.admin_dir)?.unwrap_or(base);
    let head = ctx.repo.keepable([head], &HashSet::from([base]))?.commits().first().copied();
    let tip = ctx.repo.read_commit(head.unwrap_or(base))?;
    if place.path.is_dir() {
        (commits, losses) = match work(ctx, place, &tip, made) {
            // What cannot be kept at all must not go, and only a person can decide about it.
            Err(error) if error.code() == Code::DiscardRefused => return Err(error),
            Ok(Some(found)) => found,
            // Conflicts in the index, or an index or a setting that git cannot read: every file is kept as it is.
            Ok(None) | Err(_) => (as_it_is(ctx, place, &tip, made)?, Vec::new()),
        };
    }
    let left = ctx.repo.unreferenced_commits(&place.admin_dir, None)?;
    commits.extend(left.commits());
    losses.extend(left.losses());
    Ok((commits, losses))
}

/// Commits, and what they do not hold, in sentences.
type Kept = (Vec<Oid>, Vec<String>);

/// Puts the commits below the keep chain.
fn hang(ctx: &Ctx, admin_dir: &Path, (commits, losses): Kept) -> Result<Option<KeptWorktree>> {
    if commits.is_empty() {
        return Ok(None);
    }
    let name = admin_dir.file_name().unwrap_or_default().to_string_lossy();
    // The name is part of a line of the link's message.
    let name = name.escape_debug().to_string();
    keep::keep(&ctx.repo, &commits, &format!("worktree {name}"), ctx.now())?;
    let commits = commits.iter().map(|commit| commit.to_hex()).collect();
    Ok(Some(KeptWorktree { name, commits, losses }))
}

/// So many ignored files are named.
const MOST_NAMED: usize = 10;

/// A commit of what is in no commit, if anything is; `None` where the index has more of a path than a tree can hold.
fn work(ctx: &Ctx, place: &AgentWorktree, tip: &Commit, made: Oid) -> Result<Option<Kept>> {
    let own = ctx.repo.seen_from(&place.admin_dir)?;
    let scratch = Scratch::make(ctx, "kept")?;
    let view = WorktreeView::make(&own, &place.admin_dir, &place.path, scratch.path())?;
    let source = uncommitted::WorktreeSource {
        repo: &own,
        worktree: &place.path,
        admin_dir: &place.admin_dir,
        view: &view,
        tip: tip.oid,
        staged: true,
        sparse: own.config_bool("core.sparseCheckout")? == Some(true),
        rules: &ctx.ignore_rules()?,
        names_ignored: true,
        index: &scratch.path().join("index"),
    };
    let (found, fingerprint) = uncommitted::write_trees(&source)?;
    if !found.unmerged.is_empty() {
        return Ok(None);
    }
    // git sees no file in some places, such as below a repository inside; these are found on the
    // disk.
    let walked = fingerprint.as_ref().and_then(SeenWorktree::walked);
    let beside = beside(&source, None, walked)?;
    beside.require_keepable(&source)?;
    let is_staged = found.staged.is_some_and(|staged| staged != tip.tree);
    if !is_staged && holds_nothing_new(ctx, &[made, tip.tree], found.tree)? {
        return Ok(Some(Kept::default()));
    }
    let commit = write_work(&ctx.repo, tip, &found, &whose(place))?;
    let ignored = beside.all_ignored(&place.path);
    let named: Vec<String> =
        ignored.iter().take(MOST_NAMED).map(|path| Quoted(path).to_string()).collect();
    let more = ignored.len() - named.len();
    let mut losses = Vec::new();
    if !named.is_empty() {
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        losses.push(format!("not kept, because ignored: {}{more}", named.join(", ")));
    }
    Ok(Some((commit.into_iter().collect(), losses)))
}

/// Commits of every file as it is, and of what the admin directory holds.
fn as_it_is(ctx: &Ctx, place: &AgentWorktree, tip: &Commit, made: Oid) -> Result<Vec<Oid>> {
    let scratch = Scratch::make(ctx, "kept")?;
    let index = scratch.path().join("index");
    let (rules, whose) = (ctx.ignore_rules()?, whose(place));
    let raw = write_files_as_they_are(&ctx.repo, tip, &place.path, &rules, &index)?;
    let found =
        Trees { staged: None, tree: raw.tree.unwrap_or(Oid::EMPTY_TREE), unmerged: Vec::new() };
    if holds_nothing_new(ctx, &[made, tip.tree], found.tree)? {
        return Ok(Vec::new());
    }
    let work = write_work(&ctx.repo, tip, &found, &whose)?;
    let admin = write_admin(&ctx.repo, tip, &place.admin_dir, &index, &whose)?;
    Ok(work.into_iter().chain(admin).collect())
}

/// Whether every file of a tree is as one of these has it. A worktree that was still being made has a part of its files.
fn holds_nothing_new(ctx: &Ctx, known: &[Oid], tree: Oid) -> Result<bool> {
    for known in known {
        let changes = ctx.repo.tree_changes(&[*known], tree)?;
        // A worktree that lacks files holds nothing that is not there already.
        if changes.iter().all(|change| change.kind == ChangeKind::Deleted) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn whose(place: &AgentWorktree) -> String {
    let name = place.admin_dir.file_name().unwrap_or_default();
    format!("Worktree: {}", name.to_string_lossy().escape_debug())
}
