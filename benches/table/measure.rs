//! Sides that run in turn, and rows of Markdown.

use crate::support::clock::{median, milliseconds, time};
use crate::support::{run, text};
use std::path::{Path, PathBuf};
use std::time::Duration;

const GNU_TIME: &str = "/usr/bin/time";

/// One command line in one directory.
#[derive(Clone)]
pub(crate) struct Side {
    pub(crate) name: String,
    pub(crate) directory: PathBuf,
    pub(crate) words: Vec<String>,
}

/// What a side cost.
#[derive(Clone)]
pub(crate) struct Cost {
    pub(crate) name: String,
    pub(crate) time: Duration,
    /// Of the largest process, in KiB; of one run.
    pub(crate) peak: Option<f64>,
}

/// What a row is held against.
#[derive(Clone, Copy)]
pub(crate) enum Bar {
    /// At most so many times the other side.
    Ratio(f64),
    /// Less than so many milliseconds.
    Within(f64),
    /// Nothing.
    None,
}

impl Side {
    pub(crate) fn new(name: &str, directory: &Path, words: &[&str]) -> Side {
        Side {
            name: name.to_owned(),
            directory: directory.to_owned(),
            words: words.iter().map(|word| (*word).to_owned()).collect(),
        }
    }

    fn words(&self) -> Vec<&str> {
        self.words.iter().map(String::as_str).collect()
    }

    pub(crate) fn time(&self) -> Duration {
        time(&self.directory, &self.words())
    }

    fn peak(&self) -> Option<f64> {
        let figure = tempfile::NamedTempFile::new().ok()?;
        let path = text(figure.path());
        let before = [GNU_TIME, "--format=%M", "--output", path];
        if !Path::new(GNU_TIME).exists() {
            return None;
        }
        run(&self.directory, &[&before[..], &self.words()].concat());
        let said = std::fs::read_to_string(path).ok()?;
        said.lines().last()?.trim().parse().ok()
    }
}

/// Runs all sides in turn, `before` and `after` each run, outside the clock.
pub(crate) fn alternate(
    rounds: usize,
    sides: &[Side],
    mut before: impl FnMut(&mut Side),
    mut after: impl FnMut(&Side),
) -> Vec<Cost> {
    let mut times = vec![Vec::new(); sides.len()];
    let mut peaks = vec![None; sides.len()];
    // The first round warms the caches and the last one is for the memory.
    for round in 0..rounds + 2 {
        for (at, side) in sides.iter().enumerate() {
            let mut side = side.clone();
            before(&mut side);
            if round == rounds + 1 {
                peaks[at] = side.peak();
            } else {
                let took = side.time();
                if round > 0 {
                    times[at].push(took);
                }
            }
            after(&side);
        }
    }
    let costs = sides.iter().zip(times).zip(peaks);
    costs
        .map(|((side, times), peak)| Cost { name: side.name.clone(), time: median(times), peak })
        .collect()
}

/// As [`alternate`], for sides that change nothing.
pub(crate) fn readers(rounds: usize, sides: &[Side]) -> Vec<Cost> {
    alternate(rounds, sides, |_| (), |_| ())
}

pub(crate) fn head() {
    println!("| what | where | against | its time | ours | ratio | its memory | ours | bar | |");
    println!("|---|---|---|--:|--:|--:|--:|--:|---|---|");
}

/// One row: ours, beside another's cost where there is one.
pub(crate) fn row(what: &str, place: &str, theirs: Option<&Cost>, ours: &Cost, bar: Bar) {
    let ratio = theirs.map(|theirs| ours.time.as_secs_f64() / theirs.time.as_secs_f64());
    let (wanted, met) = match (bar, ratio) {
        (Bar::Ratio(limit), Some(ratio)) => (format!("≤ {limit} ×"), ratio <= limit),
        (Bar::Within(limit), _) => (format!("< {limit} ms"), milliseconds(ours.time) < limit),
        _ => (String::new(), true),
    };
    println!(
        "| {what} | {place} | {} | {} | {} | {} | {} | {} | {wanted} | {} |",
        theirs.map_or("", |theirs| &theirs.name),
        theirs.map_or(String::new(), |theirs| ms(theirs.time)),
        ms(ours.time),
        ratio.map_or(String::new(), |ratio| format!("{ratio:.2}")),
        theirs.map_or(String::new(), |theirs| mib(theirs.peak)),
        mib(ours.peak),
        verdict(&wanted, met),
    );
}

/// A row of one figure that is no time.
pub(crate) fn figure(what: &str, place: &str, figure: &str, wanted: &str, met: bool) {
    let met = verdict(wanted, met);
    println!("| {what} | {place} | | | {figure} | | | | {wanted} | {met} |");
}

fn verdict(wanted: &str, met: bool) -> &'static str {
    match (wanted.is_empty(), met) {
        (true, _) => "",
        (false, true) => "met",
        (false, false) => "**missed**",
    }
}

pub(crate) fn cost(name: &str, times: Vec<Duration>) -> Cost {
    Cost { name: name.to_owned(), time: median(times), peak: None }
}

pub(crate) fn ms(time: Duration) -> String {
    let ms = milliseconds(time);
    if ms < 100.0 { format!("{ms:.1} ms") } else { format!("{ms:.0} ms") }
}

fn mib(peak: Option<f64>) -> String {
    peak.map_or(String::new(), |kib| format!("{:.1} MiB", kib / 1024.0))
}
