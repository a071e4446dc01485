//! A glance at a worktree against a whole `git status`.

use crate::support::{TestRepo, git_in, isolated};
use git_agent::domain::change::Change;
use git_agent::error::Result;
use git_agent::git::Repo;
use git_agent::git::changes::{Glance, glance, touched, worktree_changes};
use git_agent::git::ignore::Rules;
use proptest::prelude::*;
use std::path::{Path, PathBuf};

/// What can happen to a worktree, as the shell does it.
pub const DEEDS: &[&str] = &[
    "printf 'pub fn two() -> u32 {\\n    2\\n}\\n' > src/lib.rs",
    "touch src/lib.rs",
    "rm -f src/lib.rs",
    "rm -rf src/bin",
    "rm -rf src/bin && echo file > src/bin",
    "rm -rf src && ln -s . src",
    "rm -f README.md && ln -s src/lib.rs README.md",
    "rm -rf README.md && mkdir README.md && echo x > README.md/inside",
    "chmod +x README.md || true",
    "echo new > new.txt",
    "mkdir -p deep/er && echo new > deep/er/new.txt",
    "mkdir -p empty/er",
    "echo '*.log' > .gitignore",
    "mkdir -p src/logs && echo x > src/logs/a.log && echo x > b.log",
    "echo x > staged.txt && git add -f staged.txt",
    "echo x > staged.txt && git add -f staged.txt && rm staged.txt",
    "git rm -q --cached README.md || true",
    "echo x > meant.txt && git add -N meant.txt",
    "git update-index --assume-unchanged src/lib.rs || true",
    "git update-index --skip-worktree src/lib.rs || true",
    "git update-index --no-assume-unchanged --no-skip-worktree src/lib.rs || true",
    "git mv src/bin moved 2>/dev/null || true",
    "git init -q nested && echo x > nested/file",
    "git init -q src/nested 2>/dev/null || true",
    "git update-index --add --cacheinfo 160000,1111111111111111111111111111111111111111,module",
    "git reset -q --hard",
    "git add -A || true",
    "git -c core.hooksPath=/dev/null commit -qam work 2>/dev/null || true",
    "git update-index --index-version 4",
    "git update-index --split-index || true",
    "git read-tree -q HEAD",
    "git update-index -q --refresh || true",
    ": > empty.txt && git add empty.txt",
    "mkdir -p .agent && echo x > .agent/plan.md && git add -f .agent/plan.md",
    "printf 'a\\nb' > 'odd name' && printf x > \"$(printf 'n\\303\\244\\nme')\"",
];

/// A linked worktree, with a directory in it that is nobody's work.
fn linked() -> (TestRepo, PathBuf, PathBuf) {
    let repo = TestRepo::with_commit();
    repo.git(["worktree", "add", "--quiet", "../linked"]);
    let top = repo.path().with_file_name("linked");
    repo.write(".git/info/exclude", "/.agent/\n");
    std::fs::create_dir(top.join(".agent")).expect("make");
    std::fs::write(top.join(".agent/spec.md"), "spec\n").expect("write");
    let admin = repo.path().join(".git/worktrees/linked");
    (repo, top, admin)
}

/// Does it in the shell.
pub fn does(top: &Path, deed: &str) {
    // Whether a deed succeeds after the others does not matter; whatever is left is looked at.
    let _ = isolated("sh", top)
        .args(["-c", deed])
        .output()
        .expect("sh starts");
}

fn rules(admin_dir: &Path) -> Rules {
    let own = Repo::open_git_dir(admin_dir).expect("opens");
    let rules = own.ignore_rules(Path::new("/dev/null")).expect("rules");
    rules.without(Some(".agent"))
}

/// What a whole `git status` tells.
fn whole(top: &Path) -> Result<Vec<Change>> {
    worktree_changes(&Repo::open(top)?, &std::env::temp_dir())
}

