//! Places of a command behind a fence: what it may write beyond its own worktree, and what it does not see, the
//! directories of other agents, and the locks that our commands wait for.
//!
//! Landlock refuses to write there, but a lock on a file can be taken by a process that only reads it, and
//! others then wait for an agent. Where the command has a mount namespace, these directories appear empty to it.

use crate::agents::context::ctx::Ctx;
use crate::domain::life::sandbox::{Level, Namespaces};
use crate::domain::{AgentId, Fence, LayerMount};
use crate::error::{Code, Error, IoContext, Result};
use crate::hosts::WORKTREE_DIR;
use crate::store::files::{fsx, layout};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What begins the names of the worktrees that are ours.
const OURS: [&str; 3] = [layout::WORKTREE_PREFIX, layout::SLOT_PREFIX, "verify-"];

/// What our commands read of the directory of all agents.
const READ: [&str; 6] = ["added", "cache", "clone-id", "closed", "leases", "own-lines"];

/// Hides from a command what is not its own agent's; `own` is that agent, if it works for one. `program` is this program's own
/// file, which may lie in a worktree.
///
/// # Errors
/// Those of listing the worktrees.
pub(crate) fn hide(
    ctx: &Ctx,
    own: Option<AgentId>,
    program: &Path,
    fence: &mut Fence,
) -> Result<()> {
    let common = real(ctx.repo.common_dir());
    let agents = layout::agents_dir(&common);
    let admin_dirs = common.join("worktrees");
    // 1. The worktrees, all at once in the default place, where nothing else is.
    let mut hidden: BTreeSet<PathBuf> = BTreeSet::new();
    for worktree in ctx.repo.worktrees()? {
        if OURS.iter().any(|prefix| worktree.name.starts_with(prefix)) {
            let path = real(&worktree.path);
            // The whole directory, so that worktrees which are made later are hidden as well.
            let above = path.parent().filter(|above| above.ends_with(WORKTREE_DIR));
            hidden.insert(above.unwrap_or(&path).to_owned());
        }
    }
    // A worktree that is the command's own is a place that it may write.
    hidden.retain(|path| !fence.writable.contains(path) && !fence.own.contains(path));
    hidden.extend([agents.clone(), admin_dirs.clone()]);
    // 2. What is to be seen of the rest.
    let mut shown: Vec<PathBuf> = READ.map(|name| agents.join(name)).into();
    if let Some(id) = own {
        shown.push(admin_dirs.join(layout::worktree_name(id)));
        // By which git-agent knows in there that the worktree has a repository of its own.
        shown.push(layout::clone_record(&common, id));
        // Each by itself, so that no lock is among them, not even one that is made later.
        let entries = fs::read_dir(layout::agent_dir(&common, id));
        let paths = entries.into_iter().flatten().flatten().map(|entry| entry.path());
        // What lies below and above the mount of a layered worktree is out of reach but through that mount.
        let is_layer =
            |path: &Path| path.ends_with(layout::LAYER) || path.ends_with(layout::CHECK_LAYER);
        let is_seen =
            |path: &PathBuf| path.extension().is_none_or(|end| end != "lock") && !is_layer(path);
        shown.extend(paths.filter(is_seen));
    }
    // Hooks inside the fence call it.
    shown.push(real(program));
    fence.hidden = hidden.into_iter().filter(|path| path.is_dir()).collect();
    shown.retain(|path| fence.hidden.iter().any(|hidden| path.starts_with(hidden)));
    fence.shown = shown;
    Ok(())
}

fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

// Places that commands behind a fence may write though they are not the agent's own.

/// What the key of the setting that opens further places starts with; git writes keys in lower case.
const ALLOW_WRITE: &str = "agent.run.allowwrite";

/// What the caller and the settings open besides. The settings of the agent's own worktree do not count.
///
/// # Errors
/// `usage` for a place that does not exist, and for one in the settings that is relative.
pub(crate) fn open_places(ctx: &Ctx, typed: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut places: Vec<PathBuf> = typed.iter().map(|path| ctx.absolute(path)).collect();
    for setting in ctx.repo.shared_settings(ALLOW_WRITE)? {
        let path = Path::new(&setting.value);
        if !path.is_absolute() && !path.starts_with("~") {
            let message = format!(
                "agent.run.allowWrite is `{}`, which is neither absolute nor starts with ~/",
                setting.value
            );
            return Err(Error::new(Code::Usage, message).hint(
                "to see where it is set, run git config --show-origin --get-all agent.run.allowWrite",
            ));
        }
        places.push(ctx.absolute(path));
    }
    let resolve = |path: PathBuf| {
        fs::canonicalize(&path).map_err(|error| {
            let message = format!("{} cannot be opened for writing", path.display());
            Error::new(Code::Usage, message).because(error)
        })
    };
    places.into_iter().map(resolve).collect()
}

// Caches of package managers for what runs behind a sandbox, so that they work there and cannot change the user's own.

