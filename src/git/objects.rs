//! Reading and writing objects, raw: bytes in, names out.

mod limits;
pub mod quarantine;
mod raw;

pub use raw::RawCommit;
pub(in crate::git) use raw::fold_header;

use super::Repo;
use super::core::tree::{DIRECTORY, Entry, SYMLINK};
use super::core::{command, tree};
use super::files::admin_dir::retry_if_pruned;
use super::files::{descent, untrusted};
use super::repo::scratch_objects::make_empty;
use super::repo::{failed, from_git2, to_git2, words};
use crate::domain::{Oid, RepoPath};
use crate::error::{Code, Error, IoContext, Result};
use std::collections::HashSet;
use std::fs;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

/// Who did something and when, in the form of git's commit headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// A name without `<`, `>` and line ends.
    pub name: String,
    /// An address without `<`, `>` and line ends.
    pub email: String,
    /// Seconds since the epoch.
    pub seconds: i64,
    /// Minutes east of UTC.
    pub offset_minutes: i32,
}

impl Identity {
    /// The form that commit headers and reflogs use: `<name> <<email>> <seconds> <zone>`.
    pub fn stamp(&self) -> String {
        format!("{} <{}> {}", self.name, self.email, self.date())
    }

    /// The time alone: `<seconds> <zone>`.
    pub fn date(&self) -> String {
        let sign = if self.offset_minutes < 0 { '-' } else { '+' };
        let minutes = self.offset_minutes.abs();
        format!("{} {sign}{:02}{:02}", self.seconds, minutes / 60, minutes % 60)
    }
}

/// A commit about to be written.
#[derive(Clone, Debug)]
pub struct NewCommit<'a> {
    /// Its tree.
    pub tree: Oid,
    /// Its parents, in order.
    pub parents: &'a [Oid],
    /// Who wrote the change.
    pub author: &'a Identity,
    /// Who made the commit.
    pub committer: &'a Identity,
    /// A header besides git's own, as name and value.
    pub header: Option<(&'a str, &'a str)>,
    /// The message, ending in a line feed.
    pub message: &'a str,
}

impl<'a> NewCommit<'a> {
    /// A commit that has one person as author and committer, without a header of ours.
    pub fn ours(who: &'a Identity, tree: Oid, parents: &'a [Oid], message: &'a str) -> Self {
        NewCommit { tree, parents, author: who, committer: who, header: None, message }
    }

    /// The name that the commit will have.
    ///
    /// # Errors
    /// `git-failed` when libgit2 cannot hash.
    pub fn oid(&self) -> Result<Oid> {
        git2::Oid::hash_object(git2::ObjectType::Commit, self.text().as_bytes())
            .map(from_git2)
            .map_err(|error| failed("could not name a commit", error))
    }

    fn text(&self) -> String {
        let mut text = format!("tree {}\n", self.tree);
        for parent in self.parents {
            text.push_str(&format!("parent {parent}\n"));
        }
        text.push_str(&format!("author {}\n", self.author.stamp()));
        text.push_str(&format!("committer {}\n", self.committer.stamp()));
        if let Some((name, value)) = self.header {
            text.push_str(&fold_header(name, value));
        }
        text.push('\n');
        text.push_str(self.message);
        text
    }
}

/// The name that a blob with this content has.
///
/// # Errors
/// `git-failed` when libgit2 cannot hash.
pub fn blob_name(content: &[u8]) -> Result<Oid> {
    git2::Oid::hash_object(git2::ObjectType::Blob, content)
        .map(from_git2)
        .map_err(|error| failed("could not name a blob", error))
}

/// A commit as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its name.
    pub oid: Oid,
    /// Its tree.
    pub tree: Oid,
    /// Its parents, in order.
    pub parents: Vec<Oid>,
    /// Committer time in seconds since the epoch.
    pub seconds: i64,
    /// The message; bytes that are not UTF-8 are replaced.
    pub message: String,
}

impl Commit {
    /// The value of the last trailer of that name, such as `Agent-Nonce`.
    pub fn trailer(&self, name: &str) -> Option<&str> {
        last_trailer(&self.message, name)
    }
}

pub(super) fn last_trailer<'m>(message: &'m str, name: &str) -> Option<&'m str> {
    message.lines().rev().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

impl Repo {
    /// The content of a blob.
    ///
    /// # Errors
    /// `repo-corrupt` when it is missing or no blob.
    pub fn read_blob(&self, oid: Oid) -> Result<Vec<u8>> {
        self.read_object(oid, git2::ObjectType::Blob)
    }

