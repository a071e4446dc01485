//! Moving a worktree along, against `git read-tree -m -u` on a copy of it.

use crate::support::{TestRepo, git_in, git_output};
use git_agent::domain::value::oid::Oid;
use git_agent::error::Code;
use git_agent::git::Repo;
use git_agent::git::landing::Checkout;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

const CASES: u32 = 30;

/// What the landing changes.
const PATHS: [&str; 8] =
    ["a.txt", "b/c.txt", "b/d/e.up", "b/d/f", "g/h/i.id", "link", "tool.sh", "deep/er/x"];
/// What it leaves alone, and what may come.
const OTHERS: [&str; 6] = ["README", "b/other", "g/other", "new/one", "b/d/new", "x/y/z"];
const ATTRIBUTES: &str = "*.txt text eol=crlf\n*.up filter=up\n*.id ident\n";

/// Attributes by which every file is its blob's bytes.
const PLAIN: &str = "*.txt text eol=lf\n*.up -diff\n";

/// One change: what happens, where, and with which content.
type Deed = (usize, usize, u8);

fn name(at: usize) -> &'static str {
    PATHS.iter().chain(&OTHERS).nth(at).expect("a name")
}

fn remove(path: &Path) {
    let _ = fs::remove_file(path);
    let _ = fs::remove_dir_all(path);
}

/// Writes where nothing but directories lead; a file in the place of one stays.
fn put(path: &Path, content: &str) {
    let made = fs::create_dir_all(path.parent().expect("below"));
    if made.is_ok() && !path.is_dir() {
        remove(path);
        fs::write(path, content).expect("written");
    }
}

/// What the landing brings.
fn land(top: &Path, (what, at, content): Deed) {
    let path = top.join(name(at));
    match what {
        0..=3 => put(&path, &format!("$Id$\nlanded {content}\n")),
        4 => remove(&path),
        5 if path.is_file() && !path.is_symlink() => {
            let mode = fs::metadata(&path).expect("there").permissions().mode();
            let mode = fs::Permissions::from_mode(mode ^ 0o111);
            fs::set_permissions(&path, mode).expect("changed");
        }
        6 => {
            put(&path, "");
            remove(&path);
            let _ = symlink(format!("target{content}"), &path);
        }
        7 => drop(fs::rename(&path, top.join(name((at + 1) % PATHS.len())))),
        8 if content % 2 == 0 => {
            remove(&path);
            put(&path.join("below"), "a directory now\n");
        }
        9 if content % 4 == 0 => put(&top.join(".gitattributes"), "*.txt text eol=lf\n"),
        9 if content % 4 == 1 => put(&top.join(".gitattributes"), ATTRIBUTES),
        9 if content % 4 == 2 => put(&top.join("b/.gitattributes"), "*.txt eol=crlf\n"),
        9 => put(&top.join("b/d/.gitignore"), "new\n"),
        _ => {}
    }
}

/// What somebody did in the target meanwhile.
fn dirty(top: &Path, (what, at, content): Deed) {
    // What is not in the landing's way is more interesting than what is.
    let at = match content % 4 {
        0 => at,
        _ => PATHS.len() + at % OTHERS.len(),
    };
    let (name, path) = (name(at), top.join(name(at)));
    match what {
        0..=2 => put(&path, &format!("mine {content}\n")),
        3 => {
            put(&path, &format!("mine, staged {content}\n"));
            git_output(top, ["add", name]);
        }
        4 => {
            git_output(top, ["rm", "--quiet", "--cached", name]);
        }
        5 => remove(&path),
        6 => {
            // Touched, and not changed.
            if let Ok(text) = fs::read(&path) {
                let link = path.is_symlink();
                (!link).then(|| fs::write(&path, text).expect("written"));
            }
        }
        7 => {
            git_output(top, ["rm", "--quiet", "--force", name]);
        }
        8 if content % 2 == 0 => {
            let file = top.join(".gitattributes");
            let attributes = fs::read_to_string(&file).expect("text");
            let [from, to] =
                if attributes.contains("crlf") { ["crlf", "lf"] } else { ["lf", "crlf"] };
            let attributes = attributes.replace(from, to);
            put(&file, &attributes);
        }
        // Never what the landing brings: a file that is so already stays, though git refuses then.
        8 if content == 1 => put(&top.join("b/.gitattributes"), "# mine\n*.txt eol=crlf\n"),
        _ => {}
    }
}

/// Every file with its mode and content, and every directory.
fn files(top: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let walk = walkdir::WalkDir::new(top).min_depth(1).into_iter();
    let walk = walk.filter_entry(|entry| entry.file_name() != ".git");
    let file = |entry: walkdir::DirEntry| {
        let path = entry.path();
        let mode = entry.metadata().expect("there").mode();
        let content = match fs::read_link(path) {
            Ok(target) => target.into_os_string().into_encoded_bytes(),
            Err(_) => fs::read(path).unwrap_or_default(),
        };
        let inside = path.strip_prefix(top).expect("below").to_owned();
        (inside, (mode, content))
    };
    walk.map(|entry| file(entry.expect("readable"))).collect()
}

