//! What a command does at the moment, in one line on standard error, as git shows its progress.
//!
//! A person at a terminal sees it once it takes a while (`GIT_PROGRESS_DELAY`, in seconds), and nothing is left of it. A pipe
//! gets none.

use crate::agents::Env;
use crate::agents::context::ctx::{Activity, ActivityObserver};
use crate::cli::out::neutral::neutral;
use crate::cli::out::render::table::cut;
use crate::cli::out::terminal::narration_width;
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use unicode_width::UnicodeWidthStr;

/// How long something may take before it is shown, in seconds, unless the user says otherwise.
const DELAY: u64 = 1;

/// How often the line changes at most.
const PAUSE: Duration = Duration::from_millis(100);

/// The line, shared with the thread that draws it.
pub(in crate::cli) struct Progress(Arc<Shared>);

struct Shared {
    delay: Duration,
    line: Mutex<ProgressLine>,
    /// Notified when something begins.
    begun: Condvar,
}

struct ProgressLine {
    to: Box<dyn Write + Send>,
    /// What is done, each under its number. The last one is shown.
    under_way: Vec<(u64, String)>,
    drawn: Option<String>,
    /// When it is drawn next; `None` while nothing is done.
    due: Option<Instant>,
    is_off: bool,
    has_thread: bool,
}

impl Progress {
    /// On this terminal.
    pub(in crate::cli) fn new(to: Box<dyn Write + Send>) -> Progress {
        Progress(Arc::new(Shared {
            delay: Duration::from_secs(Env::progress_delay().unwrap_or(DELAY)),
            line: Mutex::new(ProgressLine {
                to,
                under_way: Vec::new(),
                drawn: None,
                due: None,
                is_off: false,
                has_thread: false,
            }),
            begun: Condvar::new(),
        }))
    }

    /// What operations tell.
    pub(in crate::cli) fn observer(&self) -> ActivityObserver {
        let shared = Arc::clone(&self.0);
        Arc::new(move |number, what| Shared::hear(&shared, number, what))
    }

    /// Shows something until what is given is dropped.
    pub(in crate::cli) fn begin(&self, what: &str) -> Activity {
        Activity::begin(&self.observer(), what)
    }

    /// Makes room for something else on the terminal.
    pub(in crate::cli) fn hide(&self) {
        let mut line = self.0.line();
        if line.drawn.is_some() {
            line.erase();
            // It comes back by itself, because what it tells of goes on.
            line.due = Some(Instant::now() + PAUSE);
        }
    }

    /// Shows nothing from here on, because the terminal belongs to something else.
    pub(in crate::cli) fn end(&self) {
        self.hide();
        self.0.line().is_off = true;
    }
}

impl Shared {
    fn line(&self) -> MutexGuard<'_, ProgressLine> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hear(shared: &Arc<Shared>, number: u64, what: Option<&str>) {
        let mut line = shared.line();
        let known = |(one, _): &&mut (u64, String)| *one == number;
        if let Some(what) = what {
            if let Some((_, text)) = line.under_way.iter_mut().find(known) {
                *text = what.to_owned();
            } else {
                // The delay counts from the first of them: several that are short are a long wait
                // too.
                if line.under_way.is_empty() {
                    line.due = Some(Instant::now() + shared.delay);
                    shared.begun.notify_one();
                }
                line.under_way.push((number, what.to_owned()));
            }
        } else {
            line.under_way.retain(|(one, _)| *one != number);
        }
        if line.under_way.is_empty() {
            line.due = None;
            line.erase();
        } else if !line.has_thread {
            line.has_thread = true;
            let shared = Arc::clone(shared);
            // Where no thread can be started, nothing is shown.
            let _ = thread::Builder::new().spawn(move || shared.draw());
        }
    }

    /// Draws the line for as long as this process lives.
    fn draw(&self) {
        let mut line = self.line();
        loop {
            let now = Instant::now();
            line = match line.due {
                None => (self.begun.wait(line)).unwrap_or_else(PoisonError::into_inner),
                Some(due) if now < due => {
                    let waited = self.begun.wait_timeout(line, due - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => {
                    line.draw();
                    line.due = Some(now + PAUSE);
                    line
                }
            };
        }
    }
}

impl ProgressLine {
    fn draw(&mut self) {
        let Some((_, what)) = self.under_way.last().filter(|_| !self.is_off) else {
            return;
        };
        // A line that wraps cannot be taken back.
        let columns = narration_width();
        let what = neutral(what).replace(['\n', '\t'], " ");
        // Four for the dots, and one that stays free, because some terminals wrap as soon as the
        // last one is full.
        let text = format!("{} ...", cut(&what, columns - 5));
        if self.drawn.as_ref() != Some(&text) {
            self.erase();
            self.write(&text);
            self.drawn = Some(text);
        }
    }

    fn erase(&mut self) {
        if let Some(text) = self.drawn.take() {
            // Every terminal understands spaces.
            self.write(&format!("\r{:1$}\r", "", text.width()));
        }
    }

    /// There is no place to report that standard error is gone.
    fn write(&mut self, text: &str) {
        let _ = self.to.write_all(text.as_bytes());
        let _ = self.to.flush();
    }
}
