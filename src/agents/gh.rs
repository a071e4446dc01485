//! `gh`, the command line of GitHub: looked for outside of the repository and started in an empty directory, so that nothing
//! that an agent wrote is read or started.

use crate::agents::ctx::Ctx;
use crate::agents::scratch::Scratch;
use crate::domain::shell;
use crate::error::{Code, Error, IoContext, Result};
use crate::proc::{self, End, Job};
use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What makes the program answer as it does to a pipe, whatever the user has set.
const PLAIN: [(&str, &str); 4] = [
    ("GH_PROMPT_DISABLED", "1"),
    ("GH_FORCE_TTY", ""),
    ("CLICOLOR_FORCE", "0"),
    ("NO_COLOR", "1"),
];

/// The program, with an empty directory to start it in.
pub(crate) struct Gh<'c> {
    ctx: &'c Ctx,
    program: PathBuf,
    scratch: Scratch,
}

impl Gh<'_> {
    /// The program, where it is on the path; none that lies in the repository or in a worktree.
    pub(crate) fn find(ctx: &Ctx) -> Result<Option<Gh<'_>>> {
        let mut inside = vec![ctx.repo.root()?];
        inside.extend(ctx.repo.worktrees()?.into_iter().map(|one| one.path));
        let is_outside = |place: &&PathBuf| {
            let real = fs::canonicalize(place);
            place.is_absolute()
                && real.is_ok_and(|real| !inside.iter().any(|top| real.starts_with(top)))
        };
        let places = ctx.env.search.iter().filter(is_outside);
        let found = places
            .map(|place| place.join("gh"))
            .find(|file| file.is_file());
        let Some(program) = found else {
            return Ok(None);
        };
        let scratch = Scratch::make(ctx, "gh")?;
        Ok(Some(Gh {
            ctx,
            program,
            scratch,
        }))
    }

    /// Where files for the program can be put.
    pub(crate) fn directory(&self) -> &Path {
        self.scratch.path()
    }

    /// What the program writes to standard output.
    ///
    /// # Errors
    /// `remote-refused`, with what it wrote to standard error, where it fails or takes longer than `limit`.
    pub(crate) fn run(&self, words: &[&str], limit: Duration) -> Result<String> {
        let program: &Path = &self.program;
        let mut script = format!("exec {}", shell::quoted(&program.to_string_lossy()));
        for word in words {
            script.push(' ');
            script.push_str(&shell::quoted(word));
        }
        // Only the end of what a job writes is kept, and an answer can be long.
        let answer = self.scratch.path().join("answer");
        script.push_str(" > answer");
        let done = proc::run(&Job {
            program: self.ctx.env.require_program()?,
            script: &script,
            directory: self.scratch.path(),
            variables: &PLAIN.map(|(name, value)| (Cow::Borrowed(name), value.into())),
            limit,
            fence: None,
        })?;
        let command = format!("gh {} {}", words[0], words[1]);
        let what = match done.end {
            End::Status(0) => {
                let answer = fs::read(&answer).at("could not read", &answer)?;
                return Ok(String::from_utf8_lossy(&answer).into_owned());
            }
            End::Status(_) => format!("{command} failed"),
            End::TimedOut => format!("{command} took longer than {} s", limit.as_secs()),
        };
        Err(Error::new(Code::RemoteRefused, what)
            .because(done.output.trim().to_owned())
            .hint("to see whether gh is logged in, run gh auth status"))
    }
}
