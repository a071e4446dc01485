//! What two trees do not share, and showing it.

use crate::domain::Oid;
use crate::domain::paths::change::{Content, Difference, first_conflict};
use crate::domain::paths::path::split_once;
use crate::error::{Code, Error, Result};
use crate::git::changes::canonical_mode;
use crate::git::core::tree::{DIRECTORY, EXECUTABLE, Entry, FILE, GITLINK};
use crate::git::repo::{failed, to_git2};
use crate::git::{Repo, core::command, record::commit};
use git2::{Delta, Diff, DiffFormat, DiffLineType, DiffOptions, Patch};
use sha1::{Digest, Sha1};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Output, Stdio};

// Which files a change gives conflict markers.

/// A larger file is data or was generated, and is not read: to compare it would take longer than a person waits.
const MAX_SIZE: usize = 16 * 1024 * 1024;

impl Repo {
    /// The files of the tree `after` that hold a conflict as a merge leaves it and have none in the tree `before`, each with
    /// the number of its first line. A file for which the attribute `conflict-marker-size` is set in the commit `attributes`
    /// is to hold such lines: git's own markers are longer or shorter there.
    ///
    /// # Errors
    /// `repo-corrupt` when an object is missing; `git-missing`, `git-failed`.
    pub fn added_conflict_markers(
        &self,
        before: Oid,
        after: Oid,
        attributes: Oid,
    ) -> Result<Vec<(Vec<u8>, usize)>> {
        let is_file = |mode: u32| matches!(mode, FILE | EXECUTABLE);
        let mut found = Vec::new();
        for difference in self.differences(before, after)? {
            let old = difference.old.map(|(_, blob)| blob);
            let Some((_, new)) = difference.new.filter(|(mode, _)| is_file(*mode)) else {
                continue;
            };
            // A mode that changed alone adds no text.
            if old == Some(new) || self.blob_size(new)? > MAX_SIZE {
                continue;
            }
            let Some(line) = first_conflict(&self.read_blob(new)?) else {
                continue;
            };
            // A file that is about conflicts has had some before, or has the attribute.
            let had_some = match difference.old.filter(|(mode, _)| is_file(*mode)) {
                Some((_, old)) => first_conflict(&self.read_blob(old)?).is_some(),
                None => false,
            };
            if !had_some && !self.has_marker_size(attributes, &difference.path)? {
                found.push((difference.path, line));
            }
        }
        Ok(found)
    }

    /// Whether the size of conflict markers in a file is set (gitattributes(5)).
    fn has_marker_size(&self, commit: Oid, path: &[u8]) -> Result<bool> {
        let mut command = self.plumbing();
        command.env("GIT_ATTR_SOURCE", commit.to_hex()).args([
            "check-attr",
            "-z",
            "--stdin",
            "conflict-marker-size",
        ]);
        let output = command::feed(command, &[path, b"\0"].concat())?;
        // The path, the attribute and its value, each ended by NUL.
        let value = command::names(&output.stdout).nth(2).unwrap_or_default();
        Ok(value.first().is_some_and(u8::is_ascii_digit))
    }
}

// What two trees hold where they differ, and the tree that some of these changes make.

/// What a path below some directory holds from now on, if anything.
type Edit<'a> = (&'a [u8], Option<Content>);

impl Repo {
    /// The paths at which two trees differ and what each holds there, ordered by path.
    ///
    /// # Errors
    /// `repo-corrupt` when a tree is missing.
    pub fn differences(&self, old: Oid, new: Oid) -> Result<Vec<Difference>> {
        let paths: Vec<_> = self.changed_paths(old, new)?;
        let old = commit::restaged_contents(self, old, &paths)?;
        let new = commit::restaged_contents(self, new, &paths)?;
        let canonical =
            |content: Option<Content>| content.map(|(mode, oid)| (canonical_mode(mode), oid));
        let sides = old.into_iter().zip(new);
        Ok(paths
            .into_iter()
            .zip(sides)
            .map(|(path, (old, new))| Difference { path, old: canonical(old), new: canonical(new) })
            .collect())
    }

