//! Commits as their objects say, whatever a shallow clone or grafts make of their parents, with the headers that
//! git gives no meaning, such as `agent-policy`; and objects that are files of their own, read as those files are.
//!
//! Such headers stand after git's own. git keeps them wherever it keeps the commit itself, and drops them when it makes a
//! commit anew: in a rebase or a cherry-pick. A value of several lines is folded as git folds a signature: every line
//! after the first begins with a space.

use super::last_trailer;
use crate::domain::Oid;
use crate::error::{Code, Error, Result};
use crate::git::repo::{failed, from_git2, to_git2};
use crate::git::{Repo, core::command};
use gix::objs::Kind;
use std::borrow::Cow;
use std::collections::HashSet;
use std::path::PathBuf;

/// The headers of a signature, which names the bytes of the commit that it stands in.
const SIGNATURES: [&str; 2] = ["gpgsig", "gpgsig-sha256"];

/// A commit object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawCommit {
    bytes: Vec<u8>,
}

impl RawCommit {
    /// Its parents, in order.
    pub fn parents(&self) -> Vec<Oid> {
        // The tree comes first, then the parents, then everything else.
        let lines = self.bytes.split(|&byte| byte == b'\n').skip(1);
        let hex = lines.map_while(|line| std::str::from_utf8(line.strip_prefix(b"parent ")?).ok());
        hex.filter_map(Oid::from_hex).collect()
    }

    /// The value of the first header of that name, its lines joined by line feeds.
    pub fn header(&self, name: &str) -> Option<Vec<u8>> {
        find(&self.bytes, name)
    }

    /// The committer as `name <address>`, and the moment in seconds since the epoch.
    pub fn committer(&self) -> Option<(String, i64)> {
        let line = String::from_utf8_lossy(&self.header("committer")?).into_owned();
        // From the end: a name may contain `>` in commits that other programs wrote.
        let end = line.rfind('>')?;
        let seconds = line[end + 1..].split_whitespace().next()?.parse().ok()?;
        Some((line[..=end].to_owned(), seconds))
    }

    /// Whether its headers are such as git's own check of objects lets pass (`fsck.c: fsck_commit`): one author and one committer behind tree
    /// and parents, each with an address, a date and a time zone. A server may refuse a push for one that is not so, and of all that stands on it.
    fn is_sound(&self) -> bool {
        let lines = self.bytes.split(|&byte| byte == b'\n').skip(1);
        let mut lines = lines.skip_while(|line| line.starts_with(b"parent "));
        ["author ", "committer "].iter().all(|name| {
            lines.next().and_then(|line| line.strip_prefix(name.as_bytes())).is_some_and(is_dated)
        })
    }

    /// The first line of its message; bytes that are not UTF-8 are replaced.
    pub fn subject(&self) -> String {
        let message = self.message();
        message.lines().next().unwrap_or_default().to_owned()
    }

    /// The value of the last trailer of that name, such as `Agent-Nonce`.
    pub fn trailer(&self, name: &str) -> Option<String> {
        last_trailer(&self.message(), name).map(str::to_owned)
    }

    /// The commit with this content.
    pub fn from_bytes(bytes: Vec<u8>) -> RawCommit {
        RawCommit { bytes }
    }

    /// The whole object.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The name that the commit has.
    ///
    /// # Errors
    /// `git-failed` when libgit2 cannot hash.
    pub fn name(&self) -> Result<Oid> {
        git2::Oid::hash_object(git2::ObjectType::Commit, &self.bytes)
            .map(from_git2)
            .map_err(|error| failed("could not name a commit", error))
    }

    /// Whether it is signed, so that no byte of it can change.
    pub fn is_signed(&self) -> bool {
        SIGNATURES.iter().any(|name| self.header(name).is_some())
    }

    /// The commit with other parents and, where one is given, one more header behind its own. Everything else stays to the
    /// byte.
    #[must_use]
    pub fn with_parents(&self, parents: &[Oid], header: Option<(&str, &str)>) -> RawCommit {
        let line_end = |text: &[u8]| match text.iter().position(|&byte| byte == b'\n') {
            Some(end) => end + 1,
            None => text.len(),
        };
        // The tree comes first, then the parents.
        let (tree, mut rest) = self.bytes.split_at(line_end(&self.bytes));
        while rest.starts_with(b"parent ") {
            rest = rest.split_at(line_end(rest)).1;
        }
        // A malformed commit may lack the empty line; then all of it is headers.
        let end = rest.windows(2).position(|pair| pair == b"\n\n");
        let (headers, message) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
        let parents: String = parents.iter().map(|oid| format!("parent {oid}\n")).collect();
        // Behind all other headers, where git itself puts those that it does not know.
        let header = header.map(|(name, value)| fold_header(name, value));
        let header = header.unwrap_or_default();
        RawCommit {
            bytes: [tree, parents.as_bytes(), headers, header.as_bytes(), message].concat(),
        }
    }

