//! `HEAD` and the files of a worktree's admin directory, which an agent without a sandbox can write: whatever they hold,
//! looks at the worktree end, and what the files name is what is told.

use git_agent::git::Repo;
use git_agent::git::files::admin_dir::{self, belongs_to, leads_to};
use git_agent::git::files::untrusted;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The files in the order in which the input has them, with a NUL between two. The first is the worktree's `.git`, the
/// others are in its admin directory.
const FILES: [&str; 6] = [".git", "HEAD", "gitdir", "commondir", "locked", "config.worktree"];

/// The name of the admin directory.
const NAME: &str = "agent-00000000";

/// One state of all the files.
pub fn run(data: &[u8]) {
    static SCENE: OnceLock<Mutex<PathBuf>> = OnceLock::new();
    let scene = SCENE.get_or_init(|| Mutex::new(scene()));
    let top = scene.lock().unwrap_or_else(PoisonError::into_inner);
    let (worktree, common) = (top.join("worktree"), top.join("main/.git"));
    let admin = common.join("worktrees").join(NAME);
    let mut parts = data.splitn(FILES.len(), |&byte| byte == 0);
    for name in FILES {
        let place = if name == ".git" { &worktree } else { &admin };
        match parts.next() {
            Some(content) => fs::write(place.join(name), content).expect("written"),
            None => drop(fs::remove_file(place.join(name))),
        }
    }
    look(&worktree, &common, &admin);
}

fn look(worktree: &Path, common: &Path, admin: &Path) {
    // A look from outside.
    let _ = untrusted::require_openable(admin);
    let repo = Repo::open_git_dir(common).expect("what is shared is as it was");
    let found = repo.worktrees().expect("listed");
    assert!(found.len() <= 1);
    assert_eq!(found.first(), repo.worktree(NAME).as_ref());
    for one in &found {
        assert_eq!(one.name, NAME);
        assert!(one.path.is_absolute(), "{}", one.path.display());
    }
    let keys = ["core.hookspath", "gc.auto"];
    let flaw = repo.worktree_config_flaw(NAME, &keys);
    for key in keys {
        let setting = repo.worktree_setting(NAME, key);
        assert!(setting.is_ok() || flaw == Some("cannot be read"), "{flaw:?}");
    }
    // A look from inside: the same files lead there, or nowhere.
    assert!(!leads_to(worktree, admin) || belongs_to(worktree, admin));
    if admin_dir::require_linked_as_known(worktree).is_ok()
        && admin_dir::require_openable_above(worktree).is_ok()
    {
        let _ = Repo::open(worktree);
    }
}

/// Where this process writes the files; whoever runs the target removes it.
pub fn place() -> PathBuf {
    std::env::temp_dir().join(format!("git-agent-fuzz-{}", std::process::id()))
}

/// A repository without commits, made by hand so that no git is needed, and a directory for a linked worktree.
fn scene() -> PathBuf {
    let top = place();
    let common = top.join("main/.git");
    for directory in ["objects", "refs/heads", &format!("worktrees/{NAME}")] {
        fs::create_dir_all(common.join(directory)).expect("made");
    }
    fs::create_dir_all(top.join("worktree")).expect("made");
    fs::write(common.join("HEAD"), "ref: refs/heads/main\n").expect("written");
    let config = "[core]\n\trepositoryformatversion = 1\n[extensions]\n\tworktreeConfig = true\n";
    fs::write(common.join("config"), config).expect("written");
    top
}
