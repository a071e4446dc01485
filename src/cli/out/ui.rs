//! The one door to standard output and standard error.
//!
//! Standard output carries the answer, standard error the narration, in every format; after a failure
//! standard output is empty. A reader that goes away ends the program quietly.

use crate::agents::Ctx;
use crate::agents::context::ctx::{Activity, ActivityObserver};
use crate::cli::out::format::Copy;
pub(in crate::cli) use crate::cli::out::format::Format;
use crate::cli::out::neutral::{NeutralWriter, neutral};
use crate::cli::out::progress::Progress;
use crate::cli::out::render::table::{labelled, wrapped};
use crate::cli::out::terminal::{BAD, HINT, PLAIN, WARN, narration_width};
use crate::error::{Code, Error, Exit, Result};
use crate::ops::error_report::{self, ErrorReport};
use crate::ops::run::Echo;
use crate::ops::verify::save;
use anstream::adapter::strip_str;
use anstream::{AutoStream, ColorChoice};
use rustix::stdio::{stderr, stdin, stdout};
use rustix::termios::isatty;
use serde::Serialize;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

/// What can be written as one JSON value.
pub(in crate::cli) trait AsJson {
    /// The whole as one value.
    fn json(&self) -> Value;
}

impl<T: Serialize> AsJson for T {
    fn json(&self) -> Value {
        json!(self)
    }
}

/// A text without what colours it.
pub(in crate::cli) fn plain(text: &str) -> String {
    strip_str(text).to_string()
}

/// Something a command answers.
pub(in crate::cli) trait Answer: AsJson {
    /// For people; empty for nothing to say.
    fn text(&self) -> String;
    /// The same as a text.
    fn json_text(&self) -> String {
        line(&self.json())
    }
    /// The answer as lines; the whole in one unless it is a list.
    fn rows(&self) -> Vec<Value> {
        vec![self.json()]
    }
    /// The command that shows what was changed; `None` where nothing was, or where once more is no harm.
    fn to_see_it(&self) -> Option<String> {
        None
    }
    /// The answer as a SARIF log; `None` when it is no list of findings.
    fn sarif(&self) -> Option<Value> {
        None
    }
    /// The answer as Markdown; `None` as for SARIF.
    fn markdown(&self) -> Option<String> {
        None
    }
}

/// Where a command speaks.
pub(in crate::cli) struct Ui {
    format: Format,
    out: Box<dyn Write>,
    colour: ColorChoice,
    err: Box<dyn Write>,
    /// Where all of it goes, where that is no stream of this process.
    kept: Option<KeptText>,
    picks: bool,
    /// What a person sees who waits; absent where none does.
    progress: Option<Progress>,
}

impl Ui {
    /// Speaks on this process's streams, with colour where they want it.
    pub(in crate::cli) fn of_process(format: Format) -> Ui {
        Ui {
            format,
            out: Box::new(std::io::stdout()),
            colour: AutoStream::choice(&std::io::stdout()),
            err: Box::new(std::io::stderr()),
            kept: None,
            picks: false,
            progress: (format == Format::Text && isatty(stderr()))
                .then(|| Progress::new(Box::new(anstream::stderr()))),
        }
    }

    /// Keeps what it says for a screen that shows it.
    pub(in crate::cli) fn kept(kept: &KeptText) -> Ui {
        Ui {
            format: Format::Text,
            out: Box::new(kept.clone()),
            colour: ColorChoice::Never,
            err: Box::new(kept.clone()),
            kept: Some(kept.clone()),
            picks: false,
            progress: None,
        }
    }

    /// Whether a person looks at both of our streams as they are written.
    pub(in crate::cli) fn is_watched(&self) -> bool {
        self.kept.is_none() && isatty(stdout()) && isatty(stderr())
    }

    /// The same, which lets a person pick an agent that was not named, or does not.
    pub(in crate::cli) fn picking(self, picks: bool) -> Ui {
        Ui { picks, ..self }
    }

