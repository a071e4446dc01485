//! What git lists when it looks at everything, and the copy of the index that it looks with.

use crate::domain::paths::path::split_name;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::Repo;
use crate::git::changes::ignore::{ATTRIBUTES_FILES, IGNORE_FILES, Rules, blocking_file};
use crate::git::changes::{Content, Index, NextContent, PlainFiles};
use crate::git::core::command::{self, Running, feed_paths};
use crate::git::files::admin_dir::STAND_IN;
use crate::git::files::temporary::TemporaryDirectory;
use crate::git::files::untrusted;
use crate::git::uncommitted::{WorktreeSource, git};
use rustix::fs::FileType;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What git lists, by what has to be done about it.
#[derive(Default)]
pub(super) struct Listed {
    /// Tracked files that git is told to pass over.
    pub(super) hidden: Vec<Vec<u8>>,
    /// Tracked files that differ, or may.
    pub(super) changed: Vec<Vec<u8>>,
    /// Untracked files.
    pub(super) new: Vec<Vec<u8>>,
    /// Paths with more than one stage.
    pub(super) unmerged: Vec<Vec<u8>>,
    /// Directories that are repositories of their own, with a slash at the end.
    pub(super) nested: Vec<Vec<u8>>,
    /// Files that git puts into no index because of their names, once it was asked to.
    pub(super) refused: Vec<Vec<u8>>,
    /// Directories that git could not look into.
    pub(super) unreadable: Vec<Vec<u8>>,
    /// What is ignored, where that is asked for, as [`ignored`] names it.
    pub(super) ignored: Vec<Vec<u8>>,
}

impl Listed {
    /// Adds what `git ls-files -z -v` gave.
    pub(super) fn read(&mut self, source: &WorktreeSource<'_>, output: &[u8]) {
        let mut known = HashMap::new();
        for entry in output.split(|&byte| byte == 0) {
            let [tag, b' ', path @ ..] = entry else {
                continue;
            };
            let path = path.to_vec();
            match tag {
                b'H' => {}
                // Changed and removed; a removed file is listed under both.
                b'C' => self.changed.push(path),
                b'R' => {}
                b'M' | b'm' => self.unmerged.push(path),
                b'?' if path.ends_with(b"/") => self.nested.push(path),
                b'?' => match cut_off_above(source.worktree, &path, &mut known) {
                    None => self.new.push(path),
                    // Its files stand one after another.
                    Some(top) if self.nested.last() == Some(&top) => {}
                    Some(top) => self.nested.push(top),
                },
                b'S' if source.sparse && !is_there(source, &path) => {}
                _ => self.hidden.push(path),
            }
        }
        self.unmerged.dedup();
    }

    /// Adds what is neither tracked nor ignored, in these places or everywhere, and names what is ignored there if
    /// that is asked for.
    ///
    /// # Errors
    /// As [`list`].
    pub(super) fn read_untracked(
        &mut self,
        source: &WorktreeSource<'_>,
        names: Option<&[Vec<u8>]>,
    ) -> Result<()> {
        // Of files alone, those that are not listed as untracked are ignored, and mostly there are none. Else the two
        // tours go on side by side.
        let files = names.filter(|names| names.iter().all(|name| is_file(source, name)));
        let asked = source.names_ignored && files.is_none();
        let asked = asked.then(|| ask_ignored(source, names));
        let output = match untracked(source, source.rules, names)? {
            Some(output) => output,
            None => {
                // Nothing is ignored then: what is taken for work is at least not lost.
                self.unreadable.extend(blocking_rules(source));
                let rules = source.rules.clone().with_ignored();
                untracked(source, &rules, names)?.ok_or_else(|| Error::bug("no rules were read"))?
            }
        };
        if let Some(asked) = asked {
            self.ignored = read_ignored(source, asked?)?;
        }
        self.read(source, &output.stdout);
        let is_listed = |name: &Vec<u8>| self.new.contains(name);
        if source.names_ignored && files.is_some_and(|files| !files.iter().all(is_listed)) {
            self.ignored = read_ignored(source, ask_ignored(source, files)?)?;
        }
        // Git passes over such a directory and says so beside its answer.
        let lines = output.stderr.split(|&byte| byte == b'\n');
        self.unreadable.extend(lines.filter_map(not_opened));
        Ok(())
    }

    /// Whether a path is in a directory that could not be looked into, so that what became of it is unknown.
    pub(super) fn is_hidden_by_directory(&self, path: &[u8]) -> bool {
        self.unreadable.iter().any(|directory| path.starts_with(directory))
    }
}

