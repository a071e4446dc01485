//! `git agent discard`

use crate::agents::Ctx;
use crate::cli::input::several::AgentsArg;
use crate::cli::out::terminal::{BOLD, HINT, paint};
use crate::cli::out::ui::{Answer, Ui};
use crate::domain::{Isolation, Quoted};
use crate::error::{Exit, Result};
use crate::ops::discard::{self, DiscardOptions, DiscardReport, NotKept};
use crate::wire::output::path_text::PathText;

/// Remove an agent's worktree and branch; everything in them but ignored files is kept for `rescue`
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct DiscardArgs {
    #[command(flatten)]
    agents: AgentsArg,
    /// Keep ignored files too; without it they are listed and deleted
    #[arg(long)]
    with_ignored: bool,
    /// Discard an agent of another clone too, whose files cannot be kept here
    #[arg(long)]
    force: bool,
    /// Do not run before_discard of the repository's [hooks]
    #[arg(long)]
    no_hooks: bool,
    /// Show what would be removed and stop
    #[arg(long, short = 'n')]
    dry_run: bool,
}

/// Delete what discarded worktrees left in the trash
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct SweepArgs {
    /// Names in the trash
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: &DiscardArgs) -> Result<Exit> {
    let options = DiscardOptions {
        with_ignored: args.with_ignored,
        force: args.force,
        no_hooks: args.no_hooks,
        ..DiscardOptions::default()
    };
    if args.dry_run {
        let rehearse = |agent: &str| discard::rehearse(ctx, agent, options);
        return args.agents.each(ctx, ui, rehearse);
    }
    let mut trash = Vec::new();
    let exit = args.agents.all(ctx, ui, |agents, on| {
        discard::discard_each(ctx, agents, options, &mut |done| {
            trash.extend(done.iter().flat_map(|report| report.trash.iter().cloned()));
            on(done);
        });
    });
    // The directories are out of the way already. Deleting their files is what takes long, and the
    // user need not wait for that.
    discard::sweep_later(ctx, &trash);
    exit
}

pub(in crate::cli) fn run_sweep(ctx: &Ctx, args: &SweepArgs) -> Exit {
    discard::sweep(ctx, &args.names);
    Exit::Yes
}

impl Answer for DiscardReport {
    fn text(&self) -> String {
        let id = paint(BOLD, &self.agent.short_id);
        let verb = match (self.was_discarded, self.dry_run) {
            (true, _) => "had already discarded",
            (false, true) => "would discard",
            (false, false) => "discarded",
        };
        let mut text = format!("{verb} {id}\n");
        if let (true, Some(path)) = (self.removes_worktree, &self.agent.worktree_path) {
            text.push_str(&format!("  worktree {path}\n"));
        }
        if let (true, Some(branch)) = (self.deletes_branch, &self.agent.branch) {
            // One that leads to another ref has no tip of its own.
            let tip = self.tip.as_deref().map(|tip| format!(" at {}", &tip[..7]));
            text.push_str(&format!("  branch {branch}{}\n", tip.unwrap_or_default()));
        }
        for (what, oid) in
            [("uncommitted work", &self.salvage_commit), ("bundle", &self.bundle_commit)]
        {
            if let Some(oid) = oid {
                text.push_str(&format!("  kept {what} as {}\n", &oid[..7]));
            }
        }
        if !self.other_commits.is_empty() {
            let shown: Vec<&str> = self.other_commits.iter().take(5).map(|oid| &oid[..7]).collect();
            let (count, shown) = (self.other_commits.len(), shown.join(" "));
            let noun = if count == 1 { "commit" } else { "commits" };
            text.push_str(&format!(
                "  kept {count} {noun} that its branch lacks; to see them, run git log --no-walk {shown}\n"
            ));
        }
        if !self.set_aside.is_empty() {
            let verb = if self.dry_run { "would be set" } else { "set" };
            let paths: Vec<_> = self.set_aside.iter().map(|file| file.path.clone()).collect();
            text.push_str(&format!("  {verb} aside, because above 64 MiB: {}\n", first_of(&paths)));
        }
        for line in not_kept(&self.not_kept, "") {
            text.push_str(&format!("  {line}"));
        }
        for warning in &self.warnings {
            text.push_str(&format!("  warning: {warning}\n"));
        }
        // Of an agent of another clone there may be nothing here that was put away.
        let is_put_away = self.removes_worktree
            || self.deletes_branch
            || self.salvage_commit.is_some()
            || self.bundle_commit.is_some();
        if !self.dry_run && (is_put_away || self.was_discarded && !self.was_never_ready) {
            // An agent without a branch leaves no commit that one could be made of.
            let is_shared = self.agent.isolation == Some(Isolation::Shared.as_str());
            text.push_str(&format!(
                "{} git agent rescue {}{}\n",
                paint(HINT, "to have it back:"),
                self.agent.short_id,
                if is_shared { " --reopen" } else { "" }
            ));
        }
        text
    }

    fn to_see_it(&self) -> Option<String> {
        (!self.dry_run).then(|| format!("git agent show {}", self.agent.agent_id))
    }
}

/// What is not kept `of` an agent and why, a line for each reason.
pub(in crate::cli) fn not_kept(not_kept: &NotKept, of: &str) -> impl Iterator<Item = String> {
    const KEEP: &str = " (--with-ignored keeps them)";
    let reasons = [
        ("because ignored", &not_kept.ignored, KEEP),
        ("because [setup] made it", &not_kept.setup, KEEP),
        ("because it is no file", &not_kept.special, ""),
    ];
    let reasons = reasons.into_iter().filter(|(_, paths, _)| !paths.is_empty());
    reasons.map(move |(why, paths, advice)| {
        let paths = first_of(paths);
        format!("not kept{of}, {why}: {paths}{advice}\n")
    })
}

/// The first few of many paths, and how many more there are.
fn first_of(paths: &[PathText]) -> String {
    const NAMED: usize = 5;
    let name = |path: &PathText| Quoted(&path.to_bytes()).to_string();
    let named: Vec<_> = paths.iter().take(NAMED).map(name).collect();
    match paths.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