    /// How many bytes a blob has.
    ///
    /// # Errors
    /// `repo-corrupt` when it is missing.
    pub(in crate::git) fn blob_size(&self, oid: Oid) -> Result<usize> {
        let odb = self.inner.odb();
        let odb = odb.map_err(|error| failed("could not open the object database", error))?;
        match odb.read_header(to_git2(oid)?) {
            Ok((size, _)) => Ok(size),
            // One that a partial clone left out is fetched.
            Err(_) => self.read_blob(oid).map(|content| content.len()),
        }
    }

    /// What an object is that is here.
    pub(in crate::git) fn kind_at_hand(&self, oid: Oid) -> Option<git2::ObjectType> {
        self.inner.odb().ok()?.read_header(to_git2(oid).ok()?).ok().map(|(_, kind)| kind)
    }

    /// Whether an object is a blob; what a partial clone left out is taken for one.
    pub(in crate::git) fn is_blob(&self, oid: Oid) -> bool {
        let kind = self.kind_at_hand(oid);
        kind.map_or_else(|| self.is_partial(), |kind| kind == git2::ObjectType::Blob)
    }

    /// The entries of a tree, in git's order. The empty tree needs no object.
    ///
    /// # Errors
    /// `repo-corrupt` when it is missing, no tree, or malformed.
    pub fn read_tree(&self, oid: Oid) -> Result<Vec<tree::Entry>> {
        if oid == Oid::EMPTY_TREE {
            return Ok(Vec::new());
        }
        let data = self.read_object(oid, git2::ObjectType::Tree)?;
        tree::parse(&data).ok_or_else(|| malformed(oid))
    }

    /// The entry at a path below a tree; `None` where the tree has none there.
    ///
    /// # Errors
    /// Those of [`Repo::read_tree`].
    pub fn entry_at(&self, mut tree: Oid, path: &str) -> Result<Option<tree::Entry>> {
        let mut parts = path.split('/').peekable();
        while let Some(part) = parts.next() {
            let mut entries = self.read_tree(tree)?.into_iter();
            match entries.find(|entry| entry.name == part.as_bytes()) {
                Some(entry) if parts.peek().is_none() => return Ok(Some(entry)),
                Some(entry) if entry.is_directory() => tree = entry.oid,
                _ => return Ok(None),
            }
        }
        Ok(None)
    }

    /// The entries of two trees without those that both begin with and those that both end with. No tree has no entries.
    ///
    /// # Errors
    /// Those of [`Repo::read_tree`].
    pub(in crate::git) fn read_trees_apart(
        &self,
        trees: [Option<Oid>; 2],
    ) -> Result<[Vec<tree::Entry>; 2]> {
        let [Some(one), Some(two)] = trees else {
            let [one, two] =
                trees.map(|tree| tree.map_or(Ok(Vec::new()), |tree| self.read_tree(tree)));
            return Ok([one?, two?]);
        };
        let read = |tree| match tree {
            Oid::EMPTY_TREE => Ok(Vec::new()),
            tree => self.read_object(tree, git2::ObjectType::Tree),
        };
        let data = (read(one)?, read(two)?);
        let [left, right] = tree::apart(&data.0, &data.1).ok_or_else(|| malformed(one))?;
        let parse = |data, oid| tree::parse(data).ok_or_else(|| malformed(oid));
        Ok([parse(left, one)?, parse(right, two)?])
    }

    /// The tree of a commit.
    ///
    /// # Errors
    /// As [`Repo::read_commit`].
    pub fn tree_of(&self, commit: Oid) -> Result<Oid> {
        self.read_commit(commit).map(|commit| commit.tree)
    }

    /// A commit.
    ///
    /// # Errors
    /// `repo-corrupt` when it is missing or no commit.
    pub fn read_commit(&self, oid: Oid) -> Result<Commit> {
        self.require_readable(oid)?;
        let commit =
            self.inner.find_commit(to_git2(oid)?).map_err(|error| corrupt(oid, "commit", error))?;
        Ok(Commit {
            oid,
            tree: from_git2(commit.tree_id()),
            parents: commit.parent_ids().map(from_git2).collect(),
            seconds: commit.time().seconds(),
            message: String::from_utf8_lossy(commit.message_bytes()).into_owned(),
        })
    }

