//! How much of the disk agents take.
//!
//! | what | how it is known |
//! |---|---|
//! | frozen bases | written down when they were made |
//! | an agent's index | the size of one file |
//! | worktrees, what an agent changed in a layer, logs, what is kept | [`measured`] by their first 100,000 files each, or [`sampled`] |
//!
//! A sample looks at so few names that a list of agents can end with it. Of a worktree the index tells how many files there are.

use crate::agents::context::ctx::Ctx;
use crate::agents::{context::untrusted, stock::frozen};
use crate::error::{IoContext, Result};
use crate::store::files::{fsx, layout};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// How many names of a place a sample looks at, and at how many places of each kind: 12,000 names, which take 15 ms.
const NAMES: usize = 300;
const PLACES: usize = 20;

/// What agents take of the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskUse {
    pub(crate) bytes: u64,
    /// Whether some of it was estimated by a part of its files.
    pub(crate) is_sampled: bool,
}

/// A directory of agents.
struct CountedPlace {
    path: PathBuf,
    /// How many files there are at least, where that is known.
    files: u64,
}

/// What agents take: their worktrees, those of the pool and of checks, bases, and all that is kept beside the repository's objects.
///
/// # Errors
/// `io`.
pub(crate) fn measured(ctx: &Ctx) -> Result<u64> {
    let places = worktrees(ctx)?.into_iter().chain(own(ctx)?);
    // Each by itself: only the first files of a place are looked at, and one large worktree must not hide the others.
    let found = places.map(|place| fsx::disk_use(&[place.path]));
    Ok(found.sum::<u64>() + known(ctx)?)
}

/// As [`measured`], in about the time that looking at a few worktrees takes.
///
/// # Errors
/// `io`.
pub(crate) fn sampled(ctx: &Ctx) -> Result<DiskUse> {
    let mut taken = DiskUse { bytes: known(ctx)?, is_sampled: false };
    for places in [worktrees(ctx)?, own(ctx)?] {
        // Evenly over all, since those of one time are alike.
        let step = places.len().div_ceil(PLACES).max(1);
        let (mut bytes, mut count) = (0, 0);
        for place in places.iter().step_by(step) {
            let (found, names) = fsx::disk_use_of_first(&place.path, NAMES);
            let is_whole = names < NAMES;
            let names = u64::try_from(names).unwrap_or(u64::MAX).max(1);
            bytes +=
                if is_whole { found } else { found.saturating_mul(place.files.max(names)) / names };
            taken.is_sampled |= !is_whole || step > 1;
            count += 1;
        }
        let all = u64::try_from(places.len()).unwrap_or(u64::MAX);
        taken.bytes += bytes.saturating_mul(all) / u64::max(count, 1);
    }
    Ok(taken)
}

/// What is known without a walk: bases and indexes.
fn known(ctx: &Ctx) -> Result<u64> {
    let bases = frozen::all(ctx)?.into_iter();
    let bases: u64 = bases.map(|base| base.record.bytes).sum();
    let indexes = ours(ctx)?.into_iter().map(|(admin, _)| {
        let (bytes, _) = fsx::disk_use_of_first(&admin.join("index"), 1);
        bytes
    });
    Ok(bases + indexes.sum::<u64>())
}

fn worktrees(ctx: &Ctx) -> Result<Vec<CountedPlace>> {
    let ours = ours(ctx)?.into_iter();
    let place = |(admin, path): (PathBuf, PathBuf)| CountedPlace {
        files: entries_of_index(&admin).unwrap_or(0),
        path,
    };
    Ok(ours.map(place).collect())
}

/// The admin directories of our worktrees, and where they are.
fn ours(ctx: &Ctx) -> Result<Vec<(PathBuf, PathBuf)>> {
    let worktrees = ctx.repo.worktrees()?.into_iter();
    let ours = worktrees.filter(|one| layout::is_made_by_us(&one.name));
    Ok(ours.map(|one| (ctx.repo.admin_dir(&one.name), one.path)).collect())
}

/// What is kept beside the repository's objects, each agent's by itself.
fn own(ctx: &Ctx) -> Result<Vec<CountedPlace>> {
    let agents = layout::agents_dir(ctx.repo.common_dir());
    let entries = fs::read_dir(&agents).at_if_there("could not list", &agents)?;
    // The size of bases is known.
    let entries = entries
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.path() != layout::bases_dir(ctx.repo.common_dir()));
    let place = |entry: fs::DirEntry| CountedPlace { path: entry.path(), files: 0 };
    Ok(entries.map(place).collect())
}

/// How many files an index names, by its head (gitformat-index(5)); an agent can write it, so it is an estimate.
fn entries_of_index(admin: &Path) -> Option<u64> {
    /// No worktree has more, whatever the file says.
    const MOST: u32 = 10_000_000;
    let mut head = [0; 12];
    untrusted::open(admin, Path::new("index"))?.read_exact(&mut head).ok()?;
    let count = u32::from_be_bytes(head[8..].try_into().ok()?);
    Some(u64::from(count.min(MOST)))
}
