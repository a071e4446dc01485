//! The quick look at what a worktree holds, against git looking at everything.

use crate::list::glance::{DEEDS, does};
use crate::support::{TestRepo, git_in, git_output, isolated};
use git_agent::domain::value::oid::Oid;
use git_agent::error::Result;
use git_agent::git::Repo;
use git_agent::git::changes::ignore::Rules;
use git_agent::git::landing::linked_at;
use git_agent::git::uncommitted::{
    SeenWorktree, Trees, Uncommitted, WorktreeSource, snapshot, snapshot_by_git, write_trees,
};
use git_agent::git::worktree::view::WorktreeView;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

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
    "git config filter.upper.clean 'tr a-z A-Z'; echo '[attr]loud filter=upper' > .gitattributes; echo '*.c loud' > lib/.gitattributes; echo x >> lib/one.c; echo x > lib/new.c; echo x > src/new.c",
    "git config filter.upper.clean 'tr a-z A-Z'; echo '*.c filter=upper' > .gitattributes; git add .gitattributes; rm .gitattributes; echo x >> lib/one.c; echo x > lib/new.c",
    "echo '*.c ident' > \"$(git rev-parse --git-common-dir)/info/attributes\"; echo '$Id: x$' > lib/one.c; echo x > lib/new.c",
    "echo '*.c working-tree-encoding=UTF-16LE' > lib/.gitattributes; printf 'a\\0b\\0' > lib/one.c; printf 'a\\0' > lib/new.c",
    "echo '*.c working-tree-encoding=UTF-16LE' > lib/.gitattributes; touch lib/*.c; printf 'a\\0' > lib/new.c",
    "git config core.autocrlf input; printf 'a\\r\\n' >> lib/two.c; printf 'a\\r\\n' > new.txt; echo x > src/new.c",
    "git config core.symlinks false; rm link; printf lib/two.c > link; echo x > src/new.c",
    "git config extensions.worktreeConfig true; git config --worktree core.fileMode false; cp \"$(git rev-parse --git-dir)/config.worktree\" \"$(git rev-parse --git-common-dir)\"; chmod +x lib/one.c; echo x > src/new.c",
    "C=$(git rev-parse --git-common-dir); git config includeIf.onbranch:linked.path more; git config -f $C/more core.attributesFile $C/attributes; echo '*.c filter=upper' > $C/attributes; git config filter.upper.clean 'tr a-z A-Z'; echo x >> lib/one.c; echo x > lib/new.c",
    "ln -s x .gitmodules; mkdir -p .GIT lib/git~1; echo x > .GIT/config; echo x > lib/git~1/x; echo x > src/aux; echo x > src/new.c",
    "rm -r src; echo x > src; rm lib/one.c README.md; ln -s ../empty lib/deep/four.c",
    "echo x > -dash; echo x > ':(glob)*'; echo x > 'lib/[a]*.c'",
    "rm -rf .agent; echo x > .agent",
    "mkdir -p .agent/deep && git init -q .agent/deep",
    "git config core.ignoreCase true; mv src/lib.rs src/LIB.rs",
    "git update-index --add --cacheinfo 100644,1111111111111111111111111111111111111111,lost",
    "mkdir -p cache/v && echo '*' > cache/.gitignore && echo x > cache/v/x && echo x > src/new",
    "mkdir -p lib/venv/bin && echo '*' > lib/venv/.gitignore && echo x > lib/venv/bin/python && echo x > lib/new.c",
    "echo '*' > src/.gitignore; echo x > src/new; echo x >> src/lib.rs; rm src/bin/tool.rs",
    "echo 'lib/' > .gitignore; echo x > lib/new.c; echo x >> lib/one.c; rm lib/two.c; chmod +x lib/deep/three.c",
    "rm .gitignore lib/.gitignore; mkdir -p build && echo x > build/out; echo x > a.log; echo x > lib/x.o",
    "echo '*' > .gitignore; echo x > forced; git add -f forced; echo x > new",
    "echo '!/.agent/' > .gitignore; mkdir -p build && echo x > build/out",
    "echo /out/ >> .gitignore; mkdir -p out/deep; echo x > out/forced; git add -f out/forced; echo x > out/deep/new; echo x >> out/forced",
    "echo '*.c' >> \"$(git rev-parse --git-common-dir)/info/exclude\"; echo x > lib/new.c; echo x >> lib/one.c; git rm -q --cached lib/two.c",
    "mkdir -p new/inner && echo x > new/a && echo x > new/inner/b.log && echo 'a' > new/.gitignore",
    "mkdir -p .agent && echo x > .agent/plan.md && git add -f .agent/plan.md && echo '!/.agent/' > .gitignore",
    "ln -s ../README.md lib/deep/.gitignore.link; rm -f src/.gitignore; ln -s ../.gitignore src/.gitignore; echo x > src/x.log",
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
            rules: Repo::open(&repo.path())
                .and_then(|repo| repo.ignore_rules(Path::new("/dev/null")))
                .expect("rules")
                .without(Some(".agent")),
            top,
            repo,
        }
    }

    fn beside(&self, name: &str) -> PathBuf {
        self.repo.path().with_file_name(name)
    }

    /// Looks, one way or the other; the copy of the index stays.
    fn look<T>(&self, way: fn(&WorktreeSource<'_>) -> Result<T>) -> Result<T> {
        let own = Repo::open_git_dir(&self.admin).expect("opens");
        let index = self.beside("copy");
        let head = self.oid("HEAD");
        let view = WorktreeView::make(&own, &self.admin, &self.top, &std::env::temp_dir())?;
        way(&WorktreeSource {
            repo: &own,
            worktree: &self.top,
            admin_dir: &self.admin,
            view: &view,
            tip: head,
            staged: !self.staged().is_some_and(|names| names.is_empty()),
            sparse: false,
            rules: &self.rules,
            names_ignored: true,
            index: &index,
        })
    }

    /// What a look sees, with what is ignored; `None` where git looked at everything.
    fn sighted(&self) -> Option<(Trees, SeenWorktree, BTreeSet<Vec<u8>>)> {
        let (trees, fingerprint) = self.look(write_trees).ok()?;
        let ignored = self.look(snapshot).ok()?.ignored;
        Some((trees, fingerprint?, BTreeSet::from_iter(ignored)))
    }

    /// What was seen once and still is what there is was kept whole.
    fn require_truth(
        &self,
        (kept, fingerprint, ignored): (Trees, SeenWorktree, BTreeSet<Vec<u8>>),
        after: &str,
    ) {
        let current =
            fingerprint.is_current(&self.top, &self.admin, Some(".agent"), &ignored, true);
        if current.expect("told") {
            let (now, _) = self.look(write_trees).expect("looked at");
            assert_eq!(kept, now, "{after}");
            let by_git = self.look(snapshot_by_git).expect("looked at");
            assert!(by_git.tree.is_none_or(|tree| tree == kept.tree), "{after}");
        }
    }

    /// What is staged; `None` for an index that git does not read.
    fn staged(&self) -> Option<Vec<u8>> {
        let words = ["diff-index", "--cached", "--name-only", "HEAD"];
        let output = git_output(&self.top, words);
        output.status.success().then_some(output.stdout)
    }

    /// The tree of the index, as we make it and as git does.
    fn index_trees(&self) -> [Option<Oid>; 2] {
        let repo = Repo::open(&self.repo.path()).expect("opens");
        let ours = linked_at(&repo, "linked", &self.top, &std::env::temp_dir())
            .and_then(|checkout| checkout.staged_tree(&repo));
        let copy = "cp -p \"$I\" ../written; GIT_INDEX_FILE=$PWD/../written git write-tree";
        [ours.ok(), self.tree_by(copy)]
    }

    /// The tree that a script names, which finds the index at `$I`.
    fn tree_by(&self, script: &str) -> Option<Oid> {
        let output = isolated("sh", &self.top)
            .env("I", self.admin.join("index"))
            .args(["-c", script])
            .output()
            .expect("sh starts");
        let text = String::from_utf8_lossy(&output.stdout);
        Oid::from_hex(text.trim_end()).filter(|_| output.status.success())
    }

    /// Puts other bytes in the place of those that the index has somewhere.
    fn patch_index(&self, old: &[u8], new: &[u8]) {
        let index = self.admin.join("index");
        let mut bytes = fs::read(&index).expect("an index");
        let mut places = bytes.windows(old.len());
        let at = places.position(|place| place == old).expect("there");
        bytes[at..at + new.len()].copy_from_slice(new);
        fs::write(&index, bytes).expect("write");
    }

    fn oid(&self, revision: &str) -> Oid {
        Oid::from_hex(&self.git(&format!("rev-parse {revision}"))).expect("an oid")
    }

    fn git(&self, words: &str) -> String {
        git_in(&self.top, words.split(' '))
    }

    /// The tree of `git add -A`, on a copy of the index; of the bundle only what is tracked.
    fn added(&self) -> Option<Oid> {
        let add = "cp -p \"$I\" ../added && export GIT_INDEX_FILE=$PWD/../added && \
            git ls-files -z | git update-index -z --no-assume-unchanged --stdin && \
            git ls-files -z | git update-index -z --no-skip-worktree --stdin && \
            { git add -u .agent || true; } && git add -A -- . ':!/.agent/' && git write-tree";
        self.tree_by(add)
    }

    /// What `git status` says is ignored, the bundle aside; `None` where it fails, as it does over a file that the
    /// object store has lost.
    fn ignored(&self) -> Option<Vec<Vec<u8>>> {
        let words = ["status", "--porcelain", "-z", "--ignored=traditional"];
        let output = git_output(&self.top, words);
        let records = output.stdout.split(|&byte| byte == 0);
        let mut ignored: Vec<_> = records
            .filter_map(|record| record.strip_prefix(b"!! "))
            .filter(|path| !path.starts_with(b".agent/"))
            .map(<[u8]>::to_vec)
            .collect();
        ignored.sort_unstable();
        output.status.success().then_some(ignored)
    }

    /// Both ways find the same, and it is what `git add` would make of it.
    fn require_agreement(&self, after: &str) {
        self.require_one_answer(after);
        if let Ok(found) = self.look(snapshot)
            && found.nested.is_empty()
            && let Some(added) = self.added()
        {
            let tree = found.tree.unwrap_or(self.oid("HEAD^{tree}"));
            assert_eq!(tree, added, "git add after {after}");
            if let Some(ignored) = self.ignored() {
                assert_eq!(found.ignored, ignored, "git status after {after}");
            }
        }
    }

    /// Both ways find the same.
    fn require_one_answer(&self, after: &str) {
        if self.admin.join("index").exists() {
            let [ours, git] = self.index_trees();
            assert_eq!(ours, git, "the index after {after}");
        }
        match (self.look(snapshot), self.look(snapshot_by_git)) {
            (Ok(quick), Ok(slow)) => {
                // Where nothing is to be committed, the slow way may give the tree that is there already.
                let head = self.oid("HEAD^{tree}");
                let tree = |found: &Uncommitted| found.tree.unwrap_or(head);
                assert_eq!(tree(&quick), tree(&slow), "{after}");
                assert_eq!(quick.unmerged, slow.unmerged, "{after}");
                assert_eq!(quick.nested, slow.nested, "{after}");
                assert_eq!(quick.ignored, slow.ignored, "{after}");
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
        let sighted = scene.sighted().expect("seen");
        does(&scene.top, deed);
        scene.require_agreement(deed);
        scene.require_truth(sighted, deed);
    }
}

#[test]
fn a_clean_worktree_needs_no_git() {
    let scene = Scene::new();
    assert_eq!(scene.look(snapshot).expect("looked at").tree, None);
    assert!(!scene.beside("copy").exists(), "git was shown an index");
}

/// Work that stays as it was seen is known again by another name of its worktree; what differs in one byte is not.
#[test]
fn what_was_seen_is_known_again() {
    for deed in [
        "touch lib/deep/three.c",
        "echo 'int two;' > lib/one.c",
        "chmod +x new/a",
        "rm new/a",
        "mv new/a new/c",
        "ln -sf y link2",
        "rm -r new; ln -s lib new",
        "git rm -q --cached lib/one.c",
        "echo 'int two;' > lib/two.c",
        "git init -q new/inner; echo x > new/inner/x",
        "tr a-z A-Z < README.md > ../upper; cp ../upper README.md",
        "rm README.md",
        "chmod +x README.md",
    ] {
        let scene = Scene::new();
        let work = "touch README.md; echo 'int 1111;' > lib/one.c; rm lib/two.c; ln -s x link2; mkdir new; echo a > new/a; echo b > new/b.log";
        does(&scene.top, work);
        let (_, fingerprint, ignored) = scene.sighted().expect("seen");
        let aside = scene.beside("aside");
        fs::rename(&scene.top, &aside).expect("moved");
        let is_current = || {
            let is = fingerprint.is_current(&aside, &scene.admin, Some(".agent"), &ignored, true);
            is.expect("told")
        };
        assert!(is_current(), "before {deed}");
        does(&aside, deed);
        assert!(!is_current(), "{deed}");
    }
}

/// A filter makes other objects of the same bytes, all of which were kept before it was set.
const FORGET_FILTER: &str = "git config --unset filter.upper.clean || true";

#[test]
fn a_filter_that_is_set_after_a_look_takes_nothing_from_what_was_kept() {
    for deed in deeds().filter(|deed| deed.contains("filter.upper")) {
        let scene = Scene::new();
        // Without times in the index every file is looked into.
        does(&scene.top, "git read-tree -q HEAD");
        let sighted = scene.sighted().expect("seen");
        does(&scene.top, deed);
        scene.require_agreement(deed);
        does(&scene.top, FORGET_FILTER);
        scene.require_truth(sighted, deed);
    }
}

#[test]
fn a_file_that_was_only_touched_is_no_work() {
    let scene = Scene::new();
    does(&scene.top, "touch src/lib.rs lib/one.c");
    assert_eq!(scene.look(snapshot).expect("looked at").tree, None);
}

/// Such rules are in no salvage, so no later look can tell whether they are as they were.
#[test]
fn rules_that_hide_themselves_are_looked_at_again() {
    for (work, is_known) in [
        ("mkdir out; echo a > out/b.log", true),
        ("mkdir out; echo '*' > out/.gitignore; echo a > out/a", false),
        ("mkdir out; echo .gitignore > out/.gitignore; echo a > out/a", false),
    ] {
        let scene = Scene::new();
        does(&scene.top, work);
        let (_, fingerprint, ignored) = scene.sighted().expect("seen");
        let is = fingerprint.is_current(&scene.top, &scene.admin, Some(".agent"), &ignored, true);
        assert_eq!(is.expect("told"), is_known, "{work}");
    }
}

/// Of the time of a change no more than the second may be known.
#[test]
fn what_was_written_in_the_second_of_the_index_is_looked_into() {
    let scene = Scene::new();
    does(&scene.top, "printf 'int one;\\n' > lib/one.c; git add lib/one.c");
    let (one, two) = (scene.oid(":lib/one.c"), scene.oid(":lib/two.c"));
    // As if the file had been changed after git looked at it, at the same moment of its clock.
    scene.patch_index(one.as_bytes(), two.as_bytes());
    let written = fs::metadata(scene.top.join("lib/one.c")).and_then(|file| file.modified());
    let since = written.expect("a time").duration_since(UNIX_EPOCH);
    let end = Duration::new(since.expect("after").as_secs(), 999_999_999);
    let index = fs::File::options().write(true).open(scene.admin.join("index"));
    index.expect("open").set_modified(UNIX_EPOCH + end).expect("set");
    let found = scene.look(snapshot).expect("looked at");
    assert_eq!(found.tree, Some(scene.oid("HEAD^{tree}")));
}

#[test]
fn a_cached_tree_is_believed_where_git_believes_it() {
    let scene = Scene::new();
    let (lib, src) = (scene.oid("HEAD:lib"), scene.oid("HEAD:src"));
    does(&scene.top, "echo x > new && git add new");
    scene.patch_index(lib.as_bytes(), src.as_bytes());
    let [ours, git] = scene.index_trees();
    assert!(git.is_some());
    assert_eq!(ours, git);
    // A tree that is not there is made again.
    scene.patch_index(src.as_bytes(), &[0x11; 20]);
    let [ours, git] = scene.index_trees();
    assert!(git.is_some());
    assert_eq!(ours, git);
}

#[test]
fn an_entry_with_a_flag_that_its_version_does_not_know_is_left_to_git() {
    let scene = Scene::new();
    scene.patch_index(b"\0\x09README.md", b"\x40\x09");
    scene.require_one_answer("an extended entry in version 2");
}

#[test]
fn an_ignored_directory_with_nothing_in_it_is_not_named() {
    let scene = Scene::new();
    let deed = "echo '*' > src/.gitignore; rm src/bin/tool.rs; git add -A; git write-tree";
    does(&scene.top, deed);
    scene.require_agreement(deed);
}

/// Git prints the name to its end and looks it up by its length, so it is the one to ask.
#[test]
fn a_name_that_is_longer_than_its_length_is_left_to_git() {
    for version in [2, 3] {
        let scene = Scene::new();
        let write = format!("git update-index --index-version {version}; echo x > new");
        does(&scene.top, &write);
        scene.patch_index(b"\0\x05empty", b"\0\x02empty");
        scene.require_one_answer("a shorter length");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn any_history_of_deeds_is_found_either_way(
        deeds in prop::collection::vec(prop::sample::select(deeds().collect::<Vec<_>>()), 2..7),
    ) {
        let scene = Scene::new();
        let (first, rest) = deeds.split_first().expect("deeds");
        does(&scene.top, first);
        let sighted = scene.sighted();
        for deed in rest {
            does(&scene.top, deed);
        }
        let is_filtered = first.contains("filter.upper");
        let deeds = deeds.join("\n");
        scene.require_agreement(&deeds);
        if let Some(sighted) = sighted {
            if !is_filtered {
                does(&scene.top, FORGET_FILTER);
            }
            scene.require_truth(sighted, &deeds);
        }
    }

    #[test]
    fn a_broken_index_is_read_as_git_reads_it(at in 0.0..1.0f64, value: u8, version in 2..5u8) {
        let scene = Scene::new();
        does(&scene.top, &format!("git update-index --index-version {version}; echo x > new"));
        let index = scene.admin.join("index");
        let mut bytes = fs::read(&index).expect("an index");
        let at = (at * (bytes.len() - 20) as f64) as usize;
        bytes[at] = value;
        fs::write(&index, bytes).expect("write");
        scene.require_one_answer(&format!("{value} at {at}"));
    }
}
/// What is tracked in the bundle is work as well, and goes through the filters that there are now.
#[test]
fn a_tracked_file_of_the_bundle_is_filtered_as_git_filters_it() {
    let scene = Scene::new();
    for deed in [
        "echo x > .agent/plan.md && git add -f .agent/plan.md && echo '!/.agent/' > .gitignore",
        "git config filter.upper.clean 'tr a-z A-Z'; echo '*.md filter=upper' > .gitattributes; touch .agent/plan.md",
    ] {
        does(&scene.top, deed);
        scene.require_agreement(deed);
    }
}
