//! `git agent install-shell`

use super::files;
use crate::agents::ctx::Env;
use crate::cli::style::{BOLD, HINT, WARN, paint};
use crate::cli::ui::{Answer, Ui};
use crate::error::{Exit, Result};
use crate::ops::install_shell::{self, FileAction, Part, PartReport, ShellOptions, ShellReport};
use std::path::PathBuf;

/// Install man pages and completions for this user: git agent --help, git agent <TAB>
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct InstallShellArgs {
    /// Directory with share/man and the like, instead of the user's own
    #[arg(long, value_name = "PREFIX")]
    dir: Option<PathBuf>,
    /// Completion for bash; with any of these four only what is named
    #[arg(long)]
    bash: bool,
    /// Completion for zsh
    #[arg(long)]
    zsh: bool,
    /// Completion for fish
    #[arg(long)]
    fish: bool,
    /// Man pages
    #[arg(long)]
    man: bool,
    /// Show what would be done and stop
    #[arg(long, short = 'n')]
    dry_run: bool,
}

/// Needs no repository.
pub(in crate::cli) fn run(ui: &mut Ui, args: InstallShellArgs) -> Result<Exit> {
    let wanted = [
        (args.bash, Part::Bash),
        (args.zsh, Part::Zsh),
        (args.fish, Part::Fish),
        (args.man, Part::Man),
    ];
    let env = Env::of_process()?;
    let options = ShellOptions {
        prefix: args.dir,
        parts: wanted
            .into_iter()
            .filter_map(|(wanted, part)| wanted.then_some(part))
            .collect(),
    };
    let plan = install_shell::plan(&env, files()?, &options)?;
    let report = if args.dry_run {
        plan.report(&env)
    } else {
        install_shell::execute(&env, plan)?
    };
    ui.done(&report)
}

impl Answer for ShellReport {
    fn text(&self) -> String {
        let mut text: String = self.parts.iter().map(part).collect();
        for advice in &self.advice {
            text.push_str(&format!("{} {advice}\n", paint(HINT, "hint:")));
        }
        text
    }
}

/// `man: … (31 created)`, and those that are not ours.
fn part(part: &PartReport) -> String {
    let label = paint(BOLD, &format!("{}:", part.part));
    let count = |action| {
        part.files
            .iter()
            .filter(|file| file.action == action)
            .count()
    };
    let counts: Vec<_> = [
        FileAction::Created,
        FileAction::Updated,
        FileAction::Unchanged,
    ]
    .into_iter()
    .map(|action| (count(action), action.as_str()))
    .filter(|(count, _)| *count > 0)
    .map(|(count, word)| format!("{count} {word}"))
    .collect();
    let mut text = if counts.is_empty() {
        String::new()
    } else {
        format!("{label} {} ({})\n", part.directory, counts.join(", "))
    };
    let foreign = part.files.iter();
    for file in foreign.filter(|file| file.action == FileAction::Foreign) {
        let warning = paint(WARN, "warning:");
        let (directory, name) = (&part.directory, &file.name);
        text.push_str(&format!(
            "{warning} {directory}/{name} is not ours and stays\n"
        ));
    }
    text
}