    /// Writes the tree that these changes make of another: each path holds its new side. `None` where a file would
    /// stand in the place of a directory that is not empty.
    ///
    /// # Errors
    /// `repo-corrupt` when a tree is missing; `disk-full`, `repo-read-only`.
    pub fn tree_after<'a>(
        &self,
        tree: Oid,
        changes: impl IntoIterator<Item = &'a Difference>,
    ) -> Result<Option<Oid>> {
        let edits: Vec<Edit<'_>> =
            changes.into_iter().map(|change| (change.path.as_slice(), change.new)).collect();
        edited(self, tree, &edits)
    }
}

fn edited(repo: &Repo, tree: Oid, edits: &[Edit<'_>]) -> Result<Option<Oid>> {
    let entries = repo.read_tree(tree)?.into_iter();
    let mut entries: BTreeMap<Vec<u8>, Entry> =
        entries.map(|entry| (entry.name.clone(), entry)).collect();
    // By name: what the name itself holds, and what is below it as a directory.
    let mut names: BTreeMap<&[u8], (Option<Content>, Vec<Edit<'_>>)> = BTreeMap::new();
    for (path, content) in edits {
        match split_once(path, b'/') {
            Some((name, rest)) => names.entry(name).or_default().1.push((rest, *content)),
            None => names.entry(path).or_default().0 = *content,
        }
    }
    for (name, (file, below)) in names {
        // What was a file here and gets files below it now becomes a directory.
        let old = entries.remove(name).filter(Entry::is_directory);
        let directory = match (old, below.is_empty()) {
            (Some(old), true) => old.oid,
            (old, _) => {
                let old = old.map_or(Oid::EMPTY_TREE, |old| old.oid);
                match edited(repo, old, &below)? {
                    Some(directory) => directory,
                    None => return Ok(None),
                }
            }
        };
        let is_empty = directory == Oid::EMPTY_TREE;
        let (mode, oid) = match file {
            Some(_) if !is_empty => return Ok(None),
            Some(content) => content,
            // Git has no empty directories: the last file takes its directory along.
            None if is_empty => continue,
            None => (DIRECTORY, directory),
        };
        let name = name.to_vec();
        entries.insert(name.clone(), Entry { mode, name, oid });
    }
    repo.write_tree(entries.into_values().collect()).map(Some)
}

// What a change does, wherever it is made.

/// The lines of a file that a change adds, counted from 1, both ends included.
pub type AddedLines = (Vec<u8>, Vec<(u32, u32)>);

/// How much differs between two trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiffCounts {
    /// Files that differ.
    pub files: usize,
    /// Lines that are new.
    pub insertions: usize,
    /// Lines that are gone.
    pub deletions: usize,
}

/// How many paths a command line is given: a prompt is no place for more.
const MOST_PATHS: usize = 100;

/// The command, asked about some paths alone.
fn limited_to(mut command: Command, paths: &[Vec<u8>]) -> Command {
    command.env("GIT_LITERAL_PATHSPECS", "1").arg("--");
    let paths = paths.iter().take(MOST_PATHS);
    command.args(paths.map(|path| OsStr::from_bytes(path)));
    command
}

impl Repo {
    /// The lines that the change between two trees adds, by path; files without any, and those that are not text, are left
    /// out.
    ///
    /// # Errors
    /// `git-failed` when the trees cannot be compared.
    pub fn added_lines(&self, old: Oid, new: Oid) -> Result<Vec<AddedLines>> {
        let mut options = DiffOptions::new();
        options.context_lines(0);
        let diff = self.diff(old, new, options)?;
        let mut files: Vec<AddedLines> = Vec::new();
        let mut add = |path: &[u8], (first, lines): (u32, u32)| {
            if lines == 0 {
                return;
            }
            let range = (first, first + lines - 1);
            match files.last_mut() {
                Some((last, ranges)) if last == path => ranges.push(range),
                _ => files.push((path.to_vec(), vec![range])),
            }
        };
        diff.foreach(
            &mut |_, _| true,
            None,
            Some(&mut |delta, hunk| {
                let path = delta.new_file().path_bytes().unwrap_or_default();
                add(path, (hunk.new_start(), hunk.new_lines()));
                true
            }),
            None,
        )
        .map_err(not_compared)?;
        Ok(files)
    }

    /// The name of the change between two trees: equal for the same change in another place. As strict as
    /// `git patch-id --verbatim`, so white space counts; a file that is not text is named by its blobs.
    ///
    /// # Errors
    /// `git-failed` when the trees cannot be compared.
    pub fn patch_id(&self, old: Oid, new: Oid) -> Result<Oid> {
        let diff = self.diff(old, new, DiffOptions::new())?;
        let mut hash = Sha1::new();
        diff.print(DiffFormat::Patch, |delta, _, line| {
            match line.origin_value() {
                DiffLineType::FileHeader => {
                    // Each field is ended or has its length before it, so that no two changes read
                    // as the same bytes.
                    for file in [delta.old_file(), delta.new_file()] {
                        hash.update(file.path_bytes().unwrap_or_default());
                        hash.update(format!("\0{:?}\0", file.mode()));
                    }
                    // A file without a line has no more than its header.
                    if matches!(delta.status(), Delta::Added | Delta::Deleted) {
                        hash.update([delta.status() as u8]);
                    }
                }
                // Where a hunk is does not count.
                DiffLineType::HunkHeader => hash.update(b"@"),
                DiffLineType::Binary => {
                    for file in [delta.old_file(), delta.new_file()] {
                        hash.update(file.id().as_bytes());
                    }
                }
                _ => {
                    let length = line.content().len() as u64;
                    hash.update([line.origin() as u8]);
                    hash.update(length.to_be_bytes());
                    hash.update(line.content());
                }
            }
            true
        })
        .map_err(not_compared)?;
        Oid::from_slice(&hash.finalize()).ok_or_else(|| Error::bug("a digest has 20 bytes"))
    }

    /// What a commit has of commits that touch some paths and another one does not have, newest first.
    ///
    /// # Errors
    /// `git-missing`, `git-failed`.
    pub fn commits_touching(
        &self,
        (base, tip): (Oid, Oid),
        paths: &[Vec<u8>],
        most: usize,
    ) -> Result<Vec<Oid>> {
        let mut command = self.plumbing();
        command.args(["rev-list", &format!("--max-count={most}")]);
        command.arg(format!("{base}..{tip}"));
        let output = command::successful(limited_to(command, paths))?;
        let lines = output.split(|&byte| byte == b'\n');
        let oid = |line: &[u8]| Oid::from_hex(std::str::from_utf8(line).ok()?);
        Ok(lines.filter_map(oid).collect())
    }

    /// The change of some paths between two commits as a patch, cut behind the last line that ends within `longest` bytes.
    ///
    /// # Errors
    /// `git-missing`, `git-failed`.
    pub fn patch_of_paths(
        &self,
        (base, tip): (Oid, Oid),
        paths: &[Vec<u8>],
        longest: usize,
    ) -> Result<Vec<u8>> {
        let mut command = self.plumbing();
        // Programs that a setting or an attribute names for showing differences are not for a text
        // that is quoted.
        command.args(["diff-tree", "-p", "--no-ext-diff", "--no-textconv"]);
        command.args([base.to_hex(), tip.to_hex()]);
        let mut patch = command::successful(limited_to(command, paths))?;
        if patch.len() > longest {
            patch.truncate(longest);
            let end = patch.iter().rposition(|&byte| byte == b'\n');
            patch.truncate(end.map_or(0, |end| end + 1));
            patch.extend(b"(more of it is left out)\n");
        }
        Ok(patch)
    }

    /// How much differs between two trees. Of a file above `MAX_SIZE` bytes no lines are counted, nor of one that is not text.
    ///
    /// # Errors
    /// `repo-corrupt` when an object is missing; `git-failed` when two files cannot be compared.
    pub fn diff_counts(&self, old: Oid, new: Oid) -> Result<DiffCounts> {
        self.fetch_promised_between(old, new);
        let (mut files, mut insertions, mut deletions) = (0, 0, 0);
        for one in self.differences(old, new)? {
            files += 1;
            // Compared as two texts: of two trees libgit2 would read the attributes, and for them the whole index.
            if let (Some(old), Some(new)) = (self.text_of(one.old)?, self.text_of(one.new)?) {
                let patch = Patch::from_buffers(&old, None, &new, None, None);
                let lines = patch.and_then(|patch| patch.line_stats());
                let (_, more, fewer) = lines.map_err(not_compared)?;
                insertions += more;
                deletions += fewer;
            }
        }
        Ok(DiffCounts { files, insertions, deletions })
    }

    /// What git compares of one side of a difference; `None` for a file that is too large.
    fn text_of(&self, content: Option<Content>) -> Result<Option<Vec<u8>>> {
        Ok(match content {
            None => Some(Vec::new()),
            Some((GITLINK, commit)) => Some(format!("Subproject commit {commit}\n").into_bytes()),
            Some((_, blob)) if self.blob_size(blob)? > MAX_SIZE => None,
            Some((_, blob)) => Some(self.read_blob(blob)?),
        })
    }

    fn diff(&self, old: Oid, new: Oid, mut options: DiffOptions) -> Result<Diff<'_>> {
        // libgit2 would take a blob that a partial clone left out for a damaged repository.
        self.fetch_promised_between(old, new);
        // libgit2 enters every directory of both trees, unless it has the paths to look at.
        options.disable_pathspec_match(true);
        let different = self.differences(old, new)?;
        let tree = |oid| self.inner.find_tree(to_git2(oid)?).map_err(not_compared);
        // Without any path it would look at all.
        let trees = (!different.is_empty()).then(|| Ok::<_, Error>((tree(old)?, tree(new)?)));
        let trees = trees.transpose()?;
        for one in different {
            for (_, blob) in [one.old, one.new].into_iter().flatten() {
                self.require_readable(blob)?;
            }
            options.pathspec(one.path);
        }
        let (old, new) = (trees.as_ref().map(|(old, _)| old), trees.as_ref().map(|(_, new)| new));
        let diff = self.inner.diff_tree_to_tree(old, new, Some(&mut options));
        diff.map_err(not_compared)
    }
}

