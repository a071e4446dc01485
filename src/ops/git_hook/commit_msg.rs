//! `commit-msg`: every commit of an agent says whose it is.

use crate::agents::ctx::Ctx;
use crate::domain::agent::Agent;
use crate::error::{Error, IoContext, Result};
use crate::git::program;
use std::ffi::OsString;
use std::path::Path;

/// What git puts above the part of the file that is not the message (`commit --verbose`).
const SCISSORS: &str = "------------------------ >8 ------------------------";

/// Adds `Agent-Id` to the message file that git names.
///
/// # Errors
/// `io`, `git-failed`.
pub(super) fn add_trailer(ctx: &Ctx, agent: &Agent, arguments: &[OsString]) -> Result<()> {
    let file = arguments
        .first()
        .ok_or_else(|| Error::bug("git names the message file"))?;
    let file = ctx.absolute(Path::new(file));
    let message = std::fs::read(&file).at("could not read", &file)?;
    let comment = match ctx.repo.config_string("core.commentString")? {
        None => ctx.repo.config_string("core.commentChar")?,
        text => text,
    };
    let comment = comment
        .filter(|mark| mark != "auto")
        .unwrap_or_else(|| "#".to_owned());
    // An empty message is how a person calls a commit off.
    if is_empty(&String::from_utf8_lossy(&message), &comment) {
        return Ok(());
    }
    // Settings for trailers can name programs, and those of the worktree are the agent's.
    program::add_trailer(
        ctx.repo.common_dir(),
        &file,
        &format!("Agent-Id: {}", agent.id),
    )
}

fn is_empty(message: &str, comment: &str) -> bool {
    message
        .lines()
        .take_while(|line| !line.ends_with(SCISSORS))
        .all(|line| line.trim().is_empty() || line.starts_with(comment))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_comments_is_empty() {
        let check = |message: &str, expected: bool| {
            assert_eq!(is_empty(message, "#"), expected, "{message:?}")
        };
        check("", true);
        check("\n# Please enter\n#\n", true);
        check(&format!("\n# {SCISSORS}\ndiff --git a/a b/a\n"), true);
        check("fix it\n# Please enter\n", false);
    }
}