/// Two children at once: one looks at every file that is tracked, the other at every directory.
///
/// # Errors
/// `git-missing`, `git-failed`.
pub(super) fn list(source: &WorktreeSource<'_>) -> Result<Listed> {
    let mut tracked = git(source);
    tracked.args(["ls-files", "-z", "-v", "--cached", "--deleted", "--modified"]);
    // Started before the other child is waited for, so both tours of the worktree run at once.
    let tracked = command::start(tracked)?;
    let mut listed = Listed::default();
    let untracked = listed.read_untracked(source, None);
    // A FIFO in the place of an attributes file would keep git waiting for ever.
    let waits = || blocking_file(source.worktree, ATTRIBUTES_FILES).is_some();
    let tracked = tracked.successful_unless(waits);
    // The child that looks at tracked files is reaped above before this error is returned: it would
    // else run on.
    untracked?;
    let tracked = tracked?.ok_or_else(|| waiting(source))?.stdout;
    listed.read(source, &tracked);
    // Here git follows a symlink to a file that is not the tracked one; `git status` does not.
    let mut known = HashMap::new();
    for entry in tracked.split(|&byte| byte == 0) {
        if let [b'H', b' ', path @ ..] = entry
            && is_beyond_symlink(source.worktree, path, &mut known)
        {
            listed.changed.push(path.to_vec());
        }
    }
    Ok(listed)
}

/// What is ignored in the worktree or, of it, in these places, beside its bundle, as `git status --ignored` names it:
/// sorted, and a directory in which nothing else is by its own name alone, with a slash at the end.
///
/// # Errors
/// `git-missing`, `git-failed`.
pub fn ignored(source: &WorktreeSource<'_>, names: Option<&[Vec<u8>]>) -> Result<Vec<Vec<u8>>> {
    if !source.rules.leave_out() {
        return Ok(Vec::new());
    }
    read_ignored(source, ask_ignored(source, names)?)
}

/// Nothing where a file of rules cannot be read.
fn read_ignored(source: &WorktreeSource<'_>, asked: Running) -> Result<Vec<Vec<u8>>> {
    let output =
        asked.successful_unless(|| blocking_file(source.worktree, IGNORE_FILES).is_some())?;
    Ok(output.map_or_else(Vec::new, |output| collapsed(source, &output.stdout)))
}

fn waiting(source: &WorktreeSource<'_>) -> Error {
    let shown = source.worktree.display();
    Error::new(
        Code::Io,
        format!("git waits for a .gitattributes in {shown} that is no regular file"),
    )
    .hint(format!("to see which one, run find {shown} -name .gitattributes ! -type f"))
}

/// The file of rules that cannot be read, as a directory whose content is unknown: with a slash at its end.
fn blocking_rules(source: &WorktreeSource<'_>) -> Option<Vec<u8>> {
    let file = blocking_file(source.worktree, IGNORE_FILES)?;
    let inside = file.strip_prefix(source.worktree).ok()?;
    Some([inside.as_os_str().as_bytes(), b"/"].concat())
}

fn ask_ignored(source: &WorktreeSource<'_>, names: Option<&[Vec<u8>]>) -> Result<Running> {
    let mut command = ls_files(source, source.rules);
    command.args(["--ignored", "--directory"]);
    command::start(within(command, names))
}

fn collapsed(source: &WorktreeSource<'_>, output: &[u8]) -> Vec<Vec<u8>> {
    let besides = source.rules.never().map(|name| format!("{name}/"));
    let mut paths: Vec<&[u8]> = command::names(output).collect();
    // Where git tracks a file of the bundle it names the others one by one.
    paths.retain(|path| {
        let name = besides.as_ref().map(String::as_bytes);
        name.is_none_or(|name| !path.starts_with(name))
    });
    paths.sort_unstable();
    // Git names what is in a directory as well where a rule inside it hides it.
    paths.dedup_by(|path, above| above.ends_with(b"/") && path.starts_with(above));
    // As `git status` has it, a directory without a file is nothing.
    let place = |path| source.worktree.join(OsStr::from_bytes(path));
    paths.retain(|path| !path.ends_with(b"/") || untrusted::has_files(&place(path)));
    paths.into_iter().map(<[u8]>::to_vec).collect()
}

/// What git lists; `None` where a file of rules keeps it waiting.
fn untracked(
    source: &WorktreeSource<'_>,
    rules: &Rules,
    names: Option<&[Vec<u8>]>,
) -> Result<Option<Output>> {
    let mut command = ls_files(source, rules);
    command.arg("-v");
    let asked = command::start(within(command, names))?;
    asked.successful_unless(|| blocking_file(source.worktree, IGNORE_FILES).is_some())
}

