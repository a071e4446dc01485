//! `git agent init`

use crate::agents::Ctx;
use crate::cli::input::args::one_of;
use crate::cli::out::terminal::{BOLD, DIM, paint};
use crate::cli::out::ui::{Answer, AsJson, Format, Ui};
use crate::domain::settings::repository_settings::{PATH, to_commit};
use crate::error::{Exit, Result};
use crate::hosts;
use crate::hosts::settings::Registration;
use crate::ops::init::{self, InitOptions, InitReport, Proposal, ProposedPart};
use serde_json::Value;
use std::path::PathBuf;

/// Set up git-agent in this repository: propose settings, and register its hooks with agent hosts
///
/// Without options, this inspects the repository (lock files, test scripts, hook managers, tools that crawl the root)
/// and looks for installed hosts, shows what it proposes with its reasons, and writes the settings once you confirm. It
/// registers hooks with the hosts that have a directory here, in their settings files in this worktree.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct InitArgs {
    /// Agent hosts; without it those that have a directory here
    #[arg(long = "host", value_parser = one_of(hosts::registrations().map(|known| known.host), parse_host), value_delimiter = ',', value_name = "HOST")]
    hosts: Vec<Registration>,
    /// Register in your own settings, in your home directory: they apply in every repository and directory
    #[arg(long = "user")]
    of_user: bool,
    /// Also make the worktrees that a host requests for its subagents
    #[arg(long)]
    worktrees: bool,
    /// Also let `git log` show the ledger: git config --add notes.displayRef refs/notes/agents
    #[arg(long)]
    notes: bool,
    /// Also make an alias, git lg by default, for git log --all without the refs and branches of agents
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "lg", require_equals = true)]
    log_alias: Option<String>,
    /// Import messenger-config.yaml of the older kit, once, as [messages] of the settings, and do nothing else
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, conflicts_with_all = ["hosts", "of_user", "worktrees", "notes", "log_alias", "remove"])]
    from_kit: Option<Option<PathBuf>>,
    /// Remove the registration; git agent uninstall removes everything
    #[arg(long)]
    remove: bool,
    /// Write the proposed settings without asking
    #[arg(long, short)]
    yes: bool,
    /// Show what would be done and stop
    #[arg(long, short = 'n')]
    dry_run: bool,
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: InitArgs) -> Result<Exit> {
    let is_kit = args.from_kit.is_some();
    let mut plan = init::plan(
        ctx,
        &InitOptions {
            hosts: args.hosts,
            of_user: args.of_user,
            worktrees: args.worktrees,
            notes: args.notes,
            log_alias: args.log_alias,
            from_kit: args.from_kit,
            remove: args.remove,
            only_ours: false,
        },
    )?;
    if args.dry_run {
        return ui.done(&Rehearsed(plan.report()));
    }
    // What is asked for by its name is done.
    let is_agreed = args.yes || is_kit;
    // Only a person at a terminal is asked; a script gets the proposal and the command that writes
    // it.
    let is_asked = !is_agreed && ui.may_ask();
    let is_agreed = match plan.proposal() {
        Some(proposal) if is_asked && proposal.has_settings() => {
            ui.print(&proposed(proposal))?;
            let is_agreed = ui.ask("Write this?")?;
            if !is_agreed {
                ui.say("the proposal was not written\n");
            }
            is_agreed
        }
        Some(_) => is_agreed,
        None => false,
    };
    let is_refused = is_asked && !is_agreed && plan.proposal().is_some();
    if is_agreed {
        init::accept_proposal(ctx, &mut plan)?;
    }
    if is_kit && ui.format() == Format::Text {
        let taken = plan.proposal().filter(|proposal| !proposal.parts.is_empty());
        let nothing = || "nothing in it differs from the defaults\n".to_owned();
        ui.print(&taken.map_or_else(nothing, proposed))?;
    }
    let mut report = init::execute(ctx, &plan)?;
    if plan.has_nothing() && ui.format() == Format::Text {
        // Neither a file that was refused nor one that is to be removed is there.
        if args.remove {
            ui.print("nothing to remove\n")?;
        }
        if args.remove || is_refused {
            return Ok(Exit::Yes);
        }
    }
    // A person who said no has read it.
    report.proposal = report
        .proposal
        .filter(|proposal| proposal.is_written || !is_asked || !proposal.has_settings());
    ui.done(&report)
}

/// The settings that are proposed, each with its reason, and the file that they make.
fn proposed(proposal: &Proposal) -> String {
    let mut text: String = proposal.parts.iter().map(reasoned).collect();
    if !proposal.file.is_empty() {
        text.push_str(&format!("\n{PATH}:\n"));
        for line in proposal.file.lines() {
            text.push_str(&format!("  {line}\n"));
        }
        text.push('\n');
    }
    text
}

/// A part of a proposal with its reason.
fn reasoned(part: &ProposedPart) -> String {
    let because = paint(DIM, &format!("because {}", part.because));
    format!("{} {}\n  {because}\n", paint(BOLD, &part.setting), part.value)
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
        let proposal = self.0.proposal.as_ref().map(proposed);
        let lines = registered(&self.0);
        let lines = lines.lines().map(|line| {
            if line.starts_with(' ') { format!("{line}\n") } else { format!("would be {line}\n") }
        });
        proposal.into_iter().chain(lines).collect()
    }

    fn rows(&self) -> Vec<Value> {
        self.0.rows()
    }
}

impl Answer for InitReport {
    fn text(&self) -> String {
        let mut text = match &self.proposal {
            Some(proposal) if proposal.is_written => {
                let mut text = String::new();
                if !proposal.file.is_empty() {
                    text.push_str(&format!(
                        "created   {}\n          to make it count, run {}\n",
                        paint(BOLD, PATH),
                        to_commit("set git-agent up")
                    ));
                }
                if let Some(place) = &proposal.worktree_dir {
                    let key = paint(BOLD, "agent.worktreeDir");
                    text.push_str(&format!("created   {key} = {place}\n"));
                }
                text.extend(proposal.by_hand().map(reasoned));
                text
            }
            Some(proposal) if proposal.has_settings() => {
                format!("{}to write it, run git agent init --yes\n", proposed(proposal))
            }
            Some(proposal) => proposed(proposal),
            None => String::new(),
        };
        text.push_str(&registered(self));
        if text.is_empty() {
            let set_up =
                "is there already; to register with an agent host, run git agent init --host";
            text.push_str(&format!("{} {set_up} <host>\n", paint(BOLD, PATH)));
        }
        text
    }
}

/// What becomes of the settings of hosts and of git.
fn registered(report: &InitReport) -> String {
    let mut text = String::new();
    for host in &report.hosts {
        text.push_str(&format!(
            "{:9} {} {}\n",
            host.action.as_str(),
            paint(BOLD, &host.path),
            paint(DIM, &format!("({})", host.host))
        ));
        if let Some(note) = &host.note {
            text.push_str(&format!("          {note}\n"));
        }
    }
    let settings = [("notes.displayRef", report.notes), ("alias for git log", report.log_alias)];
    for (what, action) in settings {
        if let Some(action) = action {
            text.push_str(&format!("{:9} {}\n", action.as_str(), paint(BOLD, what)));
        }
    }
    text
}
