//! The files in which agent hosts learn about our hooks: what we write there, merged into what is
//! there already.
//!
//! Five hosts read JSON, some of it with comments; `document` edits that in place, so that every
//! comment, key and blank line that is not ours stays. opencode loads a TypeScript file, which is
//! ours as a whole (`plugin`). The texts are the files of `hooks/`, embedded.
//!
//! All of it is text in, text out: reading and writing the file is the caller's. An entry of ours is
//! recognised by its command, `git-agent hook …`, and by nothing else, so that the entries of every
//! past version are found again. A second merge changes nothing, and an error means that nothing is
//! to be written.

mod document;
mod entries;
mod plugin;

use crate::error::Result;

/// An agent host that we can register with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// Claude Code.
    Claude,
    /// OpenAI's Codex CLI.
    Codex,
    /// Google's Gemini CLI.
    Gemini,
    /// GitHub's Copilot CLI.
    Copilot,
    /// Cursor, the editor and its command line.
    Cursor,
    /// opencode.
    Opencode,
}

impl Host {
    /// Every host, in the order of the documentation.
    pub const ALL: [Host; 6] = [
        Host::Claude,
        Host::Codex,
        Host::Gemini,
        Host::Copilot,
        Host::Cursor,
        Host::Opencode,
    ];

    /// The name used with `--host`.
    pub fn name(self) -> &'static str {
        match self {
            Host::Claude => "claude",
            Host::Codex => "codex",
            Host::Gemini => "gemini",
            Host::Copilot => "copilot",
            Host::Cursor => "cursor",
            Host::Opencode => "opencode",
        }
    }

    /// The host of that name.
    pub fn parse(name: &str) -> Option<Host> {
        Host::ALL.into_iter().find(|host| host.name() == name)
    }
}

/// Where a host looks and what it has to find there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The file, below the top of the repository.
    pub path: &'static str,
    /// Our whole text, opt-in events included.
    pub template: &'static str,
    /// What a person still has to do or know before the hooks run; `None` when nothing.
    pub note: Option<&'static str>,
}

/// The registration of a host.
pub fn registration(host: Host) -> Registration {
    let (path, template, note) = match host {
        Host::Claude => (
            ".claude/settings.json",
            include_str!("../../../hooks/claude.json"),
            None,
        ),
        Host::Codex => (
            ".codex/hooks.json",
            include_str!("../../../hooks/codex.json"),
            Some("Codex skips hooks without a word until they are trusted: run /hooks in Codex"),
        ),
        Host::Gemini => (
            ".gemini/settings.json",
            include_str!("../../../hooks/gemini.json"),
            Some("Gemini runs a project's hooks in trusted folders only"),
        ),
        Host::Copilot => (
            ".github/hooks/git-agent.json",
            include_str!("../../../hooks/copilot.json"),
            Some("Copilot runs a project's hooks in trusted folders only"),
        ),
        Host::Cursor => (
            ".cursor/hooks.json",
            include_str!("../../../hooks/cursor.json"),
            None,
        ),
        Host::Opencode => (
            ".opencode/plugins/git-agent.ts",
            include_str!("../../../hooks/opencode.ts"),
            None,
        ),
    };
    Registration {
        path,
        template,
        note,
    }
}

/// Who makes the worktrees that a host asks for on its own. Only Claude Code has such events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostWorktrees {
    /// The host, as before. An opt-in made earlier stays.
    Host,
    /// We do, for every subagent the host isolates.
    Ours,
}

/// The outcome of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// The whole file.
    pub text: String,
    /// Whether it differs from what was there.
    pub changed: bool,
}

/// The outcome of taking our hooks out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// There was nothing of ours.
    Unchanged,
    /// The whole file without our hooks.
    Edited(String),
    /// Nothing else was in the file: it can go.
    Delete,
}

/// How a settings file stands to this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Nothing of ours is in it.
    NotInstalled,
    /// Our hooks are in it, as this version writes them.
    Installed,
    /// Something of ours is in it, but not all, or not as this version writes it.
    Outdated,
}

/// Puts our hooks into a settings file; `existing` is its text, `None` where there is no file.
///
/// # Errors
/// `host-settings-invalid` when the text cannot be parsed or has an unexpected shape, `path-exists`
/// when an opencode plugin of that name is somebody else's.
pub fn merge(host: Host, existing: Option<&str>, worktrees: HostWorktrees) -> Result<Merged> {
    let existing = existing.unwrap_or_default();
    let text = match host {
        Host::Opencode => plugin::merge(host, existing)?,
        _ => document::merge(host, existing, worktrees)?,
    };
    Ok(Merged {
        changed: text != existing,
        text,
    })
}

/// Takes everything of ours out of a settings file, opt-ins included.
///
/// # Errors
/// `host-settings-invalid`, as for [`merge`].
pub fn remove(host: Host, existing: Option<&str>) -> Result<Removal> {
    match (existing, host) {
        (None, _) => Ok(Removal::Unchanged),
        (Some(existing), Host::Opencode) => Ok(plugin::remove(existing)),
        (Some(existing), _) => document::remove(host, existing),
    }
}

/// Compares a settings file with what this version would write. Opt-in events count only where they
/// are in use.
///
/// # Errors
/// `host-settings-invalid`, as for [`merge`].
pub fn status(host: Host, existing: Option<&str>) -> Result<Status> {
    if remove(host, existing)? == Removal::Unchanged {
        return Ok(Status::NotInstalled);
    }
    let merged = merge(host, existing, HostWorktrees::Host)?;
    Ok(match merged.changed {
        true => Status::Outdated,
        false => Status::Installed,
    })
}
