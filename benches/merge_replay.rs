//! Replays real merges of any repository: `cargo bench --bench merge_replay -- <repository> [count]`.
//!
//! For two-parent merges spread evenly over history, `git merge-tree --write-tree` is asked by hand and
//! its status, tree and list of conflicting paths are compared with what `Repo::merge` answers; and its
//! verdict with what libgit2 says, which answers where git is too old. Disagreements are listed.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "a bench reads its arguments, prints, and may panic"
)]

mod support;

use git_agent::domain::value::oid::Oid;
use git_agent::git::Repo;
use git_agent::git::history::merge::MergeResult;
use std::path::Path;
use std::process::Output;
use support::arguments;

fn main() {
    let mut arguments = arguments().into_iter();
    let Some(repository) = arguments.next() else {
        println!("usage: cargo bench --bench merge_replay -- <repository> [count]");
        return;
    };
    let count = arguments.next().and_then(|word| word.parse().ok());
    let repository = Path::new(&repository);
    let repo = Repo::open(repository).expect("a repository");
    let merges = merges(repository, count.unwrap_or(500));
    let mut same = (0, 0);
    let mut conflicts = 0;
    for (ours, theirs) in &merges {
        let git = answer_of_git(repo.common_dir(), *ours, *theirs);
        conflicts += usize::from(matches!(git, Answer::Conflicts(_)));
        let agent = answer(repo.merge(*ours, *theirs).expect("an answer").result);
        let libgit2 = repo.merge_by_libgit2(*ours, *theirs);
        let libgit2 = libgit2.map_or(Answer::Failed, |merge| answer(merge.result));
        let verdict =
            |one: &Answer, two: &Answer| std::mem::discriminant(one) == std::mem::discriminant(two);
        same.0 += usize::from(agent == git);
        same.1 += usize::from(verdict(&libgit2, &git));
        if agent != git {
            println!("git-agent differs on {ours} {theirs}:\n  {agent:?}\n  {git:?}");
        }
        if !verdict(&libgit2, &git) {
            println!("libgit2 differs on {ours} {theirs}: {libgit2:?} against {git:?}");
        }
    }
    let total = merges.len();
    println!("{total} merges, {conflicts} with conflicts");
    println!("git-agent: {} of {total} equal in verdict, tree and paths", same.0);
    println!("libgit2 fallback: {} of {total} equal in verdict", same.1);
}

#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Clean(Oid),
    Conflicts(Vec<Vec<u8>>),
    Unrelated,
    Failed,
}

fn answer(result: MergeResult) -> Answer {
    match result {
        MergeResult::Clean { tree } => Answer::Clean(tree),
        MergeResult::Conflicts { conflicts, .. } => {
            Answer::Conflicts(conflicts.into_iter().map(|conflict| conflict.path).collect())
        }
        MergeResult::Unrelated => Answer::Unrelated,
    }
}

fn answer_of_git(common_dir: &Path, ours: Oid, theirs: Oid) -> Answer {
    let words = ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages"];
    let source = format!("--attr-source={ours}");
    let oids = [ours.to_hex(), theirs.to_hex()];
    let words: Vec<&str> = std::iter::once(source.as_str())
        .chain(words)
        .chain(oids.iter().map(String::as_str))
        .collect();
    let output = git(common_dir, &words);
    let mut fields = output.stdout.split(|&byte| byte == 0);
    let tree = fields.next().and_then(|hex| Oid::from_hex(std::str::from_utf8(hex).ok()?));
    let mut paths: Vec<Vec<u8>> =
        fields.take_while(|f| !f.is_empty()).map(<[u8]>::to_vec).collect();
    paths.sort();
    match (output.status.code(), tree) {
        (Some(0), Some(tree)) => Answer::Clean(tree),
        (Some(1), Some(_)) => Answer::Conflicts(paths),
        _ if output.stderr.windows(9).any(|words| words == b"unrelated") => Answer::Unrelated,
        _ => Answer::Failed,
    }
}

/// At most `count` two-parent merges, evenly over history: the parents of each.
fn merges(repository: &Path, count: usize) -> Vec<(Oid, Oid)> {
    let words = ["rev-list", "--all", "--parents", "--min-parents=2", "--max-parents=2"];
    let output = git(repository, &words);
    let text = String::from_utf8_lossy(&output.stdout);
    let parents = |line: &str| {
        let mut oids = line.split(' ').skip(1).filter_map(Oid::from_hex);
        Some((oids.next()?, oids.next()?))
    };
    let all: Vec<_> = text.lines().filter_map(parents).collect();
    let step = (all.len() / count.max(1)).max(1);
    all.into_iter().step_by(step).take(count).collect()
}

fn git(directory: &Path, words: &[&str]) -> Output {
    let mut command = support::command(directory, &[&["git"], words].concat());
    command.env("LC_ALL", "C").output().expect("git starts")
}
