//! `git agent init`

use super::one_of::one_of;
use super::style::{BOLD, DIM, paint};
use super::ui::{Answer, AsJson, Ui};
use crate::agents::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::hosts;
use crate::hosts::settings::Registration;
use crate::ops::init::{self, InitOptions, InitReport};
use serde_json::Value;

/// Register the scope fence with agent hosts, in their settings files in this worktree
#[derive(Debug, clap::Args)]
pub(super) struct InitArgs {
    /// Agent hosts; without it those that have a directory here
    #[arg(long = "host", value_parser = one_of(hosts::registrations().map(|known| known.host), parse_host), value_delimiter = ',', value_name = "HOST")]
    hosts: Vec<Registration>,
    /// Also make the worktrees that a host wants for its subagents
    #[arg(long)]
    worktrees: bool,
    /// Also let `git log` show the ledger: git config --add notes.displayRef refs/notes/agents
    #[arg(long)]
    notes: bool,
    /// Also make an alias, git lg by default, for git log --all without the refs and branches of agents
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "lg", require_equals = true)]
    log_alias: Option<String>,
    /// Take it out again; git agent uninstall takes out everything
    #[arg(long)]
    remove: bool,
    /// Show what would be done and stop
    #[arg(long, short = 'n')]
    dry_run: bool,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: InitArgs) -> Result<Exit> {
    let plan = init::plan(
        ctx,
        &InitOptions {
            hosts: args.hosts,
            worktrees: args.worktrees,
            notes: args.notes,
            log_alias: args.log_alias,
            remove: args.remove,
        },
    )?;
    if args.dry_run {
        ui.answer(&Rehearsed(plan.report()))?;
    } else {
        ui.answer(&init::execute(ctx, &plan)?)?;
    }
    Ok(Exit::Yes)
}

fn parse_host(name: &str) -> std::result::Result<Registration, String> {
    let host = hosts::registrations().find(|known| known.host == name);
    host.ok_or_else(|| {
        let names: Vec<_> = hosts::registrations().map(|known| known.host).collect();
        format!("the hosts are {}", names.join(", "))
    })
}

/// What a dry run answers: the same, in the conditional.
struct Rehearsed(InitReport);

impl AsJson for Rehearsed {
    fn json(&self) -> Value {
        self.0.json()
    }
}

impl Answer for Rehearsed {
    fn text(&self) -> String {
        let lines = self.0.text();
        let lines = lines.lines().map(|line| {
            if line.starts_with(' ') {
                format!("{line}\n")
            } else {
                format!("would be {line}\n")
            }
        });
        lines.collect()
    }

    fn rows(&self) -> Vec<Value> {
        self.0.rows()
    }
}

impl Answer for InitReport {
    fn text(&self) -> String {
        let mut text = String::new();
        for host in &self.hosts {
            text.push_str(&format!(
                "{:9} {} {}\n",
                host.action.as_str(),
                paint(BOLD, host.path),
                paint(DIM, &format!("({})", host.host))
            ));
            if let Some(note) = host.note {
                text.push_str(&format!("          {note}\n"));
            }
        }
        let settings = [
            ("notes.displayRef", self.notes),
            ("alias for git log", self.log_alias),
        ];
        for (what, action) in settings {
            if let Some(action) = action {
                text.push_str(&format!("{:9} {}\n", action.as_str(), paint(BOLD, what)));
            }
        }
        text
    }
}
