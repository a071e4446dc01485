//! `git agent gc`

use crate::agents::{Ctx, context::scratch};
use crate::cli::out::render::table::{Cell, Table};
use crate::cli::out::terminal::{BOLD, HINT, paint, width};
use crate::cli::out::ui::{Answer, Ui};
use crate::cli::verbs::discard::not_kept;
use crate::domain::branch_name;
use crate::domain::life::limits::size;
use crate::domain::value::named::size_text;
use crate::domain::work::task::{duration_text, parse_duration};
use crate::error::{Exit, Result};
use crate::ops::discard;
use crate::ops::gc::{self, GcOptions, GcReport};
use serde_json::{Value, json};
use std::time::Duration;

/// Discard the agents that are provably finished; without --yes, only list them
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct GcArgs {
    /// Also discard agents that were rejected this long ago, such as 30d
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    older_than: Option<Duration>,
    /// Also delete salvages, tips and bundles that were kept this long ago, such as 90d
    #[arg(long, value_name = "AGE", value_parser = parse_duration)]
    expire_salvage: Option<Duration>,
    /// Also delete the branches of agents on this remote whose work its target branch has; without a name agent.remote, origin,
    /// or the only one
    ///
    /// A branch is deleted only if it has not moved since it was read. sync does not push it again.
    #[arg(long, value_name = "REMOTE", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    remote: Option<String>,
    /// Discard the oldest first, only until this much disk space is free, such as 20G
    #[arg(long, value_name = "SIZE", value_parser = free_size)]
    until: Option<u64>,
    /// Keep ignored files too
    #[arg(long)]
    with_ignored: bool,
    /// Discard them, instead of only listing them
    #[arg(long, short = 'y', conflicts_with = "dry_run")]
    yes: bool,
    /// Show what would be removed and stop, which is the default
    #[arg(long, short = 'n')]
    dry_run: bool,
}

fn free_size(text: &str) -> Result<u64, String> {
    size(text).ok_or_else(|| format!("`{text}` is no size; write it like 20G or 512M"))
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: &GcArgs) -> Result<Exit> {
    let options = GcOptions {
        older_than: args.older_than,
        expire_salvage: args.expire_salvage,
        until: args.until,
        with_ignored: args.with_ignored,
        remote: args.remote.clone(),
    };
    if !args.yes {
        // Naming them works where the repository cannot be written, too.
        let report = scratch::looking(ctx, |ctx| Ok(gc::plan(ctx, options)?.report(ctx)))?;
        return ui.done(&report);
    }
    let plan = gc::plan(ctx, options)?;
    let report = gc::execute(ctx, plan)?;
    ui.answer(&report)?;
    discard::sweep_later(ctx, &report.doomed);
    Ok(Exit::Yes)
}

impl Answer for GcReport {
    fn text(&self) -> String {
        let mut text = String::new();
        if self.agents.is_empty() {
            text.push_str("(nothing left of any agent)\n");
        } else {
            let mut table = Table::new(vec!["AGENT", "STATE", "ACTION", "WHY"], width());
            for agent in &self.agents {
                table.push(vec![
                    Cell::painted(BOLD, agent.short_id.clone()),
                    Cell::plain(agent.state),
                    Cell::plain(agent.action),
                    Cell::plain(agent.why.clone()),
                ]);
            }
            text.push_str(&table.render());
        }
        if let Some((free, wanted)) = self.free_bytes.zip(self.options.until)
            && free < wanted
        {
            let free = size_text(free);
            text.push_str(&format!(
                "free after this: {free}, less than was asked for; no other agent is provably finished\n"
            ));
        }
        for agent in &self.agents {
            text.extend(not_kept(&agent.not_kept, &format!(" of {}", agent.short_id)));
        }
        let salvage = self.salvage.as_deref().unwrap_or_default();
        if !salvage.is_empty() {
            let mut table = Table::new(vec!["AGENT", "SALVAGE", "KEPT", "COMMITS", "WHY"], width());
            for item in salvage {
                table.push(vec![
                    Cell::painted(BOLD, item.short_id.clone()),
                    Cell::plain(item.action),
                    Cell::plain(item.kept_at.clone()),
                    Cell::plain(item.commits.len().to_string()),
                    Cell::plain(item.why.clone()),
                ]);
            }
            text.push_str(&table.render());
        }
        let debris = [
            ("old directories in the trash", self.trash),
            ("prompts of agents that are over", self.prompts),
            ("agents that are over and hold leases", self.leases),
            ("half-made warm worktrees", self.slots),
            ("unused bases", self.bases.len()),
            ("worktrees of killed checks", self.check_worktrees),
            ("temporary directories of killed commands", self.temporary),
        ];
        for (what, count) in debris.iter().filter(|(_, count)| *count > 0) {
            text.push_str(&format!("{what}: {count}\n"));
        }
        for large in &self.large {
            let size = size_text(large.file.size_bytes);
            text.push_str(&format!(
                "set aside of {}: {size} in {}\n",
                large.short_id, large.file.place
            ));
        }
        for kept in &self.kept {
            text.push_str(&format!("{}\n", kept.sentence()));
        }
        if self.trash > 0 {
            let size = size_text(self.trash_bytes);
            text.push_str(&format!("disk use of the trash: {size}\n"));
        }
        for branch in self.remote.iter().flat_map(|sweep| &sweep.branches) {
            text.push_str(&format!(
                "{} {}: {}\n",
                paint(BOLD, branch_name(&branch.refname)),
                branch.action,
                branch.why
            ));
        }
        let mut there = self.remote.iter().flat_map(|sweep| &sweep.branches);
        let deletable = there.any(|branch| branch.action == "remove");
        let removable = self.agents.iter().any(|agent| agent.action == "remove");
        let expirable = salvage.iter().any(|item| item.action == "expire");
        let left = debris.iter().any(|(_, count)| *count > 0) || self.spawning;
        if self.dry_run && (removable || expirable || deletable || left) {
            let hint = paint(HINT, "to do it:");
            text.push_str(&format!("{hint} git agent gc{} --yes\n", given(&self.options)));
        }
        text
    }

    fn rows(&self) -> Vec<Value> {
        let agents = self.agents.iter().map(|agent| json!(agent));
        let salvage = self.salvage.iter().flatten().map(|item| json!(item));
        agents.chain(salvage).collect()
    }
}

/// The options once more, so that what is done is what was shown.
fn given(options: &GcOptions) -> String {
    let spans =
        [("--older-than", options.older_than), ("--expire-salvage", options.expire_salvage)];
    let with = |(option, span)| Some(format!(" {option} {}", duration_text(span?)));
    let mut words: String = spans.into_iter().filter_map(with).collect();
    // Exactly as many bytes: rounded it would be another limit.
    let until = options.until.map(|bytes| format!(" --until {bytes}"));
    words.extend(until);
    if options.with_ignored {
        words.push_str(" --with-ignored");
    }
    match options.remote.as_deref() {
        None => {}
        Some("") => words.push_str(" --remote"),
        Some(name) => words.push_str(&format!(" --remote={name}")),
    }
    words
}