    /// Writes a blob.
    ///
    /// # Errors
    /// `disk-full`, `repo-read-only`, `git-failed`.
    pub fn write_blob(&self, data: &[u8]) -> Result<Oid> {
        self.write_object(git2::ObjectType::Blob, data)
    }

    /// Writes a tree; the entries are put into git's order first.
    ///
    /// # Errors
    /// As [`Repo::write_blob`].
    pub fn write_tree(&self, entries: Vec<tree::Entry>) -> Result<Oid> {
        self.write_object(git2::ObjectType::Tree, &tree::serialize(entries))
    }

    /// Writes a commit without touching any ref.
    ///
    /// # Errors
    /// As [`Repo::write_blob`].
    pub fn write_commit(&self, commit: &NewCommit<'_>) -> Result<Oid> {
        self.write_object(git2::ObjectType::Commit, commit.text().as_bytes())
    }

    /// The only object whose name begins with these hex digits; `None` where there is none or several.
    pub fn object_with_prefix(&self, digits: &str) -> Option<Oid> {
        let mut bytes = [b'0'; 40];
        bytes.get_mut(..digits.len())?.copy_from_slice(digits.as_bytes());
        let short = git2::Oid::from_str(std::str::from_utf8(&bytes).ok()?).ok()?;
        let odb = self.inner.odb().ok()?;
        odb.exists_prefix(short, digits.len()).ok().map(from_git2)
    }

    /// Whether the object is in the repository.
    pub fn has_object(&self, oid: Oid) -> bool {
        match (self.inner.odb(), to_git2(oid)) {
            (Ok(odb), Ok(oid)) => odb.exists(oid),
            _ => false,
        }
    }

    /// Whether the object is loose or in a pack that is known already; `false` says little.
    pub fn is_at_hand(&self, oid: Oid) -> bool {
        match (self.inner.odb(), to_git2(oid)) {
            (Ok(odb), Ok(oid)) => odb.exists_ext(oid, git2::OdbLookupFlags::NO_REFRESH),
            _ => false,
        }
    }

    /// The common ancestor that git would name; `None` for unrelated histories.
    ///
    /// # Errors
    /// `git-failed` when history cannot be walked.
    pub fn merge_base(&self, one: Oid, two: Oid) -> Result<Option<Oid>> {
        self.require_readable_history(&[one, two])?;
        match self.inner.merge_base(to_git2(one)?, to_git2(two)?) {
            Ok(base) => Ok(Some(from_git2(base))),
            Err(error) if error.code() == git2::ErrorCode::NotFound => Ok(None),
            Err(error) => Err(failed("could not find the merge base", error)),
        }
    }

    pub(in crate::git) fn read_object(&self, oid: Oid, kind: git2::ObjectType) -> Result<Vec<u8>> {
        let (found, content) = match self.read_loose(oid)? {
            Some(loose) => loose,
            None => self.read_packed(oid, kind)?,
        };
        if found != kind {
            let what = format!("object {oid} is a {}, not a {}", found.str(), kind.str());
            return Err(Error::new(Code::RepoCorrupt, what));
        }
        Ok(content)
    }

    fn read_packed(&self, oid: Oid, kind: git2::ObjectType) -> Result<(git2::ObjectType, Vec<u8>)> {
        let odb = self
            .inner
            .odb()
            .map_err(|error| failed("could not open the object database", error))?;
        let object = match odb.read(to_git2(oid)?) {
            // In a partial clone only: elsewhere nothing is fetched, and the second look fails as
            // the first.
            Err(error) if error.code() == git2::ErrorCode::NotFound => {
                self.fetch_promised(&[oid]);
                odb.read(to_git2(oid)?)
            }
            answer => answer,
        };
        let object = object.map_err(|error| corrupt(oid, kind.str(), error))?;
        Ok((object.kind(), object.data().to_owned()))
    }

    fn write_object(&self, kind: git2::ObjectType, data: &[u8]) -> Result<Oid> {
        let what = "could not write an object";
        let odb = self.inner.odb().map_err(|error| failed(what, error))?;
        let written = retry_if_pruned(|| odb.write(kind, data));
        let oid = from_git2(written.map_err(|error| failed(what, error))?);
        // Scratch objects are written to a place that no power loss can have touched: it is made
        // for this command.
        if !self.is_scratch() && untrusted::is_lost_object(&self.loose_file(oid)) {
            self.replace(oid, kind, data)?;
        }
        Ok(oid)
    }

