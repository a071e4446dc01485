//! The ignore rules that no commit holds: `info/exclude` and the user's excludes file.
//!
//! Ours are added to `info/exclude` once. What both files said at spawn is kept as blobs: a line that
//! is added later must not hide a file from `verify`.

use super::{fsx, layout, lock};
use crate::domain::oid::Oid;
use crate::error::{IoContext, Result};
use crate::git::Repo;
use std::fs;
use std::path::{Path, PathBuf};

/// The ignore rules of one moment, as blobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Excludes {
    /// Each file's name in the policy's tree, and its blob.
    pub files: Vec<(&'static str, Oid)>,
}

impl Excludes {
    /// The blobs alone.
    pub fn blobs(&self) -> Vec<Oid> {
        self.files.iter().map(|(_, blob)| *blob).collect()
    }
}

/// Adds a line for each of these directories at the top to `info/exclude` where it is missing, then keeps both
/// files as blobs.
///
/// # Errors
/// `io`, `disk-full`, `repo-read-only`, `lock-timeout`.
pub fn record(repo: &Repo, home: Option<&Path>, directories: &[&str]) -> Result<Excludes> {
    let path = repo.common_dir().join("info/exclude");
    let lines: Vec<_> = directories.iter().copied().map(line).collect();
    let text = add_lines(repo.common_dir(), &path, &lines)?;
    let mut excludes = Excludes::default();
    excludes
        .files
        .push(("info-exclude", repo.write_blob(&text)?));
    if let Some(user) = user_file(repo, home)?
        && let Ok(text) = fs::read(user)
    {
        excludes
            .files
            .push(("user-excludes", repo.write_blob(&text)?));
    }
    Ok(excludes)
}

/// The line that hides this directory and no other: what gitignore(5) has a meaning for is escaped.
fn line(directory: &str) -> String {
    let mut line = String::from("/");
    for character in directory.chars() {
        if matches!(character, '*' | '?' | '[' | '\\') {
            line.push('\\');
        }
        line.push(character);
    }
    line + "/"
}

fn add_lines(common_dir: &Path, path: &Path, lines: &[String]) -> Result<Vec<u8>> {
    let missing = |text: &[u8]| -> Vec<u8> {
        let present: Vec<&[u8]> = text.split(|&b| b == b'\n').collect();
        lines
            .iter()
            .filter(|line| !present.contains(&line.as_bytes()))
            .flat_map(|line| format!("{line}\n").into_bytes())
            .collect()
    };
    let load = || match fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other.at("could not read", path),
    };
    let text = load()?;
    if missing(&text).is_empty() {
        return Ok(text);
    }
    let _spawns = lock::hold(common_dir, layout::SPAWN_LOCK)?;
    let mut text = load()?;
    let addition = missing(&text);
    if !text.is_empty() && !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    text.extend(addition);
    fs::create_dir_all(common_dir.join("info")).at("could not make", common_dir.join("info"))?;
    fsx::write_atomic(path, &text)?;
    Ok(text)
}

/// `core.excludesFile`, else git's default place.
fn user_file(repo: &Repo, home: Option<&Path>) -> Result<Option<PathBuf>> {
    let setting = repo.config_string("core.excludesFile")?;
    Ok(match (setting, home) {
        (Some(path), Some(home)) => Some(match path.strip_prefix("~/") {
            Some(rest) => home.join(rest),
            None => PathBuf::from(path),
        }),
        (Some(path), None) => Some(PathBuf::from(path)),
        (None, Some(home)) => Some(home.join(".config/git/ignore")),
        (None, None) => None,
    })
}
