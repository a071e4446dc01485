//! git's own notes code is the oracle: `git notes copy --stdin` writes many notes at once through
//! `notes.c`, `git notes merge` unites them.

use super::{oid, open};
use crate::support::{TestRepo, git_output, isolated};
use git_agent::domain::value::oid::Oid;
use git_agent::error::Code;
use git_agent::git::Repo;
use git_agent::git::core::tree::{self, Entry};
use git_agent::git::record::notes;
use git_agent::git::record::notes::{Batch, Put, with_notes};
use git_agent::store::chain;
use std::io::Write;
use std::ops::Range;
use std::process::Stdio;

/// The notes of these imaginary commits, all with the same body.
fn batch(repo: &Repo, numbers: Range<usize>, body: &str) -> Batch {
    let blob = repo.write_blob(body.as_bytes()).expect("blob");
    numbers.map(|number| (oid(number), Put::Union(blob))).collect()
}

/// Writes a tree of notes and puts it on a ref, as a commit of ours; gives the tree.
fn publish(test: &TestRepo, refname: &str, tree: Oid, parent: Option<Oid>) -> Oid {
    let repo = open(test);
    let parents: Vec<_> = parent.into_iter().collect();
    let who = chain::identity(&repo, super::at(0));
    let commit = chain::commit(&repo, tree, &parents, &who, "test").expect("commit");
    test.git(["update-ref", refname, &commit.to_hex()]);
    commit
}

/// Lets git copy the note of HEAD in `refs/notes/<name>` to more imaginary commits; gives the tree.
fn copied_by_git(test: &TestRepo, name: &str, numbers: Range<usize>) -> String {
    let source = test.git(["rev-parse", "HEAD"]);
    let mut child = isolated("git", &test.path())
        .args(["notes", &format!("--ref={name}"), "copy", "--stdin"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("git starts");
    let mut input = child.stdin.take().expect("piped");
    for number in numbers {
        writeln!(input, "{source} {}", oid(number)).expect("git reads");
    }
    drop(input);
    assert!(child.wait().expect("git ends").success());
    test.git(["rev-parse", &format!("refs/notes/{name}^{{tree}}")])
}

#[test]
fn trees_are_byte_identical_to_those_of_git() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    test.git(["notes", "--ref=theirs", "add", "-m", "x", "HEAD"]);
    let head = Oid::from_hex(&test.git(["rev-parse", "HEAD"])).expect("oid");
    let blob = repo.write_blob(b"x\n").expect("blob");
    let mut tree =
        with_notes(&repo, Oid::EMPTY_TREE, Batch::from([(head, Put::Union(blob))])).expect("put");
    // One level of fan-out appears between 60 and 110 notes, the second between 20,000 and 30,000.
    let sizes = (1..3)
        .chain(15..18)
        .chain((60..110).step_by(3))
        .chain([300, 1_000, 5_000, 5_001, 20_000, 26_000, 30_000]);
    let mut written = 0;
    for size in sizes {
        tree = with_notes(&repo, tree, batch(&repo, written..size, "x\n")).expect("put");
        let theirs = copied_by_git(&test, "theirs", written..size);
        assert_eq!(tree.to_hex(), theirs, "{size} notes");
        written = size;
    }
    assert_eq!(notes::all(&repo, tree).expect("walk").len(), written + 1);
    // The whole set at once gives the same tree as its parts one after the other.
    let mut all = batch(&repo, 0..written, "x\n");
    all.insert(head, Put::Union(blob));
    assert_eq!(with_notes(&repo, Oid::EMPTY_TREE, all).expect("put"), tree);
}

#[test]
fn one_note_touches_only_the_way_to_it() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    let tree = with_notes(&repo, Oid::EMPTY_TREE, batch(&repo, 0..5_000, "x\n")).expect("put");
    let count = || -> usize {
        let loose = test.git(["count-objects"]);
        loose.split(' ').next().expect("a count").parse().expect("a number")
    };
    let before = count();
    with_notes(&repo, tree, batch(&repo, 5_000..5_001, "x\n")).expect("put");
    assert_eq!(count() - before, 2, "a directory and the root");
}