    /// Writes an object for what was found beside damage. A file of its name that begins as one and cannot be read is replaced, too; to
    /// look for that takes as long again as writing.
    ///
    /// # Errors
    /// As [`Repo::write_blob`].
    pub(in crate::git) fn write_readable(
        &self,
        kind: git2::ObjectType,
        data: &[u8],
    ) -> Result<Oid> {
        let oid = self.write_object(kind, data)?;
        if !self.is_scratch() && self.read_object(oid, kind).is_err() {
            self.replace(oid, kind, data)?;
        }
        Ok(oid)
    }

    /// Writes an object once more whose file has no content, or another. A power loss leaves such files, and libgit2, as git, takes an
    /// object for written if there is a file of its name.
    fn replace(&self, oid: Oid, kind: git2::ObjectType, data: &[u8]) -> Result<()> {
        let objects = self.common_dir().join("objects");
        let file = self.loose_file(oid);
        // What a kill leaves under this name, `git gc` removes.
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let apart = objects.join(format!("tmp_objdir-{process}-{count}"));
        let fail = |error| failed("could not write an object", error);
        let made = make_empty(&apart)?;
        let written = made.odb().and_then(|odb| odb.write(kind, data));
        written.map_err(fail)?;
        // No reader misses the object, even if another process writes it at this moment: a rename puts one whole file in place of another.
        let name = file.strip_prefix(&objects).unwrap_or(&file);
        let renamed = fs::rename(apart.join("objects").join(name), &file);
        let removed = descent::remove(&apart);
        renamed.and(removed).at("could not replace", &file)
    }
}

pub(in crate::git) fn malformed(tree: Oid) -> Error {
    Error::new(Code::RepoCorrupt, format!("tree {tree} is malformed"))
        .hint("to check the repository, run git fsck")
}

fn corrupt(oid: Oid, kind: &str, error: git2::Error) -> Error {
    let is_absence = error.code() == git2::ErrorCode::NotFound;
    let corrupt = raw::unreadable(kind, oid).because(words(&error));
    if is_absence {
        return corrupt.absence();
    }
    corrupt
}

// Objects that a partial clone left out and its remote has promised to send.
//
// libgit2 knows no promises: to it such an object is missing. git fetches one when it is asked for it; this
// module asks, with the command that git itself uses.

impl Repo {
    /// The remotes that have promised objects; none where the clone is not partial.
    fn promisors(&self) -> Vec<String> {
        let Ok(config) = self.inner.config().and_then(|mut all| all.snapshot()) else {
            return Vec::new();
        };
        let mut names = Vec::new();
        if let Ok(mut entries) = config.entries(Some(r"^remote\..*\.promisor$")) {
            while let Some(Ok(entry)) = entries.next() {
                let name = entry.name().unwrap_or_default();
                let name = name.strip_prefix("remote.");
                let name = name.and_then(|name| name.strip_suffix(".promisor"));
                let is_promisor = name.is_some_and(|_| {
                    let key = entry.name().unwrap_or_default();
                    config.get_bool(key).unwrap_or(false)
                });
                names.extend(name.filter(|_| is_promisor).map(str::to_owned));
            }
        }
        names
    }

    /// Whether this clone left objects out when it was made.
    pub fn is_partial(&self) -> bool {
        !self.promisors().is_empty()
    }

    /// Fetches what is missing of these objects, all at once. What cannot be had stays missing, and is told
    /// by its reader.
    pub fn fetch_promised(&self, oids: &[Oid]) {
        let remotes = self.promisors();
        let mut missing: Vec<Oid> = match remotes.as_slice() {
            [] => return,
            _ => oids.to_vec(),
        };
        missing.retain(|oid| !self.has_object(*oid));
        for remote in remotes {
            if missing.is_empty() {
                return;
            }
            let mut command = self.plumbing();
            command
                .args(["-c", "fetch.negotiationAlgorithm=noop"])
                .args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"])
                .args(["fetch", "--quiet", &remote, "--no-tags"])
                .args(["--no-write-fetch-head", "--recurse-submodules=no"])
                .args(["--filter=blob:none", "--stdin"]);
            let names: String = missing.iter().map(|oid| format!("{oid}\n")).collect();
            let _ = command::feed(command, names.as_bytes());
            missing.retain(|oid| !self.has_object(*oid));
        }
    }

