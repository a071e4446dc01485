//! Where shells and man look, and what they find there.

use crate::agents::ctx::Env;
use crate::error::Result;
use crate::ops::install_shell::{Part, ShellFile, place};
use crate::proc::supervisor::TreeBounds;
use crate::proc::{self, End, Job};
use crate::store::fsx;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// As git's `builtin/help.c: setup_man_path` looks for a page, without showing it.
const FIND_PAGE: &str = r#"MANPATH="$(git --man-path):$MANPATH" man -w git-agent"#;

/// How long man may take to look.
const LIMIT: Duration = Duration::from_secs(5);

/// What man finds.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::ops) enum Page {
    /// No page.
    Missing,
    /// The page of another version.
    Outdated(PathBuf),
    /// This version's page, or one that cannot be compared with it.
    There,
}

/// What `git agent --help` would show.
///
/// # Errors
/// `io` when no shell can be started.
pub(in crate::ops) fn find_page(env: &Env, files: &[ShellFile]) -> Result<Page> {
    let asked = proc::run(&Job {
        program: env.require_program()?,
        script: FIND_PAGE,
        directory: &env.directory,
        variables: &[],
        limit: LIMIT,
        bounds: TreeBounds::default(),
        fence: None,
    })?;
    if asked.end != End::Status(0) {
        return Ok(Page::Missing);
    }
    let path = PathBuf::from(asked.output.lines().next().unwrap_or_default());
    let ours = files.iter().find(|file| file.name == "git-agent.1");
    // A page that is compressed was put there by a package, whose business its version is.
    let outdated = path.extension().is_some_and(|ending| ending == "1")
        && ours.is_some_and(|ours| {
            let there = fsx::load_if_there(&path).ok().flatten();
            there.is_some_and(|there| there != ours.content)
        });
    Ok(if outdated {
        Page::Outdated(path)
    } else {
        Page::There
    })
}

/// The completion that the user's own shell finds: whether it is of this version, and where it is; `None`
/// when there is none.
pub(in crate::ops) fn installed(env: &Env, file: &ShellFile) -> Option<(bool, PathBuf)> {
    let mut shares = shares(env);
    // A package has put the program beside these files.
    let beside = env.program.as_deref().and_then(Path::parent);
    shares.extend(
        beside
            .and_then(Path::parent)
            .map(|prefix| prefix.join("share")),
    );
    shares.into_iter().find_map(|share| {
        let path = place(&share, file);
        let content = fsx::load_if_there(&path).ok().flatten()?;
        Some((content == file.content, path))
    })
}

/// What the user still has to do for a shell to find what is below `share`; `None` for nothing.
pub(super) fn advice(env: &Env, share: &Path, part: Part) -> Option<String> {
    let directory = share.join(part.directory());
    let directory = directory.display();
    let known = shares(env).iter().any(|known| known == share);
    match part {
        // man looks beside the directories of PATH, which only it can tell.
        Part::Man if beside_path(env, share) => None,
        Part::Man => Some(format!(
            "if man does not find them, add to your shell's start file: export MANPATH=\"{}:$MANPATH\"",
            share.join("man").display()
        )),
        Part::Bash if known => None,
        Part::Bash => Some(format!(
            "to complete in bash, add to ~/.bashrc: source {directory}/git-agent"
        )),
        Part::Zsh if is_of_system(share) => None,
        Part::Zsh => Some(format!(
            "to complete in zsh, add to ~/.zshrc before compinit: fpath+=({directory})"
        )),
        Part::Fish if known => None,
        Part::Fish => Some(format!(
            "to complete in fish, add to config.fish: set -a fish_complete_path {directory}"
        )),
    }
}

/// What makes a shell know the function that goes to an agent's worktree; `None` for man pages.
pub(super) fn function(share: &Path, part: Part) -> Option<String> {
    let (file, start) = match part {
        Part::Bash => ("agent-cd", "~/.bashrc"),
        Part::Zsh => ("agent-cd.zsh", "~/.zshrc"),
        Part::Fish => ("agent-cd.fish", "config.fish"),
        Part::Man => return None,
    };
    let file = share.join(part.directory()).join(file);
    Some(format!(
        "to have agent-cd <agent>, which goes to an agent's worktree, in {}, add to {start}: source {}",
        part.as_str(),
        file.display()
    ))
}

/// Where shells look: the user's data directory and the system's.
fn shares(env: &Env) -> Vec<PathBuf> {
    let mut shares: Vec<_> = env.data_home().into_iter().collect();
    match env.data_dirs.as_slice() {
        [] => shares.extend(["/usr/local/share", "/usr/share"].map(PathBuf::from)),
        named => shares.extend(named.iter().cloned()),
    }
    shares
}

fn beside_path(env: &Env, share: &Path) -> bool {
    let mut prefixes = env.search.iter().filter_map(|bin| bin.parent());
    prefixes.any(|prefix| prefix.join("share") == share)
}

fn is_of_system(share: &Path) -> bool {
    ["/usr/local/share", "/usr/share"]
        .iter()
        .any(|known| share == Path::new(known))
}