    /// Whether a person is there who can pick an agent: a script has no terminal, and a program reads JSON.
    pub(in crate::cli) fn may_pick(&self) -> bool {
        self.picks && self.format == Format::Text && self.is_watched() && isatty(stdin())
    }

    /// Whether a person is there who can answer a question.
    pub(in crate::cli) fn may_ask(&self) -> bool {
        self.format == Format::Text && isatty(stdin()) && isatty(stdout())
    }

    /// Asks a person for a yes.
    pub(in crate::cli) fn ask(&mut self, question: &str) -> Result<bool> {
        self.print(&format!("{question} [y/N] "))?;
        let mut answer = String::new();
        // What cannot be read is no yes.
        let _ = std::io::stdin().read_line(&mut answer);
        let answer = answer.trim().to_ascii_lowercase();
        Ok(matches!(answer.as_str(), "y" | "yes"))
    }

    /// What is said, where it is kept.
    pub(in crate::cli) fn keeps(&self) -> Option<&KeptText> {
        self.kept.as_ref()
    }

    /// Whether answers have colours.
    pub(in crate::cli) fn is_coloured(&self) -> bool {
        self.colour != ColorChoice::Never
    }

    /// The format that was asked for.
    pub(in crate::cli) fn format(&self) -> Format {
        self.format
    }

    /// Refuses to begin what has no answer in the format that was asked for.
    pub(in crate::cli) fn require_common_format(&self) -> Result<()> {
        match self.format {
            Format::Sarif | Format::Markdown | Format::AgentTrace | Format::Otlp => {
                Err(not_written())
            }
            Format::Text | Format::Json | Format::Ndjson => Ok(()),
        }
    }

    /// Writes an answer.
    pub(in crate::cli) fn answer(&mut self, answer: &dyn Answer) -> Result<()> {
        // Whole before anything is printed: after a failure standard output is empty.
        let text = written(answer, self.format)?;
        self.print(&text).map_err(|error| match answer.to_see_it() {
            Some(command) => {
                error.hint_only(format!("it is done all the same; to see it, run {command}"))
            }
            None => error,
        })
    }

    /// Writes the answer of a command that has done what it was to do.
    pub(in crate::cli) fn done(&mut self, answer: &dyn Answer) -> Result<Exit> {
        self.answer(answer)?;
        Ok(Exit::Yes)
    }

    /// Writes an answer to files, and then where it always goes.
    pub(in crate::cli) fn answer_also(
        &mut self,
        answer: &dyn Answer,
        ctx: &Ctx,
        copies: &[Copy],
    ) -> Result<()> {
        for copy in copies {
            let text = written(answer, copy.format)?;
            // Colours are for terminals.
            let text = plain(&text);
            // Of a stream that is led into a file this process has the place already.
            match copy.path.to_str() {
                Some("/dev/stdout") => self.print(&text)?,
                _ => save(ctx, &copy.path, &text)?,
            }
        }
        self.answer(answer)
    }

    /// Writes one line of an answer that is a list, as soon as it is known.
    pub(in crate::cli) fn row(&mut self, row: &Value) -> Result<()> {
        self.print(&line(row))
    }

    /// Writes text to standard output, harmless for a terminal.
    pub(in crate::cli) fn print(&mut self, text: &str) -> Result<()> {
        self.progress.iter().for_each(Progress::hide);
        // Taking colours out of a text gives many pieces, which are put together so as to be written at once.
        let mut shown = AutoStream::new(Vec::new(), self.colour);
        let written = shown
            .write_all(neutral(text).as_bytes())
            .and_then(|()| self.out.write_all(&shown.into_inner()))
            .and_then(|()| self.out.flush());
        match written {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            other => other.map_err(|source| Error::io("could not write the answer", source)),
        }
    }

