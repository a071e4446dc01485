//! The script that stands in the place of git's programs, and where it lies.
//!
//! ```text
//! <place>/bin/git     the script for git, by its name on PATH
//! <place>/<k>.sh      the script for one program of this machine, mounted over it
//! <place>/<k>/git     the program itself, mounted there so that the script can become it
//! ```

use crate::domain::life::sandbox::GitGuard;
use crate::domain::value::shell;
use std::fs::{self, OpenOptions};
use std::io::{Result, Write};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

/// What stands in the place of git.
const SCRIPT: &str = include_str!("../../../hooks/fence/git");

/// The helper for URLs that nothing can be pushed to.
pub const NOWHERE: &str = "push-refused-by-git-agent";

/// A program that has a script in its place.
pub struct GuardedProgram {
    /// The program.
    pub(super) original: PathBuf,
    /// An empty file on which it is mounted.
    pub(super) kept: PathBuf,
    /// What stands in its place.
    pub(super) script: PathBuf,
}

/// Writes the scripts to the place of the guard, an empty directory.
///
/// # Errors
/// Those of making and writing files.
pub fn write_guard(guard: &GitGuard, is_layered: bool) -> Result<Vec<GuardedProgram>> {
    let bin = guard.search();
    fs::create_dir(&bin)?;
    let mut programs = Vec::new();
    for (index, original) in guard.programs.iter().enumerate() {
        // The kernel names a process after its file, and the script asks whether its parent is git.
        let kept = guard.place.join(index.to_string()).join("git");
        fs::create_dir(kept.parent().unwrap_or(&bin))?;
        fs::write(&kept, "")?;
        let script = guard.place.join(format!("{index}.sh"));
        let text = text(guard, is_layered, original, &kept);
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o555);
        file.open(&script)?.write_all(text.as_bytes())?;
        programs.push(GuardedProgram { original: original.clone(), kept, script });
    }
    if let Some(first) = programs.first() {
        for name in ["git", &format!("git-remote-{NOWHERE}")] {
            symlink(&first.script, bin.join(name))?;
        }
    }
    Ok(programs)
}

fn text(guard: &GitGuard, is_layered: bool, original: &Path, kept: &Path) -> String {
    let word = shell::path;
    let yes = |is: bool| if is { "yes" } else { "" };
    let is_git = original.file_name().is_some_and(|name| name == "git");
    SCRIPT
        .replace("@is_git@", yes(is_git))
        .replace("@real@", &word(kept))
        .replace("@original@", &word(original))
        .replace("@tries@", &word(&guard.tries))
        .replace("@agent@", &guard.agent)
        .replace("@layered@", yes(is_layered))
}
