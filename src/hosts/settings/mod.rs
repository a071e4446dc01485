//! The files in which agent hosts learn about our hooks: what we write there, merged into what is
//! there already.
//!
//! Most hosts read JSON, some of it with comments; `document` edits that in place, so that every
//! comment, key and blank line that is not ours stays. A file that is ours as a whole, such as a plugin,
//! is known by how it begins. The texts are the files of `src/hosts/registrations/`, embedded.
//!
//! All of it is text in, text out: reading and writing the file is the caller's. An entry of ours is
//! recognised by its command, `git-agent hook …`, and by nothing else, so that the entries of every
//! past version are found again. A second merge changes nothing, and an error means that nothing is
//! to be written.

mod document;

use crate::error::{Code, Error, Remedy, Result};
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::CstRootNode;
use serde_json::Value;
use std::path::Path;

/// Where a host looks and what it has to find there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// The host's name.
    pub host: &'static str,
    /// The file, below the top of the repository.
    pub path: &'static str,
    /// The file that counts in every directory, below the user's home.
    pub of_user: &'static str,
    /// The directory that is there where the host is used.
    pub directory: &'static str,
    /// Our whole text, events on request included.
    pub template: &'static str,
    /// How every version of the file begins where it is ours as a whole; `None` for JSON, which we share.
    pub whole_file: Option<&'static str>,
    /// Events that replace something the host does by itself, and so are registered on request only.
    pub on_request: &'static [&'static str],
    /// Whether the host looks for a project's file only where a session starts, and not above that.
    pub is_at_the_top: bool,
}

impl Registration {
    /// A JSON file that others may write as well, alone in the host's own directory.
    pub(super) const fn json(
        host: &'static str,
        directory: &'static str,
        path: &'static str,
        template: &'static str,
    ) -> Registration {
        Registration {
            host,
            path,
            // Most hosts have the same names there.
            of_user: path,
            directory,
            template,
            whole_file: None,
            on_request: &[],
            is_at_the_top: false,
        }
    }
}

/// Where a host keeps which folders its user trusts.
#[derive(Clone, Copy, Debug)]
pub struct TrustFiles {
    /// The variable by which its user moves its directory.
    pub variable: &'static str,
    /// That directory below the user's home.
    pub below_home: &'static str,
    /// The files below it.
    pub names: &'static [&'static str],
}

/// What has to be trusted before a host runs hooks.
#[derive(Clone, Copy, Debug)]
pub struct Registered<'a> {
    /// The file in which they are registered; absolute.
    pub file: &'a Path,
    /// The folder that it is of; `None` for the user's own.
    pub folder: Option<&'a Path>,
}

/// Why a host runs no hooks although they are registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distrust {
    /// What it does not trust, in one sentence.
    pub what: String,
    /// What its user types to change that.
    pub command: String,
}

/// A JSON file of a host that may have comments; null where it is none.
pub(super) fn read_jsonc(text: &str) -> Value {
    let root = CstRootNode::parse(text, &ParseOptions::default()).ok();
    let value = root.and_then(|root| root.value()?.to_serde_value());
    value.unwrap_or_default()
}

/// Who makes the worktrees that a host asks for on its own.
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

/// Puts our hooks into a settings file; `existing` is its text, `None` where there is no file.
///
/// # Errors
/// `host-settings-invalid` when the text cannot be parsed or has an unexpected shape, `path-exists`
/// when a file that would be ours as a whole is not.
pub fn merge(
    registration: &Registration,
    existing: Option<&str>,
    worktrees: HostWorktrees,
) -> Result<Merged> {
    let existing = existing.unwrap_or_default();
    let text = match registration.whole_file {
        Some(start) => replace(registration, start, existing)?,
        None => document::merge(registration, existing, worktrees)?,
    };
    Ok(Merged { changed: text != existing, text })
}

/// Takes everything of ours out of a settings file, events on request included.
///
/// # Errors
/// `host-settings-invalid`, as for [`merge`].
pub fn remove(registration: &Registration, existing: Option<&str>) -> Result<Removal> {
    match (existing, registration.whole_file) {
        (None, _) => Ok(Removal::Unchanged),
        (Some(existing), Some(start)) if begins(existing, start) => Ok(Removal::Delete),
        (Some(_), Some(_)) => Ok(Removal::Unchanged),
        (Some(existing), None) => document::remove(registration, existing),
    }
}

/// The text of a file that is ours as a whole; line ends that a checkout converted count as unchanged.
fn replace(registration: &Registration, start: &str, existing: &str) -> Result<String> {
    if existing.replace("\r\n", "\n") == registration.template {
        Ok(existing.to_owned())
    } else if existing.trim().is_empty() || begins(existing, start) {
        Ok(registration.template.to_owned())
    } else {
        let what = format!("{} is not a file of git-agent's", registration.path);
        Err(Error::new(Code::PathExists, what).remedy(
            "move it away; then, to register the hooks",
            Remedy::Register(registration.host.to_string()),
        ))
    }
}

fn begins(text: &str, start: &str) -> bool {
    let marked = text.strip_prefix(document::BYTE_ORDER_MARK);
    marked.unwrap_or(text).starts_with(start)
}
