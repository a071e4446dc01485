//! How a removal looks.

use crate::cli::style::{BOLD, HINT, paint};
use crate::cli::ui::Answer;
use crate::domain::path::Quoted;
use crate::ops::discard::DiscardReport;
use crate::ops::discard::NotKept;
use crate::ops::rescue::RescueReport;
use crate::wire::path_text::PathText;
use serde_json::{Value, json};

impl Answer for DiscardReport {
    fn text(&self) -> String {
        let id = paint(BOLD, &self.agent.short_id);
        let verb = match self.dry_run {
            true => "would discard",
            false => "discarded",
        };
        let mut text = format!("{verb} {id}\n");
        if let (true, Some(path)) = (self.removes_worktree, &self.agent.worktree_path) {
            text.push_str(&format!("  worktree {path}\n"));
        }
        if let (true, Some(branch)) = (self.deletes_branch, &self.agent.branch) {
            let tip = self.tip_oid.as_deref().map_or("", |tip| &tip[..7]);
            text.push_str(&format!("  branch {branch} at {tip}\n"));
        }
        for (what, oid) in [
            ("uncommitted work", &self.salvage_oid),
            ("bundle", &self.bundle_oid),
        ] {
            if let Some(oid) = oid {
                text.push_str(&format!("  kept {what} as {}\n", &oid[..7]));
            }
        }
        for line in not_kept(&self.not_kept, "") {
            text.push_str(&format!("  {line}"));
        }
        if !self.dry_run {
            text.push_str(&format!(
                "{} git agent rescue {}\n",
                paint(HINT, "to have it back:"),
                self.agent.short_id
            ));
        }
        text
    }

    fn to_see_it(&self) -> Option<String> {
        (!self.dry_run).then(|| format!("git agent show {}", self.agent.agent_id))
    }

    fn json(&self) -> Value {
        json!(self)
    }
}

/// What is not kept `of` an agent and why, a line for each reason.
pub(super) fn not_kept(not_kept: &NotKept, of: &str) -> impl Iterator<Item = String> {
    let reasons = [
        ("because ignored", &not_kept.ignored),
        ("because [setup] made it", &not_kept.setup),
    ];
    let reasons = reasons.into_iter().filter(|(_, paths)| !paths.is_empty());
    reasons.map(move |(why, paths)| {
        let paths = first_of(paths);
        format!("not kept{of}, {why}: {paths} (--with-ignored keeps them)\n")
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

impl Answer for RescueReport {
    fn text(&self) -> String {
        let id = paint(BOLD, &self.agent.short_id);
        match (&self.rescued_branch, &self.rescued_directory) {
            (Some(branch), _) => {
                let mut text = format!("rescued {id} as branch {branch}\n");
                if self.bundle_oid.is_some() {
                    text.push_str(&format!(
                        "{} git agent rescue {} --to <directory>\n",
                        paint(HINT, "to have its bundle too:"),
                        self.agent.short_id
                    ));
                }
                text
            }
            (None, Some(directory)) => format!("rescued {id} into {directory}\n"),
            (None, None) => String::new(),
        }
    }

    fn to_see_it(&self) -> Option<String> {
        Some(format!("git agent log {}", self.agent.agent_id))
    }

    fn json(&self) -> Value {
        json!(self)
    }
}
