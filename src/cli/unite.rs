//! `git agent unite`

use super::one_of::some_words;
use super::ui::{Answer, Ui};
use crate::agents::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::ops::unite::{self, UniteReport};

/// Unite ledger, mailbox and what is kept with the copies fetched from a remote; no network is used
#[derive(Debug, clap::Args)]
pub(super) struct UniteArgs {
    /// Remote, as in `refs/notes/<remote>/agents`
    #[arg(default_value = "origin", value_parser = some_words)]
    remote: String,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: &UniteArgs) -> Result<Exit> {
    ui.done(&unite::unite(ctx, &args.remote)?)
}

impl Answer for UniteReport {
    fn text(&self) -> String {
        let line = |united: &crate::ops::unite::UnitedReport| {
            let to = &united.to[..7];
            match &united.from {
                Some(from) if *from == united.to => {
                    format!("{} has it all at {to}\n", united.refname)
                }
                Some(from) => format!("{} {} -> {to}\n", united.refname, &from[..7]),
                None => format!("{} begins at {to}\n", united.refname),
            }
        };
        self.refs.iter().map(line).collect()
    }
}
