//! `git agent pool`

use super::render::table::{Cell, Table};
use super::style::{BOLD, DIM, HINT, WARN, paint};
use super::terminal::width;
use super::ui::{Answer, Ui};
use crate::agents::ctx::Ctx;
use crate::domain::named::size_text;
use crate::domain::repository_settings::PATH;
use crate::error::{Exit, Result};
use crate::ops::config::uncommitted_settings;
use crate::ops::pool::{self, PoolReport};
use serde_json::{Value, json};

/// Keep worktrees ready that spawns claim in milliseconds; `[pool] size` in the repository's settings says how many
#[derive(Debug, clap::Args)]
pub(super) struct PoolArgs {
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

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: &PoolArgs) -> Result<Exit> {
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
        let ready = self
            .slots
            .iter()
            .filter(|slot| slot.state == "ready")
            .count();
        let busy = match self.busy {
            0 => String::new(),
            count => format!(", {count} being filled or claimed"),
        };
        let disk: u64 = self.slots.iter().map(|slot| slot.disk_bytes).sum();
        let disk = match disk {
            0 => String::new(),
            disk => format!(", {} of the disk", size_text(disk)),
        };
        text.push_str(&format!(
            "pool of {}: {ready} ready{busy}{disk}\n",
            self.size
        ));
        if !self.slots.is_empty() {
            let mut table = Table::new(vec!["WORKTREE", "STATE", "COMMIT", "DISK"], width());
            for slot in &self.slots {
                let commit = slot.commit.as_deref().map_or("-", |commit| &commit[..7]);
                let behind = if slot.current || slot.state != "ready" {
                    ""
                } else {
                    ", to be updated"
                };
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
            text.push_str(&format!("{} {failure}\n", paint(WARN, "not filled:")));
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
        let hint = paint(HINT, "hint:");
        if self.size == 0 {
            return format!(
                "{hint} to keep two worktrees ready, commit [pool] size = 2 in {PATH}{}\n",
                self.cost()
            );
        }
        let ready = self.slots.iter().filter(|slot| slot.state == "ready");
        if ready.count() + self.busy < self.size {
            format!(
                "{hint} to fill it now, run git agent setup pool fill{}\n",
                self.cost()
            )
        } else {
            String::new()
        }
    }
}