/// A `git ls-files` that names untracked files.
fn ls_files(source: &WorktreeSource<'_>, rules: &Rules) -> Command {
    let mut command = git(source);
    // The names are names: a file may be called `*.rs`.
    command.env("GIT_LITERAL_PATHSPECS", "1");
    command.args(["ls-files", "-z", "--others"]);
    rules.apply(&mut command);
    command
}

/// The same in these places alone.
fn within(mut command: Command, names: Option<&[Vec<u8>]>) -> Command {
    let names = names.into_iter().flatten();
    command.arg("--").args(names.map(|name| OsStr::from_bytes(name)));
    command
}

/// The directory, with a slash at its end, that a line of git's (`dir.c`) says could not be opened.
fn not_opened(line: &[u8]) -> Option<Vec<u8>> {
    let rest = line.strip_prefix(b"warning: could not open directory '")?;
    // A name can hold the same three characters; the last occurrence is git's own.
    let end = rest.windows(3).rposition(|three| three == b"': ")?;
    Some(rest.get(..end)?.to_vec())
}

/// The directory above an untracked file, with a slash at the end, that is a worktree whose repository is gone: one that a command made in
/// its run. To git it is like any other directory, and adding it would add a copy of all that is checked out there.
fn cut_off_above(
    worktree: &Path,
    path: &[u8],
    known: &mut HashMap<Vec<u8>, Option<Vec<u8>>>,
) -> Option<Vec<u8>> {
    let end = path.iter().rposition(|&byte| byte == b'/')?;
    let directory = path.get(..end)?;
    if let Some(found) = known.get(directory) {
        return found.clone();
    }
    let top = worktree.join(OsStr::from_bytes(directory));
    let of_run = format!("/{STAND_IN}/worktrees/");
    let pointer = untrusted::text(&top, ".git");
    let pointer =
        pointer.is_some_and(|text| text.starts_with("gitdir: ") && text.contains(&of_run));
    let found = if pointer {
        Some([directory, b"/"].concat())
    } else {
        cut_off_above(worktree, directory, known)
    };
    known.insert(directory.to_vec(), found.clone());
    found
}

fn is_there(source: &WorktreeSource<'_>, path: &[u8]) -> bool {
    let path = source.worktree.join(OsStr::from_bytes(path));
    fs::symlink_metadata(path).is_ok()
}

fn is_file(source: &WorktreeSource<'_>, path: &[u8]) -> bool {
    let path = source.worktree.join(OsStr::from_bytes(path));
    fs::symlink_metadata(path).is_ok_and(|found| !found.is_dir())
}

// Bringing the copy of the index up to date with the files of the worktree.

/// How git's line about a path begins whose name it refuses (`builtin/update-index.c`).
const PASSED_OVER: &[u8] = b"Ignoring path ";

/// The longest file that is turned into an object, in bytes.
const LONGEST_FILE: u64 = 2 << 30;

/// What a look makes of files that cannot be written as an object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum UnwritableFiles {
    /// It fails: without them the tree would not be that of everything.
    Refused,
    /// It names them, for a caller that asks for no content.
    Named,
}

/// Whether the file at a path cannot be written as an object: it is too long for one, or closed to this user.
pub(super) fn is_unwritable(source: &WorktreeSource<'_>, path: &[u8]) -> bool {
    let path = source.worktree.join(OsStr::from_bytes(path));
    let is_closed = || rustix::fs::access(&path, rustix::fs::Access::READ_OK).is_err();
    fs::symlink_metadata(&path)
        .is_ok_and(|found| found.is_file() && (found.len() > LONGEST_FILE || is_closed()))
}

/// Puts everything that is in the worktree into the copy of the index; gives whether that changed it.
///
/// # Errors
/// `git-failed` when git cannot read a file.
pub(super) fn bring_up_to_date(source: &WorktreeSource<'_>, listed: &mut Listed) -> Result<bool> {
    // In the copy alone: these marks keep git from looking at the files, and the worktree's own
    // index keeps them.
    update(source, &["--no-assume-unchanged"], &listed.hidden)?;
    update(source, &["--no-skip-worktree"], &listed.hidden)?;
    let mut changed: Vec<Vec<u8>> =
        [listed.hidden.as_slice(), &listed.unmerged, &listed.changed, &listed.new].concat();
    changed.retain(|path| !listed.is_hidden_by_directory(path));
    listed.refused = update_files(source, &changed)?;
    Ok(!changed.is_empty())
}

