//! The machine's shape, and the program by itself.

use crate::Options;
use crate::measure::{Bar, Side, figure, readers, row};
use crate::support::{AGENT, run, text};
use std::path::Path;

pub(crate) fn load() -> String {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

pub(crate) fn describe() {
    let here = Path::new(".");
    let said = |words: &[&str]| {
        let output = run(here, words).stdout;
        String::from_utf8_lossy(&output).trim().to_owned()
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = memory.split_whitespace().nth(1).and_then(|word| word.parse::<f64>().ok());
    let tmp = std::env::temp_dir();
    println!(
        "{cores} cores, {:.0} GiB of memory, {} below `TMPDIR`, {}, {}, load at the start {}\n",
        kib.unwrap_or_default() / 1024.0 / 1024.0,
        said(&["stat", "--file-system", "--format=%T", text(&tmp)]),
        said(&["uname", "-sr"]),
        said(&["git", "--version"]),
        load(),
    );
}

/// Size, and how long it takes to start.
pub(crate) fn program(options: &Options) {
    let size = std::fs::metadata(AGENT).expect("built").len() as f64 / 1e6;
    figure("size of the binary", "", &format!("{size:.2} MB"), "< 10 MB", size < 10.0);
    let here = Path::new(".");
    let sides = [("`git --version`", "git"), ("", AGENT)];
    let sides = sides.map(|(name, program)| Side::new(name, here, &[program, "--version"]));
    let costs = readers(options.rounds() * 7, &sides);
    row("`--version`", "", Some(&costs[0]), &costs[1], Bar::Within(3.0));
}
