//! `git agent check`

use crate::agents::Ctx;
use crate::cli::out::terminal::{BAD, BOLD, HINT, paint};
use crate::cli::out::ui::{Answer, Ui};
use crate::domain::Quoted;
use crate::domain::judge::folded_paths::{MOST, folded};
use crate::error::{Code, Error, Exit, Result};
use crate::ops::check::{self, CheckReport, Subject};
use crate::wire::output::path_text;
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;

/// Judge changes by an agent's scope; outside an agent's worktree everything is in scope
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct CheckArgs {
    /// Agent instead of the one whose worktree this is: its id, name, branch or worktree
    #[arg(value_name = "AGENT")]
    agent: Option<String>,
    /// Judge the staged changes; the default without AGENT
    #[arg(long, group = "subject")]
    staged: bool,
    /// Judge everything staged, modified or untracked; the default with AGENT
    #[arg(long, group = "subject")]
    worktree: bool,
    /// Judge every commit in a range, each by itself
    #[arg(long, group = "subject", value_name = "A..B")]
    range: Option<String>,
    /// Judge paths before they are written
    #[arg(long, group = "subject", value_name = "PATH", num_args = 1..)]
    path: Vec<OsString>,
    /// Judge the paths on standard input, one per line, quoted as git quotes them
    #[arg(long, group = "subject")]
    stdin: bool,
    /// Paths on standard input end in NUL and are not quoted
    #[arg(short = 'z', requires = "stdin")]
    nul: bool,
}

impl CheckArgs {
    /// Whether a repository that cannot be opened is one that has no agents. A hook for all repositories asks there, too.
    pub(in crate::cli) fn is_of_no_agent(&self, error: &Error) -> bool {
        self.agent.is_none() && error.code() == Code::RepoUnsupportedFormat
    }
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: CheckArgs) -> Result<Exit> {
    let agent = args.agent.clone();
    let report = check::check(ctx, agent.as_deref(), &subject(args)?)?;
    ui.answer(&report)?;
    Ok(if report.in_scope { Exit::Yes } else { Exit::No })
}

fn subject(args: CheckArgs) -> Result<Subject> {
    Ok(match args.range {
        Some(range) => Subject::Range(range),
        None if args.worktree => Subject::Worktree,
        None if args.stdin => Subject::Paths(read_paths(args.nul)?),
        None if !args.path.is_empty() => {
            Subject::Paths(args.path.into_iter().map(OsString::into_vec).collect())
        }
        // Of an agent that is looked at from outside, what it has not staged yet counts as well.
        None if args.agent.is_some() && !args.staged => Subject::Worktree,
        None => Subject::Staged,
    })
}

fn read_paths(nul: bool) -> Result<Vec<Vec<u8>>> {
    let mut input = Vec::new();
    std::io::stdin()
        .read_to_end(&mut input)
        .map_err(|error| Error::io("could not read standard input", error))?;
    if nul {
        return Ok(path_text::ended_by_nul(&input));
    }
    path_text::lines(&input).map_err(|line| {
        Error::new(
            Code::Usage,
            format!("line {line} of standard input begins with a quote and is not quoted as git does it"),
        )
        .hint("to give paths as they are, end each in NUL: git diff --name-only -z | git agent check --stdin -z")
    })
}

impl Answer for CheckReport {
    fn text(&self) -> String {
        if self.in_scope {
            return String::new();
        }
        let count = format!("{} of {} changes", self.violations.len(), self.checked);
        let mut text = format!("{} {count}\n", paint(BAD, "out of scope:"));
        // Of many one is enough as an example; the rest is folded by directories.
        let named = if self.violations.len() > MOST { 1 } else { MOST };
        for violation in self.violations.iter().take(named) {
            let path = Quoted(&violation.path.to_bytes()).to_string();
            let place = match &violation.commit {
                Some(commit) => format!("{} in {}", violation.change, &commit[..7]),
                None => violation.change.to_owned(),
            };
            text.push_str(&format!("  {} ({place})\n", paint(BOLD, &path)));
            text.push_str(&format!("    {}\n", violation.detail));
            text.push_str(&format!("    {} {}\n", paint(HINT, "run:"), violation.fix));
        }
        if let Some(more @ [_, ..]) = self.violations.get(named..) {
            let paths: Vec<_> = more.iter().map(|one| one.path.to_bytes()).collect();
            text.push_str(&format!("and {} more:\n", paths.len()));
            for line in folded(&paths) {
                text.push_str(&format!("  {line}\n"));
            }
        }
        if let (Some(agent), Some(whitelist)) = (&self.agent_id, &self.whitelist) {
            let globs = whitelist.join(" ");
            text.push_str(&format!("agent {} may touch: {globs}\n", &agent[..8]));
        }
        text
    }
}
