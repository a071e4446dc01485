//! `git agent board`: a live screen of all agents, with keys for what one does next.
//!
//! ```text
//! a thread that looks ──┐
//! threads of commands ──┼─> news ─┐
//! the terminal ─────────┴─> keys ─┴─> state ─> picture
//! ```
//!
//! The thread that draws never waits for the repository, so a key is answered at once whatever a command takes.

mod draw;
mod state;
#[cfg(test)]
mod tests;

use crate::agents::Ctx;
use crate::agents::context::ctx::Seed;
use crate::cli::out::screen::{Screen, Wake};
use crate::cli::out::terminal::is_terminal;
use crate::cli::out::ui::{Format, Ui, bell};
use crate::cli::{Spoken, perform, spoken};
use crate::domain::work::task::parse_duration;
use crate::error::{Code, Error, Exit, Result};
use crate::ops::board::{BoardReport, BoardWatch};
use crate::ops::list::ListOptions;
use rustix::stdio::stdin;
use state::{BoardView, KeyEffect, Words, shown};
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// How often the board looks unless the user says otherwise.
pub(in crate::cli) const INTERVAL: Duration = Duration::from_secs(1);

/// Watch all agents on a live screen, those that need you first, with keys to inspect, verify, merge, reply and discard
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct BoardArgs {
    /// Also show agents that are landed or discarded
    #[arg(long, short)]
    all: bool,
    /// How often to refresh, such as 5s
    #[arg(long, value_parser = parse_duration, value_name = "DURATION")]
    interval: Option<Duration>,
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: &BoardArgs) -> Result<Exit> {
    let options = ListOptions { all: args.all, ..ListOptions::default() };
    open(ctx, ui, options, args.interval.unwrap_or(INTERVAL))
}

/// Shows the agents that are wanted until the user has seen enough.
///
/// # Errors
/// `usage` without a terminal; those of [`BoardWatch::look`] the first time.
pub(in crate::cli) fn open(
    ctx: &Ctx,
    ui: &mut Ui,
    options: ListOptions,
    interval: Duration,
) -> Result<Exit> {
    require_terminal(ui, "list --format ndjson")?;
    watch(ctx, ui, options, interval, false)?;
    Ok(Exit::Yes)
}

/// Lets the user choose an agent for a verb; `None` where the user chose none.
///
/// # Errors
/// Those of [`BoardWatch::look`].
pub(in crate::cli) fn pick(ctx: &Ctx, ui: &mut Ui) -> Result<Option<String>> {
    let options = ListOptions::default();
    Ok(watch(ctx, ui, options, INTERVAL, true)?.picked)
}

/// Shows what a command says, again and again.
///
/// # Errors
/// `usage` without a terminal.
pub(in crate::cli) fn follow(ui: &mut Ui, words: Words) -> Result<Exit> {
    require_terminal(ui, "receive --wait")?;
    let (news, heard) = news()?;
    let mut view = BoardView::following(words);
    let first = view.read();
    let desk = Desk { news, heard, look: None };
    let mut screen = Screen::take(ui)?;
    desk.run(ui, &mut screen, &mut view, first, INTERVAL)?;
    Ok(Exit::Yes)
}

fn require_terminal(ui: &Ui, instead: &str) -> Result<()> {
    if ui.format() == Format::Text && is_terminal() {
        return Ok(());
    }
    let error = Error::new(Code::Usage, "what is shown live requires a terminal");
    Err(error.hint(format!("to read the same by machine, run git agent {instead}")))
}

/// Keeps looking and shows it, until the user has seen enough.
fn watch(
    ctx: &Ctx,
    ui: &mut Ui,
    options: ListOptions,
    interval: Duration,
    picks: bool,
) -> Result<BoardView> {
    let (news, heard) = news()?;
    let (look, asked) = channel();
    let (seed, teller) = (ctx.seed(), news.clone());
    thread::spawn(move || keep_looking(&seed, options, interval, &asked, &teller));
    // Before the screen is taken, so that an error is seen where errors are.
    let first = match heard.news.recv() {
        Ok(BoardNews::Looked(report)) => report?,
        _ => return Err(Error::bug("the first news is a look")),
    };
    let mut view = BoardView::new(first, picks);
    let desk = Desk { news, heard, look: Some(look) };
    let mut screen = Screen::take(ui)?;
    desk.run(ui, &mut screen, &mut view, None, interval)?;
    Ok(view)
}

/// Looks as often as the interval says and when it is asked to, until no reader is left.
fn keep_looking(
    seed: &Seed,
    options: ListOptions,
    interval: Duration,
    asked: &Receiver<()>,
    teller: &Teller,
) {
    let ctx = match seed.open() {
        Ok(ctx) => ctx,
        Err(error) => return teller.tell(BoardNews::Looked(Err(error))),
    };
    let mut watch = BoardWatch::new(&ctx, options);
    loop {
        teller.tell(BoardNews::Looked(watch.look()));
        if asked.recv_timeout(interval) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
    }
}

/// What other threads found out.
enum BoardNews {
    Looked(Result<BoardReport>),
    /// The answer for a page of this number.
    Answered(u64, Spoken),
    /// The answer of a command that changed something.
    Done(Spoken),
}

