//! `git agent setup`: `config`, `pool`, `hooks` and `shell`, which are also verbs of their own.

use crate::agents::Ctx;
use crate::cli::open;
use crate::cli::out::render::table::{Cell, Table, labelled, wrapped};
use crate::cli::out::terminal::{BAD, BOLD, DIM, GOOD, HINT, WARN, paint, width};
use crate::cli::out::ui::{Answer, Ui};
use crate::cli::verbs::shell;
use crate::domain::settings::repository_settings::{PATH, to_commit};
use crate::domain::value::named::size_text;
use crate::error::{Exit, Result};
use crate::ops::config::{self, ConfigReport, uncommitted_settings};
use crate::ops::hooks::{self, HooksReport};
use crate::ops::pool::{self, PoolReport};
use crate::wire::file::settings_file::SettingValue;
use clap::Subcommand;
use serde_json::{Value, json};

/// Show the settings, keep worktrees ready, or install man pages and completions
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct SetupArgs {
    #[command(subcommand)]
    what: Setup,
}

#[derive(Debug, Subcommand)]
enum Setup {
    Config(ConfigArgs),
    Pool(PoolArgs),
    Shell(shell::InstallShellArgs),
}

pub(in crate::cli) fn run(ui: &mut Ui, args: SetupArgs) -> Result<Exit> {
    match args.what {
        Setup::Config(args) => run_config(&open(ui)?, ui, &args),
        Setup::Pool(args) => run_pool(&open(ui)?, ui, &args),
        Setup::Shell(args) => shell::run_install(ui, args),
    }
}

// `git agent config`

/// On fewer characters a line of `config` leaves the default out.
const WIDE: usize = 120;

/// List every setting with its value, its default and where it comes from
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ConfigArgs {
    /// Read the repository's settings from this revision
    #[arg(long, value_name = "REV", default_value = "HEAD")]
    base: String,
}

pub(in crate::cli) fn run_config(ctx: &Ctx, ui: &mut Ui, args: &ConfigArgs) -> Result<Exit> {
    ui.done(&config::config(ctx, &args.base)?)
}

impl Answer for ConfigReport {
    fn text(&self) -> String {
        let header = vec!["SETTING", "VALUE", "FROM", "DEFAULT"];
        // Where there is no room for both, what holds is shown: the value, or else the default.
        let is_narrow = width() < WIDE;
        let mut table = Table::new(header, width()).shrinking("VALUE", 16);
        for setting in &self.settings {
            let default = setting.default.replace('`', "");
            let (style, value) = match &setting.value {
                Some(value) => (BOLD, shown(value)),
                None if is_narrow => (DIM, default.clone()),
                None => (DIM, "-".to_owned()),
            };
            let source = match &setting.overruled_by {
                Some(other) => format!("{}; {other} is stricter", setting.source),
                None => setting.source.clone(),
            };
            table.push(vec![
                Cell::painted(style, setting.key.clone()),
                Cell::plain(value),
                Cell::painted(DIM, source),
                Cell::painted(DIM, if is_narrow { String::new() } else { default }),
            ]);
        }
        let mut text = table.yielding(&["DEFAULT"]).render();
        if self.has_uncommitted {
            let what = format!(
                "{PATH} in the worktree differs from the one that counts; to make it count, run {}",
                to_commit("set git-agent up")
            );
            text.push_str(&hint(&what));
        }
        text
    }

    fn rows(&self) -> Vec<Value> {
        self.settings.iter().map(|setting| json!(setting)).collect()
    }
}

fn hint(text: &str) -> String {
    format!("{}\n", labelled(HINT, "hint:", text, 2, width()))
}

fn shown(value: &SettingValue) -> String {
    match value {
        SettingValue::Flag(flag) => flag.to_string(),
        SettingValue::Text(text) => text.clone(),
        SettingValue::List(items) => items.join(", "),
    }
}

// `git agent hooks`

/// Check and repair the git hooks of agents' worktrees
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct HooksArgs {
    #[command(subcommand)]
    action: SetupAction,
}

#[derive(Debug, Subcommand)]
enum SetupAction {
    /// Check that the hooks are as spawn wrote them; exits with 1 if not
    Status(Which),
    /// Rewrite the hooks
    Repair(Which),
}

#[derive(Debug, clap::Args)]
struct Which {
    /// Agent: its id, name, branch or worktree; every agent when left out
    #[arg(value_name = "AGENT")]
    agent: Option<String>,
}

pub(in crate::cli) fn run_hooks(ctx: &Ctx, ui: &mut Ui, args: &HooksArgs) -> Result<Exit> {
    let report = match &args.action {
        SetupAction::Status(which) => hooks::status(ctx, which.agent.as_deref())?,
        SetupAction::Repair(which) => hooks::repair(ctx, which.agent.as_deref())?,
    };
    ui.answer(&report)?;
    Ok(if report.is_ok() { Exit::Yes } else { Exit::No })
}

