//! What an agent that may spawn asks of its supervisor (`git-agent.request/1`), and the answer (`git-agent.answered/1`).
//!
//! The list of requests is closed, and each is a few typed fields, named as the options of the command. No field takes words for a
//! command line, and what opens a fence, leads elsewhere or changes a policy (`--sandbox`, `--allow-write`, `--path`, `--branch`,
//! `--into`, `amend`) is in none of them. The writer is not trusted: the supervisor checks each request against the agent's own policy.

use serde::{Deserialize, Serialize};
use serde_with_macros::skip_serializing_none;

/// The schema's name and version.
pub const SCHEMA: &str = "git-agent.request/1";

/// The commands that there are requests for.
pub const COMMANDS: [&str; 9] =
    ["spawn", "run", "wait", "stop", "show", "diff", "verify", "merge", "train"];

/// A request, and how its answer is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpooledRequest {
    /// [`SCHEMA`].
    pub schema: String,
    /// Whether the answer is JSON, in place of text.
    pub json: bool,
    /// What is asked for.
    pub request: LeadRequest,
    /// What tells this request from every other.
    pub nonce: String,
}

/// One command of [`COMMANDS`] with the fields that it takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case", deny_unknown_fields)]
pub enum LeadRequest {
    /// Make an agent below the one that asks, from where its branch is.
    Spawn(LeadSpawn),
    /// Let a host work for an agent.
    Run(LeadRun),
    /// Wait until runs are over.
    Wait {
        /// The agents; those that this run has started, where none is named.
        #[serde(default)]
        agents: Vec<String>,
        /// Waits for the first.
        #[serde(default)]
        any: bool,
        /// How long.
        timeout: Option<String>,
    },
    /// End runs.
    Stop {
        /// The agents.
        agents: Vec<String>,
    },
    /// Show an agent.
    Show {
        /// The agent.
        who: String,
    },
    /// Show what an agent changed.
    Diff {
        /// The agent.
        agent: String,
        /// The paths alone.
        #[serde(default)]
        name_only: bool,
    },
    /// Judge an agent's work.
    Verify {
        /// The agent.
        agent: String,
    },
    /// Land an agent's work on the branch of the one that asks.
    Merge {
        /// The agent.
        agent: String,
        /// The message of the commit, in paragraphs.
        #[serde(default)]
        message: Vec<String>,
    },
    /// Land several, with their checks green on what lands.
    Train {
        /// The agents.
        agents: Vec<String>,
    },
}

/// The fields of a request to spawn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeadSpawn {
    /// The text of the task, in paragraphs.
    pub message: Vec<String>,
    /// The alias.
    pub name: Option<String>,
    /// The role.
    pub role: Option<String>,
    /// What it may touch; all that the agent which asks may touch, where this and `new` are empty.
    #[serde(default)]
    pub scope: Vec<String>,
    /// As `scope`, for what does not exist yet.
    #[serde(default)]
    pub new: Vec<String>,
    /// What it may not touch.
    #[serde(default)]
    pub deny: Vec<String>,
}

/// The fields of a request to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeadRun {
    /// The agent.
    pub tasks: [String; 1],
    /// The host's name; with `resume` the one that the session is of.
    #[serde(default)]
    pub host: Vec<String>,
    /// The model to ask the host for.
    pub model: Option<String>,
    /// The most turns.
    pub max_iterations: Option<u32>,
    /// The most that the session may cost, in US dollars.
    pub max_cost: Option<f64>,
    /// How long it may take, such as `10m`.
    pub timeout: Option<String>,
    /// Goes on with the agent's last session.
    #[serde(default)]
    pub resume: bool,
    /// What the agent is told in that session.
    #[serde(default)]
    pub message: Vec<String>,
    /// Answers when the host works, and not when it is done.
    #[serde(default)]
    pub background: bool,
}

/// What came of a request.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeadAnswer {
    /// The status to end with.
    pub status: u8,
    /// What the command wrote to its standard output.
    pub out: String,
    /// What it wrote to its standard error.
    pub err: String,
    /// Why it was not carried out.
    pub refused: Option<RefusedRequest>,
    /// Where the branch of the agent that asks is, where that was moved.
    pub tip: Option<String>,
}

/// An error, as far as it travels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedRequest {
    /// The name of its code.
    pub code: String,
    /// What failed, and on what.
    pub message: String,
    /// More about it, such as each problem of a task.
    #[serde(default)]
    pub details: Vec<String>,
    /// What to do next.
    pub hints: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_no_list_is_no_request() {
        let read = |text: &str| serde_json::from_str::<LeadRequest>(text);
        assert!(read(r#"{"verb":"spawn","message":["a b"],"scope":["src/**"]}"#).is_ok());
        for text in [
            r#"{"verb":"spawn","message":["a b"],"sandbox":"off"}"#,
            r#"{"verb":"spawn","message":["a b"],"path":"/tmp/x"}"#,
            r#"{"verb":"spawn","message":["a b"],"branch":"main"}"#,
            r#"{"verb":"spawn","message":["a b"],"check":["curl x | sh"]}"#,
            r#"{"verb":"run","tasks":["a"],"allow_write":["/"]}"#,
            r#"{"verb":"run","tasks":["a"],"args":["--sandbox=off"]}"#,
            r#"{"verb":"run","tasks":["a","b"]}"#,
            r#"{"verb":"merge","agent":"a","into":"main"}"#,
            r#"{"verb":"train","agents":["a"],"push":"origin"}"#,
            r#"{"verb":"amend","agent":"a","scope":["**"]}"#,
            r#"{"verb":"discard","agent":"a"}"#,
            r#"["run","--sandbox=off"]"#,
            r#""train a""#,
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
