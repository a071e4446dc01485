//! Verbs that take one agent or several: how they are named, and one answer for all of them.

use super::args::{current, states};
use crate::agents::Ctx;
use crate::cli::out::ui::{Answer, AsJson, Format, Ui, error_object};
use crate::domain::State;
use crate::error::{Error, Exit, Result};
use crate::ops::list::{self, ListOptions};
use crate::wire::put;
use serde_json::{Value, json};

/// How one agent or several are named on the command line.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct AgentsArg {
    /// Agents: ids or prefixes of 4 digits or more, names, branches or worktrees; without one, the agent whose worktree
    /// this is
    #[arg(value_name = "AGENT", conflicts_with = "state")]
    agents: Vec<String>,
    /// Every agent in this state
    #[arg(long, value_parser = states(), value_name = "STATE")]
    state: Option<State>,
}

impl AgentsArg {
    /// As if `--state` had named them.
    pub(in crate::cli) fn of(state: State) -> AgentsArg {
        AgentsArg { agents: Vec::new(), state: Some(state) }
    }

    /// Does it to each agent that is meant, one after the other; as [`AgentsArg::all`].
    ///
    /// # Errors
    /// For a single agent, the error of `act`.
    pub(in crate::cli) fn each<A: Answer>(
        &self,
        ctx: &Ctx,
        ui: &mut Ui,
        mut act: impl FnMut(&str) -> Result<A>,
    ) -> Result<Exit> {
        self.all(ctx, ui, |names, on| {
            for (index, name) in names.iter().enumerate() {
                let what = format!("agent {} of {}", index + 1, names.len());
                let activity = (names.len() > 1).then(|| ctx.activity(&what));
                let done = act(name);
                drop(activity);
                on(done);
            }
        })
    }

    /// Does it to all agents that are meant, by their names; `act` tells of each in the order of the names. One that fails
    /// does not stop the others; the status is that of the first that failed. A single agent is answered as ever, several
    /// are one document.
    ///
    /// # Errors
    /// For a single agent, what is told of it.
    pub(in crate::cli) fn all<A: Answer>(
        &self,
        ctx: &Ctx,
        ui: &mut Ui,
        act: impl FnOnce(&[String], &mut dyn FnMut(Result<A>)),
    ) -> Result<Exit> {
        let named = match self.state {
            Some(state) => in_state(ctx, state)?,
            None if self.agents.is_empty() => vec![current(ctx, ui)?],
            None => self.agents.clone(),
        };
        // What `--state` finds is one agent today and three tomorrow, so a script gets the batch
        // for one too.
        if let (None, [_]) = (self.state, named.as_slice()) {
            let mut only = None;
            act(&named, &mut |done| only = Some(done));
            if let Some(done) = only {
                ui.answer(&done?)?;
            }
            return Ok(Exit::Yes);
        }
        let mut batch = SeveralAnswer::default();
        let mut exit = Exit::Yes;
        let mut names = named.iter();
        act(&named, &mut |done| {
            if let Err(error) = &done {
                if exit == Exit::Yes {
                    exit = error.code().exit();
                }
                // In JSON the error is an item of the answer.
                if ui.format() == Format::Text {
                    let _ = ui.fail(error);
                }
            }
            batch.push(names.next().map_or("", String::as_str), done);
        });
        ui.answer(&batch)?;
        Ok(exit)
    }
}

pub(in crate::cli) fn in_state(ctx: &Ctx, state: State) -> Result<Vec<String>> {
    let options =
        ListOptions { all: true, fast: true, state: Some(state), ..ListOptions::default() };
    let agents = list::list(ctx, &options)?.agents.into_iter();
    Ok(agents.map(|row| row.agent.agent_id).collect())
}

/// What became of several agents, in the order they were named.
#[derive(Default)]
pub(in crate::cli) struct SeveralAnswer {
    items: Vec<Value>,
    texts: String,
    failed: usize,
}

impl SeveralAnswer {
    pub(in crate::cli) fn push<A: Answer>(&mut self, name: &str, done: Result<A, Error>) {
        self.items.push(item(name, &done));
        match &done {
            Ok(answer) => self.texts.push_str(&answer.text()),
            Err(_) => self.failed += 1,
        }
    }
}

/// What became of one of several: its answer, or the error, with the name that the command line has for it.
pub(in crate::cli) fn item<A: Answer>(name: &str, done: &Result<A, Error>) -> Value {
    let mut item = match done {
        Ok(answer) => answer.json(),
        Err(error) => json!({ "error": error_object(error) }),
    };
    // A pull request has a target of its own, and its agent is in it.
    if item.get("target").is_none() {
        put(&mut item, "target", name);
    }
    item
}

impl AsJson for SeveralAnswer {
    fn json(&self) -> Value {
        json!({
            "schema": "git-agent.batch/2",
            "succeeded": self.items.len() - self.failed,
            "failed": self.failed,
            "items": self.items,
        })
    }
}

impl Answer for SeveralAnswer {
    fn text(&self) -> String {
        if self.items.is_empty() {
            return "(no agents)\n".to_owned();
        }
        self.texts.clone()
    }

    fn rows(&self) -> Vec<Value> {
        self.items.clone()
    }
}