/// What git says of it.
fn told(top: &Path) -> Vec<String> {
    let words: [&[&str]; 4] = [
        &["ls-files", "--stage", "-v"],
        &["status", "--porcelain"],
        &["write-tree"],
        &["fsck", "--no-dangling", "--no-progress"],
    ];
    words.iter().map(|words| git_in(top, *words)).collect()
}

/// The tree of an index, by a git that knows no cached one.
fn tree_without_cache(top: &Path) -> String {
    let index = top.join(".git/bare-index");
    let staged = git_in(top, ["ls-files", "--stage"]);
    let mut update = crate::support::isolated("git", top);
    update.env("GIT_INDEX_FILE", &index);
    let list = top.join(".git/staged");
    fs::write(&list, staged + "\n").expect("written");
    let list = fs::File::open(list).expect("there");
    let status = update.args(["update-index", "--index-info"]).stdin(list);
    assert!(status.status().expect("starts").success());
    let mut tree = crate::support::isolated("git", top);
    let tree = tree.env("GIT_INDEX_FILE", &index).arg("write-tree");
    let output = tree.output().expect("starts");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A repository at the commit before, and that one and the one after.
fn scene(landing: &[Deed], meanwhile: &[Deed]) -> (TestRepo, String, String) {
    let repo = TestRepo::empty();
    repo.git(["config", "filter.up.clean", "tr a-z A-Z"]);
    repo.git(["config", "filter.up.smudge", "tr A-Z a-z"]);
    let is_plain = landing.len().is_multiple_of(2);
    repo.write(".gitattributes", if is_plain { PLAIN } else { ATTRIBUTES });
    for name in PATHS.iter().chain(&OTHERS[..3]) {
        repo.write(name, format!("before {name}\n"));
    }
    let before = repo.commit_all("before");
    for deed in landing {
        land(&repo.path(), *deed);
    }
    let after = repo.commit_all("after");
    repo.git(["reset", "--quiet", "--hard", &before]);
    // What was written in the second in which the index was is looked into by whoever looks.
    for (inside, _) in files(&repo.path()) {
        let path = repo.path().join(inside);
        if path.is_file() && !path.is_symlink() {
            age(&path, 10_000);
        }
    }
    repo.git(["update-index", "--refresh"]);
    for deed in meanwhile {
        dirty(&repo.path(), *deed);
    }
    (repo, before, after)
}

/// Lets a file have been written so many milliseconds before a certain moment.
fn age(path: &Path, milliseconds: u64) {
    let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let file = fs::File::options().write(true).open(path).expect("there");
    let moment = moment - Duration::from_millis(milliseconds);
    file.set_modified(moment).expect("aged");
}

fn checkout(top: &Path) -> Checkout {
    Checkout { top: top.to_owned(), git_dir: top.join(".git"), view: None }
}

/// Whether it went the short way.
fn compare(landing: &[Deed], meanwhile: &[Deed]) -> bool {
    let (repo, before, after) = scene(landing, meanwhile);
    let top = repo.path();
    let twin = top.with_file_name("twin");
    let copied = std::process::Command::new("cp").arg("-a").args([&top, &twin]).status();
    assert!(copied.expect("starts").success());
    git_output(&twin, ["update-index", "-q", "--refresh"]);
    let theirs = git_output(&twin, ["read-tree", "-m", "-u", &before, &after]);

    let oid = |hex: &str| Oid::from_hex(hex).expect("an oid");
    let opened = Repo::open(&top).expect("a repository");
    let scratch = top.join(".git/scratch");
    let steps = Mutex::new(Vec::new());
    let reached = |step: &str| steps.lock().expect("unpoisoned").push(step.to_owned());
    let unmoved = (files(&top), git_in(&top, ["ls-files", "--stage"]));
    let tree = opened.read_commit(oid(&after)).expect("there").tree;
    let rehearsed = checkout(&top).require_unblocked(&opened, oid(&before), tree, &scratch);
    assert_eq!(rehearsed.is_ok(), theirs.status.success(), "{rehearsed:?}");
    assert_eq!(files(&top), unmoved.0, "looking changes nothing");
    let ours = checkout(&top).carry(&opened, (oid(&before), oid(&after)), &scratch, &reached);
    for left in ["scratch", "scratch.lock", "index.lock"] {
        assert!(!top.join(".git").join(left).exists(), "{left} is left");
    }
    if let Err(error) = ours {
        assert_eq!(error.code(), Code::TargetDirty, "{error:?}");
        assert!(!theirs.status.success(), "git moves it: {error:?}");
        assert_eq!(files(&top), unmoved.0);
        assert_eq!(git_in(&top, ["ls-files", "--stage"]), unmoved.1);
        return false;
    }
    let said = String::from_utf8_lossy(&theirs.stderr);
    assert!(theirs.status.success(), "git refuses: {said}");
    // No file has to be read to see that it is as it should be.
    let differ = |top: &Path| git_in(top, ["diff-files", "--name-only"]);
    git_output(&twin, ["update-index", "-q", "--refresh"]);
    let short = steps.lock().expect("unpoisoned").iter().any(|step| step == "indexed");
    if short && meanwhile.is_empty() {
        assert_eq!(differ(&top), "");
    }
    assert_eq!(files(&top), files(&twin));
    assert_eq!(told(&top), told(&twin));
    assert_eq!(git_in(&top, ["write-tree"]), tree_without_cache(&top));
    short
}

#[test]
fn what_comes_out_is_what_gits_own_two_way_merge_gives() {
    let deed = |kinds: usize| (0..kinds, 0..PATHS.len() + OTHERS.len(), 0..8u8);
    let landing = prop::collection::vec(deed(11), 1..7);
    let meanwhile = prop::collection::vec(deed(9), 0..5);
    let short = std::cell::Cell::new(0);
    let mut runner =
        TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() });
    let run = runner.run(&(landing, meanwhile), |(landing, meanwhile)| {
        short.set(short.get() + u32::from(compare(&landing, &meanwhile)));
        Ok(())
    });
    run.expect("as git does");
    assert!(short.get() * 4 > CASES, "only {} went the short way", short.get());
}