#[test]
fn notes_of_which_none_begins_with_one_digit_are_split_and_read_by_git() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    let head = Oid::from_hex(&test.git(["rev-parse", "HEAD"])).expect("oid");
    let mut all = batch(&repo, 0..600, "x\n");
    // As the ids of agents are; the commit of the test is asked for by its name below.
    all.retain(|key, _| key.as_bytes()[0] >> 4 != 0xa);
    let blob = repo.write_blob(b"x\n").expect("blob");
    all.insert(head, Put::Union(blob));
    let tree = with_notes(&repo, Oid::EMPTY_TREE, all.clone()).expect("put");
    let parts = all.clone().into_iter().fold(Oid::EMPTY_TREE, |tree, note| {
        with_notes(&repo, tree, Batch::from([note])).expect("put")
    });
    assert_eq!(parts, tree, "the tree follows from the set");
    let top = test.git(["ls-tree", "--name-only", &tree.to_hex()]);
    assert!(top.lines().all(|name| name.len() == 2), "{top}");

    publish(&test, "refs/notes/split", tree, None);
    assert_eq!(test.git(["notes", "--ref=split", "list"]).lines().count(), all.len());
    // git's own rule makes one level of it, and the next note of ours splits it again.
    test.git(["notes", "--ref=split", "append", "-m", "y", "HEAD"]);
    let theirs = test.git(["rev-parse", "refs/notes/split^{tree}"]);
    let theirs = Oid::from_hex(&theirs).expect("oid");
    let tree = with_notes(&repo, theirs, batch(&repo, 0..1, "x\n")).expect("put");
    let top = test.git(["ls-tree", "--name-only", &tree.to_hex()]);
    assert!(top.lines().all(|name| name.len() == 2), "{top}");
    publish(&test, "refs/notes/again", tree, None);
    assert!(test.git(["notes", "--ref=again", "show", "HEAD"]).contains('y'));
}

#[test]
fn odd_trees_are_read_whole_and_written_straight() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    let write = |entries: Vec<Entry>| repo.write_tree(entries).expect("tree");
    let entry = |mode, name: &str, oid| Entry { mode, name: name.into(), oid };
    let blob = |body: &str| repo.write_blob(body.as_bytes()).expect("blob");
    let (flat, one, two) = (oid(1).to_hex(), blob("a\n\nb"), blob("b\nc\n"));
    // The same note flat, one level down and two levels down, beside things that are no notes.
    let deepest = write(vec![entry(tree::FILE, &flat[4..], two)]);
    let deep = write(vec![
        entry(tree::FILE, &flat[2..], two),
        entry(tree::DIRECTORY, &flat[2..4], deepest),
        entry(tree::FILE, "stray", one),
    ]);
    let odd = write(vec![
        entry(tree::FILE, &flat, one),
        entry(tree::DIRECTORY, &flat[..2], deep),
        entry(tree::FILE, "README", one),
        entry(tree::SYMLINK, &oid(2).to_hex(), one),
    ]);
    assert_eq!(notes::lookup(&repo, odd, oid(1)).expect("lookup"), [one, two, two]);

    let tree = with_notes(&repo, odd, batch(&repo, 3..4, "x\n")).expect("put");
    publish(&test, "refs/notes/odd", tree, None);
    let listed = test.git(["ls-tree", "-r", "--name-only", "refs/notes/odd"]);
    let mut expected = [
        flat.clone(),
        format!("{}/stray", &flat[..2]),
        oid(2).to_hex(),
        oid(3).to_hex(),
        "README".into(),
    ];
    expected.sort();
    assert_eq!(listed.lines().collect::<Vec<_>>(), expected);
    let united = notes::lookup(&repo, tree, oid(1)).expect("lookup");
    assert_eq!(repo.read_blob(united[0]).expect("blob"), b"a\nb\nc\n");
    assert_eq!(test.git(["fsck", "--strict", "--no-dangling"]), "");
}

#[test]
fn a_few_trees_that_stand_for_very_many_notes_are_refused() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    let blob = repo.write_blob(b"x\n").expect("blob");
    // 256 to the power of 8 notes.
    let mut tree = repo
        .write_tree(vec![Entry { mode: tree::FILE, name: "0".repeat(24).into_bytes(), oid: blob }])
        .expect("tree");
    for _ in 0..8 {
        let entry = |byte: u8| Entry {
            mode: tree::DIRECTORY,
            name: format!("{byte:02x}").into_bytes(),
            oid: tree,
        };
        tree = repo.write_tree((0..=255).map(entry).collect()).expect("tree");
    }
    let own = with_notes(&repo, Oid::EMPTY_TREE, batch(&repo, 0..3, "m\n")).expect("put");
    let refusals = [
        notes::all(&repo, tree).map(|_| ()),
        notes::added_notes(&repo, own, tree).map(|_| ()),
        notes::compared_notes(&repo, tree, own).map(|_| ()),
        notes::union_of_trees(&repo, own, tree).map(|_| ()),
    ];
    for refusal in refusals {
        let error = refusal.expect_err("refused");
        assert_eq!(error.code(), Code::RepoCorrupt, "{error}");
        assert!(error.to_string().contains("twice"), "{error}");
    }
    // The same as the tree of a commit: no walk over its paths would end.
    let error = repo.tree_changes(&[], tree).expect_err("refused");
    assert_eq!(error.code(), Code::FileTooLong, "{error}");
    // What is known by name is still found.
    assert_eq!(notes::lookup(&repo, tree, oid(1)).expect("lookup"), []);
}