    /// The commit with another tree.
    #[must_use]
    pub fn with_tree(&self, tree: Oid) -> RawCommit {
        let end = self.bytes.iter().position(|&byte| byte == b'\n');
        let rest = end.and_then(|end| self.bytes.get(end..)).unwrap_or_default();
        RawCommit { bytes: [format!("tree {tree}").as_bytes(), rest].concat() }
    }

    /// All that stays of it when it is made again elsewhere: neither tree and parents nor the header of that name.
    pub fn without_place(&self, header: &str) -> Vec<u8> {
        let header = [header.as_bytes(), b" "].concat();
        let (mut kept, mut is_left_out, mut is_message) = (Vec::new(), false, false);
        for line in self.bytes.split_inclusive(|&byte| byte == b'\n') {
            is_message |= line == b"\n";
            let is_folded = line.starts_with(b" ");
            if !is_folded {
                let names = [b"tree ".as_slice(), b"parent ", &header];
                is_left_out = names.iter().any(|name| line.starts_with(name));
            }
            if is_message || !is_left_out {
                kept.extend_from_slice(line);
            }
        }
        kept
    }

    fn message(&self) -> Cow<'_, str> {
        let end = self.bytes.windows(2).position(|pair| pair == b"\n\n");
        let message = end.and_then(|end| self.bytes.get(end + 2..));
        String::from_utf8_lossy(message.unwrap_or_default())
    }
}

impl Repo {
    /// Reads a commit object.
    ///
    /// # Errors
    /// `repo-corrupt` when it is missing or no commit.
    pub fn read_raw_commit(&self, oid: Oid) -> Result<RawCommit> {
        let bytes = self.read_object(oid, git2::ObjectType::Commit)?;
        Ok(RawCommit { bytes })
    }

    /// Writes a commit object as it is.
    ///
    /// # Errors
    /// Those of [`Repo::write_blob`].
    pub fn write_raw_commit(&self, commit: &RawCommit) -> Result<Oid> {
        self.write_object(git2::ObjectType::Commit, &commit.bytes)
    }

    /// Writes a commit again with other parents: everything else stays to the byte.
    ///
    /// # Errors
    /// As [`Repo::read_commit`] and [`Repo::write_blob`].
    pub fn write_with_parents(&self, oid: Oid, parents: &[Oid]) -> Result<Oid> {
        self.write_raw_commit(&self.read_raw_commit(oid)?.with_parents(parents, None))
    }
}

// Objects that are in no pack, before libgit2 reads them.
//
// libgit2 1.9 never ends with a file whose deflated data ends early, as a power loss leaves it: its loop over inflate(3) takes a call
// that made nothing for progress. gitoxide reports such a file, so it reads these objects, and looks at those that libgit2 will read.

/// So many commits that are in packs one below the other have none below them that is not.
const PACKED_ABOVE: usize = 32;

impl Repo {
    /// The file of an object that is in no pack.
    pub(super) fn loose_file(&self, oid: Oid) -> PathBuf {
        let hex = oid.to_hex();
        self.common_dir().join("objects").join(&hex[..2]).join(&hex[2..])
    }

    /// The kind and the content of an object that is a file of its own; `None` for one in a pack, or that is not here.
    ///
    /// # Errors
    /// `repo-corrupt` where the file cannot be read and git finds no other copy.
    pub(super) fn read_loose(&self, oid: Oid) -> Result<Option<(git2::ObjectType, Vec<u8>)>> {
        let id = gix::ObjectId::Sha1(*oid.as_bytes());
        let mut content = Vec::new();
        let damage = match self.loose.files.try_find(&id, &mut content) {
            Ok(Some(object)) => {
                let kind = match object.kind {
                    Kind::Blob => git2::ObjectType::Blob,
                    Kind::Tree => git2::ObjectType::Tree,
                    Kind::Commit => git2::ObjectType::Commit,
                    Kind::Tag => git2::ObjectType::Tag,
                };
                let hashed = git2::Oid::hash_object(kind, &content);
                if hashed.is_ok_and(|hashed| from_git2(hashed) == oid) {
                    return Ok(Some((kind, content)));
                }
                unreadable("object", oid).because("its content is another one")
            }
            Ok(None) => return Ok(None),
            Err(error) => unreadable("object", oid).because(error),
        };
        // Every reader prefers a pack, so with a copy in one the file is never read.
        let mut git = self.plumbing();
        git.args(["cat-file", "-p"]).arg(oid.to_hex());
        command::successful(git).map(|_| None).map_err(|_| damage)
    }

