//! `git agent setup`: `config`, `pool` and `shell`, which are also verbs of their own.

use super::ui::Ui;
use super::verbs::open;
use super::{config, pool, shell};
use crate::error::{Exit, Result};
use clap::Subcommand;

/// Show the settings, keep worktrees ready, or install man pages and completions
#[derive(Debug, clap::Args)]
pub(super) struct SetupArgs {
    #[command(subcommand)]
    what: Setup,
}

#[derive(Debug, Subcommand)]
enum Setup {
    Config(config::ConfigArgs),
    Pool(pool::PoolArgs),
    Shell(shell::install::InstallShellArgs),
}

pub(super) fn run(ui: &mut Ui, args: SetupArgs) -> Result<Exit> {
    match args.what {
        Setup::Config(args) => config::run(&open(ui)?, ui, &args),
        Setup::Pool(args) => pool::run(&open(ui)?, ui, &args),
        Setup::Shell(args) => shell::install::run(ui, args),
    }
}
