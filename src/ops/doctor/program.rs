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
        Some(_) => {}
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
