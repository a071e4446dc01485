//! The quick look at what a worktree holds, against git looking at everything.

use crate::list::glance::{DEEDS, does};
use crate::support::{TestRepo, git_in, isolated};
use git_agent::domain::oid::Oid;
use git_agent::error::Result;
use git_agent::git::Repo;
use git_agent::git::ignore::Rules;
use git_agent::git::uncommitted::{Source, Uncommitted, snapshot, snapshot_by_git};
use proptest::prelude::*;
use std::fs;
use std::path::{Path, PathBuf};

/// What else can happen to a worktree, as the shell does it.
const MORE_DEEDS: &[&str] = &[
    "touch -d '2001-01-01' src/lib.rs lib/one.c",
    "touch README.md lib/*.c src/bin/tool.rs",
    "printf aaaa > same && git add same && printf bbbb > same",
    "chmod -x tool.sh; git config core.fileMode false",
    "rm -rf lib && ln -s src lib",
    "mv lib elsewhere && ln -s elsewhere lib",
    "rm -rf lib/deep && echo file > lib/deep",
    "rm lib/one.c && mkdir -p lib/one.c/below && echo x > lib/one.c/below/file",
    "mkdir -p build target/out && echo x > build/out && echo x > target/out/file",
    "mkdir -p lib/generated src/generated && echo x > lib/generated/a && echo x > src/generated/a",
    "echo x > src/keep.log; echo x > lib/keep.log; echo x > a.user",
    "git rm -rq --cached lib; echo x > lib/deep/new.o",
    "mkdir -p many && for i in $(seq 250); do echo $i > many/$i; done",
    "for i in $(seq 250); do echo $i > f$i; done; git add .; rm -f f*",
    "git update-index --chmod=+x README.md || true",
    "git add -A; git write-tree",
    "rm -f \"$(git rev-parse --git-path index)\"",
    "mkfifo pipe 2>/dev/null || true; rm -f README.md; mkfifo README.md",
    "printf '*.txt text eol=crlf\\n' > .gitattributes; printf 'a\\r\\nb\\r\\n' > new.txt",
    "echo x > -dash; echo x > ':(glob)*'; echo x > 'lib/[a]*.c'",
    "rm -rf .agent; echo x > .agent",
    "mkdir -p .agent/deep && git init -q .agent/deep",
];

/// A linked worktree of a repository with ignore rules.
struct Scene {
    repo: TestRepo,
    top: PathBuf,
    admin: PathBuf,
    rules: Rules,
}

impl Scene {
    fn new() -> Scene {
        let repo = TestRepo::with_commit();
        for (name, text) in [
            (".gitignore", "*.log\n/build/\n"),
            ("src/.gitignore", "generated/\n!keep.log\n"),
            ("lib/.gitignore", "*.o\n"),
            ("lib/deep/.gitignore", "!new.o\n"),
            ("lib/one.c", "int one;\n"),
            ("lib/two.c", "int two;\n"),
            ("lib/deep/three.c", "int three;\n"),
            ("tool.sh", "#!/bin/sh\n"),
            ("empty", ""),
        ] {
            repo.write(name, text);
        }
        does(&repo.path(), "chmod +x tool.sh; ln -s lib/one.c link");
        repo.commit_all("more");
        repo.write(".git/info/exclude", "*.user\n/.agent/\n");
        repo.git(["worktree", "add", "--quiet", "../linked"]);
        let top = repo.path().with_file_name("linked");
        fs::create_dir(top.join(".agent")).expect("make");
        fs::write(top.join(".agent/spec.md"), "spec\n").expect("write");
        // As a spawn leaves it: nothing was written in the second in which the index was.
        does(
            &top,
            "find . -type f -o -type l | grep -v '^./.git$' | xargs touch -h -d '1 hour ago'; git status -s",
        );
        Scene {
            admin: repo.path().join(".git/worktrees/linked"),
            rules: Rules {
                first: b"*.user\n".to_vec(),
                tree: Oid::from_hex(&repo.git(["rev-parse", "HEAD^{tree}"])),
                last: b"/.agent/\n".to_vec(),
            },
            top,
            repo,
        }
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.repo.path().with_file_name(name)
    }