/// What git puts into an index of some paths.
#[derive(Default)]
pub(super) struct NextContents {
    /// By path; nothing where there is no file, or where git puts it into no index.
    pub(super) contents: BTreeMap<Vec<u8>, Option<Content>>,
    /// Those that git puts into no index, as `.GIT/config`.
    pub(super) refused: Vec<Vec<u8>>,
}

/// Writes the files at these paths as git would, into the repository alone. Git itself is asked about those that something may convert,
/// with the index at `source.index`, which is changed then.
///
/// # Errors
/// As [`update_files`]; those of [`PlainFiles::write`].
pub(super) fn write_files(
    source: &WorktreeSource<'_>,
    paths: &[Vec<u8>],
    is_tracked: &dyn Fn(&[u8]) -> bool,
) -> Result<NextContents> {
    if paths.is_empty() {
        return Ok(NextContents::default());
    }
    // The view has the main worktree's own settings, too.
    let settings = source.view.git_dir();
    let seen = Repo::open_git_dir(settings)?;
    let is_on = |key| seen.config_bool(key).is_ok_and(|value| value != Some(false));
    // Where the file system knows neither modes nor symlinks, git takes them from its index.
    let shows_all = is_on("core.filemode") && is_on("core.symlinks");
    let mut files = PlainFiles::new(source.repo, source.worktree, settings, is_tracked);
    let (mut plain, mut for_git) = (BTreeMap::new(), Vec::new());
    for path in paths {
        match if shows_all { files.write(path)? } else { NextContent::AskGit } {
            NextContent::Nothing => drop(plain.insert(path.clone(), None)),
            NextContent::Blob(content) => drop(plain.insert(path.clone(), Some(content))),
            NextContent::AskGit => for_git.push(path.clone()),
        }
    }
    let mut next = write_by_git(source, &for_git)?;
    next.contents.extend(plain);
    // The agent may be at work, and put a directory in the place of a file that was read just now. In an index there is one of them.
    if has_file_above_file(&next.contents) { write_by_git(source, paths) } else { Ok(next) }
}

/// The same, by git alone.
fn write_by_git(source: &WorktreeSource<'_>, paths: &[Vec<u8>]) -> Result<NextContents> {
    if paths.is_empty() {
        return Ok(NextContents::default());
    }
    let refused = update_files(source, paths)?;
    let unreadable = || Error::new(Code::GitFailed, "the index that git wrote cannot be read");
    let after = Index::load(source.index).ok_or_else(unreadable)?;
    let content = |path: &Vec<u8>| after.find(path).map(|entry| entry.content);
    let contents = paths.iter().map(|path| (path.clone(), content(path)));
    Ok(NextContents { contents: contents.collect(), refused })
}

/// Whether a path with a file is below another one.
fn has_file_above_file(contents: &BTreeMap<Vec<u8>, Option<Content>>) -> bool {
    let is_file = |path: &[u8]| contents.get(path).is_some_and(Option::is_some);
    let mut files = contents.keys().filter(|path| is_file(path));
    files.any(|path| {
        let ends = path.iter().enumerate().filter(|&(_, &byte)| byte == b'/');
        ends.filter_map(|(end, _)| path.get(..end)).any(is_file)
    })
}

