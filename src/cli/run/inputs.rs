//! What `git agent run` tells an agent besides its task.

use crate::agents::assignment::PromptWish;
use crate::agents::ctx::Ctx;
use crate::agents::persona::CharacterWish;
use crate::cli::one_of::one_of;
use crate::error::{Code, Error, IoContext, Result};
use crate::hosts::{self, Host};
use crate::ops::run::RunOptions;
use crate::ops::run::output::OutputWish;
use crate::wire::task_file::MAX_BYTES;
use std::io::Read;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "What the agent is told")]
pub(super) struct CommissionArgs {
    /// Start this agent host by its recipe; the command is its last arguments. Several with --best-of
    #[arg(long, value_name = "HOST", value_parser = one_of(hosts::startable().map(Host::name), host))]
    pub host: Vec<&'static dyn Host>,
    /// Persona of a roster: the project's, or that of --agent-manifest
    #[arg(long, value_name = "NAME")]
    agent_type: Option<String>,
    /// Roster to look in: agent-manifest.csv or config.toml
    #[arg(long, value_name = "PATH", requires = "agent_type")]
    agent_manifest: Option<PathBuf>,
    /// Built-in persona instead of the task's: secretary, server_admin or developer
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Text on top of the role's own, instead of the task's
    #[arg(long, value_name = "TEXT")]
    system_prompt: Option<String>,
    /// File with context that may hold credentials, instead of the task's; @- is standard input
    #[arg(long, value_name = "@FILE")]
    briefing: Option<String>,
    /// File for the agent's answer, below the output directory
    #[arg(long, value_name = "FILE")]
    output: Option<String>,
    /// Overwrite the file if it exists
    #[arg(long)]
    allow_overwrite: bool,
    /// Model to ask the host for, instead of the task's
    #[arg(long)]
    model: Option<String>,
    /// Go on with the last session of the agent's host, also after a time limit, a stop or a kill; -m says what for
    #[arg(long, requires = "tasks")]
    pub resume: bool,
    /// Most that the session may cost, in US dollars, instead of the task's limit
    #[arg(long, value_name = "USD", requires = "host", value_parser = some_money)]
    max_cost: Option<f64>,
    /// Most turns of the agent, instead of the task's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    max_iterations: Option<u32>,
}

impl CommissionArgs {
    /// The options, with what was given here.
    ///
    /// # Errors
    /// `usage` for a briefing that is no file, `io`.
    pub(super) fn add_to(self, ctx: &Ctx, options: RunOptions) -> Result<RunOptions> {
        let briefing = self.briefing.as_deref().map(|from| briefing(ctx, from));
        Ok(RunOptions {
            host: self.host.first().copied(),
            resume: self.resume,
            prompt: PromptWish {
                character: CharacterWish {
                    manifest: self.agent_manifest,
                    agent_type: self.agent_type,
                    profile: self.profile,
                },
                briefing: briefing.transpose()?,
                system_prompt: self.system_prompt,
                model: self.model,
                max_iterations: self.max_iterations,
                max_cost: self.max_cost,
                most_cost: None,
            },
            output: OutputWish {
                file: self.output,
                allow_overwrite: self.allow_overwrite,
            },
            ..options
        })
    }
}

/// Reads an amount that is more than nothing.
fn some_money(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(amount) if amount > 0.0 && f64::is_finite(amount) => Ok(amount),
        _ => Err("it takes an amount such as 2.50".to_owned()),
    }
}

fn briefing(ctx: &Ctx, from: &str) -> Result<String> {
    let Some(file) = from.strip_prefix('@') else {
        return Err(Error::new(
            Code::Usage,
            "a briefing is not given as a word of the command line, which every process can read",
        )
        .hint("write it into a file and pass --briefing @<file>"));
    };
    // One byte more tells that the file is larger.
    let limit = MAX_BYTES as u64 + 1;
    let mut text = String::new();
    let read = match file {
        "-" => std::io::stdin().take(limit).read_to_string(&mut text),
        _ => std::fs::File::open(ctx.absolute(Path::new(file)))
            .and_then(|file| file.take(limit).read_to_string(&mut text)),
    };
    read.at("could not read the briefing", file)?;
    if text.len() > MAX_BYTES {
        Err(Error::new(Code::Usage, "the briefing is larger than 1 MiB")
            .hint("keep what is long in a file and name that in the briefing"))
    } else {
        Ok(text)
    }
}

pub(in crate::cli) fn host(word: &str) -> Result<&'static dyn Host, String> {
    let names: Vec<_> = hosts::startable().map(Host::name).collect();
    let host = hosts::startable().find(|host| host.name() == word);
    host.ok_or_else(|| format!("`{word}` is none of {}", names.join(", ")))
}
