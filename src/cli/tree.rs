//! `git agent tree`

use super::render::agents::{NO_AGENTS, handle, state, state_style};
use super::style::{BOLD, paint};
use super::ui::{Answer, Ui};
use crate::agents::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::ops::tree::{self, Node, TreeReport};
use serde_json::{Value, json};

/// Show which agent asked for which
#[derive(Debug, clap::Args)]
pub(super) struct TreeArgs {
    /// Show only the tree below this agent
    #[arg(value_name = "AGENT")]
    agent: Option<String>,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: &TreeArgs) -> Result<Exit> {
    ui.done(&tree::tree(ctx, args.agent.as_deref())?)
}

impl Answer for TreeReport {
    fn text(&self) -> String {
        if self.agents.is_empty() {
            return NO_AGENTS.to_owned();
        }
        // Whether the ancestor at each depth has a sibling below, so that its line goes on.
        let mut open: Vec<bool> = Vec::new();
        let mut text = String::new();
        for node in &self.agents {
            open.truncate(node.depth);
            text.push_str(&branch_lines(node, &open));
            open.push(!node.last);
            let agent = &node.agent;
            text.push_str(&format!(
                "{} {} {}\n",
                paint(BOLD, &handle(agent)),
                paint(state_style(agent.state), &state(agent)),
                agent.description.as_deref().unwrap_or_default()
            ));
        }
        if self.truncated {
            text.push_str("… and more\n");
        }
        text
    }

    fn rows(&self) -> Vec<Value> {
        self.agents.iter().map(|node| json!(node)).collect()
    }
}

fn branch_lines(node: &Node, open: &[bool]) -> String {
    if node.depth == 0 {
        return String::new();
    }
    let ancestors = open.iter().skip(1);
    let mut text: String = ancestors
        .map(|goes_on| if *goes_on { "│  " } else { "   " })
        .collect();
    text.push_str(if node.last { "└─ " } else { "├─ " });
    text
}
