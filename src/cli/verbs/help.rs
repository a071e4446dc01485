//! `git agent help`, and what `git agent -h` shows.
//!
//! The verbs stand in groups, each for a moment of the work. `-h` shows those that a newcomer needs, `help --all` every one.

use crate::cli::command_line as without_help;
use crate::cli::out::render::table::wrapped;
use crate::cli::out::terminal::{BOLD, paint, width};
use crate::cli::out::ui::{Answer, AsJson, Ui, plain};
use crate::error::{Code, Error, Exit, Result};
use clap::Command;
use serde_json::{Value, json};

/// Where a line of help ends on wide terminals, as clap has it.
const WIDEST: usize = 100;

/// Verbs that belong to one moment.
pub(in crate::cli) struct Group {
    /// The moment.
    pub title: &'static str,
    /// The verbs, as the list spells them, and whether a newcomer needs them.
    pub verbs: &'static [(&'static str, bool)],
}

/// Explain one command, or list all of them
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct HelpArgs {
    /// List every command
    #[arg(long, short, conflicts_with = "command")]
    all: bool,
    /// Command to explain
    #[arg(value_name = "COMMAND")]
    command: Vec<String>,
}

pub(in crate::cli) fn run(ui: &mut Ui, args: &HelpArgs, in_groups: &[Group]) -> Result<Exit> {
    let mut command = command_line(in_groups);
    let text = if args.all {
        groups(&command, in_groups, true)
    } else {
        // Before that clap knows neither how the commands above are called nor the options for all.
        command.build();
        let explained = below(&mut command, &args.command)?;
        explained.render_long_help().ansi().to_string()
    };
    ui.done(&HelpAnswer { command: args.command.clone(), text })
}

/// What a command takes, or the list of them.
struct HelpAnswer {
    command: Vec<String>,
    text: String,
}

impl AsJson for HelpAnswer {
    fn json(&self) -> Value {
        json!({ "schema": "git-agent.help/1", "command": self.command, "text": plain(&self.text) })
    }
}

impl Answer for HelpAnswer {
    fn text(&self) -> String {
        self.text.clone()
    }
}

/// The whole command line, with help in groups.
pub(in crate::cli) fn command_line(in_groups: &[Group]) -> Command {
    let command = without_help();
    let groups = groups(&command, in_groups, false);
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}\nOptions:\n{{options}}\n\n\
         To list every command, run git agent help --all;\n\
         to see what one takes, run git agent help <command>\n"
    ))
}

fn below<'c>(command: &'c mut Command, path: &[String]) -> Result<&'c mut Command> {
    let Some((first, rest)) = path.split_first() else {
        return Ok(command);
    };
    match command.find_subcommand_mut(first) {
        Some(found) => below(found, rest),
        None => {
            Err(Error::new(Code::Usage, format!("there is no command `{}`", first.escape_debug()))
                .hint("to list every command, run git agent help --all"))
        }
    }
}

/// The verbs with what each of them does: all that are for people, or those that a newcomer needs.
fn groups(command: &Command, in_groups: &[Group], all: bool) -> String {
    let mut rows: Vec<(&str, Vec<(String, String)>)> = Vec::new();
    for group in in_groups {
        let verbs = group
            .verbs
            .iter()
            .filter(|(_, first)| all || *first)
            .filter_map(|(verb, _)| command.find_subcommand(kebab(verb)))
            .filter(|verb| !verb.is_hide_set());
        let about = |verb: &Command| verb.get_about().map(ToString::to_string);
        let verbs: Vec<_> = verbs
            .map(|verb| (verb.get_name().to_owned(), about(verb).unwrap_or_default()))
            .collect();
        if !verbs.is_empty() {
            rows.push((group.title, verbs));
        }
    }
    let verbs = rows.iter().flat_map(|(_, verbs)| verbs);
    let indent = verbs.map(|(name, _)| name.len()).max().unwrap_or(0) + 4;
    let mut text = String::new();
    for (title, verbs) in rows {
        text.push_str(&format!("{}\n", paint(BOLD, &format!("{title}:"))));
        for (name, about) in verbs {
            let padding = " ".repeat(indent - 2 - name.len());
            let about = wrapped(&about, indent, width().min(WIDEST));
            text.push_str(&format!("  {}{padding}{about}\n", paint(BOLD, &name)));
        }
    }
    text
}

/// `InstallShell` as clap names it: `install-shell`.
pub(in crate::cli) fn kebab(verb: &str) -> String {
    let mut name = String::new();
    for c in verb.chars() {
        if c.is_ascii_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(c.to_ascii_lowercase());
    }
    name
}
