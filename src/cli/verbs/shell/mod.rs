//! What a shell is given: man pages and completions, from the one definition of the command line.
//!
//! The completions are a few lines of each shell's own language, which ask [`complete`] what could stand
//! at the end of the line. So they never lag behind the program, and they know the agents.

use crate::agents::{Ctx, Env};
use crate::cli::command_line;
use crate::cli::out::render::table::labelled_command;
use crate::cli::out::terminal::{BOLD, HINT, WARN, paint, width};
use crate::cli::out::ui::{Answer, Ui};
use crate::domain::State;
use crate::error::{Error, Exit, Result};
use crate::ops::install_shell::{
    self, FileAction, Part, PartReport, ShellFile, ShellOptions, ShellReport,
};
use crate::ops::list::{self, ListOptions};
use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate, complete};
use clap_mangen::Man;
use std::ffi::OsString;
use std::path::PathBuf;

/// What stands in every page, so that ours are known from others.
const MARK: &str = r#".\" Written by git agent install-shell."#;

/// Every file for a shell.
///
/// # Errors
/// None that is not a bug.
pub(in crate::cli) fn files() -> Result<Vec<ShellFile>> {
    let (command, mut files) = (built(), scripts());
    pages(&command, &mut files)?;
    Ok(files)
}

/// Those that `doctor` compares with what is installed: of the pages, that of the program alone.
///
/// # Errors
/// None that is not a bug.
pub(in crate::cli) fn compared() -> Result<Vec<ShellFile>> {
    let mut files = scripts();
    files.push(page(&built())?);
    Ok(files)
}

fn built() -> Command {
    let mut command = command_line();
    command.build();
    command
}

fn scripts() -> Vec<ShellFile> {
    let script = |part, name, content: &str| ShellFile {
        part,
        name: String::from(name),
        content: content.as_bytes().to_vec(),
    };
    vec![
        script(Part::Bash, "git-agent", include_str!("git-agent.bash")),
        script(Part::Zsh, "_git-agent", include_str!("git-agent.zsh")),
        script(Part::Fish, "git-agent.fish", include_str!("git-agent.fish")),
        script(Part::Bash, "agent-cd", include_str!("agent-cd.bash")),
        script(Part::Zsh, "agent-cd.zsh", include_str!("agent-cd.zsh")),
        script(Part::Fish, "agent-cd.fish", include_str!("agent-cd.fish")),
    ]
}

/// The page of a command, and those of the commands below it.
fn pages(command: &Command, files: &mut Vec<ShellFile>) -> Result<()> {
    files.push(page(command)?);
    let visible = |command: &&Command| !command.is_hide_set();
    command.get_subcommands().filter(visible).try_for_each(|command| pages(command, files))
}

fn page(command: &Command) -> Result<ShellFile> {
    let man = Man::new(command.clone()).manual("Git Agent");
    let mut page = Vec::new();
    man.render(&mut page)
        .map_err(|error| Error::bug("a page could not be written").because(error))?;
    // A long choice of options has no space at which a line could break.
    let page = String::from_utf8_lossy(&page).replace("\\fR|\\fB", "\\fR|\\:\\fB");
    let content = format!("{MARK}\n{}", ascii(&page)).into_bytes();
    Ok(ShellFile { part: Part::Man, name: man.get_filename(), content })
}

/// A page that every roff reads alike: what is beyond ASCII by its number.
fn ascii(page: &str) -> String {
    let mut text = String::with_capacity(page.len());
    for c in page.chars() {
        if c.is_ascii() {
            text.push(c)
        } else {
            text.push_str(&format!("\\[u{:04X}]", u32::from(c)))
        }
    }
    text
}

// `git agent complete`: what the completions of all shells ask.

/// Print what could stand at the end of a command line; the completions of shells ask this
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct CompleteArgs {
    /// Words after `git agent`, the last of them the one to complete
    #[arg(last = true, value_name = "WORD")]
    words: Vec<OsString>,
}

/// What an argument that names an agent is called in every command.
const AGENT: &str = "AGENT";

/// Prints a candidate a line, with a tab and its meaning where there is one. What goes wrong is nothing to
/// say while the user types.
pub(in crate::cli) fn run_complete(ui: &mut Ui, args: CompleteArgs) -> Result<Exit> {
    let mut words = vec![OsString::from("git-agent")];
    words.extend(args.words);
    // The shell may name no word where the line ends with a blank.
    if words.len() == 1 {
        words.push(OsString::new());
    }
    let mut command = with_agents(command_line());
    let last = words.len() - 1;
    let candidates = complete(&mut command, words, last, None).unwrap_or_default();
    // Hidden ones are offered when nothing else begins like this.
    let is_shown = |candidate: &&CompletionCandidate| !candidate.is_hide_set();
    let lines = candidates.iter().filter(is_shown).filter_map(line);
    ui.print(&lines.collect::<String>())?;
    Ok(Exit::Yes)
}