/// All ways give the same answer: with the worktree's own view of the repository, with the one that all worktrees
/// share, and git's. What may have been touched is all of that, and more.
fn require_agreement(top: &Path, admin_dir: &Path, after: &str) {
    let common_dir = admin_dir.ancestors().nth(2).expect("a common directory");
    let shared = Repo::open_git_dir(common_dir).expect("opens");
    let told = whole(top);
    for repo in [None, Some(&shared)] {
        let seen = glance(&Glance {
            repo,
            top,
            admin_dir,
            rules: &rules(admin_dir),
            scratch: &std::env::temp_dir(),
        });
        match (&seen, &told) {
            (Ok(seen), Ok(told)) => assert_eq!(seen, told, "{after}"),
            (seen, told) => assert_eq!(seen.is_err(), told.is_err(), "{after}"),
        }
    }
    let own = Repo::open_git_dir(admin_dir).expect("opens");
    let rules = rules(admin_dir);
    if let (Ok(Some(touched)), Ok(told)) = (touched(&own, &rules), &told) {
        let mut all = Vec::new();
        if !touched.unknown.is_empty() {
            let listed = touched.listed(&touched.unknown, &std::env::temp_dir());
            all.extend(listed.expect("git lists"));
        }
        let files = touched
            .unknown
            .iter()
            .filter_map(|name| touched.files_at(name));
        let files: Vec<Change> = files.flatten().collect();
        // What git lists is among the files, or below a name that is left to git.
        for name in &touched.unknown {
            let is_below = |one: &&Change| one.path.starts_with(name);
            let missing = { all.iter() }.filter(is_below).find(|one| {
                touched.files_at(name).is_some() && !files.iter().any(|file| file.path == one.path)
            });
            assert_eq!(missing, None, "{after}");
        }
        all.extend(touched.tracked.iter().cloned());
        let is_named = |one: &&Change| all.iter().any(|other| other.path == one.path);
        let missing = told.iter().find(|one| !is_named(one));
        assert_eq!(missing, None, "{after}");
    }
}

#[test]
fn each_deed_is_seen_as_git_sees_it() {
    for deed in DEEDS {
        let (_repo, top, admin) = linked();
        does(&top, deed);
        require_agreement(&top, &admin, deed);
    }
}

#[test]
fn a_clean_worktree_is_known_without_git() {
    let repo = TestRepo::with_commit();
    let spawned = repo.spawn();
    let top = PathBuf::from(spawned["worktree_abspath"].as_str().expect("a path"));
    let id = spawned["agent_id"].as_str().expect("an id");
    let admin = repo
        .path()
        .join(format!(".git/worktrees/agent-{}", &id[..8]));
    require_agreement(&top, &admin, "spawn");
    // A git that asks about everything would fail here.
    repo.git(["config", "status.showUntrackedFiles", "nonsense"]);
    let seen = glance(&Glance {
        repo: None,
        top: &top,
        admin_dir: &admin,
        rules: &rules(&admin),
        scratch: &std::env::temp_dir(),
    });
    assert_eq!(seen.expect("no git was asked"), Vec::new());
}

#[test]
fn a_merge_under_way_is_left_to_git() {
    let (repo, top, admin) = linked();
    for (place, text) in [(repo.path(), "ours\n"), (top.clone(), "theirs\n")] {
        std::fs::write(place.join("README.md"), text).expect("write");
        git_in(&place, ["commit", "--quiet", "-am", "both"]);
    }
    does(&top, "git merge -q main");
    require_agreement(&top, &admin, "conflict");
    does(&top, "echo resolved > README.md && git add README.md");
    require_agreement(&top, &admin, "resolved");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_history_of_deeds_is_seen_as_git_sees_it(
        deeds in prop::collection::vec(prop::sample::select(DEEDS), 2..7),
    ) {
        let (_repo, top, admin) = linked();
        for deed in &deeds {
            does(&top, deed);
        }
        require_agreement(&top, &admin, &deeds.join("\n"));
    }
}