    /// Looks, one way or the other; the copy of the index and the rules that git was given stay.
    fn look(&self, way: fn(&Source<'_>) -> Result<Uncommitted>) -> Result<Uncommitted> {
        let own = Repo::open_git_dir(&self.admin).expect("opens");
        let (ignore, index) = (self.beside("ignore"), self.beside("copy"));
        let _ = fs::remove_file(&ignore);
        let head = Oid::from_hex(&self.git("rev-parse HEAD")).expect("an oid");
        way(&Source {
            repo: &own,
            worktree: &self.top,
            admin_dir: &self.admin,
            tip: head,
            staged: !self.git("diff-index --cached --name-only HEAD").is_empty(),
            sparse: false,
            rules: &self.rules,
            besides: Some(".agent"),
            ignore: &ignore,
            index: &index,
        })
    }

    fn git(&self, words: &str) -> String {
        git_in(&self.top, words.split(' '))
    }

    /// The tree of `git add -A` on a copy of the index; `None` where git's own rules differ from ours.
    fn added(&self) -> Option<Oid> {
        let unchanged = "git diff --quiet HEAD -- '*.gitignore' && cp -p \"$I\" ../added && export GIT_INDEX_FILE=$PWD/../added && \
            git ls-files -z | git update-index -z --no-assume-unchanged --stdin && \
            git ls-files -z | git update-index -z --no-skip-worktree --stdin && \
            git add -A && git write-tree";
        let output = isolated("sh", &self.top)
            .env("I", self.admin.join("index"))
            .args(["-c", unchanged])
            .output()
            .expect("sh starts");
        let text = String::from_utf8_lossy(&output.stdout);
        Oid::from_hex(text.trim_end()).filter(|_| output.status.success())
    }

    /// Both ways find the same, and it is what `git add` would make of it.
    fn require_agreement(&self, after: &str) {
        match (self.look(snapshot), self.look(snapshot_by_git)) {
            (Ok(quick), Ok(slow)) => {
                // Where nothing is to be committed, the slow way may give the tree that is there already.
                let head = Oid::from_hex(&self.git("rev-parse HEAD^{tree}"));
                let tree = |found: &Uncommitted| found.tree.or(head);
                assert_eq!(tree(&quick), tree(&slow), "{after}");
                assert_eq!(quick.unmerged, slow.unmerged, "{after}");
                assert_eq!(quick.nested, slow.nested, "{after}");
                if slow.nested.is_empty()
                    && let Some(added) = self.added()
                {
                    assert_eq!(tree(&quick), Some(added), "{after}");
                }
            }
            (quick, slow) => {
                assert_eq!(quick.is_err(), slow.is_err(), "{after}: {quick:?} {slow:?}")
            }
        }
    }
}

fn deeds() -> impl Iterator<Item = &'static str> {
    DEEDS.iter().chain(MORE_DEEDS).copied()
}

#[test]
fn each_deed_is_found_either_way() {
    for deed in deeds() {
        let scene = Scene::new();
        does(&scene.top, deed);
        scene.require_agreement(deed);
    }
}

#[test]
fn a_clean_worktree_needs_no_git() {
    let scene = Scene::new();
    let before = fs::read(scene.admin.join("index")).expect("an index");
    assert_eq!(scene.look(snapshot).expect("looked at").tree, None);
    assert!(!scene.beside("ignore").exists(), "git was given rules");
    assert_eq!(fs::read(scene.beside("copy")).expect("a copy"), before);
}

#[test]
fn git_is_given_the_rules_about_what_is_new_and_no_others() {
    let scene = Scene::new();
    does(&scene.top, "echo x > lib/new.c; touch src/lib.rs");
    let found = scene.look(snapshot).expect("looked at");
    assert_eq!(found.tree, scene.added());
    let given = fs::read_to_string(scene.beside("ignore")).expect("rules");
    assert_eq!(given, "*.user\n*.log\n/build/\n/lib/**/*.o\n/.agent/\n");
}

#[test]
fn a_file_that_was_only_touched_is_no_work() {
    let scene = Scene::new();
    does(&scene.top, "touch src/lib.rs lib/one.c");
    assert_eq!(scene.look(snapshot).expect("looked at").tree, None);
}

/// Of the time of a change only the second may be known.
#[test]
fn what_was_written_in_the_second_of_the_index_is_looked_into() {
    let scene = Scene::new();
    does(
        &scene.top,
        "printf 'int one;\\n' > lib/one.c; git add lib/one.c",
    );
    let index = scene.admin.join("index");
    let stat = fs::metadata(scene.top.join("lib/one.c")).expect("there");
    // The index says what the file was, and was written later in that second.
    let mut bytes = fs::read(&index).expect("an index");
    let at = bytes
        .windows(9)
        .position(|name| name == b"lib/one.c")
        .expect("an entry")
        - 62;
    let other = fs::read(scene.top.join("lib/two.c")).expect("a file");
    let blob = scene.git("hash-object -w lib/two.c");
    assert_eq!(other.len() as u64, stat.len());
    bytes[at + 40..at + 60].copy_from_slice(Oid::from_hex(&blob).expect("an oid").as_bytes());
    fs::write(&index, bytes).expect("write");
    let second = stat.modified().expect("a time");
    let end = std::time::UNIX_EPOCH
        + std::time::Duration::from_secs(
            second
                .duration_since(std::time::UNIX_EPOCH)
                .expect("after")
                .as_secs(),
        )
        + std::time::Duration::from_nanos(999_999_999);
    let file = fs::File::options().write(true).open(&index).expect("open");
    file.set_modified(end).expect("set");
    let found = scene.look(snapshot).expect("looked at");
    assert_eq!(found, scene.look(snapshot_by_git).expect("looked at"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn any_history_of_deeds_is_found_either_way(
        deeds in prop::collection::vec(prop::sample::select(deeds().collect::<Vec<_>>()), 2..7),
    ) {
        let scene = Scene::new();
        for deed in &deeds {
            does(&scene.top, deed);
        }
        scene.require_agreement(&deeds.join("\n"));
    }
}
