//! Frozen bases: worktrees of one commit, set up, that any number of layered agents share and that never change.
//!
//! ```text
//! <common dir>/agents/bases/warm-<n>/   files: those of the base; no `git clean` of the main worktree comes here
//!                                       record: what it is, and the sums of its files
//!                                       index: with which git in a layered worktree takes the files for unchanged
//!                                       ignored: what git does not track in it
//! <worktrees>/warm-<n>                  where it was set up, and is mounted: virtual environments hold their own path
//! ```
//!
//! One is made as a warm worktree is ([`furnish`]), from trusted content alone, and then gives up its `.git` file and its admin
//! directory. Names, modes, sizes and times of all files are written down and compared before each use; a base that has changed
//! serves no agent any more, and another with the same content takes its place ([`renewed`]). The modes of files stay what they are, because a layered worktree shows them as its
//! own: what keeps agents from writing is that they reach a base through a mount alone.
//!
//! A process that takes a base for an agent, or removes one, holds one lock, so that none is removed that has just been taken.

use crate::agents::context::ctx::Ctx;
use crate::agents::context::untrusted;
use crate::agents::place::ignored_files::WantedFiles;
use crate::agents::stock::furnish::{self, WantedContent};
use crate::agents::stock::pool::{self, Slot};
use crate::domain::{Glob, Oid};
use crate::error::{Error, IoContext, Result};
use crate::git::WorktreeLayer;
use crate::git::files::layer::{BaseSums, IndexStamp};
use crate::git::uncommitted::{is_plain_index, rules_files, unsplit_index, untracked_names};
use crate::hosts::WORKTREE_DIR;
use crate::store::files::{fsx, layout, lock};
use crate::system::is_younger;
use serde::{Deserialize, Serialize};
use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const FILES: &str = "files";
const RECORD: &str = "record";
const INDEX: &str = "index";
const IGNORED: &str = "ignored";

/// The longest index that is copied, in bytes.
const LONGEST_INDEX: u64 = 1 << 30;

/// A file that is written whenever the base was found unchanged.
const CHECKED: &str = "checked";

/// A check of fewer names than this takes about as long as starting a process, and is made each time.
const FEW: usize = 20_000;

/// How many names a check may read in a second: a hundredth of what it can, so that checks cost a hundredth of the time, however many
/// agents begin. Only a process outside of all fences can change a base in between, and the next check finds that.
const NAMES_A_SECOND: usize = 4_000;

/// The record of a base that has changed.
const DAMAGED: &str = "damaged";

/// The record of its base in the directory of a layer, which outlasts the base.
const NOTED: &str = "base";

/// What is written down of a frozen base.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct BaseRecord {
    /// The commit whose files it holds, in hex.
    pub(crate) commit: String,
    /// The tree of that commit, in hex.
    pub(crate) tree: String,
    /// As in a warm worktree's record.
    setup: String,
    /// What that stands for, of which another base can be made; an older version did not write it.
    #[serde(default)]
    copy: Vec<String>,
    #[serde(default)]
    include: Option<Vec<u8>>,
    #[serde(default)]
    pub(crate) run: Vec<String>,
    /// Whether set-up wrote the path where the base is mounted into files of it; an older version did not note it.
    #[serde(default)]
    pub(crate) is_pinned: bool,
    /// The files of rules in it, which every agent's upper directory begins with.
    pub(crate) rules: Vec<PathBuf>,
    /// Whether its index holds its tree and nothing else.
    #[serde(default)]
    is_index_plain: bool,
    /// A hash over the names, modes, sizes and times of its files.
    pub(crate) sums: String,
    /// How many names there are in it, and what they take of the disk, in bytes.
    #[serde(default)]
    names: usize,
    #[serde(default)]
    pub(crate) bytes: u64,
}

