//! The roles of a repository at one commit: the built-in ones and `roles/*.toml` of its tree.
//!
//! They are read from the base commit's objects and never from a worktree, so that no agent can widen
//! the role it was given. A file that cannot be used is an invalid role, not an error: it stops the
//! tasks that name it and no others, which matters where `roles/` is some other tool's directory.
//!
//! Git's configuration may adjust a role on top of that, within the bounds that `settings` sets.

use crate::domain::work::persona::Roster;
use crate::domain::work::role::{InvalidRole, RoleDraft};
use crate::domain::{Glob, Isolation, Oid, Persona, RoleSet};
use crate::error::{Code, Error, Result};
use crate::git::config::Setting;
use crate::git::{Repo, core::tree};
use crate::wire::file::role_file;
use crate::wire::file::roster::{self, customize, manifest};
use std::collections::BTreeMap;

/// The directory at the top of the tree that holds role files.
pub const DIRECTORY: &str = "roles";

/// A role file is a screenful; anything bigger is something else.
const MAX_SIZE: usize = 64 * 1024;

/// Loads the roles that hold for agents that start from the commit `base`.
///
/// # Errors
/// `repo-corrupt` when the commit or its tree cannot be read, `git-failed` when git's configuration
/// cannot.
pub fn load(repo: &Repo, base: Oid) -> Result<RoleSet> {
    let top = repo.read_tree(repo.tree_of(base)?)?;
    let directory =
        top.iter().find(|entry| entry.is_directory() && entry.name == DIRECTORY.as_bytes());
    let files = match directory {
        Some(directory) => repo.read_tree(directory.oid)?,
        None => Vec::new(),
    };
    let mut drafts = Vec::new();
    let mut unreadable = Vec::new();
    for file in files.iter().filter(|entry| !entry.is_directory()) {
        let Some(stem) = file.name.strip_suffix(b".toml") else {
            continue;
        };
        let name = String::from_utf8_lossy(stem).into_owned();
        let path = format!("{DIRECTORY}/{name}.toml");
        match load_file(repo, file, &name, &path) {
            Ok(draft) => drafts.push(draft),
            Err(problems) => unreadable.push(InvalidRole { name, path, problems }),
        }
    }
    let roles = RoleSet::built_in().with(drafts, unreadable);
    Ok(apply_settings(roles, &repo.settings(PREFIX)?))
}

fn load_file(
    repo: &Repo,
    file: &tree::Entry,
    name: &str,
    path: &str,
) -> Result<RoleDraft, Vec<String>> {
    if !matches!(file.mode, tree::FILE | tree::EXECUTABLE) {
        return Err(vec![format!("{path}: it is not a regular file")]);
    }
    let data = repo.read_blob(file.oid).map_err(|error| vec![format!("{path}: {error}")])?;
    if data.len() > MAX_SIZE {
        return Err(vec![format!("{path}: it is larger than {} KiB", MAX_SIZE / 1024)]);
    }
    role_file::parse(name, path, &data)
}

// How git's configuration adjusts the roles of a clone:
//
// ```text
// [agent "role.explorer"]
//     subagentType = Explore      # what this person's agent host calls it
//     isolation = worktree
//     spawnable = no
//     denylist = docs/legal/**    # may repeat
// ```
//
// A section becomes a draft that extends the role it names. It has no `relaxes`, so it can rename and
// narrow and never loosen. A section for a role that the base commit does not have
// says nothing: one user configuration serves many repositories.

/// What the key of every setting starts with.
const PREFIX: &str = "agent.role.";

/// The roles, adjusted. Roles that extend an adjusted one keep what its file says.
fn apply_settings(roles: RoleSet, settings: &[Setting]) -> RoleSet {
    let mut sections: BTreeMap<&str, RoleSection> = BTreeMap::new();
    for setting in settings {
        let key = setting.key.strip_prefix(PREFIX).and_then(|key| key.rsplit_once('.'));
        let Some((name, key)) = key.filter(|(name, _)| roles.get(name).is_some()) else {
            continue;
        };
        let section = sections.entry(name).or_insert_with(|| RoleSection::of(name));
        if let Err(problem) = section.read(key, &setting.value) {
            section.problems.push(format!("{}: {problem}", setting.key));
        }
    }
    // A section with one wrong line is refused as a whole: what is left of it would be looser than
    // what was meant.
    let (sound, broken): (Vec<RoleSection>, Vec<RoleSection>) =
        sections.into_values().partition(|section| section.problems.is_empty());
    let drafts = sound.into_iter().map(|section| section.draft).collect();
    let unreadable = broken.into_iter().map(|section| InvalidRole {
        name: section.draft.name,
        path: section.draft.path,
        problems: section.problems,
    });
    roles.with(drafts, unreadable.collect())
}

