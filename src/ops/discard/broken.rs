//! What is kept of an agent whose worktree, admin directory or branch cannot be read: every file as it is, and what
//! its admin directory holds.

use crate::agents::ctx::Ctx;
use crate::agents::scratch;
use crate::domain::agent::Agent;
use crate::domain::oid::Oid;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::objects::Commit;
use crate::git::salvage::{
    FilesAsTheyAre, TOO_DEEP, write_admin, write_files_as_they_are, write_work,
};
use crate::git::uncommitted::Trees;
use crate::ops::discard::DiscardOptions;
use crate::ops::discard::gate::Place;
use crate::ops::discard::reading::{Scratch, bundle_dir};
use crate::ops::discard::report::NotKept;
use crate::store::fsx;
use std::fs;

/// What was kept of a worktree that git cannot read.
#[derive(Debug, Default)]
pub(super) struct KeptAsItIs {
    /// Its files, where they differ from the tip.
    pub work: Option<Oid>,
    /// Its admin directory.
    pub admin: Option<Oid>,
    /// What is not kept.
    pub not_kept: NotKept,
    /// What is kept at another place than its own.
    pub warning: Option<String>,
}

/// Whether an error says that an agent's state cannot be read, and not that nothing can be written or that another
/// process is at work.
pub(super) fn is_cause(error: &Error) -> bool {
    let codes = [
        Code::BaseNotCommit,
        Code::FileTooLong,
        Code::GitFailed,
        Code::HistoryIncomplete,
        Code::Io,
        Code::LayerInvalid,
        Code::RepoCorrupt,
        Code::RepoNotFound,
        Code::RepoUnsupportedFormat,
    ];
    codes.contains(&error.code())
}

/// Writes all of it as objects; no ref moves.
///
/// # Errors
/// `discard-refused` for files that no tree can hold; `io`, `disk-full`.
pub(super) fn keep(
    ctx: &Ctx,
    agent: &Agent,
    place: &Place,
    options: DiscardOptions,
    tip: &Commit,
) -> Result<KeptAsItIs> {
    let mut rules = { ctx.ignore_rules()? }.without(bundle_dir(ctx, agent)?.as_deref());
    if options.with_ignored {
        rules = rules.with_ignored();
    }
    let scratch = Scratch(fsx::unique_name(&scratch::directory(ctx).join("broken")));
    fs::create_dir_all(&scratch.0).at("could not make", &scratch.0)?;
    let index = scratch.0.join("index");
    let whose = format!("Agent-Id: {}", agent.id);
    let mut kept = KeptAsItIs {
        admin: write_admin(&ctx.repo, tip, &place.admin_dir, &index, &whose)?,
        ..KeptAsItIs::default()
    };
    if let Some(files) = &place.contents() {
        let raw = write_files_as_they_are(&ctx.repo, tip, files, &rules, &index)?;
        let FilesAsTheyAre {
            tree,
            ignored,
            special,
            too_deep,
        } = raw;
        let found = Trees {
            staged: None,
            tree: tree.unwrap_or(Oid::EMPTY_TREE),
            unmerged: Vec::new(),
        };
        kept.work = write_work(&ctx.repo, tip, &found, &whose)?;
        kept.not_kept = NotKept::new(&ignored, &[], &special);
        kept.warning = (!too_deep.is_empty()).then(|| {
            let directories = too_deep.len();
            format!("paths are longer than git can write: what they lead to is kept in {TOO_DEEP} ({directories} of them), each beside a file with its path")
        });
    }
    Ok(kept)
}