    /// This process's streams for a command to speak on: a file gets what it says as it is, and a terminal made harmless.
    pub(in crate::cli) fn echo(&self) -> Result<Echo<'static>> {
        if let Some(kept) = &self.kept {
            return Ok(Echo {
                out: Some(Box::new(kept.clone())),
                err: Some(Box::new(kept.clone())),
                begun: None,
            });
        }
        let harmless = |stream: BorrowedFd<'_>| -> Result<Box<dyn Write + Send>> {
            let file = shared(stream)?;
            if isatty(&file) { Ok(Box::new(NeutralWriter::new(file))) } else { Ok(Box::new(file)) }
        };
        Ok(Echo { out: Some(harmless(stdout())?), err: Some(harmless(stderr())?), begun: None })
    }

    /// Standard error, for moving the cursor and the like among texts that were made harmless.
    pub(in crate::cli) fn screen(&self) -> Result<Box<dyn Write + Send>> {
        Ok(Box::new(shared(stderr())?))
    }

    /// Writes an answer to standard error, where standard output belongs to a command.
    pub(in crate::cli) fn tell(&mut self, answer: &dyn Answer) {
        self.narrate(&answer.text());
    }

    /// Standard output, for a screen that is drawn on it.
    pub(in crate::cli) fn terminal(&self) -> Result<File> {
        shared(stdout())
    }

    /// Rings the terminal of a person who waited.
    pub(in crate::cli) fn ring(&self, what: &str) -> Result<()> {
        if self.format == Format::Text && self.is_watched() {
            let written = self.terminal()?.write_all(bell(what).as_bytes());
            written.map_err(|error| Error::io("could not ring the terminal", error))?;
        }
        Ok(())
    }

    /// Says something besides the answer.
    pub(in crate::cli) fn say(&mut self, text: &str) {
        self.narrate(text);
    }

    /// Says something that needs attention though the command goes on. A program that reads JSON finds it in the answer,
    /// and one object or nothing on standard error.
    pub(in crate::cli) fn warn(&mut self, text: &str) {
        if self.format != Format::Text {
            return;
        }
        // As an error stands: what is wrong on one line, what helps on the next, each as short as can be.
        let width = self.narrow();
        let (what, remedy) = match text.split_once("; to ") {
            Some((what, remedy)) => (what, Some(format!("to {remedy}"))),
            None => (text, None),
        };
        let mut text = format!("{}\n", labelled(WARN, "warning:", what, 2, width));
        if let Some(remedy) = remedy {
            text.push_str(&format!("{}\n", labelled(HINT, "hint:", &remedy, 2, width)));
        }
        self.narrate(&text);
    }

    /// Writes a text that another program will read to standard error; nothing for none.
    pub(in crate::cli) fn explain(&mut self, text: &str) {
        if !text.is_empty() {
            self.narrate(&format!("{text}\n"));
        }
    }

    /// Says on a terminal what is waited for, once that takes a while, until what is given is dropped.
    pub(in crate::cli) fn activity(&self, what: &str) -> Option<Activity> {
        self.progress.as_ref().map(|progress| progress.begin(what))
    }

    /// What operations tell what they do at the moment, where a person can see it.
    pub(in crate::cli) fn observer(&self) -> Option<ActivityObserver> {
        self.progress.as_ref().map(Progress::observer)
    }

    /// Shows no more of that, because the terminal belongs to something else or the caller wants to hear nothing.
    pub(in crate::cli) fn be_quiet(&self) {
        self.progress.iter().for_each(Progress::end);
    }

    /// Shows an error and gives the status to end with.
    pub(in crate::cli) fn fail(&mut self, error: &Error) -> Exit {
        let text = match self.format {
            Format::Text => error_text(error, self.narrow()),
            _ => line(&error_json(error)),
        };
        self.narrate(&text);
        error.code().exit()
    }

    /// How many characters fit into a line of what is said besides the answer; programs and screens break lines themselves.
    fn narrow(&self) -> usize {
        let on_terminal = self.progress.as_ref().map(|_| narration_width());
        on_terminal.unwrap_or(usize::MAX)
    }

    /// There is no place left to report that standard error is gone.
    fn narrate(&mut self, text: &str) {
        self.progress.iter().for_each(Progress::hide);
        // At once, as an answer: what a command shows meanwhile may come between the pieces.
        let mut shown = AutoStream::new(Vec::new(), AutoStream::choice(&std::io::stderr()));
        let _ = shown.write_all(neutral(text).as_bytes());
        let _ = self.err.write_all(&shown.into_inner());
        let _ = self.err.flush();
    }
}