fn not_compared(error: git2::Error) -> Error {
    failed("could not compare two trees", error)
}

// Output that is git's own, page by page where the user likes it so.

/// How a difference is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// The changed lines.
    #[default]
    Patch,
    /// How many lines of which files (`--stat`).
    Stat,
    /// The paths alone (`--name-only`).
    Names,
}

/// What git ends with when the reader of its output went away: SIGPIPE as the shell tells it.
const BROKEN_PIPE: i32 = 141;

/// What makes text harmless on its way to a terminal.
pub type Filter = fn(Box<dyn Write + Send>) -> Box<dyn Write + Send>;

/// Where a difference is shown.
pub enum DiffSink<'a> {
    /// On our standard output, as git writes it.
    Output,
    /// On a terminal: through this on its way to the pager.
    Pager(Filter),
    /// In a text, without colours.
    Text(&'a mut dyn Write),
}

/// The parts of a difference that git colours, and colours that a [`Filter`] lets pass, whatever the user's are.
const COLOURS: [(&str, &str); 14] = [
    ("context", "normal"),
    ("meta", "bold"),
    ("frag", "cyan"),
    ("func", "normal"),
    ("old", "red"),
    ("new", "green"),
    ("whitespace", "red"),
    ("commit", "yellow"),
    ("oldMoved", "red"),
    ("newMoved", "green"),
    ("oldMovedAlternative", "red"),
    ("newMovedAlternative", "green"),
    ("oldMovedDimmed", "red"),
    ("newMovedDimmed", "green"),
];

