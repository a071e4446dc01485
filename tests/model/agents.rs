use super::world::{Deed, IGNORED, World};
use crate::support::PAST_HOOKS;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where agents write: in scope, out of it, ignored, in the bundle, in each other's way.
const PATHS: &[&str] = &[
    "src/lib.rs",
    "src/one.rs",
    "src/two.rs",
    "src/deep/three.rs",
    "src/deep/er/four.rs",
    "src/né\n.rs",
    "README.md",
    "notes.txt",
    "built/out.o",
    ".agent/plan.md",
    ".agent/more/notes.md",
];

/// How many of those are in scope.
const IN_SCOPE: usize = 6;

/// An agent that has a worktree to work in.
fn worker(world: &mut World) -> Option<(usize, PathBuf)> {
    let index = world.random.pick(&world.at_work())?;
    Some((index, world.agents[index].worktree.clone()))
}

/// Puts a content at a path, whatever was there.
fn put(world: &mut World, worktree: &Path, name: &str, content: &str) {
    let path = worktree.join(name);
    if path.is_dir() && !path.is_symlink() {
        return;
    }
    let _ = fs::remove_file(&path);
    let made = path.parent().map(fs::create_dir_all);
    // A file of another name may be where a directory would have to be.
    if made.is_some_and(|made| made.is_ok()) {
        fs::write(&path, content).expect("written");
        world.tell(format!("{} <- {content:?}", path.display()));
    }
}

/// A path to write to, in scope more often than not: else nothing would ever land.
fn any_path(world: &mut World) -> Option<&'static str> {
    let paths = if world.random.one_in(6) { PATHS } else { &PATHS[..IN_SCOPE] };
    world.random.pick(paths)
}

fn any_file(world: &mut World, worktree: &Path) -> Option<PathBuf> {
    let mut files: Vec<_> = world.held.below(worktree).into_keys().collect();
    if !world.random.one_in(6) {
        files.retain(|path| path.starts_with("src"));
    }
    world.random.pick(&files)
}

pub(super) fn write(world: &mut World) -> Option<Deed> {
    let (_, worktree) = worker(world)?;
    let name = any_path(world)?;
    let text = world.text();
    put(world, &worktree, name, &text);
    Deed::theirs()
}

pub(super) fn remove(world: &mut World) -> Option<Deed> {
    let (_, worktree) = worker(world)?;
    let file = any_file(world, &worktree)?;
    fs::remove_file(worktree.join(&file)).expect("removed");
    world.tell(format!("rm {}", worktree.join(file).display()));
    Deed::theirs()
}

pub(super) fn rename(world: &mut World) -> Option<Deed> {
    let (_, worktree) = worker(world)?;
    let from = worktree.join(any_file(world, &worktree)?);
    let to = worktree.join(any_path(world)?);
    let made = to.parent().map(fs::create_dir_all)?;
    if made.is_ok() && fs::rename(&from, &to).is_ok() {
        world.tell(format!("mv {} {}", from.display(), to.display()));
    }
    Deed::theirs()
}

pub(super) fn change_mode(world: &mut World) -> Option<Deed> {
    let (_, worktree) = worker(world)?;
    let path = worktree.join(any_file(world, &worktree)?);
    let metadata = fs::symlink_metadata(&path).ok()?;
    if metadata.is_file() {
        let mode = metadata.permissions().mode() ^ 0o111;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("changed");
        world.tell(format!("chmod {mode:o} {}", path.display()));
    }
    Deed::theirs()
}

pub(super) fn link(world: &mut World) -> Option<Deed> {
    let (_, worktree) = worker(world)?;
    let path = worktree.join(any_path(world)?);
    let target = world.text().replace(' ', "-");
    let _ = fs::remove_file(&path);
    if std::os::unix::fs::symlink(target.trim_end(), &path).is_ok() {
        world.tell(format!("ln -s {}", path.display()));
    }
    Deed::theirs()
}

pub(super) fn stage(world: &mut World) -> Option<Deed> {
    let (_, worktree) = worker(world)?;
    if world.random.one_in(2) {
        world.git(&worktree, &["add", "--all"]);
    } else {
        let file = any_file(world, &worktree)?;
        let name = file.to_string_lossy().into_owned();
        world.git(&worktree, &["add", "--", &name]);
    }
    Deed::theirs()
}

/// What is staged and then changed or removed again is in the index alone.
pub(super) fn stage_and_change(world: &mut World) -> Option<Deed> {
    let (_, worktree) = worker(world)?;
    let name = world.random.pick(&PATHS[..IN_SCOPE])?;
    let text = world.text();
    put(world, &worktree, name, &text);
    world.git(&worktree, &["add", "--", name]);
    if world.random.one_in(3) {
        let _ = fs::remove_file(worktree.join(name));
    } else {
        let text = world.text();
        put(world, &worktree, name, &text);
    }
    Deed::theirs()
}

/// Makes git look away from a tracked file, and changes it.
pub(super) fn hide(world: &mut World) -> Option<Deed> {
    let (_, worktree) = worker(world)?;
    let flag = world.random.pick(&["--assume-unchanged", "--skip-worktree"])?;
    let name = world.random.pick(&["src/lib.rs", "src/one.rs"])?;
    if world.git(&worktree, &["update-index", flag, name]) {
        let text = world.text();
        put(world, &worktree, name, &text);
    }
    Deed::theirs()
}

pub(super) fn commit(world: &mut World) -> Option<Deed> {
    let (_, worktree) = worker(world)?;
    let words = ["add", "--all"];
    world.git(&worktree, &words);
    if !world.random.one_in(3) {
        // Out of scope work is what hooks stop; here it is to be judged later.
        let stay = ["reset", "--quiet", "--", "README.md", "notes.txt"];
        world.git(&worktree, &stay);
    }
    let words = ["commit", "--quiet", "-m", "by the agent"];
    if world.random.one_in(2) {
        world.git(&worktree, &words)
    } else {
        world.git(&worktree, &[&PAST_HOOKS[..], &words].concat())
    };
    Deed::theirs()
}

pub(super) fn amend(world: &mut World) -> Option<Deed> {
    let (index, worktree) = worker(world)?;
    let words = ["rev-list", "--count", "HEAD", "--not", "main"];
    let output = crate::support::git_output(&worktree, words);
    let count = String::from_utf8_lossy(&output.stdout).trim().parse();
    // The spawn commit is not for the agent to amend.
    if !world.agents[index].is_open() || !count.is_ok_and(|count: u32| count > 1) {
        return None;
    }
    let words = ["commit", "--quiet", "--amend", "--all", "-m", "amended"];
    world.git(&worktree, &[&PAST_HOOKS[..], &words].concat());
    Deed::theirs()
}

/// Writes what an accepting verdict asks for.
pub(super) fn finish_bundle(world: &mut World) -> Option<Deed> {
    let (_, worktree) = worker(world)?;
    for name in ["plan.md", "chatlog.md", "handoffs.md", "review.md"] {
        let text = world.text();
        put(world, &worktree, &format!(".agent/{name}"), &text);
    }
    let progress = "{\"status\": \"done\"}\n";
    put(world, &worktree, ".agent/progress.json", progress);
    if world.random.one_in(2) {
        let _ = fs::remove_dir_all(worktree.join(IGNORED));
    }
    Deed::theirs()
}
