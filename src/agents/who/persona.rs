//! Who an agent is told to be: a profile, an agent type of a roster, or both.
//!
//! Rosters come from the base commit. The one exception is a file outside of the repository that the
//! caller names: it is the caller's own. A file in an agent's worktree is never a roster.

use crate::agents::context::ctx::Ctx;
use crate::agents::context::real_path::real_path;
use crate::agents::who::current::CurrentAgent;
use crate::domain::work::persona::{Character, Profile};
use crate::domain::{Oid, Persona};
use crate::error::{Code, Error, IoContext, Result};
use crate::hosts;
use crate::store::settings::roles;
use crate::store::settings::roles::Project;
use crate::wire::file::roster::MAX_BYTES;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// What was asked for.
#[derive(Clone, Debug, Default)]
pub struct CharacterWish {
    /// The roster to look in instead of the project's own.
    pub manifest: Option<PathBuf>,
    /// The agent type.
    pub agent_type: Option<String>,
    /// A built-in profile; another word is an agent type.
    pub profile: Option<String>,
}

/// Finds the texts of a character for an agent that starts from the commit `base`.
///
/// # Errors
/// `agent-type-unknown`, `roster-invalid`, `usage` for a roster without an agent type, `repo-corrupt`.
pub fn resolve(ctx: &Ctx, base: Oid, wish: &CharacterWish) -> Result<Character> {
    let built_in = wish.profile.as_deref().and_then(Profile::parse);
    let other = wish.profile.as_deref().filter(|_| built_in.is_none());
    let agent_type = match (wish.agent_type.as_deref(), other) {
        // One of the two would have to win without a word.
        (Some(_), Some(profile)) => return Err(unknown_profile(profile)),
        (agent_type, other) => agent_type.or(other),
    };
    let Some(agent_type) = agent_type else {
        return match &wish.manifest {
            Some(_) => Err(Error::new(
                Code::Usage,
                "--agent-manifest names a roster, but no agent type is asked for",
            )
            .hint("to choose one of it, pass --agent-type <name>")),
            None => Ok(Character {
                persona: built_in.map(|profile| profile.text().to_owned()),
                ..Character::default()
            }),
        };
    };
    let project = Project::at(&ctx.repo, base, hosts::skill_directories())?;
    let persona = match &wish.manifest {
        Some(manifest) => from_manifest(ctx, &project, manifest, agent_type),
        None => project.persona(agent_type),
    };
    let persona = persona.map_err(|error| match other {
        Some(_) if error.code() == Code::AgentTypeUnknown => error.hint(profiles()),
        _ => error,
    })?;
    let mut text = persona.text();
    if let Some(profile) = built_in {
        text.push_str(&format!("\n{}\n", profile.text()));
    }
    Ok(Character {
        customisations: project.customisations(&persona.name)?,
        agent_type: Some(persona.name),
        persona: Some(text),
        instructions: Vec::new(),
    })
}

fn from_manifest(
    ctx: &Ctx,
    project: &Project<'_>,
    manifest: &Path,
    agent_type: &str,
) -> Result<Persona> {
    let given = ctx.absolute(manifest);
    // By a link it could lead into a worktree.
    let path = real_path(&given).unwrap_or(given);
    let shown = manifest.display().to_string();
    if CurrentAgent::around(&path)?.is_some() || path.starts_with(ctx.repo.common_dir()) {
        let message = format!("{shown} can be changed by agents, so it is no roster");
        return Err(Error::new(Code::RosterInvalid, message)
            .hint("name a file outside of the repository, or one that is committed"));
    }
    let tops = [ctx.repo.workdir().and_then(real_path), ctx.repo.main_worktree()?];
    let inside = tops.iter().flatten().find_map(|top| path.strip_prefix(top).ok());
    // Inside of the repository the committed file counts, whatever is in the worktree.
    if let Some(inside) = inside {
        return project.persona_in(&inside.to_string_lossy(), agent_type);
    }
    let mut data = Vec::new();
    // One byte more than is allowed is enough to see that it is too long.
    File::open(&path)
        .and_then(|file| file.take(MAX_BYTES as u64 + 1).read_to_end(&mut data))
        .at("could not read the roster", manifest)?;
    roles::persona_of(&shown, &data, agent_type)
}

fn unknown_profile(profile: &str) -> Error {
    Error::new(Code::AgentTypeUnknown, format!("no profile goes by {profile}")).hint(profiles())
}

fn profiles() -> String {
    let names = Profile::ALL.map(Profile::as_str).join(", ");
    format!("the built-in profiles are {names}")
}