/// Rings the terminal, and tells those that show notifications (OSC 9) what it is about.
pub(in crate::cli) fn bell(text: &str) -> String {
    let text: String = text
        .chars()
        // The text may be an agent's: another character could end the sequence and begin one of its
        // own.
        .filter(|c| c.is_ascii_graphic() || *c == ' ')
        .collect();
    format!("\x1b]9;git agent: {text}\x1b\\\x07")
}

/// What was said to a screen.
#[derive(Clone, Default)]
pub(in crate::cli) struct KeptText(Arc<Mutex<Vec<u8>>>);

/// More than a person reads on a screen is not kept.
const MOST_KEPT: usize = 4 << 20;

impl KeptText {
    /// All of it, harmless for a terminal and without colours.
    pub(in crate::cli) fn text(&self) -> String {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        neutral(&strip_str(&String::from_utf8_lossy(&bytes)).to_string()).into_owned()
    }
}

impl Write for KeptText {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MOST_KEPT.saturating_sub(kept.len());
        kept.extend(bytes.iter().take(room));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// An answer in a format.
fn written(answer: &dyn Answer, format: Format) -> Result<String> {
    Ok(match format {
        Format::Text => answer.text(),
        Format::Json => answer.json_text(),
        Format::Ndjson => answer.rows().iter().map(line).collect(),
        Format::Sarif => answer.sarif().as_ref().map(line).ok_or_else(not_written)?,
        Format::Markdown => answer.markdown().ok_or_else(not_written)?,
        Format::AgentTrace | Format::Otlp => return Err(not_written()),
    })
}

fn not_written() -> Error {
    let what = "this command has no answer in that format";
    Error::new(Code::Usage, what).hint("to read its answer by machine, pass --format json")
}

fn line(value: &Value) -> String {
    format!("{value}\n")
}

fn error_text(error: &Error, width: usize) -> String {
    let label = format!("error[{}]:", error.code());
    let mut text = format!("{}\n", labelled(BAD, &label, error.message(), 2, width));
    let details: Vec<_> = error.details().iter().map(|text| text.trim_end()).collect();
    if !details.is_empty() {
        // Sentences stand below each other; what has several lines stands apart.
        let apart = details.iter().any(|detail| detail.contains('\n'));
        // A block, such as an excerpt of a file, is not broken.
        let details: Vec<_> = details
            .iter()
            .map(|detail| {
                if detail.contains('\n') { (*detail).to_owned() } else { wrapped(detail, 4, width) }
            })
            .collect();
        let details = details.join(if apart { "\n\n" } else { "\n" });
        text.push_str(&format!("\n{details}\n\n"));
    }
    for cause in error.causes() {
        text.push_str(&format!("{}\n", labelled(PLAIN, "caused by:", &cause, 2, width)));
    }
    for hint in error.hints(error_report::remedy_command) {
        text.push_str(&format!(
            "{}
",
            labelled(HINT, "hint:", &hint, 2, width)
        ));
    }
    text
}

/// An error as one value, as the batches have it too.
pub(in crate::cli) fn error_json(error: &Error) -> Value {
    json!({ "schema": "git-agent.error/2", "error": error_object(error) })
}

/// The error in it.
pub(in crate::cli) fn error_object(error: &Error) -> Value {
    json!(ErrorReport::from(error))
}

fn shared(stream: BorrowedFd<'_>) -> Result<File> {
    let owned = stream.try_clone_to_owned();
    let owned = owned.map_err(|error| Error::io("could not share our output", error))?;
    Ok(File::from(owned))
}
