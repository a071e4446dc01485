//! When the page of a report would say something else than it did, and opening it.

use crate::agents::Ctx;
use crate::error::{Code, Error, Result};
use crate::ops::board::{BoardRow, BoardWatch};
use crate::ops::list::ListOptions;
use crate::ops::report::{FleetReport, report};
use crate::proc::launch;
use crate::wire::output::sarif::uri;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Making reports takes at most one part in this many of the time, however often something changes.
const SHARE: u32 = 10;

/// Ages go on where nothing else does: so long a page may lag behind.
const OLDEST: Duration = Duration::from_secs(60);

/// Reports that are made again when something changed.
pub struct ReportWatch<'c> {
    ctx: &'c Ctx,
    watch: BoardWatch<'c>,
    rows: Vec<BoardRow>,
    /// When the last one was made, and how long that took.
    made: Option<(Instant, Duration)>,
}

impl<'c> ReportWatch<'c> {
    /// A watch that has made no report yet.
    pub fn new(ctx: &'c Ctx) -> ReportWatch<'c> {
        ReportWatch {
            ctx,
            watch: BoardWatch::new(ctx, ListOptions::default()),
            rows: Vec::new(),
            made: None,
        }
    }

    /// The report, where it would differ from the last one; what a look costs is as for the board.
    ///
    /// # Errors
    /// Those of [`BoardWatch::look`] and of [`report`].
    pub fn renewed(&mut self) -> Result<Option<FleetReport>> {
        let rows: Vec<BoardRow> = self.watch.look()?.rows.into_iter().map(without_ages).collect();
        if let Some((made, cost)) = self.made {
            // A change that comes too soon after a report is found by a later look, because `rows` stay as they were.
            let is_due = made.elapsed() >= cost * SHARE;
            let is_old = !rows.is_empty() && made.elapsed() >= OLDEST;
            if !is_due || (rows == self.rows && !is_old) {
                return Ok(None);
            }
        }
        let begin = Instant::now();
        let report = report(self.ctx)?;
        self.made = Some((Instant::now(), begin.elapsed()));
        // Only now: a report that failed is made again. What changed since the look differs from these rows in the next one.
        self.rows = rows;
        Ok(Some(report))
    }

    /// Makes the report again next time, because the last one was of no use.
    pub fn again(&mut self) {
        self.rows.clear();
        self.made = None;
    }
}

/// What a look found, without what changes from one to the next while nothing happens, and without what no page shows.
fn without_ages(mut row: BoardRow) -> BoardRow {
    row.seconds = 0;
    row.listed.agent.age_seconds = 0;
    row.last_line = None;
    row
}

// The user's program that shows a page.

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
            let program = words.next().map(|name| ctx.trusted_program(name));
            if let Some(program) = program.transpose()?.flatten() {
                let words = words.map(str::to_owned).collect();
                return Ok(Opener { program, words });
            }
        }
        let what = match browser {
            Some(_) => {
                format!("BROWSER is `{}`, and none of its commands was found", commands.join(":"))
            }
            None => format!("no program that opens a page was found: {}", OPENERS.join(", ")),
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
        let mut words: Vec<String> =
            self.words.iter().map(|word| word.replace("%s", &url)).collect();
        if words == self.words {
            words.push(url);
        }
        if beside {
            return launch::open_beside(&self.program, &words);
        }
        let status = launch::open(&self.program, &words, ctx.env.at_terminal)?;
        if status.success() {
            return Ok(());
        }
        let (program, page) = (self.program.display(), page.display());
        let what = format!("{program} did not open the page: {status}");
        Err(Error::new(Code::CommandNotRunnable, what)
            .hint(format!("to open it yourself, it is {page}")))
    }
}
