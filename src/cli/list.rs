//! `git agent list`

use super::render::list::Listing;
use super::ui::{Format, Ui};
use super::watch;
use super::words::one_of;
use crate::agents::ctx::Ctx;
use crate::domain::agent::State;
use crate::error::{Exit, Result};
use crate::ops::list;
use crate::ops::list::ListOptions;
use crate::ops::list::Sort;
use globset::{Glob, GlobMatcher};
use serde_json::json;
use std::time::Duration;

/// List agents and where their work stands: what is neither landed nor discarded, oldest first
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// Also list agents that are landed or discarded
    #[arg(long, short)]
    all: bool,
    /// Only agents in this state
    #[arg(long, value_parser = one_of(State::ALL.iter().map(|state| state.as_str()), parse_state), value_name = "STATE")]
    state: Option<State>,
    /// Only agents in this role
    #[arg(long, value_name = "NAME")]
    role: Option<String>,
    /// Only agents with a DNA that begins like this: was this task run before?
    #[arg(long, value_name = "DNA")]
    dna: Option<String>,
    /// Only agents that this one asked for
    #[arg(long, value_name = "AGENT")]
    parent: Option<String>,
    /// Only agents with a name that matches
    #[arg(long, value_parser = parse_glob, value_name = "GLOB")]
    name: Option<GlobMatcher>,
    /// What to sort by; activity has the latest first
    #[arg(long, value_parser = one_of(Sort::ALL.iter().map(|sort| sort.as_str()), parse_sort), default_value = "age", hide_default_value = true, value_name = "KEY")]
    sort: Sort,
    /// Show what the ledger knows and look into no worktree
    #[arg(long)]
    fast: bool,
    /// Keep the list on the screen and redraw it when something changes; Ctrl-C or q ends it
    #[arg(long, short)]
    watch: bool,
    /// How often --watch looks, in seconds
    #[arg(long, value_parser = parse_interval, default_value = "1", requires = "watch", value_name = "SECONDS")]
    interval: Duration,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: ListArgs) -> Result<Exit> {
    let options = ListOptions {
        all: args.all,
        state: args.state,
        role: args.role,
        dna: args.dna,
        parent: args.parent,
        name: args.name,
        sort: args.sort,
        fast: args.fast,
    };
    if args.watch {
        return watch::run(ctx, ui, options, args.interval);
    }
    match ui.format() {
        Format::Ndjson => list::each(ctx, &options, |agent| ui.row(&json!(agent)))?,
        Format::Text => {
            let mut listing = Listing::new();
            let overlaps = list::all(ctx, &options, |agent| listing.push(&agent))?;
            listing.add(&overlaps);
            ui.print(&listing.text())?;
        }
        Format::Json | Format::Sarif => ui.answer(&list::list(ctx, &options)?)?,
    }
    Ok(Exit::Yes)
}

fn parse_state(word: &str) -> std::result::Result<State, String> {
    let words = State::ALL.iter().map(|state| state.as_str());
    State::parse(word).ok_or_else(|| choices("states", words))
}

fn parse_sort(word: &str) -> std::result::Result<Sort, String> {
    let words = Sort::ALL.iter().map(|sort| sort.as_str());
    Sort::parse(word).ok_or_else(|| choices("keys", words))
}

fn choices<'a>(what: &str, words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<_> = words.collect();
    format!("the {what} are {}", words.join(", "))
}

fn parse_glob(text: &str) -> std::result::Result<GlobMatcher, String> {
    let glob = Glob::new(text).map_err(|error| error.kind().to_string())?;
    Ok(glob.compile_matcher())
}

fn parse_interval(text: &str) -> std::result::Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| *seconds >= 0.1);
    let interval = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    interval.ok_or_else(|| "it takes a number of seconds, 0.1 or more".to_owned())
}
