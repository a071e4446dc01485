//! Our lines in `info/exclude`, which keep worktrees and bundles out of every `git status`.

use super::{fsx, layout, lock};
use crate::error::{IoContext, Result};
use crate::git::Repo;
use crate::git::ignore::pattern;
use std::fs;

/// Adds a line for each of these directories at the top to `info/exclude` where it is missing.
///
/// # Errors
/// `io`, `disk-full`, `lock-timeout`.
pub fn add(repo: &Repo, directories: &[&str]) -> Result<()> {
    let path = repo.common_dir().join("info/exclude");
    let lines: Vec<_> = directories.iter().copied().map(pattern).collect();
    let missing = |text: &[u8]| -> Vec<u8> {
        let present: Vec<&[u8]> = text.split(|&b| b == b'\n').collect();
        lines
            .iter()
            .filter(|line| !present.contains(&line.as_bytes()))
            .flat_map(|line| format!("{line}\n").into_bytes())
            .collect()
    };
    let load = || match fs::read(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other.at("could not read", &path),
    };
    if missing(&load()?).is_empty() {
        return Ok(());
    }
    let _spawns = lock::hold(repo.common_dir(), layout::SPAWN_LOCK)?;
    let mut text = load()?;
    let addition = missing(&text);
    if !text.is_empty() && !text.ends_with(b"\n") {
        text.push(b'\n');
    }
    text.extend(addition);
    let directory = repo.common_dir().join("info");
    fs::create_dir_all(&directory).at("could not make", &directory)?;
    fsx::write_atomic(&path, &text)
}
