//! The programs around us: git itself, man, and the user's shell.

use crate::agents::ctx::Ctx;
use crate::domain::diagnosis::Sign;
use crate::error::Result;
use crate::git::program::Version;
use crate::ops::doctor::Finding;
use crate::ops::doctor::survey::Survey;
use crate::ops::install_shell;
use crate::ops::install_shell::Page;

/// The first git with `merge-tree --write-tree`, which decides whether work merges.
const OLDEST: Version = Version {
    major: 2,
    minor: 38,
};

/// The first git that reads attributes from a commit, and so knows merge drivers without a worktree. 2.41 and 2.42
/// know the setting too, but their `git merge-tree` crashes with it.
const ATTRIBUTE_SOURCE: Version = Version {
    major: 2,
    minor: 43,
};

/// The command that brings pages and completions up to date.
const INSTALL: &str = "git agent setup shell";

pub(super) fn look(ctx: &Ctx, survey: &Survey) -> Result<Vec<Finding>> {
    let mut found = Vec::new();
    match survey.git {
        None => found.push(Finding::report(
            Sign::GitMissing,
            "git does not start",
            "git version",
        )),
        Some(version) if version < OLDEST => found.push(Finding::report(
            Sign::GitTooOld,
            format!("git is of version {}.{}", version.major, version.minor),
            "git version",
        )),
        Some(version) => found.extend(fallback(version)),
    }
    found.extend(page(ctx, survey)?);
    found.extend(completion(ctx, survey));
    Ok(found)
}

/// What `git agent --help` would show.
fn page(ctx: &Ctx, survey: &Survey) -> Result<Option<Finding>> {
    let (sign, what) = match install_shell::find_page(&ctx.env, &survey.shell)? {
        Page::There => return Ok(None),
        Page::Missing => (
            Sign::ManPageMissing,
            "man finds no page git-agent(1)".to_owned(),
        ),
        Page::Outdated(path) => (
            Sign::ManPageOutdated,
            format!("{} is of another version", path.display()),
        ),
    };
    Ok(Some(Finding::report(sign, what, INSTALL)))
}

/// What completes `git agent <TAB>` in the user's own shell.
fn completion(ctx: &Ctx, survey: &Survey) -> Option<Finding> {
    // Only of the shell that the user has: the completion of another one is not missed.
    let shell = ctx.env.shell.as_deref()?.file_name()?.to_str()?;
    let mut files = survey.shell.iter();
    let file = files.find(|file| file.part.as_str() == shell)?;
    let (sign, what) = match install_shell::installed(&ctx.env, file) {
        Some((true, _)) => return None,
        Some((false, path)) => (
            Sign::CompletionOutdated,
            format!("{} is of another version", path.display()),
        ),
        None => (
            Sign::CompletionMissing,
            format!("{shell} has no completion of git agent"),
        ),
    };
    Some(Finding::report(sign, what, format!("{INSTALL} --{shell}")))
}

/// What is done otherwise with a git that is not too old, only older.
fn fallback(version: Version) -> Option<Finding> {
    let cases = [
        (
            Version::CONFIG_HOOKS,
            "agents' worktrees have a hooks directory of their own instead of hooks in the configuration",
        ),
        (
            ATTRIBUTE_SOURCE,
            "merges are judged without .gitattributes, so without merge drivers",
        ),
    ];
    let falls: Vec<_> = cases
        .iter()
        .filter(|(since, _)| version < *since)
        .map(|(since, what)| format!("before {}.{} {what}", since.major, since.minor))
        .collect();
    let git = format!("git is of version {}.{}", version.major, version.minor);
    (!falls.is_empty()).then(|| {
        let what = format!("{git}: {}", falls.join("; "));
        Finding::report(Sign::GitFallsBack, what, "git version")
    })
}