/// A frozen base.
#[derive(Clone, Debug)]
pub(crate) struct FrozenBase {
    pub(crate) name: String,
    pub(crate) record: BaseRecord,
    /// Whether it was found to have changed.
    pub(crate) is_damaged: bool,
    /// Where its files are.
    pub(crate) path: PathBuf,
    /// Where it was set up, and is mounted. That of an older version has its files there, and so has one whose common directory is on
    /// another file system.
    pub(crate) place: PathBuf,
    directory: PathBuf,
    /// The file of the slot that it is made of, until it is made.
    slot: PathBuf,
}

/// A base that holds what is wanted, made if there is none; or why there can be none.
///
/// # Errors
/// `setup-failed`; those of making a worktree.
pub(crate) fn obtain(ctx: &Ctx, wanted: &WantedContent<'_>) -> Result<Result<FrozenBase, String>> {
    let (tree, setup) = (wanted.tree.to_hex(), wanted.setup(ctx)?);
    if let Some(base) = find(ctx, &tree, &setup)? {
        return Ok(Ok(base));
    }
    // Of several that want one, the first makes it.
    let _tending = lock::hold_for(ctx.repo.common_dir(), layout::BASE_LOCK, MAKING)?;
    // Another process may have made it while this one waited for the lock.
    if let Some(base) = find(ctx, &tree, &setup)? {
        return Ok(Ok(base));
    }
    let warm = pool::claim(ctx, wanted.commit, |_, record| {
        (record.tree == tree && record.setup == setup).then_some(0)
    })?;
    let what = "making a base for layered worktrees";
    let _activity = ctx.activity(what);
    let slot = match warm {
        Some(slot) => slot,
        None => furnish::make(ctx, wanted)?,
    };
    let leaves = |record: &crate::wire::row::journal::SlotRecord| {
        record.leftovers || !record.apart.is_empty()
    };
    if slot.record.as_ref().is_none_or(leaves) {
        slot.remove(ctx)?;
        let why =
            "set-up leaves files that git does not ignore, which would be each agent's own work";
        return Ok(Err(why.to_owned()));
    }
    freeze(ctx, slot, wanted).map(Ok)
}

/// A whole base with the content of one that has changed or is gone, over which the layer in a directory is; `None` where nothing tells
/// what that was, or it can be had no more.
///
/// # Errors
/// As [`obtain`].
pub(crate) fn renewed(ctx: &Ctx, name: &str, layer: &Path) -> Result<Option<FrozenBase>> {
    let noted = || {
        let noted = fsx::load_if_there(&layer.join(NOTED)).ok().flatten()?;
        serde_json::from_slice::<BaseRecord>(&noted).ok()
    };
    let Some(record) = named(ctx, name)?.map(|base| base.record).or_else(noted) else {
        return Ok(None);
    };
    let ids = [&record.commit, &record.tree].map(|hex| Oid::from_hex(hex));
    let copy: Result<Vec<Glob>, _> = record.copy.iter().map(|glob| Glob::parse(glob)).collect();
    let ([Some(commit), Some(tree)], Ok(copy)) = (ids, copy) else {
        return Ok(None);
    };
    let wanted = WantedContent {
        commit,
        tree,
        files: WantedFiles { copy: &copy, include: record.include.as_deref() },
        run: &record.run,
    };
    // Whatever has become of the ignored files since, which no record holds.
    let hash = pool::setup_hash(&wanted.files, wanted.run);
    if record.setup.split('-').next() != Some(hash.as_str()) {
        return Ok(None);
    }
    Ok(obtain(ctx, &wanted)?.ok())
}

/// How long a process waits for another one that makes a base, which may install all that a project needs.
const MAKING: Duration = Duration::from_secs(60 * 60);

/// The whole base that holds what is wanted.
fn find(ctx: &Ctx, tree: &str, setup: &str) -> Result<Option<FrozenBase>> {
    for base in all(ctx)? {
        // An older version did not note what git ignores in a base.
        let is_noted = base.directory.join(IGNORED).is_file();
        let fits = base.record.tree == tree && base.is_set_up_with(setup) && is_noted;
        if fits && base.check()? {
            return Ok(Some(base));
        }
    }
    Ok(None)
}