/// Variables that move the cache of a package manager, one for each of its versions, and where that cache is in the home directory unless
/// they do. Behind the fence the user's own caches cannot be written, and these programs fail without one that can.
const CACHES: [(&[&str], &str); 12] = [
    (&["npm_config_cache"], ".npm"),
    (&["npm_config_store_dir", "pnpm_config_store_dir"], ".local/share/pnpm/store"),
    (&["npm_config_cache_dir", "pnpm_config_cache_dir"], ".cache/pnpm"),
    (&["COREPACK_HOME"], ".cache/node/corepack"),
    (&["YARN_CACHE_FOLDER"], ".cache/yarn"),
    (&["YARN_GLOBAL_FOLDER"], ".yarn/berry"),
    (&["PIP_CACHE_DIR"], ".cache/pip"),
    (&["UV_CACHE_DIR"], ".cache/uv"),
    (&["POETRY_CACHE_DIR"], ".cache/pypoetry"),
    (&["GOCACHE"], ".cache/go-build"),
    (&["COMPOSER_CACHE_DIR"], ".cache/composer"),
    (&["GRADLE_USER_HOME"], ".gradle"),
];

/// The one of them whose place the program writes into what it installs, and then uses no other: the user's own, seen through a view.
const BOUND: &str = "npm_config_store_dir";

/// Where pnpm locks its store since version 12, whatever `TMPDIR` says, with the number of the user behind it.
const PNPM_LOCKS: &str = "/tmp/pnpm-store-operation-locks-";

/// As [`CACHES`], of programs that can read a cache that they cannot write. The user's own serves where there is one, at its own place: it
/// holds what was downloaded before, and settings.
const READABLE_CACHES: [(&str, &str, &str); 2] =
    [("CARGO_HOME", ".cargo", ".cargo/registry"), ("GOMODCACHE", "go/pkg/mod", "go/pkg/mod")];

/// A variable and its value.
pub(crate) type Variable = (Cow<'static, str>, OsString);

/// What gives package managers caches of their own.
pub(crate) struct PrivateCaches {
    /// Variables that lead them there, but for those whose usual cache is open.
    pub(crate) variables: Vec<Variable>,
    /// Views of the user's caches, for a kernel that can mount them: the private ones then begin with what the user has.
    pub(crate) mounts: Vec<LayerMount>,
}

/// Caches below `place`, which the fence opens; what is written to the views of the user's goes to `kept`, which it hides.
///
/// # Errors
/// `io`, `disk-full`.
pub(crate) fn private_caches(
    ctx: &Ctx,
    open: &[PathBuf],
    (place, kept): (&Path, &Path),
    level: Level,
) -> Result<PrivateCaches> {
    let can_mount = level.namespaces != Namespaces::None;
    let home = ctx.env.home.as_deref().unwrap_or(Path::new("/"));
    let is_closed = |usual: &Path| !open.iter().any(|open| usual.starts_with(open));
    let mut caches = PrivateCaches { variables: Vec::new(), mounts: Vec::new() };
    let mut view = |name: &str, usual: &Path, place: &Path| -> Result<()> {
        // Without symlinks, for it is mounted by its path.
        if let Ok(base) = fs::canonicalize(usual)
            && base.is_dir()
        {
            let upper = kept.join(name).join("upper");
            fsx::create_dir(&upper)?;
            let work = kept.join(name).join("work");
            fsx::create_dir(&work)?;
            renew(&work)?;
            let real = |path: &Path| fs::canonicalize(path).at("could not resolve", path);
            let place = if place == usual {
                base.clone()
            } else {
                fsx::create_dir(place)?;
                real(place)?
            };
            caches.mounts.push(LayerMount {
                base,
                upper: real(&upper)?,
                work: real(&work)?,
                place,
                worktree: None,
            });
        }
        Ok(())
    };
    for (names, usual) in CACHES {
        let usual = home.join(usual);
        if let Some(name) = names.first().filter(|_| is_closed(&usual)) {
            let stays = can_mount && *name == BOUND && usual.is_dir();
            let private = if stays { usual.clone() } else { place.join(name) };
            view(name, &usual, &private)?;
            let set = |name: &&'static str| ((*name).into(), private.clone().into());
            caches.variables.extend(names.iter().map(set));
        }
    }
    // An empty view, and not the user's: what an agent can lock cannot be what another process waits for.
    let owner = fs::metadata(place).at("could not look at", place)?.uid();
    let locks = PathBuf::from(format!("{PNPM_LOCKS}{owner}"));
    let is_ours = match fs::symlink_metadata(&locks) {
        Ok(found) => found.is_dir() && found.uid() == owner,
        Err(_) => ctx.env.search.iter().any(|at| at.join("pnpm").exists()),
    };
    if can_mount && is_ours && is_closed(&locks) {
        let nothing = kept.join("nothing");
        fsx::create_dir(&nothing)?;
        view("pnpm-locks", &nothing, &locks)?;
    }
    for (name, usual, holds) in READABLE_CACHES {
        let is_filled = home.join(holds).exists();
        let usual = home.join(usual);
        if is_closed(&usual) && is_filled {
            view(name, &usual, &usual)?;
        } else if is_closed(&usual) {
            // Without a filled cache of the user's a private one loses nothing.
            caches.variables.push((name.into(), place.join(name).into()));
        }
    }
    Ok(caches)
}

/// Makes the views of caches ready for one more command, which mounts each of them anew.
///
/// # Errors
/// `io`.
pub(crate) fn renew_views(views: &[LayerMount]) -> Result<()> {
    views.iter().try_for_each(|view| renew(&view.work))
}

fn renew(work: &Path) -> Result<()> {
    // In this the kernel marks one that has served for a mount, and refuses it then.
    let used = work.join("work");
    if used.exists() {
        fsx::remove_tree(&used)?;
    }
    Ok(())
}
