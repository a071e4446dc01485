//! The index of a worktree, which an agent can write: read whatever the bytes are, in memory bounded by their number,
//! and what is written of one that was read is read again.

use git_agent::git::changes::PlainIndex;

/// One index file.
pub fn run(data: &[u8]) {
    let Some(index) = PlainIndex::parse(data) else {
        return;
    };
    // Eight times as much as the file, once more for the last path, and the room to grow that a vector takes.
    assert!(index.size() <= 20 * data.len() + 4096, "{} bytes", index.size());
    let entries: Vec<_> = index.entries().collect();
    assert!(entries.is_sorted_by(|(one, _), (two, _)| one < two));
    for (path, _) in &entries {
        assert!(!path.is_empty() && !path.contains(&0));
    }
    assert!(index.walked() <= entries.len());
    let new = b"a/fuzzed";
    if let Some(file) = index.with(new) {
        let again = PlainIndex::parse(&file).expect("our own index is read");
        let expected = entries.iter().filter(|(path, _)| path != new);
        let others = again.entries().filter(|(path, _)| path != new);
        assert!(others.eq(expected.copied()));
        assert!(again.entries().any(|(path, _)| path == new));
        again.walked();
    }
}