/// Turns a warm worktree into a base. A kill before its `.git` file is gone leaves a half-made slot, which is swept as one, and
/// perhaps a record of nothing; one after that leaves a base, which serves once its slot is swept.
fn freeze(ctx: &Ctx, mut slot: Slot, wanted: &WantedContent<'_>) -> Result<FrozenBase> {
    let Some(warm) = slot.record.clone() else {
        return Err(Error::bug("a slot that is to be frozen must be whole"));
    };
    let directory = layout::bases_dir(ctx.repo.common_dir()).join(&slot.name);
    fsx::create_dir(&directory)?;
    let ignored = directory.join(IGNORED);
    fs::write(&ignored, untracked_names(&slot.path)?).at("could not write", &ignored)?;
    let index = slot.admin_dir.join("index");
    unsplit_index(&slot.path, &index)?;
    // As old as it is: git looks into a file that was written in the same moment.
    untrusted::copy_as_old(&index, &directory.join(INDEX), LONGEST_INDEX)?;
    let BaseSums { hash, names, bytes } = BaseSums::of(&slot.path)?;
    let tree = Oid::from_hex(&warm.tree);
    let index = directory.join(INDEX);
    let record = BaseRecord {
        is_index_plain: match tree {
            Some(tree) => is_plain_index(&ctx.repo, &index, tree)?,
            None => false,
        },
        commit: warm.commit,
        tree: warm.tree,
        setup: warm.setup,
        copy: wanted.files.copy.iter().map(Glob::to_string).collect(),
        include: wanted.files.include.map(<[u8]>::to_vec),
        run: wanted.run.to_vec(),
        is_pinned: warm.pinned,
        rules: rules_files(&slot.path)?,
        sums: hash,
        names,
        bytes,
    };
    // No slot from here on, so no spawn gets it as a worktree of its own.
    slot.write(None)?;
    ctx.reached("base-begun");
    // The record while the `.git` file is there still: what names neither could be removed by none.
    let bytes = serde_json::to_vec(&record).unwrap_or_default();
    fsx::write_atomic(&directory.join(RECORD), &bytes)?;
    ctx.reached("base-recorded");
    let pointer = slot.path.join(".git");
    fs::remove_file(&pointer).at("could not remove", &pointer)?;
    ctx.reached("base-unlinked");
    match fs::rename(&slot.path, directory.join(FILES)) {
        Err(error) if error.kind() == ErrorKind::CrossesDevices => {}
        moved => moved.at("could not move", &slot.path)?,
    }
    let base = FrozenBase::at(ctx, slot.name.clone(), directory, record, &slot.path);
    set_mode(&base.path, 0o555)?;
    ctx.reached("base-frozen");
    slot.forget(ctx)?;
    Ok(base)
}

fn set_mode(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode)).at("could not change", path)
}

/// Every base, damaged ones too.
///
/// # Errors
/// `io`.
pub(crate) fn all(ctx: &Ctx) -> Result<Vec<FrozenBase>> {
    let bases = layout::bases_dir(ctx.repo.common_dir());
    let entries = fs::read_dir(&bases).at_if_there("could not list", &bases)?;
    let mut names: Vec<_> = entries
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort_unstable();
    // Without bases nothing has to be said of the main worktree, whose disk may be missing.
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let top = ctx.repo.root()?.join(WORKTREE_DIR);
    let read = |name: String| {
        let directory = bases.join(&name);
        let whole = fsx::load_if_there(&directory.join(RECORD)).ok().flatten();
        let damaged = || fsx::load_if_there(&directory.join(DAMAGED)).ok().flatten();
        let is_damaged = whole.is_none();
        let record = serde_json::from_slice(&whole.or_else(damaged)?).ok()?;
        let place = top.join(&name);
        let base = FrozenBase::at(ctx, name, directory, record, &place);
        Some(FrozenBase { is_damaged, ..base })
    };
    Ok(names.into_iter().filter_map(read).collect())
}

