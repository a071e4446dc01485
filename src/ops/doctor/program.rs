//! The programs around us: git itself, and the page that `git agent --help` asks for.

use super::Finding;
use super::survey::Survey;
use crate::domain::diagnosis::Sign;
use crate::error::Result;
use crate::git::version::Version;
use crate::ops::Ctx;
use crate::proc::{self, End, Job};
use std::time::Duration;

/// The first git with `merge-tree --write-tree`, which decides whether work merges.
const OLDEST: Version = Version {
    major: 2,
    minor: 38,
};

/// The first git that reads attributes from a commit, and so knows merge drivers without a worktree.
const ATTRIBUTE_SOURCE: Version = Version {
    major: 2,
    minor: 41,
};

/// As git's `builtin/help.c: setup_man_path` looks for a page, without showing it.
const FIND_PAGE: &str = r#"MANPATH="$(git --man-path):$MANPATH" man -w git-agent"#;

/// How long man may take to look.
const LIMIT: Duration = Duration::from_secs(5);

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
    let asked = proc::run(&Job {
        program: ctx.env.require_program()?,
        script: FIND_PAGE,
        directory: ctx.repo.common_dir(),
        limit: LIMIT,
    })?;
    if asked.end != End::Status(0) {
        found.push(Finding::report(
            Sign::ManPageMissing,
            "man finds no page git-agent(1)",
            "git agent help",
        ));
    }
    Ok(found)
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