struct RoleSection {
    draft: RoleDraft,
    problems: Vec<String>,
}

impl RoleSection {
    fn of(name: &str) -> RoleSection {
        let draft = RoleDraft {
            name: name.to_owned(),
            path: format!("git config {PREFIX}{name}"),
            extends: Some(name.to_owned()),
            ..RoleDraft::default()
        };
        RoleSection { draft, problems: Vec::new() }
    }

    /// Takes one setting; a later one replaces an earlier one, except that denylists add up.
    fn read(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "subagenttype" => self.draft.subagent_type = Some(value.to_owned()),
            "isolation" => {
                let isolation = Isolation::parse(value).ok_or("it is `worktree` or `shared`")?;
                self.draft.isolation = Some(isolation);
            }
            "spawnable" => {
                let spawnable = match value.to_ascii_lowercase().as_str() {
                    "true" | "yes" | "on" | "1" => true,
                    "false" | "no" | "off" | "0" | "" => false,
                    _ => return Err("it is yes or no".to_owned()),
                };
                self.draft.spawnable = Some(spawnable);
            }
            "denylist" => self.draft.default_denylist.push(Glob::parse(value)?),
            _ => return Err("there is no such setting".to_owned()),
        }
        Ok(())
    }
}

// The rosters of a project, read from the base commit.
//
// Never from a worktree: what one agent can change must not become the persona of another. A file that
// is not committed therefore does not count; to use it, pass `--agent-manifest`.

/// Where a manifest is, the newest generation first.
const MANIFESTS: [&str; 3] = [
    "_bmad/_config/agent-manifest.csv",
    "bmad/_cfg/agent-manifest.csv",
    ".bmad/_cfg/agent-manifest.csv",
];

/// Where the customisations of an agent type are, below one of these.
const CUSTOMISATIONS: [&str; 3] = ["_bmad/_config/agents", "bmad/_cfg/agents", ".bmad/_cfg/agents"];

/// The layers of the central configuration, each on top of the one before.
const CENTRAL: [&str; 4] = [
    "_bmad/config.toml",
    "_bmad/config.user.toml",
    "_bmad/custom/config.toml",
    "_bmad/custom/config.user.toml",
];

/// A commit's files, as far as rosters are concerned.
pub struct Project<'r> {
    repo: &'r Repo,
    tree: Oid,
    skills: Vec<&'static str>,
}