/// Tells news, and wakes the thread that waits for the terminal.
#[derive(Clone)]
struct Teller {
    news: Sender<BoardNews>,
    wake: Arc<UnixStream>,
}

impl Teller {
    fn tell(&self, news: BoardNews) {
        // Where the screen is gone, nothing is to be told.
        if self.news.send(news).is_ok() {
            let _ = (&*self.wake).write(&[1]);
        }
    }
}

struct Heard {
    news: Receiver<BoardNews>,
    wake: UnixStream,
}

fn news() -> Result<(Teller, Heard)> {
    let (news, heard) = channel();
    let pair = UnixStream::pair().and_then(|(wake, woken)| {
        // A byte too many wakes nothing, and nothing waits to write it.
        wake.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        Ok((wake, woken))
    });
    let (wake, woken) = pair.map_err(|error| Error::io("could not start the board", error))?;
    let wake = Arc::new(wake);
    let (news, wake) = (Teller { news, wake }, woken);
    Ok((news, Heard { news: heard, wake }))
}

/// What the loop needs besides the state and the screen.
struct Desk {
    news: Teller,
    heard: Heard,
    /// Asks for a look at once; absent where no agents are shown.
    look: Option<Sender<()>>,
}

impl Desk {
    /// Draws, waits, takes what came, until the user or a signal ends it.
    fn run(
        &self,
        ui: &mut Ui,
        screen: &mut Screen,
        view: &mut BoardView,
        first: Option<KeyEffect>,
        interval: Duration,
    ) -> Result<()> {
        let mut effects: Vec<_> = first.into_iter().collect();
        loop {
            for effect in effects.drain(..) {
                if !self.obey(ui, screen, view, effect)? {
                    return Ok(());
                }
            }
            screen.draw(|buffer| draw::draw(view, buffer))?;
            match screen.wait(interval, &self.heard.wake)? {
                Wake::Ended => return Ok(()),
                Wake::Redraw => screen.forget(),
                Wake::Keys(keys) => effects = view.keys(keys),
                // A page that is followed is read again when its time is up.
                Wake::Time if self.look.is_none() => effects.extend(view.read()),
                Wake::Time => {}
                Wake::News => {
                    while let Ok(news) = self.heard.news.try_recv() {
                        effects.extend(self.hear(news, screen, view)?);
                    }
                }
            }
        }
    }

    fn hear(
        &self,
        news: BoardNews,
        screen: &mut Screen,
        view: &mut BoardView,
    ) -> Result<Option<KeyEffect>> {
        match news {
            BoardNews::Looked(Ok(report)) => {
                let before = view.report.clone();
                let effect = view.looked(report);
                if !view.picks {
                    for (name, why) in view.new_needs(&before) {
                        screen.say(&bell(&format!("{name}: {why}")))?;
                    }
                }
                return Ok(effect);
            }
            // What was seen before stays, and the next look may succeed.
            BoardNews::Looked(Err(error)) => view.note = error.to_string(),
            BoardNews::Answered(number, spoken) => {
                view.answered(number, spoken.is_success, spoken.text);
            }
            BoardNews::Done(spoken) => {
                view.done(spoken.is_success, spoken.text);
                self.look_now();
                // The programs that it started may have written to the terminal.
                screen.forget();
            }
        }
        Ok(None)
    }

    /// Does what a key asked for; whether the board goes on.
    fn obey(
        &self,
        ui: &mut Ui,
        screen: &mut Screen,
        view: &mut BoardView,
        effect: KeyEffect,
    ) -> Result<bool> {
        match effect {
            // What was begun is finished: half a landing is repaired by the next command, and still better not made.
            KeyEffect::Quit if view.busy.is_some() => {
                view.note =
                    "a command is at work; the board can be left when it is over".to_owned();
            }
            KeyEffect::Quit => return Ok(false),
            KeyEffect::Stop => screen.stop()?,
            KeyEffect::Read(number, words) => {
                self.start(words, move |spoken| BoardNews::Answered(number, spoken));
            }
            // These sign and push: what asks for a passphrase does so on the terminal, which it must have for itself.
            KeyEffect::Do(words)
                if words.first().is_some_and(|verb| verb == "merge" || verb == "train") =>
            {
                screen.leave();
                ui.say(&format!("git agent {} …\n", shown(&words)));
                let spoken = spoken(&words);
                screen.enter()?;
                self.hear(BoardNews::Done(spoken), screen, view)?;
            }
            KeyEffect::Do(words) => self.start(words, BoardNews::Done),
            KeyEffect::Lend(words) => {
                screen.leave();
                let exit = perform(&words, ui);
                if exit.code() != 0 {
                    ui.say("press Enter to go back to the board\n");
                    let _ = rustix::io::read(stdin(), &mut [0; 64]);
                }
                screen.enter()?;
                self.look_now();
            }
        }
        Ok(true)
    }

    /// Runs a command on a thread of its own.
    fn start(&self, words: Words, news: impl FnOnce(Spoken) -> BoardNews + Send + 'static) {
        let teller = self.news.clone();
        thread::spawn(move || teller.tell(news(spoken(&words))));
    }

    fn look_now(&self) {
        if let Some(look) = &self.look {
            let _ = look.send(());
        }
    }
}