/// Puts the files at these paths into the copy of the index: added, changed or gone. What is beyond a symlink is gone: none of
/// it is in the worktree. Gives those that git puts into no index, as `.GIT/config`.
///
/// Git opens files by their paths. The agent may be at work, and exchange a directory for a link between two of git's steps, so
/// git is given copies that were made from descriptors.
///
/// # Errors
/// As [`bring_up_to_date`]; `io` for a file that cannot be read.
pub(super) fn update_files(source: &WorktreeSource<'_>, paths: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let mut known = HashSet::new();
    let paths: Vec<&Vec<u8>> = paths.iter().filter(|path| known.insert(path.as_slice())).collect();
    let (mut inside, mut links) = (Vec::new(), HashMap::new());
    for &path in &paths {
        if !is_beyond_symlink(source.worktree, path, &mut links) {
            inside.push(path);
        }
    }
    // Before git is started, which would wait at a FIFO for ever.
    let attributes = require_readable(source.worktree, &inside)?;
    let room = TemporaryDirectory::make(source.view.room(), "files")?;
    let copies = room.path().join("worktree");
    fs::create_dir(&copies).at("could not make", &copies)?;
    let copy = |path: &Path| {
        untrusted::copy_below(source.worktree, path, &copies, LONGEST_FILE)
            .at("could not read", source.worktree.join(path))
    };
    let (mut gone, mut directories, mut files) = (Vec::new(), Vec::new(), Vec::new());
    for path in paths {
        let kind = match copy(Path::new(OsStr::from_bytes(path)))? {
            None => &mut gone,
            Some(FileType::Directory) => &mut directories,
            Some(_) => &mut files,
        };
        kind.push(path.clone());
    }
    for path in attributes {
        if !known.contains(path.as_os_str().as_bytes()) {
            copy(&path)?;
        }
    }
    // Apart from the others: git refuses a whole list where one path is beyond a link.
    update(source, &["--force-remove"], &gone)?;
    let options = ["--add", "--remove", "--replace"];
    // Of a directory git looks for the commit of a repository in it, and writes nothing.
    let nothing = room.path().join("objects");
    fs::create_dir(&nothing).at("could not make", &nothing)?;
    let mut refused = update_by(source, &options, &directories, |git| {
        git.env("GIT_OBJECT_DIRECTORY", &nothing);
    })?;
    let led = |git: &mut Command| {
        git.env("GIT_WORK_TREE", &copies).current_dir(&copies);
    };
    refused.extend(match update_by(source, &options, &files, led) {
        // `update-index` converts what was only touched, too, and fails where that cannot be done. For `git add` it is no change.
        Err(error) if error.code() == Code::GitFailed => {
            let mut listing = git(source);
            led(listing.args(["ls-files", "-z", "--modified", "--others"]));
            let listed = command::successful(listing)?;
            let differing: HashSet<&[u8]> = command::names(&listed).collect();
            let is_touched = |path: &Vec<u8>| !differing.contains(path.as_slice());
            if !files.iter().any(is_touched) {
                return Err(error);
            }
            files.retain(|path| !is_touched(path));
            update_by(source, &options, &files, led)?
        }
        taken => taken?,
    });
    Ok(refused)
}

/// Checks that git can look into these files: that none of them is without measure, and that no file of attributes
/// beside or above them keeps it waiting. Gives the places of these.
fn require_readable(top: &Path, paths: &[&Vec<u8>]) -> Result<Vec<PathBuf>> {
    let mut directories = HashSet::new();
    for path in paths {
        let path = Path::new(OsStr::from_bytes(path));
        let place = top.join(path);
        if fs::symlink_metadata(&place).is_ok_and(|metadata| !metadata.is_symlink()) {
            untrusted::require_file(&place, LONGEST_FILE)?;
        }
        for directory in path.ancestors().skip(1) {
            // Then all directories above it were looked at as well.
            if !directories.insert(directory) {
                break;
            }
            let attributes = top.join(directory).join(".gitattributes");
            untrusted::require_file(&attributes, LONGEST_FILE)?;
        }
    }
    let directories = directories.into_iter();
    Ok(directories.map(|directory| directory.join(".gitattributes")).collect())
}

/// Whether a directory on the way to a path is a symlink. `known` remembers the answers by directory.
fn is_beyond_symlink<'p>(top: &Path, path: &'p [u8], known: &mut HashMap<&'p [u8], bool>) -> bool {
    let Some((directory, _)) = split_name(path) else {
        return false;
    };
    if let Some(answer) = known.get(directory) {
        return *answer;
    }
    let place = top.join(OsStr::from_bytes(directory));
    let answer = is_beyond_symlink(top, directory, known)
        || fs::symlink_metadata(place).is_ok_and(|metadata| metadata.is_symlink());
    known.insert(directory, answer);
    answer
}

fn update(source: &WorktreeSource<'_>, options: &[&str], paths: &[Vec<u8>]) -> Result<()> {
    update_by(source, options, paths, |_| {}).map(drop)
}

/// Gives the paths that git passes over.
fn update_by(
    source: &WorktreeSource<'_>,
    options: &[&str],
    paths: &[Vec<u8>],
    led: impl Fn(&mut Command),
) -> Result<Vec<Vec<u8>>> {
    if paths.is_empty() {
        return Ok(Vec::new());
    }
    let mut command = git(source);
    command.arg("update-index").args(options).args(["-z", "--stdin"]);
    led(&mut command);
    let said = feed_paths(command, paths)?;
    let lines = said.split(|&byte| byte == b'\n');
    let lines: HashSet<_> = lines.filter_map(|line| line.strip_prefix(PASSED_OVER)).collect();
    // Of a name with a line end in it, the first line is compared.
    let is_passed = |path: &&Vec<u8>| {
        path.split(|&byte| byte == b'\n').next().is_some_and(|first| lines.contains(first))
    };
    Ok(paths.iter().filter(is_passed).cloned().collect())
}