/// The base of this name; `None` where it is gone.
///
/// # Errors
/// `io`.
pub(crate) fn named(ctx: &Ctx, name: &str) -> Result<Option<FrozenBase>> {
    Ok(all(ctx)?.into_iter().find(|base| base.name == name))
}

/// As [`named`]; `None` also where it has changed.
///
/// # Errors
/// `io`.
pub(crate) fn whole(ctx: &Ctx, name: &str) -> Result<Option<FrozenBase>> {
    match named(ctx, name)? {
        Some(base) if !base.is_damaged && base.check()? => Ok(Some(base)),
        _ => Ok(None),
    }
}

/// The short ids of the agents over a base.
///
/// # Errors
/// `io`.
pub(crate) fn users(ctx: &Ctx, base: &str) -> Result<Vec<String>> {
    let common = ctx.repo.common_dir();
    let agents = layout::agents_dir(common);
    let entries = fs::read_dir(&agents).at_if_there("could not list", &agents)?;
    let names = entries
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let uses = |name: &String| {
        // Its own layer, and that of a check of its work.
        let layers = [agents.join(name).join(layout::LAYER), layout::check_layer(common, name)];
        let of_base = |layer: WorktreeLayer| layer.record.base == base;
        layout::is_short_id(name)
            && layers.iter().any(|at| WorktreeLayer::at(at).is_some_and(of_base))
    };
    Ok(names.filter(uses).collect())
}

/// The names of the bases that no agent uses.
///
/// # Errors
/// `io`.
pub(crate) fn unused(ctx: &Ctx) -> Result<Vec<String>> {
    let mut unused = Vec::new();
    for base in all(ctx)? {
        if users(ctx, &base.name)?.is_empty() {
            unused.push(base.name);
        }
    }
    Ok(unused)
}

/// Removes the bases that no agent uses; gives their names.
///
/// # Errors
/// `io`.
pub(crate) fn sweep(ctx: &Ctx) -> Result<Vec<String>> {
    let common = ctx.repo.common_dir();
    let mut removed = Vec::new();
    // What a process was killed over before the record was written; another process may be as far at this moment.
    if let Some(_tending) = lock::try_hold(common, layout::BASE_LOCK)? {
        let bases = layout::bases_dir(common);
        for entry in fs::read_dir(&bases)
            .at_if_there("could not list", &bases)?
            .into_iter()
            .flatten()
            .flatten()
        {
            let has = |name| entry.path().join(name).exists();
            if !has(RECORD) && !has(DAMAGED) {
                fsx::remove_by_trash(common, &entry.path())?;
            }
        }
    }
    for name in unused(ctx)? {
        // An agent that is being made has chosen its base and not taken it yet. Another sweep may have removed one by now.
        let _taking = lock::hold(common, layout::BASE_TAKING_LOCK)?;
        let Some(base) = named(ctx, &name)? else {
            continue;
        };
        if !users(ctx, &name)?.is_empty() {
            continue;
        }
        // The record last: without it nothing would name the files.
        if base.path.is_dir() {
            set_mode(&base.path, 0o755)?;
            fsx::remove_by_trash(common, &base.path)?;
        }
        // Empty, unless a person has put something there.
        let _ = fs::remove_dir(&base.place);
        fsx::remove_by_trash(common, &base.directory)?;
        removed.push(base.name);
    }
    Ok(removed)
}