impl Answer for HooksReport {
    fn text(&self) -> String {
        if self.agents.is_empty() {
            return "(no agents with a worktree here)\n".to_owned();
        }
        let mut text = String::new();
        for agent in &self.agents {
            let verdict = match (agent.ok, agent.route) {
                (true, Some(route)) => paint(GOOD, &format!("ok ({route})")),
                _ => paint(BAD, "not as they should be"),
            };
            text.push_str(&format!("{} {verdict}\n", paint(BOLD, &agent.agent_id[..8])));
            for problem in &agent.problems {
                let problem = format!("{}: {}", problem.code, problem.message);
                text.push_str(&format!("  {}\n", wrapped(&problem, 4, width())));
            }
        }
        if !self.is_ok() {
            text.push_str("to write them anew, run git agent doctor hooks repair\n");
        }
        text
    }

    fn rows(&self) -> Vec<Value> {
        self.agents.iter().map(|agent| json!(agent)).collect()
    }
}

// `git agent pool`

/// Keep worktrees ready that spawns claim in milliseconds; `[pool] size` in the repository's settings says how many
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct PoolArgs {
    /// Show the pool, fill it, or empty it; a spawn fills it again in the background
    #[arg(value_enum, default_value_t = PoolAction::Status, value_name = "ACTION")]
    action: PoolAction,
    /// Leave it to a process that fills the pool already
    #[arg(long, hide = true)]
    unless_busy: bool,
}

/// What is to be done about the pool.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum PoolAction {
    /// Show it.
    Status,
    /// Make what is missing.
    Fill,
    /// Remove all that is ready.
    Drain,
}

pub(in crate::cli) fn run_pool(ctx: &Ctx, ui: &mut Ui, args: &PoolArgs) -> Result<Exit> {
    let report = match args.action {
        PoolAction::Status => pool::status(ctx)?,
        PoolAction::Fill => pool::fill(ctx, !args.unless_busy)?,
        PoolAction::Drain => pool::drain(ctx)?,
    };
    if let Some(warning) = uncommitted_settings(ctx)? {
        ui.warn(&warning);
    }
    ui.done(&report)
}

impl Answer for PoolReport {
    fn text(&self) -> String {
        let mut text = String::new();
        for (count, verb) in [(self.made, "made"), (self.removed, "removed")] {
            if count > 0 {
                text.push_str(&format!("{verb} {count}\n"));
            }
        }
        for kept in &self.kept {
            text.push_str(&format!("{}\n", kept.sentence()));
        }
        let ready = self.slots.iter().filter(|slot| slot.state == "ready").count();
        let busy = match self.busy {
            0 => String::new(),
            count => format!(", {count} being filled or claimed"),
        };
        let disk: u64 = self.slots.iter().map(|slot| slot.disk_bytes).sum();
        let disk = match disk {
            0 => String::new(),
            disk => format!(", {} of the disk", size_text(disk)),
        };
        text.push_str(&format!("pool of {}: {ready} ready{busy}{disk}\n", self.size));
        if !self.slots.is_empty() {
            let mut table = Table::new(vec!["WORKTREE", "STATE", "COMMIT", "DISK"], width());
            for slot in &self.slots {
                let commit = slot.commit.as_deref().map_or("-", |commit| &commit[..7]);
                let behind =
                    if slot.current || slot.state != "ready" { "" } else { ", to be updated" };
                let pinned = if slot.pinned { ", cannot be moved" } else { "" };
                table.push(vec![
                    Cell::painted(BOLD, slot.name.clone()),
                    Cell::plain(format!("{}{behind}{pinned}", slot.state)),
                    Cell::painted(DIM, commit.to_owned()),
                    Cell::plain(size_text(slot.disk_bytes)),
                ]);
            }
            text.push_str(&table.render());
        }
        if !self.bases.is_empty() {
            let mut table = Table::new(vec!["BASE", "STATE", "COMMIT", "AGENTS", "DISK"], width());
            for base in &self.bases {
                table.push(vec![
                    Cell::painted(BOLD, base.name.clone()),
                    Cell::plain(base.state.to_owned()),
                    Cell::painted(DIM, base.commit.chars().take(7).collect::<String>()),
                    Cell::plain(base.agents.len().to_string()),
                    Cell::plain(size_text(base.disk_bytes)),
                ]);
            }
            text.push_str(&table.render());
        }
        if let Some(failure) = &self.failure {
            let failure = labelled(WARN, "not filled:", failure, 2, width());
            text.push_str(&format!("{failure}\n"));
        }
        text.push_str(&self.hint());
        text
    }

    fn rows(&self) -> Vec<Value> {
        self.slots.iter().map(|slot| json!(slot)).collect()
    }
}

impl PoolReport {
    /// What a warm worktree would take of the disk.
    fn cost(&self) -> String {
        match self.files_bytes {
            Some(bytes) => format!(
                "; each takes about {} of the disk, and what [setup] makes",
                size_text(bytes)
            ),
            None => String::new(),
        }
    }

    fn hint(&self) -> String {
        if self.size == 0 {
            let cost = self.cost();
            return hint(&format!(
                "to keep two worktrees ready, commit [pool] size = 2 in {PATH}{cost}"
            ));
        }
        let ready = self.slots.iter().filter(|slot| slot.state == "ready");
        if ready.count() + self.busy < self.size {
            let cost = self.cost();
            hint(&format!("to fill it now, run git agent setup pool fill{cost}"))
        } else {
            String::new()
        }
    }
}
