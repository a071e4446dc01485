//! A glance at a worktree against a whole `git status`.

use crate::support::{TestRepo, git_in, isolated};
use git_agent::domain::paths::change::Change;
use git_agent::error::Result;
use git_agent::git::Repo;
use git_agent::git::changes::ignore::Rules;
use git_agent::git::changes::{Glance, glance, touched, worktree_changes};
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
    "cp -a README.md copy; mv copy README.md",
    "git config filter.upper.clean 'tr a-z A-Z'; echo '*.md filter=upper' > .gitattributes; touch README.md",
    "git config filter.upper.clean 'tr a-z A-Z'; echo '*.rs filter=upper' > src/.gitattributes; touch src/lib.rs README.md",
    "git config filter.upper.clean 'tr a-z A-Z'; echo '*.md filter=upper' > \"$(git rev-parse --git-common-dir)/info/attributes\"; touch README.md",
    "git config filter.upper.clean 'tr a-z A-Z'; echo '*.md filter=upper' > ../attributes; git config core.attributesFile \"$(cd ..; pwd)/attributes\"; touch README.md",
    "rm -f README.md; printf '\\303\\244\\n' > README.md; git add README.md; echo '*.md working-tree-encoding=ISO-8859-1' > .gitattributes; touch README.md",
    "rm -f README.md; printf 'a $Id: b $\\n' > README.md; git add README.md; echo '*.md ident' > .gitattributes; touch README.md",
    "rm -f README.md; printf 'a\\r\\n' > README.md; git add README.md; echo '*.md text' > .gitattributes; touch README.md",
    "rm -f README.md; printf 'a\\r\\n' > README.md; git add README.md; git config core.autocrlf true; touch README.md",
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
    let _ = isolated("sh", top).args(["-c", deed]).output().expect("sh starts");
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
        let files: Vec<Change> =
            touched.unknown.iter().filter_map(|name| touched.files_at(name)).flatten().collect();
        // What git lists is among the files, or below a name that is left to git. A directory may stand where a file was that
        // is deleted in the index.
        for name in &touched.unknown {
            let is_tracked = |one: &Change| touched.tracked.iter().any(|it| it.path == one.path);
            let is_below = |one: &&Change| one.path.starts_with(name) && !is_tracked(one);
            let missing = all.iter().filter(is_below).find(|one| {
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
    let admin = repo.path().join(format!(".git/worktrees/agent-{}", &id[..8]));
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

/// Lets the index look older than every file, as if all had been changed in the second in which it was written.
fn let_all_be_racy(admin_dir: &Path) {
    let index = std::fs::File::options().write(true).open(admin_dir.join("index"));
    let index = index.expect("an index");
    index.set_modified(std::time::UNIX_EPOCH).expect("set");
}

#[test]
fn a_file_of_the_second_of_its_index_needs_no_git() {
    let (repo, top, admin) = linked();
    does(&top, "ln -s README.md link; git add .; git commit -qm link");
    let_all_be_racy(&admin);
    require_agreement(&top, &admin, "racy");
    // A git that asks about everything would fail here.
    repo.git(["config", "status.showUntrackedFiles", "nonsense"]);
    let rules = rules(&admin);
    let seen = || {
        glance(&Glance {
            repo: None,
            top: &top,
            admin_dir: &admin,
            rules: &rules,
            scratch: &std::env::temp_dir(),
        })
    };
    assert_eq!(seen().expect("no git was asked"), Vec::new());
    let lib = std::fs::read(top.join("src/lib.rs")).expect("read");
    let blob = git_in(&top, ["rev-parse", ":src/lib.rs"]);
    let object = repo.path().join(".git/objects").join(&blob[..2]);
    for (what, deed) in [
        ("bytes", "tr a-z A-Z < src/lib.rs > new; mv new src/lib.rs"),
        ("mode", "chmod +x src/lib.rs"),
        ("target", "ln -sfn README.mb link"),
        ("link", "rm link; cp README.md link"),
        ("FIFO", "rm src/lib.rs; mkfifo src/lib.rs"),
        ("FIFO of attributes", "mkfifo src/.gitattributes"),
        ("link of attributes", "ln -s ../README.md src/.gitattributes"),
        (
            "end of line",
            "printf 'a\\r\\n' > src/lib.rs; git add .; git update-ref HEAD $(git commit-tree -p HEAD -m cr $(git write-tree))",
        ),
    ] {
        does(&top, deed);
        let_all_be_racy(&admin);
        assert!(seen().is_err(), "{what}");
        does(&top, "rm -f src/.gitattributes; git reset -q --hard HEAD");
    }
    // Bytes that no object holds are kept nowhere else.
    does(&top, "git reset -q --hard HEAD~1");
    let_all_be_racy(&admin);
    assert_eq!(std::fs::read(top.join("src/lib.rs")).expect("read"), lib);
    assert_eq!(seen().expect("no git was asked"), Vec::new());
    std::fs::remove_file(object.join(&blob[2..])).expect("removed");
    assert!(seen().is_err(), "a lost object");
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
