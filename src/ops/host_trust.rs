//! Whether a session of an agent host has our hooks: what keeps a host from running what is registered, and a session that says nothing.

use crate::agents::life::host_session::{self, SessionRecord};
use crate::agents::{Ctx, Env};
use crate::domain::AgentId;
use crate::hosts;
use crate::hosts::settings::{Distrust, Registered, Registration};
use crate::store::files::fsx;
use std::path::{Path, PathBuf};

/// What is to be known of hosts that look for a project's file only where they are started.
const AT_THE_TOP: &str = "it counts where a session starts at the top; to have it count in every directory, run git agent init --user";

/// Why a host would not run the hooks of a registration, in a project or in its user's own settings; `None` where nothing is in the way.
pub(crate) fn distrust(
    env: &Env,
    registration: &Registration,
    folder: Option<&Path>,
) -> Option<Distrust> {
    let host = hosts::named(registration.host)?;
    let file = match folder {
        Some(folder) => folder.join(registration.path),
        None => env.home.as_ref()?.join(registration.of_user),
    };
    let trust = host.trust_files()?;
    let moved = env.host_variables.get(trust.variable).cloned();
    let directory: PathBuf = moved.or_else(|| Some(env.home.as_ref()?.join(trust.below_home)))?;
    let read = |name: &&str| fsx::load_if_there(&directory.join(name)).ok().flatten();
    let texts: Vec<_> = trust
        .names
        .iter()
        .map(|name| read(name).unwrap_or_default())
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .collect();
    host.distrust(&texts, Registered { file: &file, folder })
}

/// What the user of a host still has to do or know before the hooks of a registration run.
pub(crate) fn note(
    env: &Env,
    registration: &Registration,
    folder: Option<&Path>,
) -> Option<String> {
    let distrust = distrust(env, registration, folder);
    let distrust =
        distrust.map(|Distrust { what, command }| format!("{what}; to change that, run {command}"));
    let place = folder.filter(|_| registration.is_at_the_top);
    let place = place.map(|_| AT_THE_TOP.to_owned());
    let notes: Vec<_> = distrust.into_iter().chain(place).collect();
    (!notes.is_empty()).then(|| notes.join("; "))
}

/// Whether a registration of ours is in a project.
pub(crate) fn is_registered(registration: &Registration, top: &Path) -> bool {
    let text = fsx::load_if_there(&top.join(registration.path)).ok().flatten();
    let text = text.map(|text| String::from_utf8_lossy(&text).into_owned());
    text.is_some_and(|text| text.contains("git-agent"))
}

/// What a session of a host is told that works in an agent's worktree and of which no hook has told us, although hooks are registered
/// there: it began where the host does not look for them, or the host does not trust them.
pub(crate) fn unheard(ctx: &Ctx, id: AgentId, worktree: &Path) -> Option<String> {
    let host = ctx.env.host.filter(|_| ctx.env.agent.is_none() && !ctx.env.fenced)?;
    let registration = host.registration()?;
    let sessions = host_session::all(ctx.repo.common_dir(), id);
    if sessions.iter().any(SessionRecord::is_at_work) || !is_registered(&registration, worktree) {
        return None;
    }
    let main = ctx.repo.main_worktree().ok().flatten()?;
    let why = note(&ctx.env, &registration, Some(&main))?;
    let (name, id) = (host.name(), id.short());
    Some(format!(
        "no hook of this session of {name} has told of agent {id}, so only commits are held to its scope. {}: {why}",
        registration.path
    ))
}