    /// Checks that libgit2 can read an object.
    ///
    /// # Errors
    /// `repo-corrupt`.
    pub(in crate::git) fn require_readable(&self, oid: Oid) -> Result<()> {
        if !self.loose.readable.borrow().contains(&oid) && self.read_loose(oid)?.is_some() {
            self.loose.readable.borrow_mut().insert(oid);
        }
        Ok(())
    }

    /// Checks that libgit2 can walk the history of commits.
    ///
    /// # Errors
    /// `repo-corrupt`.
    pub(in crate::git) fn require_readable_history(&self, tips: &[Oid]) -> Result<()> {
        let mut next: Vec<_> = tips.iter().map(|tip| (*tip, 0)).collect();
        let mut seen = HashSet::new();
        while let Some((oid, packed)) = next.pop() {
            if self.loose.walked.borrow().contains(&oid) || !seen.insert(oid) {
                continue;
            }
            match self.read_loose(oid)? {
                Some((_, bytes)) => {
                    next.extend(RawCommit { bytes }.parents().into_iter().map(|it| (it, 0)));
                }
                // A commit of a run comes in a pack, and stands on the one that its spawn made.
                None if packed < PACKED_ABOVE => {
                    let commit = to_git2(oid).map(|oid| self.inner.find_commit(oid).ok());
                    let parents =
                        commit?.into_iter().flat_map(|it| it.parent_ids().collect::<Vec<_>>());
                    next.extend(parents.map(|parent| (from_git2(parent), packed + 1)));
                }
                None => {}
            }
        }
        // All of them or none: a second question must get the same answer.
        self.loose.walked.borrow_mut().extend(seen);
        Ok(())
    }
}

impl Repo {
    /// Checks that a commit is one that git lets pass where it checks what it is sent.
    ///
    /// # Errors
    /// `repo-corrupt`.
    pub fn require_sound_commit(&self, oid: Oid) -> Result<()> {
        if self.read_raw_commit(oid)?.is_sound() {
            return Ok(());
        }
        Err(Error::new(Code::RepoCorrupt, format!("commit {oid} is malformed"))
            .hint("to see what is wrong with it, run git fsck"))
    }
}

pub(super) fn unreadable(kind: &str, oid: Oid) -> Error {
    Error::new(Code::RepoCorrupt, format!("could not read {kind} {oid}"))
        .hint("to check the repository, run git fsck")
}

/// The lines that a header takes in a commit, the line feed at its end included.
pub(in crate::git) fn fold_header(name: &str, value: &str) -> String {
    format!("{name} {}\n", value.replace('\n', "\n "))
}

/// Whether this is a name, an address, a date and a time zone (`fsck.c: fsck_ident`).
fn is_dated(who: &[u8]) -> bool {
    let marks = |byte: &u8| matches!(byte, b'<' | b'>');
    let dated = || -> Option<bool> {
        let (name, rest) = who.split_at(who.iter().position(marks)?);
        let rest = rest.strip_prefix(b"<").filter(|_| name.ends_with(b" "))?;
        let (_, rest) = rest.split_at(rest.iter().position(marks)?);
        let date = std::str::from_utf8(rest.strip_prefix(b"> ")?).ok()?;
        let (seconds, zone) = date.trim_start_matches([' ', '\t']).split_once(' ')?;
        let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let is_padded = seconds.len() > 1 && seconds.starts_with('0');
        let zone = zone.strip_prefix(['+', '-'])?;
        let is_time = are_digits(seconds) && !is_padded && seconds.parse::<i64>().is_ok();
        Some(is_time && zone.len() == 4 && are_digits(zone))
    };
    dated() == Some(true)
}