impl Repo {
    /// Lets the user's `git diff` write the difference between two trees to our standard output, with the
    /// user's pager, colours and diff drivers, as the main worktree has them. `paths` are pathspecs from the top of the worktree.
    ///
    /// # Errors
    /// `git-missing`; `git-failed`, after git has said why.
    pub fn show_diff(
        &self,
        (old, new): (Oid, Oid),
        detail: Detail,
        paths: &[String],
        to: DiffSink<'_>,
    ) -> Result<()> {
        // Where the caller stands may be an agent's worktree, whose settings name programs as well.
        let main = self.main_worktree()?;
        let place = main.as_deref().unwrap_or(self.common_dir());
        let option = match detail {
            Detail::Patch => "--patch",
            Detail::Stat => "--stat",
            Detail::Names => "--name-only",
        };
        let mut command = command::git(place);
        // What stands in for the repository in a sandbox is found from no other directory.
        command.env("GIT_DIR", self.common_dir());
        self.redirect_objects(&mut command);
        if matches!(to, DiffSink::Pager(_)) {
            for (part, colour) in COLOURS {
                command.args(["-c", &format!("color.diff.{part}={colour}")]);
            }
        }
        command.args(["diff", option, &old.to_hex(), &new.to_hex()]);
        let status = match to {
            DiffSink::Output => {
                command.arg("--").args(paths).stdin(Stdio::inherit());
                let child = command::launch(&mut command)?.wait();
                child.map_err(|error| Error::io("could not run git diff", error))?
            }
            DiffSink::Text(to) => {
                command.args(["--no-color", "--"]).args(paths);
                let child = command.stdout(Stdio::piped()).spawn();
                let copied = child.and_then(|mut child| {
                    if let Some(mut from) = child.stdout.take() {
                        io::copy(&mut from, to)?;
                    }
                    child.wait()
                });
                copied.map_err(|error| Error::io("could not run git diff", error))?
            }
            DiffSink::Pager(filter) => {
                // Git sees a pipe and not the terminal, so it cannot tell by itself whether to
                // colour.
                let is_coloured = ["config", "--get-colorbool", "color.diff", "true"];
                let is_coloured = command::output(place, is_coloured)?.status.success();
                let colour = if is_coloured { "always" } else { "never" };
                command.arg(format!("--color={colour}")).arg("--");
                command.args(paths).stdout(Stdio::piped());
                let mut pager = command::pager(&pager_at(place)?);
                pager.current_dir(place);
                let shown = show_through(command, pager, filter);
                shown.map_err(|error| Error::io("could not run git diff", error))?
            }
        };
        match status.code() {
            Some(0 | BROKEN_PIPE) | None => Ok(()),
            Some(code) => {
                Err(Error::new(Code::GitFailed, format!("git diff ended with status {code}")))
            }
        }
    }
}

/// The command line of the pager that git would start for a difference.
fn pager_at(place: &Path) -> Result<String> {
    let text = |output: Output| String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let own = text(command::output(place, ["config", "--get", "pager.diff"])?);
    let pager = match git2::Config::parse_bool(own.as_str()) {
        Ok(false) if !own.is_empty() => String::new(),
        Err(_) => own,
        Ok(_) => text(command::output(place, ["var", "GIT_PAGER"])?),
    };
    let is_none = pager.is_empty();
    Ok(if is_none { "cat".to_owned() } else { pager })
}

/// Lets a pager show what a command writes, through a filter.
fn show_through(
    mut command: Command,
    mut pager: Command,
    filter: Filter,
) -> io::Result<ExitStatus> {
    let mut child = command.spawn()?;
    let mut pager = pager.spawn()?;
    if let (Some(mut from), Some(to)) = (child.stdout.take(), pager.stdin.take()) {
        let mut to = filter(Box::new(to));
        // A reader that went away has seen enough.
        let _ = io::copy(&mut from, &mut to);
    }
    // The pager first: the terminal is its own until it ends.
    pager.wait()?;
    child.wait()
}