    /// Has git fetch every blob that the difference between two trees needs.
    pub(in crate::git) fn fetch_promised_between(&self, old: Oid, new: Oid) {
        if self.is_partial() {
            let mut command = self.plumbing();
            command
                .args(["diff-tree", "-r", "-p", "--no-ext-diff", "--no-textconv"])
                .args(["--no-renames", "--output=/dev/null"])
                .args([old.to_hex(), new.to_hex()]);
            let _ = command::finish(&mut command);
        }
    }
}

// Walks over the trees of a repository.

// Walks over trees that an agent or a remote wrote.

/// So many names are read whatever they are: that takes a second.
const ALWAYS: usize = 1_000_000;

/// Beyond that, each directory may stand in so many places.
const PLACES: usize = 16;

/// Reads the trees of one walk, and notices where a few of them stand for more paths than any memory holds: a tree of 64
/// entries that all lead to the next such tree is written in a moment, and has 64 to the power of its depth paths.
#[derive(Debug, Default)]
pub(in crate::git) struct RepeatedTrees {
    seen: HashSet<Oid>,
    /// Names in directories that differ.
    distinct: usize,
    /// Names in all of them.
    read: usize,
}

impl RepeatedTrees {
    /// The entries of a tree.
    ///
    /// # Errors
    /// Those of [`Repo::read_tree`]; `file-too-long` where the walk would not end.
    pub(super) fn read(&mut self, repo: &Repo, oid: Oid) -> Result<Vec<Entry>> {
        let entries = repo.read_tree(oid)?;
        self.read += entries.len();
        if self.seen.insert(oid) {
            self.distinct += entries.len();
        }
        if self.read > ALWAYS && self.read / PLACES > self.distinct {
            let what = format!(
                "tree {oid} and others stand in so many places that their paths cannot be listed"
            );
            return Err(Error::new(Code::FileTooLong, what)
                .hint(format!("to see what it holds, run git ls-tree {oid}")));
        }
        Ok(entries)
    }
}

// Walks over the files of a tree.

impl Repo {
    /// The symlinks of a tree, each with its target. Those whose targets a partial clone lacks, which no checkout has, are left out.
    ///
    /// # Errors
    /// `repo-corrupt` when a tree or a symlink's blob is missing.
    pub fn symlinks(&self, tree: Oid) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut links = Vec::new();
        let mut trees = RepeatedTrees::default();
        let mut open = vec![(Vec::new(), tree)];
        let is_partial = self.is_partial();
        while let Some((prefix, tree)) = open.pop() {
            for entry in trees.read(self, tree)? {
                let path = || [prefix.as_slice(), &entry.name].concat();
                match entry.mode {
                    DIRECTORY => open.push(([&path(), &b"/"[..]].concat(), entry.oid)),
                    SYMLINK if is_partial && self.kind_at_hand(entry.oid).is_none() => {}
                    SYMLINK => links.push((path(), self.read_blob(entry.oid)?)),
                    _ => {}
                }
            }
        }
        Ok(links)
    }
}

/// What a walk does with a tree's paths.
pub trait Visitor {
    /// Whether to look into a directory.
    fn enters(&mut self, directory: &RepoPath) -> bool;

    /// Comes to a tracked path that is no directory; `Break` ends the walk.
    fn visit(&mut self, path: &RepoPath) -> ControlFlow<()>;
}

impl Repo {
    /// Leads a visitor through the tracked paths of a tree, in git's order. Entries that no worktree can
    /// hold (`.git`, `..`) are passed over.
    ///
    /// # Errors
    /// `repo-corrupt` when a tree is missing.
    pub fn walk_tracked(&self, tree: Oid, visitor: &mut impl Visitor) -> Result<()> {
        let mut trees = RepeatedTrees::default();
        self.walk(&mut trees, tree, &mut Vec::new(), visitor).map(|_| ())
    }

    fn walk(
        &self,
        trees: &mut RepeatedTrees,
        tree: Oid,
        prefix: &mut Vec<u8>,
        visitor: &mut impl Visitor,
    ) -> Result<ControlFlow<()>> {
        for entry in trees.read(self, tree)? {
            let length = prefix.len();
            prefix.extend_from_slice(&entry.name);
            let next = match RepoPath::parse(prefix) {
                Err(_) => ControlFlow::Continue(()),
                Ok(path) if entry.mode != DIRECTORY => visitor.visit(&path),
                Ok(directory) if visitor.enters(&directory) => {
                    prefix.push(b'/');
                    self.walk(trees, entry.oid, prefix, visitor)?
                }
                Ok(_) => ControlFlow::Continue(()),
            };
            prefix.truncate(length);
            if next.is_break() {
                return Ok(next);
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
