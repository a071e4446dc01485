//! `git agent hook`: what git and agent hosts call.

use super::host_hook::{self, HostHook};
use super::ui::Ui;
use crate::agents::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::ops::git_hook;
use clap::Subcommand;
use std::ffi::OsString;

/// Answer a hook (internal: called by git and agent hosts)
#[derive(Debug, clap::Args)]
pub(super) struct HookArgs {
    #[command(subcommand)]
    caller: Caller,
}

#[derive(Debug, Subcommand)]
enum Caller {
    Git(GitHookArgs),
    #[command(flatten)]
    Host(HostHook),
}

/// Answer a hook of git in an agent's worktree; elsewhere say yes
#[derive(Debug, clap::Args)]
struct GitHookArgs {
    /// Hook's name, such as pre-commit
    #[arg(value_name = "HOOK")]
    name: String,
    /// What git passes to the hook
    #[arg(
        value_name = "ARG",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    arguments: Vec<OsString>,
}

/// Runs before any repository is opened: a hook is called in places that have none.
pub(super) fn run(ui: &mut Ui, args: HookArgs) -> Result<Exit> {
    match args.caller {
        Caller::Git(args) => run_git(ui, &args),
        Caller::Host(hook) => host_hook::run(ui, hook),
    }
}

fn run_git(ui: &mut Ui, args: &GitHookArgs) -> Result<Exit> {
    let ctx = match Ctx::of_process() {
        Err(error) if git_hook::may_pass(&args.name) => {
            ui.warn(&format!("the {} hook could not judge: {error}", args.name));
            return Ok(Exit::Yes);
        }
        other => other?,
    };
    let call = git_hook::Call {
        name: &args.name,
        arguments: &args.arguments,
        input: &mut std::io::stdin(),
        warn: &mut |text| ui.warn(text),
    };
    git_hook::run(&ctx, call)
}
