//! Our lines in `info/exclude`, which keep worktrees and bundles out of every `git status`.

use super::{added, fsx, layout, lock};
use crate::error::{IoContext, Result};
use crate::git::Repo;
use crate::git::changes::ignore::pattern;
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
    let load = || fsx::load_if_there(&path).map(Option::unwrap_or_default);
    if missing(&load()?).is_empty() {
        return Ok(());
    }
    let _spawns = lock::hold(repo.common_dir(), layout::SPAWN_LOCK)?;
    let mut text = load()?;
    let mut addition = missing(&text);
    if !text.is_empty() && !text.ends_with(b"\n") {
        addition.insert(0, b'\n');
    }
    added::note(repo.common_dir(), added::EXCLUDES, &addition)?;
    text.extend(addition);
    let directory = repo.common_dir().join("info");
    fs::create_dir_all(&directory).at("could not make", &directory)?;
    added::changing(repo.common_dir(), &path, || fsx::write_atomic(&path, &text))
}

/// Takes out of `info/exclude` what [`add`] put into it; gives the lines. The caller holds `spawn.lock`.
///
/// # Errors
/// `io`, `disk-full`.
pub fn remove(repo: &Repo, is_dry: bool) -> Result<Vec<String>> {
    let path = repo.common_dir().join("info/exclude");
    let text = fsx::load_if_there(&path)?.unwrap_or_default();
    let noted = added::load(repo.common_dir(), added::EXCLUDES)?;
    let ours =
        |line: &[u8]| !line.is_empty() && noted.split(|&b| b == b'\n').any(|own| own == line);
    let lines = text.split(|&b| b == b'\n').filter(|line| ours(line));
    let lines: Vec<_> = lines
        .map(|line| String::from_utf8_lossy(line).into_owned())
        .collect();
    if lines.is_empty() || is_dry {
        return Ok(lines);
    }
    // As it was before, where it was not changed meanwhile.
    if added::put_back(repo.common_dir(), &path)? {
        return Ok(lines);
    }
    let rest = match text.strip_suffix(&noted[..]) {
        Some(before) => before.to_vec(),
        None => {
            let kept = text.split_inclusive(|&b| b == b'\n');
            kept.filter(|line| !ours(line.strip_suffix(b"\n").unwrap_or(line)))
                .flatten()
                .copied()
                .collect()
        }
    };
    if rest.is_empty() {
        fs::remove_file(&path).at("could not remove", &path)?;
    } else {
        fsx::write_atomic(&path, &rest)?;
    }
    Ok(lines)
}
