//! Which projects of a repository some work touches, who owns its files, and what has to hold in them before it lands.
//!
//! The projects are those of the commit that the agent's policy names, so no work decides how it is checked.

use crate::agents::context::ctx::Ctx;
use crate::domain::paths::code_owners::{CodeOwners, PLACES};
use crate::domain::settings::project::Projects;
use crate::domain::{Oid, RequiredChecks};
use crate::error::Result;
use crate::git::Repo;
use crate::store::settings::{repository_settings, roles};
use crate::wire::row::policy::Policy;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The projects that bind an agent with this policy.
///
/// # Errors
/// `settings-invalid`; those of reading objects.
pub(crate) fn bound(repo: &Repo, policy: &Policy) -> Result<Projects> {
    let Some(at) = policy.projects() else {
        return Ok(Projects::default());
    };
    // Most repositories have no such file, and then no role is read either.
    if repository_settings::read(repo, at)?.is_none() {
        return Ok(Projects::default());
    }
    let roles = roles::load(repo, at)?;
    Ok(repository_settings::load(repo, at, &roles)?.projects)
}

/// What has to hold in the tree `after`, by which work replaces the tree `before` of its target.
///
/// # Errors
/// Those of reading trees.
pub(crate) fn checks_of(
    repo: &Repo,
    projects: &Projects,
    before: Oid,
    after: Oid,
) -> Result<RequiredChecks> {
    if projects.is_empty() {
        return Ok(RequiredChecks::default());
    }
    let changes = repo.tree_changes(&[before], after)?;
    let touched = projects.touched(changes.iter().map(|change| change.path.as_slice()));
    let mut there = BTreeSet::new();
    for project in projects.all() {
        if repo.entry_at(after, &project.path)?.is_some_and(|entry| entry.is_directory()) {
            there.insert(project.path.as_str());
        }
    }
    Ok(projects.checks(&touched, |path| there.contains(path)))
}

/// Whether what changed between two trees lies in projects that neither the work nor its checks touch: what was found out about one of
/// the trees then holds for the other. `work` is the tree of the target that `now` replaces.
///
/// # Errors
/// Those of reading trees.
pub(crate) fn is_apart(
    repo: &Repo,
    projects: &Projects,
    work: Oid,
    checked: Oid,
    now: Oid,
) -> Result<bool> {
    let paths = |before, after| -> Result<Vec<Vec<u8>>> { repo.changed_paths(before, after) };
    let (own, moved) = (paths(work, now)?, paths(checked, now)?);
    let own = projects.touched(own.iter().map(Vec::as_slice));
    let needed = projects.needed(&own);
    let is_elsewhere = |path: &Vec<u8>| {
        let holding = projects.holding(path);
        !holding.is_empty() && holding.iter().all(|one| !needed.contains(one))
    };
    Ok(moved.iter().all(is_elsewhere))
}

/// The directory that the caller stands in, relative to the top of the worktree; empty at the top and outside of it.
pub(crate) fn directory_in_repository(ctx: &Ctx) -> PathBuf {
    // The directory may have been entered by a symbolic link, of which git knows nothing.
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let here = real(&ctx.env.directory);
    let below = |top| here.strip_prefix(real(top)).map(Path::to_owned);
    ctx.repo.workdir().and_then(|top| below(top).ok()).unwrap_or_default()
}

// Who owns the files of a repository, as the `CODEOWNERS` of a tree says.

/// The owners that a tree names; `None` where it has no such file.
///
/// # Errors
/// Those of reading objects.
pub(crate) fn owners_in(repo: &Repo, tree: Oid) -> Result<Option<CodeOwners>> {
    for place in PLACES {
        // The first that is there holds, as on the forges; a directory of that name holds nothing.
        if let Some(entry) = repo.entry_at(tree, place)?
            && let Ok(text) = repo.read_blob(entry.oid)
        {
            return Ok(Some(CodeOwners::parse(&String::from_utf8_lossy(&text))));
        }
    }
    Ok(None)
}
