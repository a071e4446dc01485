//! `spawn --sparse`: a worktree of the directories that the agent's scope begins with.

use crate::agents::ctx::Ctx;
use crate::agents::worktree;
use crate::domain::id::AgentId;
use crate::domain::project::Projects;
use crate::domain::repository_settings::PATH;
use crate::domain::scope;
use crate::domain::task::Task;
use crate::error::{Code, Error, Result};
use crate::git::populate;
use crate::ops::spawn::contract::SpawnOptions;
use crate::store::{added, layout, lock};
use std::collections::BTreeSet;
use std::path::{Component, Path};

/// The directories of a sparse worktree: those of the whitelist, and those that every worktree needs, which are the bundle's, that
/// of the settings, and that of the repository's hooks. `None` where it is to hold everything.
///
/// # Errors
/// `usage` for a clone, which is complete; `git-failed` when the configuration cannot be read.
pub(super) fn of(
    ctx: &Ctx,
    task: &Task,
    projects: &Projects,
    bundle_dir: &str,
    options: &SpawnOptions,
    warnings: &mut Vec<String>,
) -> Result<Option<BTreeSet<String>>> {
    if !options.sparse {
        return Ok(None);
    }
    if options.clone {
        return Err(
            Error::new(Code::Usage, "a clone is complete, so it cannot be sparse")
                .hint("to go on, leave out --sparse or --isolation=clone"),
        );
    }
    let chosen = { options.sparse_projects.iter() }.map(|name| named(projects, name));
    let chosen: BTreeSet<&str> = chosen.collect::<Result<_>>()?;
    let of_scope = match scope::cone_directories(&task.whitelist) {
        _ if !chosen.is_empty() => Ok(BTreeSet::new()),
        directories => directories,
    };
    let mut directories = match of_scope {
        Ok(directories) => directories,
        Err(glob) => {
            warnings.push(format!(
                "--sparse leaves nothing out: the glob `{glob}` begins with no directory that it names in full"
            ));
            return Ok(None);
        }
    };
    // A project is of use as a whole, and with all that it needs.
    let holding = { directories.iter() }.flat_map(|path| {
        projects
            .all()
            .iter()
            .filter(|one| Path::new(path).starts_with(&one.path))
    });
    let holding = holding.map(|one| one.path.as_str()).chain(chosen);
    let needed = projects.needed(&holding.collect());
    let needed: Vec<String> = needed.into_iter().map(|one| one.path.clone()).collect();
    directories.extend(needed);
    let settings = PATH.rsplit_once('/').map(|(directory, _)| directory);
    let hooks = ctx.repo.repository_hooks_path()?;
    let needed = [Some(bundle_dir), settings, hooks.as_deref()];
    directories.extend(needed.into_iter().flatten().filter_map(inside));
    Ok(Some(directories))
}

/// The directory of the project that `--sparse` names.
fn named<'p>(projects: &'p Projects, name: &str) -> Result<&'p str> {
    if let Some(project) = projects.find(name) {
        return Ok(&project.path);
    }
    let known: Vec<&str> = projects.all().iter().map(|one| one.path.as_str()).collect();
    let error = Error::new(Code::Usage, format!("`{name}` names no project"));
    Err(match known.as_slice() {
        [] => error.hint(format!("projects are listed as [[project]] in {PATH}")),
        known => error.hint(format!("the projects are {}", known.join(", "))),
    })
}

/// A path as one from the top of the worktree; `None` for one that leads elsewhere.
fn inside(path: &str) -> Option<String> {
    let mut parts = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::CurDir => {}
            _ => return None,
        }
    }
    // A hooks path may begin with the home directory.
    (!parts.is_empty() && parts[0] != "~").then(|| parts.join("/"))
}

/// Makes the worktree of a new agent sparse, before it is populated.
///
/// # Errors
/// Those of the configuration files and of git.
pub(super) fn narrow(
    ctx: &Ctx,
    id: AgentId,
    path: &Path,
    directories: &BTreeSet<String>,
) -> Result<()> {
    let repo = &ctx.repo;
    {
        // This changes the configuration that all worktrees share, which two spawns must not do at
        // once.
        let _spawns = lock::hold(repo.common_dir(), layout::SPAWN_LOCK)?;
        added::enable_worktree_config(repo)?;
    }
    let admin_dir = worktree::admin_dir(repo, id);
    populate::narrow_cone(repo, path, &admin_dir, directories)
}
