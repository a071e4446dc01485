//! How long things take.

use super::command;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// The time of a process that must succeed, from its start to its end.
pub(crate) fn time(directory: &Path, words: &[&str]) -> Duration {
    let mut command = command(directory, words);
    // Output is discarded, so printing costs nothing.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    let status = command.status().expect("starts");
    let took = start.elapsed();
    assert!(status.success(), "{words:?}");
    took
}

/// The median of so many rounds of the same, each told its number.
pub(crate) fn median_of<T>(rounds: usize, mut work: impl FnMut(usize) -> T) -> Duration {
    let times = (0..rounds).map(|round| {
        let start = Instant::now();
        work(round);
        start.elapsed()
    });
    median(times.collect())
}

pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// The medians of several sides that run in turn, after one round that warms the caches and does not count.
pub(crate) fn medians<const SIDES: usize>(
    rounds: usize,
    mut round: impl FnMut(usize) -> [Duration; SIDES],
) -> [Duration; SIDES] {
    let mut times = [const { Vec::new() }; SIDES];
    for number in 0..=rounds {
        let measured = round(number);
        if number > 0 {
            for (times, took) in times.iter_mut().zip(measured) {
                times.push(took);
            }
        }
    }
    times.map(median)
}

pub(crate) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Starts many processes at the same moment; what each of them said, and the time until the last one ended.
pub(crate) fn at_once(
    count: usize,
    prepare: impl Fn() -> Command + Sync,
) -> (Vec<Output>, Duration) {
    let barrier = Barrier::new(count + 1);
    let process = || {
        let mut command = prepare();
        barrier.wait();
        command.output().expect("starts")
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..count).map(|_| scope.spawn(process)).collect();
        barrier.wait();
        let start = Instant::now();
        let ended = running.into_iter().map(|thread| thread.join().expect("no panic"));
        (ended.collect(), start.elapsed())
    })
}
