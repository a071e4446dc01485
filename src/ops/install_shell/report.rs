//! The answer of `install-shell`.

use crate::agents::ctx::Env;
use crate::domain::named::named;
use crate::ops::install_shell::{Part, ShellFile, look};
use serde::Serialize;
use std::path::Path;

/// `git-agent.install-shell/1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShellReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// What was installed, by kind.
    pub parts: Vec<PartReport>,
    /// What is still up to the user, one sentence each.
    pub advice: Vec<String>,
}

/// The files of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PartReport {
    /// `bash`, `fish`, `man` or `zsh`.
    pub part: &'static str,
    /// The directory they are in, absolute.
    pub directory: String,
    /// The files.
    pub files: Vec<FileReport>,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileReport {
    /// Its name in the directory.
    pub name: String,
    /// What becomes of it.
    pub action: FileAction,
}

named! {
    /// What becomes of a file.
    #[derive(Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum FileAction {
        /// It was not there.
        Created = "created",
        /// It was of another version.
        Updated = "updated",
        /// It is as it should be.
        Unchanged = "unchanged",
        /// Written by another program; it stays as it is.
        Foreign = "foreign",
    }
}

impl ShellReport {
    /// The files are in the order of their parts.
    pub(super) fn new(env: &Env, share: &Path, files: &[(ShellFile, FileAction)]) -> ShellReport {
        let parts: Vec<PartReport> = files
            .chunk_by(|(one, _), (next, _)| one.part == next.part)
            .map(|files| PartReport {
                part: files[0].0.part.as_str(),
                directory: share
                    .join(files[0].0.part.directory())
                    .display()
                    .to_string(),
                files: files
                    .iter()
                    .map(|(file, action)| FileReport {
                        name: file.name.clone(),
                        action: *action,
                    })
                    .collect(),
            })
            .collect();
        let ours = files
            .iter()
            .filter(|(_, action)| *action != FileAction::Foreign);
        let mut kinds: Vec<Part> = ours.map(|(file, _)| file.part).collect();
        kinds.dedup();
        ShellReport {
            schema: "git-agent.install-shell/1",
            parts,
            advice: kinds
                .into_iter()
                .flat_map(|part| [look::advice(env, share, part), look::function(share, part)])
                .flatten()
                .collect(),
        }
    }
}
