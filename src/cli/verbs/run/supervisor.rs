//! `supervise`, `supervisor`, `launch` and `fenced`: this program between `run` and a command. Not for people.

use crate::agents::{Ctx, Env};
use crate::cli::out::ui::Ui;
use crate::cli::parse_as;
use crate::cli::verbs::run::RunArgs;
use crate::domain::life::sandbox::{GitGuard, Landlock, Level, Namespaces};
use crate::domain::{Fence, LayerMount};
use crate::error::{Error, Exit, Result};
use crate::ops::run::fence::{Plan, become_mounted, enter, probe, probe_layer};
use crate::ops::run::{
    BuildSlots, Echo, StartReport, SupervisorOrder, TreeBounds, detach, end_with_caller, hand_over,
    keep, launch, prepare,
};
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// Watch over a command
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct WardenArgs {
    /// Process that waits for it
    #[arg(long)]
    parent: u32,
    /// How long the command may take, in milliseconds
    #[arg(long)]
    limit: u64,
    /// How much memory its processes may take, in bytes
    #[arg(long)]
    memory: Option<u64>,
    /// How many processes and threads there may be
    #[arg(long)]
    pids: Option<u64>,
    /// How many compile jobs it shares with other commands
    #[arg(long, requires = "build_slots")]
    builds: Option<u64>,
    /// Directory with a file for each of these
    #[arg(long)]
    build_slots: Option<PathBuf>,
    /// What the command reads
    #[arg(long)]
    input: Option<PathBuf>,
    /// Give the command standard output as a terminal of its own
    #[arg(long)]
    terminal: bool,
    /// Directory to remove at the end
    #[arg(long)]
    scratch: Option<PathBuf>,
    /// File to lock together with the process that waits
    #[arg(long)]
    ticket: Option<PathBuf>,
    /// Command and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Become a command
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct LaunchArgs {
    /// Process that watches over it
    #[arg(long)]
    supervisor: u32,
    /// Take standard output as a terminal of its own
    #[arg(long)]
    terminal: bool,
    /// Control group to enter
    #[arg(long)]
    group: Option<PathBuf>,
    /// Command and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

pub(in crate::cli) fn run(args: WardenArgs) -> Result<Exit> {
    let order = SupervisorOrder {
        program: Env::of_process()?.require_program()?.to_owned(),
        parent: args.parent,
        limit: Duration::from_millis(args.limit),
        bounds: TreeBounds { memory: args.memory, pids: args.pids },
        builds: args
            .build_slots
            .map(|directory| BuildSlots { directory, count: args.builds.unwrap_or(0) }),
        input: args.input,
        scratch: args.scratch,
        ticket: args.ticket,
        terminal: args.terminal,
        command: args.command,
    };
    keep(&order).map(Exit::Child)
}

pub(in crate::cli) fn run_launch(args: &LaunchArgs) -> Result<Exit> {
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(Error::bug("a command has a first word"));
    };
    prepare(args.supervisor, args.terminal, args.group.as_deref())?;
    // A fence is entered by this program, which need not be started anew for that.
    if Env::of_process()?.require_program()? == program.as_os_str()
        && let Ok((_, args)) = parse_as::<FencedArgs>("fenced", &args.command)
    {
        return run_fenced(args);
    }
    Err(launch(program, arguments))
}

// `git agent fenced`: `run` starts this program again by this name, to restrict itself and then become
// the agent's command.

/// Become a command that can write nowhere but in the places named; `run` calls this
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct FencedArgs {
    /// End with a status that says which namespaces can be had
    #[arg(long)]
    probe: bool,
    /// Mount a layered worktree and become the command, without any restriction
    #[arg(long, requires = "layer", conflicts_with = "probe")]
    mounted: bool,
    /// A base, an upper directory, a work directory, a place and a worktree: the overlay mount of a layered worktree
    #[arg(long, value_name = "DIR", num_args = 5)]
    layer: Vec<PathBuf>,
    /// The first four of a cache of the user's, of which the command gets a private view
    #[arg(long, value_name = "DIR", num_args = 4)]
    cache: Vec<PathBuf>,
    /// What Landlock has to enforce
    #[arg(long, value_name = "LEVEL", value_parser = landlock, default_value = "files")]
    landlock: Landlock,
    /// Which namespaces there have to be
    #[arg(long, value_name = "WHICH", value_parser = namespaces, default_value = "none")]
    namespaces: Namespaces,
    /// Be the first process of a namespace
    #[arg(long)]
    first: bool,
    /// Where to say what came of it
    #[arg(long, value_name = "FILE", required_unless_present_any = ["probe", "mounted"])]
    report: Option<PathBuf>,
    /// A file that the command may write, or a directory with everything below it
    #[arg(long, value_name = "PATH")]
    write: Vec<PathBuf>,
    /// A directory for the scripts that stand in the place of git, the file for what they refuse, and the agent
    #[arg(long, value_name = "WORD", num_args = 3)]
    guard: Vec<OsString>,
    /// A program in whose place such a script stands
    #[arg(long, value_name = "PATH", requires = "guard")]
    replace: Vec<PathBuf>,
    /// A directory of which that is a part
    #[arg(long, value_name = "PATH")]
    own: Vec<PathBuf>,
    /// A directory that appears empty
    #[arg(long, value_name = "PATH")]
    hide: Vec<PathBuf>,
    /// What is seen below such a directory
    #[arg(long, value_name = "PATH")]
    show: Vec<PathBuf>,
    /// Refuse to make unix sockets
    #[arg(long)]
    no_unix_sockets: bool,
    /// Allow commands to the terminal
    #[arg(long)]
    terminal: bool,
    /// Program and arguments
    #[arg(value_name = "COMMAND", required_unless_present = "probe", last = true)]
    command: Vec<OsString>,
}

fn landlock(word: &str) -> Result<Landlock, String> {
    Landlock::parse(word).ok_or_else(|| "no such level".to_owned())
}

fn namespaces(word: &str) -> Result<Namespaces, String> {
    Namespaces::parse(word).ok_or_else(|| "no such namespaces".to_owned())
}

/// Opens no repository: a fence has nothing to do with where the command runs.
pub(in crate::cli) fn run_fenced(args: FencedArgs) -> Result<Exit> {
    let layer = LayerMount::from_paths(&args.layer);
    if args.mounted
        && let Some(layer) = &layer
    {
        return Err(become_mounted(layer, &args.command));
    }
    if args.probe {
        return match layer {
            Some(layer) => probe_layer(&layer).map(|()| Exit::Yes),
            None => Ok(Exit::Child(probe())),
        };
    }
    let guard = match args.guard.as_slice() {
        [place, tries, agent] => Some(GitGuard {
            place: place.into(),
            programs: args.replace,
            tries: tries.into(),
            agent: agent.to_string_lossy().into_owned(),
        }),
        _ => None,
    };
    let fence = Fence {
        layer,
        caches: { args.cache.chunks(4) }.filter_map(LayerMount::from_paths).collect(),
        guard,
        writable: args.write,
        own: args.own,
        hidden: args.hide,
        shown: args.show,
        unix_sockets: !args.no_unix_sockets,
        terminal: args.terminal,
    };
    let plan = Plan {
        fence: &fence,
        level: Level { landlock: args.landlock, namespaces: args.namespaces, why: None },
        // Only a probe has none, and that has ended above.
        report: &args.report.unwrap_or_default(),
    };
    enter(&plan, args.first, &args.command).map(Exit::Child)
}

// `git agent run --background`, and `git agent supervise`, which is that run. Not for people.

/// Do what these words say, and let go of the caller when the command works
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct SuperviseArgs {
    /// Words of a `run`
    #[arg(last = true, required = true)]
    words: Vec<OsString>,
}

/// Starts the run that this process was asked for in a process of its own, and answers as that does.
pub(super) fn start(ctx: &Ctx, ui: &Ui, quiet: bool) -> Result<Exit> {
    let mut words: Vec<OsString> = vec!["supervise".into(), "--".into()];
    // The words go on as they were typed, so that both processes read the same.
    words.extend(ctx.env.words.iter().cloned());
    let over = hand_over(ctx.env.require_program()?, &words, None)?;
    let echo = ui.echo()?;
    for (stream, bytes) in [(echo.err, &over.err), (echo.out, &over.out)] {
        // What kept the run from beginning is told to those as well who asked for silence.
        if let Some(mut stream) = stream.filter(|_| !quiet || over.failed.is_some()) {
            // The run goes on, whether or not its output is read.
            let _ = stream.write_all(bytes);
        }
    }
    Ok(over.failed.map_or(Exit::Yes, Exit::Child))
}

pub(in crate::cli) fn run_supervise(args: SuperviseArgs) -> Result<Exit> {
    let words: Vec<_> = std::iter::once("git-agent".into()).chain(args.words).collect();
    let (cli, args) = parse_as::<RunArgs>("run", &words)
        .map_err(|error| Error::bug(format!("a run that was asked for is none: {error}")))?;
    end_with_caller()?;
    // No person is at the terminal of this process who could pick an agent.
    let mut ui = Ui::of_process(cli.format);
    let ctx = Ctx::of_process()?;
    let sync = args.sync.clone();
    let told = supervised(&ctx, args, &mut |report| begun(&mut ui, report));
    let exit = told.map_or_else(|error| ui.fail(&error), Exit::Child);
    Ok(sync.after_run(&ctx, &mut ui, exit))
}

/// Gives the status to end with.
fn supervised(ctx: &Ctx, args: RunArgs, begun: &mut dyn FnMut(&StartReport)) -> Result<u8> {
    let echo = Echo { begun: Some(Box::new(begun)), ..Echo::default() };
    Ok(crate::cli::verbs::run::one(ctx, args, echo)?.exit_status())
}

/// From here on there is no reader: the caller has read the answer to its end.
fn begun(ui: &mut Ui, report: &StartReport) {
    report.warnings.iter().for_each(|text| ui.warn(text));
    // A run that cannot be told of is in the ledger, and its command works already.
    let _ = ui.answer(report);
    let _ = detach();
}
