//! One table of everything that has a bar, in Markdown:
//!
//! ```text
//! cargo bench --bench table -- [--quick] [--rounds 7] [--generate] [--peer <name>=<program>]… <repository>…
//! ```
//!
//! Both sides of a row are whole processes that run in turn in one scene (ABAB), after one run of each that does not
//! count; the figures are medians of their times and the peak memory of the largest process of one more run
//! under GNU time, where there is one. Everything is done in clones beside the system's temporary files
//! (`TMPDIR`), so a directory in memory takes the disk out of the figures. `--generate` adds a repository of
//! 100,000 files. `--quick` takes few rounds and small crowds: it shows that the table works, not how
//! fast anything is. Known peers are worktrunk (`wt`) and git-worktree-runner (`git-gtr`), where they are on
//! `PATH` or given with `--peer`. A repository of more than 20,000 files gets five rounds at the most, and no crowd of
//! spawns. The program that people install is measured by
//!
//! ```text
//! cargo build --release --locked && GIT_AGENT_MEASURED="$PWD/target/release/git-agent" cargo bench --bench table -- …
//! ```

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "a bench reads its arguments, prints, and may panic"
)]

mod crowds;
mod lifecycle;
mod machine;
mod measure;
mod pool;
mod scene;
#[path = "../support/mod.rs"]
mod support;

use scene::Scene;
use std::path::{Path, PathBuf};
use support::repository::{count_files, generate};
use support::{AGENT, arguments, storm};

/// A repository of more files is large: it takes long, and its worktrees fill a directory in memory.
const LARGE: usize = 20_000;
/// So many rounds are enough there.
const FEW_ROUNDS: usize = 5;

/// What the command line asks for.
#[derive(Clone)]
struct Options {
    quick: bool,
    rounds: usize,
    wt: Option<PathBuf>,
    gtr: Option<PathBuf>,
    repositories: Vec<PathBuf>,
    generate: bool,
}

impl Options {
    fn rounds(&self) -> usize {
        if self.quick { 1 } else { self.rounds }
    }

    /// A number of agents, rows or messages.
    fn size(&self, size: usize) -> usize {
        if self.quick { size.min(5) } else { size }
    }
}

fn main() {
    let words = arguments();
    // This program starts itself for what libgit2 does, and for many writers.
    if let [order, repository, what] = words.as_slice() {
        match order.as_str() {
            "libgit2" => return scene::checkout_by_libgit2(repository, what),
            storm::ORDER => return storm::append(repository, what),
            _ => {}
        }
    }
    let options = parse(&words);
    println!("`cargo bench --bench table -- {}`, of `{AGENT}`\n", words.join(" "));
    machine::describe();
    measure::head();
    machine::program(&options);
    let dir = tempfile::tempdir().expect("temporary directory");
    for repository in &options.repositories {
        let name = repository.file_name().and_then(|name| name.to_str());
        one_repository(&options, dir.path(), name.expect("a name"), repository);
    }
    if options.generate {
        let files = if options.quick { 500 } else { 100_000 };
        let origin = dir.path().join("generated");
        generate(&origin, files);
        one_repository(&options, dir.path(), "generated", &origin);
    }
    crowds::measure(&options, dir.path());
    println!("\nload at the end: {}", machine::load());
}

fn parse(words: &[String]) -> Options {
    let mut options = Options {
        quick: false,
        rounds: 7,
        wt: on_path("wt"),
        gtr: on_path("git-gtr"),
        repositories: Vec::new(),
        generate: false,
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--quick" => options.quick = true,
            "--generate" => options.generate = true,
            "--rounds" => {
                let number = words.next().and_then(|word| word.parse().ok());
                options.rounds = number.expect("--rounds wants a number");
            }
            "--peer" => match words.next().and_then(|peer| peer.split_once('=')) {
                Some(("wt", program)) => options.wt = Some(program.into()),
                Some(("git-gtr", program)) => options.gtr = Some(program.into()),
                _ => panic!("--peer wants wt=<program> or git-gtr=<program>"),
            },
            path => {
                let path = std::fs::canonicalize(path);
                options.repositories.push(path.expect("a repository"));
            }
        }
    }
    options
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut places = std::env::split_paths(&path).map(|place| place.join(name));
    places.find(|program| program.is_file())
}

fn one_repository(options: &Options, dir: &Path, name: &str, origin: &Path) {
    let dir = dir.join(format!("{name}-scenes"));
    std::fs::create_dir(&dir).expect("directory");
    let scene = Scene::clone(&dir, name, origin);
    let is_large = count_files(&scene.main) > LARGE;
    let mut options = options.clone();
    if is_large {
        options.rounds = options.rounds.min(FEW_ROUNDS);
    }
    lifecycle::spawn(&options, &scene);
    lifecycle::remove(&options, &scene);
    lifecycle::check_and_judge(&options, &scene);
    lifecycle::list(&options, &scene);
    if !is_large {
        lifecycle::at_once(&options, &scene);
    }
    pool::measure(&options, &scene);
    std::fs::remove_dir_all(&dir).expect("removed");
}
