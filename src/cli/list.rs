//! `git agent list`

use super::ui::Ui;
use crate::domain::agent::State;
use crate::error::{Exit, Result};
use crate::ops::Ctx;
use crate::ops::list::{self, ListOptions};

/// List agents: what is neither landed nor discarded, oldest first
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// Also list agents that are landed or discarded
    #[arg(long, short)]
    all: bool,
    /// Only agents in this state
    #[arg(long, value_parser = parse_state, value_name = "STATE")]
    state: Option<State>,
    /// Only agents in this role
    #[arg(long, value_name = "NAME")]
    role: Option<String>,
    /// Only agents with a DNA that begins like this: was this task run before?
    #[arg(long, value_name = "DNA")]
    dna: Option<String>,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: ListArgs) -> Result<Exit> {
    let report = list::list(
        ctx,
        &ListOptions {
            all: args.all,
            state: args.state,
            role: args.role,
            dna: args.dna,
        },
    )?;
    ui.answer(&report)?;
    Ok(Exit::Yes)
}

fn parse_state(word: &str) -> std::result::Result<State, String> {
    State::parse(word).ok_or_else(|| {
        let words: Vec<_> = State::ALL.iter().map(|state| state.as_str()).collect();
        format!("the states are {}", words.join(", "))
    })
}