fn find(commit: &[u8], name: &str) -> Option<Vec<u8>> {
    let mut value: Option<Vec<u8>> = None;
    for line in commit.split(|&byte| byte == b'\n') {
        // An empty line ends the headers, and what follows is the message.
        if line.is_empty() {
            break;
        }
        if let Some(folded) = line.strip_prefix(b" ") {
            if let Some(value) = &mut value {
                value.push(b'\n');
                value.extend_from_slice(folded);
            }
        } else if value.is_some() {
            // The first of several counts, as for git, so a second one that someone appended
            // changes nothing.
            break;
        } else if let Some(rest) = line.strip_prefix(name.as_bytes()) {
            value = rest.strip_prefix(b" ").map(<[u8]>::to_owned);
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::repo::program::Version;

    #[test]
    fn a_value_comes_back_as_it_was_folded() {
        for value in ["one line", "two\nlines", "{\n  \"a\": 1\n}", "a\n\nb", ""] {
            let commit = format!("tree 1\nauthor a\n{}\nnote x\n", fold_header("note", value));
            assert_eq!(find(commit.as_bytes(), "note"), Some(value.into()));
        }
    }

    #[test]
    fn only_a_header_of_exactly_that_name_is_found() {
        let commit = b"tree 1\ngpgsig -----BEGIN\n note no\n -----END\nnotes no\nnote yes\nnote no\n\nnote no\n";
        assert_eq!(find(commit, "note"), Some(b"yes".to_vec()));
        assert_eq!(find(b"tree 1\n\nnote no\n", "note"), None);
        assert_eq!(find(b"note", "note"), None);
    }

    #[test]
    fn what_git_lets_pass_is_sound() {
        let place = tempfile::tempdir().expect("a directory");
        let git = |words: &[&str]| {
            let mut git = std::process::Command::new("git");
            git.current_dir(&place).args(words);
            git
        };
        let version = git(&["version"]).output().expect("git starts").stdout;
        let version = Version::parse(&String::from_utf8_lossy(&version));
        // Before, `git hash-object` checks less.
        if version < Some(Version { major: 2, minor: 40 }) {
            return;
        }
        assert!(git(&["init", "--quiet"]).status().expect("git starts").success());
        let good = "a <a> 1700000000 +0000";
        let tree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";
        let people = [
            good,
            "a <a> 0 -0130",
            "a <> 1 +0000",
            " <a> 1 +0000",
            "<a> 1 +0000",
            "a<a> 1 +0000",
            "a <a 1 +0000",
            "a a> 1 +0000",
            "a <a>1 +0000",
            "a <a>  1 +0000",
            "a <a> -1 +0000",
            "a <a> 01 +0000",
            "a <a> 1",
            "a <a> 1 0000",
            "a <a> 1 +000",
            "a <a> 1 +00000",
            "a <a> 99999999999999999999 +0000",
            "a <a> x +0000",
            "a <a>",
            "a <b<c> 1 +0000",
            "a <b>c> 1 +0000",
            "",
        ];
        let pairs = people.iter().flat_map(|who| [(*who, good), (good, *who)]);
        let commits = pairs.map(|(author, committer)| {
            format!("tree {tree}\nauthor {author}\ncommitter {committer}\n\nm\n")
        });
        let odd = [
            format!("tree {tree}\nauthor {good}\nauthor {good}\ncommitter {good}\n\nm\n"),
            format!("tree {tree}\ncommitter {good}\nauthor {good}\n\nm\n"),
            format!("tree {tree}\nauthor {good}\n\nm\n"),
        ];
        let (mut passed, mut refused) = (0, 0);
        for commit in commits.chain(odd) {
            let file = place.path().join("commit");
            std::fs::write(&file, &commit).expect("written");
            let asked = git(&["hash-object", "-t", "commit", "commit"]).output();
            let is_sound = asked.expect("git starts").status.success();
            assert_eq!(
                RawCommit::from_bytes(commit.clone().into()).is_sound(),
                is_sound,
                "{commit}"
            );
            passed += usize::from(is_sound);
            refused += usize::from(!is_sound);
        }
        assert!(passed > 3 && refused > 9, "{passed} {refused}");
    }

    #[test]
    fn parents_and_trailers_are_read_from_their_own_part() {
        let [one, two] = ["1", "2"].map(|digit| digit.repeat(40));
        let text = format!(
            "tree {one}\nparent {one}\nparent {two}\nauthor a\nmergetag object {one}\n parent {one}\n\nparent {one}\n\nKey: yes\n"
        );
        let commit = RawCommit { bytes: text.into_bytes() };
        let parents = commit.parents().into_iter().map(Oid::to_hex);
        assert_eq!(parents.collect::<Vec<_>>(), [one.as_str(), &two]);
        assert_eq!(commit.trailer("key").as_deref(), Some("yes"));
        assert_eq!(commit.trailer("author a"), None);
        assert_eq!(commit.subject(), format!("parent {one}"));
    }

    #[test]
    fn other_parents_and_a_header_leave_every_other_byte() {
        let [one, two] = ["1", "2"].map(|digit| digit.repeat(40));
        let two = Oid::from_hex(&two).expect("an oid");
        let text = |parents: &str, more: &str| {
            let text = format!(
                "tree {one}\n{parents}author a\ncommitter c\nencoding x\n{more}\nsubject\n\n"
            );
            RawCommit::from_bytes(text.into_bytes())
        };
        let commit = text(&format!("parent {one}\nparent {one}\n"), "");
        let value = "tree\nauthor\n\nsubject\n";
        let folded = fold_header("note", value);
        assert_eq!(
            commit.with_parents(&[two], Some(("note", value))),
            text(&format!("parent {two}\n"), &folded)
        );
        assert_eq!(commit.with_parents(&[], None), text("", ""));
        let with = commit.with_parents(&[two], Some(("note", value)));
        assert_eq!(with.header("note"), Some(value.into()));
        assert!(!with.is_signed());
        assert!(text("", "gpgsig -----BEGIN\n end\n").is_signed());
    }
}