#[test]
fn a_change_in_the_second_in_which_the_index_was_written_is_still_seen() {
    let (repo, before, after) = scene(&[(0, 0, 1)], &[]);
    let (top, readme) = (repo.path(), repo.path().join("README"));
    repo.git(["config", "core.trustctime", "false"]);
    // As git reads it whose clock has no less than seconds.
    age(&readme, 900);
    repo.git(["update-index", "--refresh"]);
    age(&top.join(".git/index"), 500);
    let same_size = fs::read_to_string(&readme).expect("text").to_uppercase();
    fs::write(&readme, same_size).expect("changed");
    age(&readme, 700);
    let status = ["--no-optional-locks", "status", "--porcelain"];
    assert_eq!(repo.git(status), " M README");

    let oid = |hex: &str| Oid::from_hex(hex).expect("an oid");
    let opened = Repo::open(&top).expect("a repository");
    let way = (oid(&before), oid(&after));
    let carried = checkout(&top).carry(&opened, way, &top.join(".git/scratch"), &|_| {});
    drop(carried.expect("carried"));
    let status = repo.git(["status", "--porcelain"]);
    assert!(status.contains(" M README"), "{status}");
}

#[test]
fn a_file_as_old_as_the_index_is_overwritten_if_it_holds_what_the_index_says() {
    let (repo, before, after) = scene(&[(0, 0, 1), (0, 1, 1)], &[]);
    let (top, file) = (repo.path(), repo.path().join("a.txt"));
    let same_moment = || age(&file, 0);
    same_moment();
    repo.git(["update-index", "--refresh"]);
    age(&top.join(".git/index"), 0);
    let oid = |hex: &str| Oid::from_hex(hex).expect("an oid");
    let opened = Repo::open(&top).expect("a repository");
    let steps = Mutex::new(Vec::new());
    let reached = |step: &str| steps.lock().expect("unpoisoned").push(step.to_owned());
    let carry = || {
        let way = (oid(&before), oid(&after));
        checkout(&top).carry(&opened, way, &top.join(".git/scratch"), &reached)
    };

    let text = fs::read_to_string(&file).expect("text");
    fs::write(&file, text.to_uppercase()).expect("changed");
    same_moment();
    let refused = carry().expect_err("it holds a change");
    assert_eq!(refused.code(), Code::TargetDirty);
    assert_eq!(fs::read_to_string(&file).expect("text"), text.to_uppercase());

    fs::write(&file, text).expect("changed back");
    same_moment();
    steps.lock().expect("unpoisoned").clear();
    drop(carry().expect("it holds none"));
    let steps = steps.lock().expect("unpoisoned");
    assert!(steps.iter().any(|step| step == "indexed"), "{steps:?}");
    repo.git(["symbolic-ref", "HEAD", "refs/heads/elsewhere"]);
    repo.git(["update-ref", "refs/heads/elsewhere", &after]);
    assert_eq!(repo.git(["status", "--porcelain"]), "");
}

#[test]
fn what_stands_behind_the_longest_content_that_is_read_is_in_the_way() {
    let repo = TestRepo::empty();
    let (top, file) = (repo.path(), repo.path().join("long"));
    let length = 64 << 20;
    fs::write(&file, vec![0; length]).expect("written");
    let before = repo.commit_all("a long file");
    let empty = repo.git(["hash-object", "-w", "-t", "tree", "/dev/null"]);
    let after = repo.git(["commit-tree", &empty, "-p", &before, "-m", "without it"]);
    let mut open = fs::File::options().append(true).open(&file).expect("there");
    std::io::Write::write_all(&mut open, b"a person's").expect("written");
    let oid = |hex: &str| Oid::from_hex(hex).expect("an oid");
    let opened = Repo::open(&top).expect("a repository");
    let way = (oid(&before), oid(&after));
    let carried = checkout(&top).carry(&opened, way, &top.join(".git/scratch"), &|_| {});
    assert_eq!(carried.expect_err("it was changed").code(), Code::TargetDirty);
    let content = fs::read(&file).expect("still there");
    assert!(content.ends_with(b"a person's"), "{} bytes", content.len());
}