#[test]
fn unions_are_identical_to_those_of_git() {
    // Each case: notes in common, then only here, then only there; both change the first ones.
    for (common, here, there) in [(0, 3, 4), (2, 0, 5), (60, 20, 25), (95, 3, 3), (900, 40, 60)] {
        let test = TestRepo::with_commit();
        let repo = open(&test);
        let base = with_notes(&repo, Oid::EMPTY_TREE, batch(&repo, 0..common, "m\n")).expect("put");
        let root = publish(&test, "refs/notes/base", base, None);
        let changed = common.min(5);
        let side = |name: &str, line: &str, own: Range<usize>| {
            let mut notes = batch(&repo, own, line);
            notes.extend(batch(&repo, 0..changed, line));
            let tree = with_notes(&repo, base, notes).expect("put");
            publish(&test, name, tree, Some(root));
            tree
        };
        let ours = side("refs/notes/ours", "a\n", common..common + here);
        let theirs = side("refs/notes/theirs", "z\n", common + here..common + here + there);
        let united = notes::union_of_trees(&repo, ours, theirs).expect("union");
        assert_eq!(
            united,
            notes::union_of_trees(&repo, theirs, ours).expect("union"),
            "either way round"
        );
        let merge = ["notes", "--ref=ours", "merge", "--quiet", "-s", "cat_sort_uniq"];
        test.git(merge.into_iter().chain(["refs/notes/theirs"]));
        assert_eq!(
            united.to_hex(),
            test.git(["rev-parse", "refs/notes/ours^{tree}"]),
            "{common} + {here} + {there}"
        );
    }
}

#[test]
fn a_mixed_tree_that_git_cannot_merge_is_united() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    let key = oid(1).to_hex();
    let blob = |body: &str| repo.write_blob(body.as_bytes()).expect("blob");
    let note = |name: &str, oid| Entry { mode: tree::FILE, name: name.into(), oid };
    let below = repo.write_tree(vec![note(&key[2..], blob("old\n"))]).expect("tree");
    let mixed = repo
        .write_tree(vec![
            note(&key, blob("new\n")),
            Entry { mode: tree::DIRECTORY, name: key[..2].into(), oid: below },
        ])
        .expect("tree");
    let clean = with_notes(&repo, mixed, batch(&repo, 2..3, "x\n")).expect("put");
    let united = notes::union_of_trees(&repo, mixed, clean).expect("union");
    assert_eq!(united, clean);
    let body = notes::lookup(&repo, united, oid(1)).expect("lookup");
    assert_eq!(repo.read_blob(body[0]).expect("blob"), b"new\nold\n");
}

#[test]
fn both_sides_of_a_union_make_the_same_commit() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    let side = |name: &str, numbers: Range<usize>| {
        let tree = with_notes(&repo, Oid::EMPTY_TREE, batch(&repo, numbers, "x\n")).expect("put");
        publish(&test, name, tree, None)
    };
    let (here, there) = (side("refs/notes/here", 0..3), side("refs/notes/there", 2..9));
    let made_here = notes::union_commit(&repo, here, there, "agent: sync").expect("union");
    let made_there = notes::union_commit(&repo, there, here, "agent: sync").expect("union");
    assert_eq!(made_here, made_there);
    // Once one side has it, there is nothing left to merge.
    for (one, two) in [(here, made_here), (made_here, there), (made_here, made_here)] {
        let again = notes::union_commit(&repo, one, two, "agent: sync").expect("union");
        assert_eq!(again, made_here);
    }
    assert!(git_output(&test.path(), ["fsck", "--strict"]).status.success());
}

#[test]
fn notes_that_differ_in_the_last_byte_alone_are_not_split() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    // At each depth two notes for each digit, so that each level on the way down is full.
    let digits = (0..16u8).flat_map(|digit| [digit << 4, digit << 4 | 1]);
    let key = |(depth, byte): (usize, u8)| {
        let mut key = [0; 20];
        key[depth] = byte;
        Oid::from_slice(&key).expect("20 bytes")
    };
    let keys = (0..20).flat_map(|depth| digits.clone().map(move |byte| (depth, byte)));
    // With texts of their own, so that no two directories are the same tree.
    let blob = |key: Oid| repo.write_blob(key.to_hex().as_bytes()).expect("blob");
    let all: Batch = keys.map(key).map(|key| (key, Put::Union(blob(key)))).collect();
    let tree = with_notes(&repo, Oid::EMPTY_TREE, all.clone()).expect("put");
    assert_eq!(notes::all(&repo, tree).expect("walk").len(), all.len());
}
