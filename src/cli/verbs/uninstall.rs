//! `git agent uninstall`

use crate::agents::Ctx;
use crate::cli::out::render::counted;
use crate::cli::out::terminal::{BOLD, DIM, HINT, WARN, paint};
use crate::cli::out::ui::{Answer, Ui};
use crate::error::{Exit, Result};
use crate::ops::uninstall::{self, Lost, UninstallOptions, UninstallReport};
use serde_json::{Value, json};

/// Remove from this repository what git-agent put into it; without --yes, only list it
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct UninstallArgs {
    /// Also remove the ledger, the messages and the kept work of agents, for good
    #[arg(long)]
    ledger: bool,
    /// Remove it, instead of only listing it
    #[arg(long, short = 'y', conflicts_with = "dry_run")]
    yes: bool,
    /// Show what would be removed and stop, which is the default
    #[arg(long, short = 'n')]
    dry_run: bool,
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: &UninstallArgs) -> Result<Exit> {
    let options = UninstallOptions { ledger: args.ledger };
    let report =
        if args.yes { uninstall::execute(ctx, options)? } else { uninstall::plan(ctx, options)? };
    ui.done(&report)
}

impl Answer for UninstallReport {
    fn text(&self) -> String {
        let mut text = String::new();
        let (removed, lost) =
            if self.dry_run { ("would remove", "would be lost") } else { ("removed", "lost") };
        for item in &self.items {
            let line = match item.why {
                None => format!("{removed} {} {}\n", item.kind, paint(BOLD, &item.what)),
                Some(why) => format!(
                    "keeps {} {} {}\n",
                    item.kind,
                    item.what,
                    paint(DIM, &format!("({why})"))
                ),
            };
            text.push_str(&line);
        }
        for kept in &self.kept {
            text.push_str(&format!("{}\n", kept.sentence()));
        }
        let (mut words, options) = (self.lost.words(), self.options());
        if !words.is_empty() {
            words.insert_str(0, &format!("{} ", paint(WARN, &format!("{lost}:"))));
            text.push_str(&format!("{words}\n"));
        }
        if self.items.is_empty() {
            text.push_str("(nothing of git-agent is in this repository)\n");
        } else if self.dry_run {
            let hint = paint(HINT, "to do it:");
            text.push_str(&format!("{hint} git agent uninstall{options} --yes\n"));
        }
        text
    }

    fn rows(&self) -> Vec<Value> {
        self.items.iter().map(|item| json!(item)).collect()
    }
}

impl UninstallReport {
    /// The options once more, so that what is done is what was shown.
    fn options(&self) -> &'static str {
        let mut refs = self.items.iter().filter(|item| item.kind == "ref");
        if refs.any(|item| item.action == "remove") { " --ledger" } else { "" }
    }
}

impl Lost {
    /// The counts that are not zero.
    fn words(&self) -> String {
        let counts = [
            counted(self.logs, "log", " of runs"),
            counted(self.tasks, "task", " that retry would spawn again"),
            counted(self.rows, "row", " of the ledger"),
            counted(self.kept_commits, "commit", " that rescue would give back"),
        ];
        let mut words: Vec<String> = counts.into_iter().filter(|words| !words.is_empty()).collect();
        words.extend(self.messages.then(|| "all messages".to_owned()));
        // These are in no commit.
        words.extend(self.set_aside.iter().map(|place| format!("what was set aside in {place}")));
        words.join(", ")
    }
}