impl FrozenBase {
    fn at(
        ctx: &Ctx,
        name: String,
        directory: PathBuf,
        record: BaseRecord,
        place: &Path,
    ) -> FrozenBase {
        let files = Some(directory.join(FILES)).filter(|files| files.is_dir());
        FrozenBase {
            path: files.unwrap_or_else(|| place.to_owned()),
            place: place.to_owned(),
            slot: layout::pool_dir(ctx.repo.common_dir()).join(&name),
            name,
            record,
            is_damaged: false,
            directory,
        }
    }

    /// The index that an agent begins with.
    pub(crate) fn index(&self) -> PathBuf {
        self.directory.join(INDEX)
    }

    /// Notes in the directory of a layer what it is over.
    ///
    /// # Errors
    /// `io`, `disk-full`.
    pub(crate) fn note(&self, layer: &Path) -> Result<()> {
        let note = layer.join(NOTED);
        let record = serde_json::to_vec(&self.record).unwrap_or_default();
        fs::write(&note, record).at("could not write", &note)
    }

    /// What git ignores in it, as [`untracked_names`] gives it.
    ///
    /// # Errors
    /// `io`.
    pub(crate) fn ignored(&self) -> Result<Vec<u8>> {
        Ok(fsx::load_if_there(&self.directory.join(IGNORED))?.unwrap_or_default())
    }

    /// What tells its index, where that holds its tree and nothing else.
    pub(crate) fn plain_index(&self) -> Option<IndexStamp> {
        IndexStamp::of(&self.index()).filter(|_| self.record.is_index_plain)
    }

    /// Whether set-up did in it what this [`pool::wanted_setup`] stands for.
    pub(crate) fn is_set_up_with(&self, setup: &str) -> bool {
        !self.is_damaged && self.record.setup == setup
    }

    /// Whether nothing in it has changed. One that has is marked, and no agent gets it any more.
    ///
    /// # Errors
    /// `io`.
    pub(crate) fn check(&self) -> Result<bool> {
        if self.is_half_made() {
            return Ok(false);
        }
        if self.path.is_dir() && self.was_just_checked() {
            return Ok(true);
        }
        if self.is_unchanged() {
            // Where this cannot be written, the next one checks again.
            let _ = fs::write(self.directory.join(CHECKED), b"");
            return Ok(true);
        }
        let record = self.directory.join(RECORD);
        fs::rename(&record, self.directory.join(DAMAGED))
            .at_if_there("could not rename", &record)?;
        Ok(false)
    }

    /// Whether it is being frozen, or that was killed.
    fn is_half_made(&self) -> bool {
        let is_there = |path: &Path| fs::symlink_metadata(path).is_ok();
        is_there(&self.path.join(".git")) || is_there(&self.slot)
    }

    /// Whether something in it has changed, or it is gone; unlike [`FrozenBase::check`], this marks nothing.
    pub(crate) fn has_changed(&self) -> bool {
        self.is_damaged || !self.is_half_made() && !self.is_unchanged()
    }

    /// Whether its files are what they were when it was made.
    fn is_unchanged(&self) -> bool {
        // What cannot be listed is not whole.
        let path = &self.path;
        path.is_dir() && BaseSums::of(path).is_ok_and(|sums| sums.hash == self.record.sums)
    }

    /// Whether it was found unchanged so short a time ago that looking at all its names again is not worth that.
    fn was_just_checked(&self) -> bool {
        let names = self.record.names;
        let lasts = Duration::from_secs(u64::try_from(names / NAMES_A_SECOND).unwrap_or(0));
        names >= FEW && is_younger(&self.directory.join(CHECKED), lasts)
    }

    /// Makes the directory that it is mounted on, which may be gone without a loss.
    ///
    /// # Errors
    /// `io`.
    pub(crate) fn make_place(&self) -> Result<()> {
        fsx::create_dir(&self.place)
    }

    /// Whether it is still there to be taken, by a process that holds the lock for that.
    pub(crate) fn is_there(&self) -> bool {
        // A sweep that was killed has removed the files and not yet the record.
        self.directory.join(RECORD).is_file() && self.path.is_dir()
    }
}
