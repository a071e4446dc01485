use super::world::{Deed, World};
use std::fs;
use std::path::PathBuf;

fn any_agent(world: &mut World) -> Option<usize> {
    let with_place: Vec<_> =
        (0..world.agents.len()).filter(|&index| !world.agents[index].shared).collect();
    world.random.pick(&with_place)
}

fn text(path: &std::path::Path) -> String {
    path.to_str().expect("UTF-8").to_owned()
}

pub(super) fn commit_on_main(world: &mut World) -> Option<Deed> {
    let root = world.repo.path();
    let name = world.random.pick(&["src/lib.rs", "src/one.rs", "NOTES.md"])?;
    let content = world.text();
    // Whatever else lies around in the main worktree stays what it is.
    let path = root.join(name);
    if path.is_symlink() || path.is_dir() {
        return None;
    }
    fs::write(path, content).expect("written");
    world.git(&root, &["add", "--", name]);
    world.git(&root, &["commit", "--quiet", "-m", "on main", "--", name]);
    Deed::theirs()
}

/// Work of the person's own, which no landing may touch.
pub(super) fn leave_something_in_main(world: &mut World) -> Option<Deed> {
    let root = world.repo.path();
    let name = world.random.pick(&["scratch.txt", "README.md", "src/two.rs", "built/mine.o"])?;
    let content = world.text();
    let path = root.join(name);
    if path.is_symlink() || path.is_dir() {
        return None;
    }
    fs::create_dir_all(path.parent()?).ok()?;
    fs::write(&path, content).expect("written");
    world.tell(format!("a person wrote {name}"));
    match world.random.below(4) {
        0 => drop(world.git(&root, &["add", "--", name])),
        1 => drop(world.git(&root, &["update-index", "--assume-unchanged", name])),
        _ => {}
    }
    Deed::theirs()
}

pub(super) fn prune(world: &mut World) -> Option<Deed> {
    let root = world.repo.path();
    world.git(&root, &["worktree", "prune", "--expire=now"]);
    Deed::theirs()
}

pub(super) fn collect_garbage(world: &mut World) -> Option<Deed> {
    let root = world.repo.path();
    world.git(&root, &["gc", "--quiet", "--prune=now"]);
    Deed::theirs()
}

pub(super) fn remove_worktree(world: &mut World) -> Option<Deed> {
    let (agent, root) = (any_agent(world)?, world.repo.path());
    let worktree = text(&world.agents[agent].worktree);
    let words = ["worktree", "remove", "--force", "--force", &worktree];
    world.git(&root, &words);
    Deed::theirs()
}

pub(super) fn remove_directory(world: &mut World) -> Option<Deed> {
    let agent = any_agent(world)?;
    let worktree = world.agents[agent].worktree.clone();
    if fs::remove_dir_all(&worktree).is_ok() {
        world.tell(format!("rm -r {}", worktree.display()));
    }
    Deed::theirs()
}

pub(super) fn remove_admin_directory(world: &mut World) -> Option<Deed> {
    let agent = any_agent(world)?;
    let name = world.agents[agent].name();
    let admin = world.repo.path().join(".git/worktrees").join(name);
    if fs::remove_dir_all(&admin).is_ok() {
        world.tell(format!("rm -r {}", admin.display()));
    }
    Deed::theirs()
}

pub(super) fn delete_branch(world: &mut World) -> Option<Deed> {
    let (agent, root) = (any_agent(world)?, world.repo.path());
    let branch = world.agents[agent].branch.clone();
    let deleted = world.git(&root, &["branch", "-D", &branch]);
    if !deleted && world.random.one_in(2) {
        let full = format!("refs/heads/{branch}");
        world.git(&root, &["update-ref", "-d", &full]);
    }
    Deed::theirs()
}

pub(super) fn move_worktree(world: &mut World) -> Option<Deed> {
    let agent = world.random.pick(&world.at_work())?;
    let name = format!("moved-{}", world.agents[agent].name());
    let to = world.repo.path().with_file_name(name).join("there");
    fs::create_dir_all(to.parent()?).expect("made");
    relocate(world, agent, to);
    Deed::theirs()
}

pub(super) fn move_back(world: &mut World) -> Option<Deed> {
    let agent = world.random.pick(&world.at_work())?;
    let home = world.agents[agent].home.clone();
    if world.agents[agent].worktree == home {
        return None;
    }
    fs::create_dir_all(home.parent()?).expect("made");
    relocate(world, agent, home);
    Deed::theirs()
}

fn relocate(world: &mut World, agent: usize, to: PathBuf) {
    let root = world.repo.path();
    let from = text(&world.agents[agent].worktree);
    let words = ["worktree", "move", "-f", "-f", &from, &text(&to)];
    if world.git(&root, &words) {
        world.agents[agent].worktree = to;
    }
}