fn line(candidate: &CompletionCandidate) -> Option<String> {
    let value = candidate.get_value().to_str()?;
    // The shell reads one candidate a line.
    if value.contains(char::is_control) {
        return None;
    }
    let help = candidate.get_help().map(ToString::to_string);
    let help = help.as_deref().and_then(|help| help.lines().next());
    Some(match help {
        Some(help) => format!("{value}\t{}\n", help.replace(char::is_control, " ")),
        None => format!("{value}\n"),
    })
}

/// The command line with the agents that a verb takes wherever one may be named, and with the verbs that can be explained.
fn with_agents(command: Command) -> Command {
    let names = |arg: &Arg, what: &str| {
        let mut names = arg.get_value_names().unwrap_or_default().iter();
        names.any(|name| name.split('|').any(|word| word == what))
    };
    let is_help = command.get_name() == "help";
    let candidates = match command.get_name() {
        "rescue" => || agents(|state| state == State::Discarded),
        // What has landed is cleared away by it.
        "discard" => || agents(|state| state != State::Discarded),
        _ => || agents(|state| !matches!(state, State::Merged | State::Discarded)),
    };
    command
        .mut_args(|arg| {
            if names(&arg, AGENT) {
                arg.add(ArgValueCandidates::new(candidates))
            } else if is_help && names(&arg, "COMMAND") {
                arg.add(ArgValueCandidates::new(verbs))
            } else {
                arg
            }
        })
        .mut_subcommands(with_agents)
}

/// Every verb that is listed, with what it does.
fn verbs() -> Vec<CompletionCandidate> {
    let command = command_line();
    let shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    let candidate =
        |verb: &Command| CompletionCandidate::new(verb.get_name()).help(verb.get_about().cloned());
    shown.map(candidate).collect()
}

/// Every agent whose state is taken: by its name, else by the beginning of its id.
fn agents(takes: fn(State) -> bool) -> Vec<CompletionCandidate> {
    let options = ListOptions { all: true, fast: true, ..ListOptions::default() };
    let listed = Ctx::of_process().and_then(|ctx| list::list(&ctx, &options));
    let agents = listed.map_or(Vec::new(), |report| report.agents).into_iter();
    agents
        .filter(|row| State::parse(row.agent.state).is_some_and(takes))
        .map(|row| {
            let agent = row.agent;
            let handle = agent.name.unwrap_or(agent.short_id);
            CompletionCandidate::new(handle).help(agent.description.map(Into::into))
        })
        .collect()
}

// `git agent install-shell`

/// Install man pages and completions for this user: git agent --help, git agent <TAB>
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct InstallShellArgs {
    /// Directory with share/man and the like, instead of the user's own
    #[arg(long, value_name = "PREFIX")]
    dir: Option<PathBuf>,
    /// Completion for bash; with any of these four only what is named
    #[arg(long)]
    bash: bool,
    /// Completion for zsh
    #[arg(long)]
    zsh: bool,
    /// Completion for fish
    #[arg(long)]
    fish: bool,
    /// Man pages
    #[arg(long)]
    man: bool,
    /// Show what would be done and stop
    #[arg(long, short = 'n')]
    dry_run: bool,
}

/// Needs no repository.
pub(in crate::cli) fn run_install(ui: &mut Ui, args: InstallShellArgs) -> Result<Exit> {
    let wanted = [
        (args.bash, Part::Bash),
        (args.zsh, Part::Zsh),
        (args.fish, Part::Fish),
        (args.man, Part::Man),
    ];
    let env = Env::of_process()?;
    let options = ShellOptions {
        prefix: args.dir,
        parts: wanted.into_iter().filter_map(|(wanted, part)| wanted.then_some(part)).collect(),
    };
    let plan = install_shell::plan(&env, files()?, &options)?;
    let report = if args.dry_run { plan.report(&env) } else { install_shell::execute(&env, plan)? };
    ui.done(&report)
}

impl Answer for ShellReport {
    fn text(&self) -> String {
        let mut text: String = self.parts.iter().map(part).collect();
        for advice in &self.advice {
            // What goes into a file is not broken.
            let parts = advice.rfind(": ").map(|at| advice.split_at(at + 1));
            let (words, line) =
                parts.map_or((&**advice, None), |(words, line)| (words, Some(line)));
            let hint = labelled_command(HINT, "hint:", (words, line), 2, width());
            text.push_str(&format!("{hint}\n"));
        }
        text
    }
}

/// `man: … (31 created)`, and those that are not ours.
fn part(part: &PartReport) -> String {
    let label = paint(BOLD, &format!("{}:", part.part));
    let count = |action| part.files.iter().filter(|file| file.action == action).count();
    let counts: Vec<_> = [FileAction::Created, FileAction::Updated, FileAction::Unchanged]
        .into_iter()
        .map(|action| (count(action), action.as_str()))
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    let mut text = if counts.is_empty() {
        String::new()
    } else {
        format!("{label} {} ({})\n", part.directory, counts.join(", "))
    };
    let foreign = part.files.iter();
    for file in foreign.filter(|file| file.action == FileAction::Foreign) {
        let warning = paint(WARN, "warning:");
        let (directory, name) = (&part.directory, &file.name);
        text.push_str(&format!("{warning} {directory}/{name} is not ours and stays\n"));
    }
    text
}