impl<'r> Project<'r> {
    /// The files of the commit `base`. The skill of an agent type is below `_bmad`, else in the first of the
    /// directories `skills` that has it.
    ///
    /// # Errors
    /// `repo-corrupt` when the commit cannot be read.
    pub fn at(repo: &'r Repo, base: Oid, skills: Vec<&'static str>) -> Result<Project<'r>> {
        let tree = repo.tree_of(base)?;
        Ok(Project { repo, tree, skills })
    }

    /// The persona of an agent type: from the manifest, else from the central configuration.
    ///
    /// # Errors
    /// `agent-type-unknown`, `roster-invalid` for a malformed file, `repo-corrupt`.
    pub fn persona(&self, agent_type: &str) -> Result<Persona> {
        let mut all = Roster::default();
        if let Some(roster) = self.manifest()? {
            if let Some(persona) = roster.find(agent_type)? {
                return Ok(persona.clone());
            }
            all = roster;
        }
        let central = self.central()?;
        if let Some(persona) = central.find(agent_type)? {
            return self.with_skill(persona.clone());
        }
        // For the error, which says what there is in either.
        all.personas.extend(central.personas);
        all.files.extend(central.files);
        Err(all.unknown(agent_type))
    }

    /// The persona of an agent type in one file of the commit.
    ///
    /// # Errors
    /// As [`Project::persona`]; `roster-invalid` also when the commit has no such file.
    pub fn persona_in(&self, path: &str, agent_type: &str) -> Result<Persona> {
        let data = self.file(path)?.ok_or_else(|| {
            invalid(format!("{path} is no file of the base commit"))
                .hint("commit it first, or name a file outside of the repository")
        })?;
        let persona = persona_of(path, &data, agent_type)?;
        if path.ends_with(".toml") { self.with_skill(persona) } else { Ok(persona) }
    }

    /// The project's additions for an agent type: each file's name and text, in the order of names.
    ///
    /// # Errors
    /// `roster-invalid` for a file that is no text or too large, `repo-corrupt`.
    pub fn customisations(&self, agent_type: &str) -> Result<Vec<(String, String)>> {
        let mut texts = Vec::new();
        for place in CUSTOMISATIONS {
            let place = format!("{place}/{agent_type}");
            for entry in self.directory(&place)? {
                if !entry.is_file() {
                    continue;
                }
                let name = String::from_utf8_lossy(&entry.name).into_owned();
                let data = self.repo.read_blob(entry.oid)?;
                let text = roster::text(&format!("{place}/{name}"), &data).map_err(invalid)?;
                texts.push((name, text.to_owned()));
            }
        }
        Ok(texts)
    }

    fn manifest(&self) -> Result<Option<Roster>> {
        for path in MANIFESTS {
            if let Some(data) = self.file(path)? {
                return Ok(Some(Roster {
                    personas: manifest::parse(path, &data).map_err(invalid)?,
                    files: vec![path.to_owned()],
                }));
            }
        }
        Ok(None)
    }

    fn central(&self) -> Result<Roster> {
        let (mut layers, mut files) = (Vec::new(), Vec::new());
        for path in CENTRAL {
            if let Some(data) = self.file(path)? {
                layers.push(roster::parse(path, &data).map_err(invalid)?);
                files.push(path.to_owned());
            }
        }
        let personas = roster::merge(layers);
        Ok(Roster { personas, files })
    }

    /// Fills in what the skill of the agent type and the layers above say.
    fn with_skill(&self, mut persona: Persona) -> Result<Persona> {
        let code = persona.name.clone();
        let mut layers: Vec<String> = self.skill(&code)?.into_iter().collect();
        layers.push(format!("_bmad/custom/{code}.toml"));
        layers.push(format!("_bmad/custom/{code}.user.toml"));
        for path in layers {
            if let Some(data) = self.file(&path)? {
                let layer = customize::parse(&path, &data).map_err(invalid)?;
                layer.apply(&mut persona);
            }
        }
        Ok(persona)
    }

    /// The path of a skill's `customize.toml`: the first below `_bmad`, by its path, else the one in a host's directory.
    fn skill(&self, code: &str) -> Result<Option<String>> {
        let mut found = Vec::new();
        let mut open = vec!["_bmad".to_owned()];
        while let Some(directory) = open.pop() {
            for entry in self.directory(&directory)? {
                let Some(name) = entry.is_directory().then_some(&entry.name) else {
                    continue;
                };
                let path = format!("{directory}/{}", String::from_utf8_lossy(name));
                let customize = format!("{path}/customize.toml");
                if name == code.as_bytes() && self.entry(&customize)?.is_some() {
                    found.push(customize);
                }
                open.push(path);
            }
        }
        // The walk finds them in no order that could be relied upon.
        if let Some(first) = found.into_iter().min() {
            return Ok(Some(first));
        }
        for place in &self.skills {
            let path = format!("{place}/{code}/customize.toml");
            if self.entry(&path)?.is_some() {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    /// The content of a regular file; a symbolic link is none.
    fn file(&self, path: &str) -> Result<Option<Vec<u8>>> {
        match self.entry(path)? {
            Some(entry) if entry.is_file() => self.repo.read_blob(entry.oid).map(Some),
            _ => Ok(None),
        }
    }

    fn directory(&self, path: &str) -> Result<Vec<tree::Entry>> {
        match self.entry(path)? {
            Some(entry) if entry.is_directory() => self.repo.read_tree(entry.oid),
            _ => Ok(Vec::new()),
        }
    }

    fn entry(&self, path: &str) -> Result<Option<tree::Entry>> {
        let mut directory = self.tree;
        let mut names = path.split('/').peekable();
        while let Some(name) = names.next() {
            let mut entries = self.repo.read_tree(directory)?.into_iter();
            match entries.find(|entry| entry.name == name.as_bytes()) {
                Some(entry) if names.peek().is_none() => return Ok(Some(entry)),
                Some(entry) if entry.is_directory() => directory = entry.oid,
                _ => return Ok(None),
            }
        }
        Ok(None)
    }
}

/// The persona of an agent type in one file, a central configuration when its name ends in `.toml`, else
/// a manifest. `path` is its name in messages.
///
/// # Errors
/// `roster-invalid`, `agent-type-unknown`.
pub fn persona_of(path: &str, data: &[u8], agent_type: &str) -> Result<Persona> {
    let personas = if path.ends_with(".toml") {
        roster::parse(path, data).map(|layer| roster::merge(vec![layer]))
    } else {
        manifest::parse(path, data)
    };
    let roster = Roster { personas: personas.map_err(invalid)?, files: vec![path.to_owned()] };
    match roster.find(agent_type)? {
        Some(persona) => Ok(persona.clone()),
        None => Err(roster.unknown(agent_type)),
    }
}

fn invalid(message: String) -> Error {
    Error::new(Code::RosterInvalid, message)
}
