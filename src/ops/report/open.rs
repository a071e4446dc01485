//! The user's program that shows a page.

use crate::agents::ctx::Ctx;
use crate::agents::trusted_program;
use crate::error::{Code, Error, Result};
use crate::proc::opener;
use crate::wire::sarif::uri;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What systems call the program that opens a file with what the user chose for its kind.
const OPENERS: [&str; 2] = ["xdg-open", "open"];

/// A program that opens pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opener {
    program: PathBuf,
    /// Its arguments; `%s` stands for the page, which comes last where that is not in it.
    words: Vec<String>,
}

impl Opener {
    /// The first command of `BROWSER` that exists, and without that variable the system's own.
    ///
    /// # Errors
    /// `command-not-found`; those of listing worktrees.
    pub fn require(ctx: &Ctx) -> Result<Opener> {
        let browser = ctx.env.browser.as_deref().filter(|text| !text.is_empty());
        let commands: Vec<&str> = match browser {
            Some(commands) => commands.split(':').collect(),
            None => OPENERS.to_vec(),
        };
        for command in &commands {
            let mut words = command.split_whitespace();
            let program = words.next().map(|name| trusted_program::find(ctx, name));
            if let Some(program) = program.transpose()?.flatten() {
                let words = words.map(str::to_owned).collect();
                return Ok(Opener { program, words });
            }
        }
        let what = match browser {
            Some(_) => format!(
                "BROWSER is `{}`, and none of its commands was found",
                commands.join(":")
            ),
            None => format!(
                "no program that opens a page was found: {}",
                OPENERS.join(", ")
            ),
        };
        Err(Error::new(Code::CommandNotFound, what).hint(
            "to have the page without opening it, leave out --open; to name a program, set BROWSER",
        ))
    }

    /// Opens the page, and waits until the program has it unless `beside`.
    ///
    /// # Errors
    /// `command-not-runnable` where the program did not open it.
    pub fn open(&self, ctx: &Ctx, page: &Path, beside: bool) -> Result<()> {
        // A page's path may hold what means something in a command of `BROWSER` or to a browser, such as `#`.
        let url = format!("file://{}", uri(page.as_os_str().as_bytes()));
        let mut words: Vec<String> = { self.words.iter() }
            .map(|word| word.replace("%s", &url))
            .collect();
        if words == self.words {
            words.push(url);
        }
        if beside {
            return opener::open_beside(&self.program, &words);
        }
        let status = opener::open(&self.program, &words, ctx.env.at_terminal)?;
        if status.success() {
            return Ok(());
        }
        let (program, page) = (self.program.display(), page.display());
        let what = format!("{program} did not open the page: {status}");
        Err(Error::new(Code::CommandNotRunnable, what)
            .hint(format!("to open it yourself, it is {page}")))
    }
}
