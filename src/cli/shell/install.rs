//! `git agent install-shell`

use super::files;
use crate::agents::ctx::Env;
use crate::cli::ui::Ui;
use crate::error::{Exit, Result};
use crate::ops::install_shell;
use crate::ops::install_shell::Part;
use crate::ops::install_shell::ShellOptions;
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
    let report = match args.dry_run {
        true => plan.report(&env),
        false => install_shell::execute(&env, plan)?,
    };
    ui.answer(&report)?;
    Ok(Exit::Yes)
}
