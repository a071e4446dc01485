//! Writing the new files of a landing without git, where each is its blob's bytes, and telling by
//! their content that files are what the index holds.
//!
//! Starting `git checkout-index` for a handful of files reads and writes the whole index, which in a large worktree takes
//! several times as long as the rest. Where a filter, a line end or an encoding may be asked for, git writes the files.

use crate::domain::Oid;
use crate::domain::paths::path::{split_name, split_once};
use crate::error::{IoContext, Result};
use crate::git::Repo;
use crate::git::changes::{Content, StatData, stat_data};
use crate::git::core::tree::{EXECUTABLE, FILE, SYMLINK};
use crate::git::files::separate::{TICK, is_past};
use crate::git::landing::Checkout;
use crate::git::landing::precheck::{Above, IndexSnapshot, Precheck, stat_at};
use crate::git::landing::steps::{PathState, PathStep, Steps};
use crate::git::objects::blob_name;
use crate::git::worktree::populate::are_plain;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, renameat, statat, symlinkat,
    unlinkat,
};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The name under which a file is written that is to replace another one in its directory.
const BESIDE: &[u8] = b".git-agent-landing";

/// The path of what is to replace a file.
pub(super) fn beside(path: &[u8]) -> Vec<u8> {
    match split_name(path) {
        Some((directory, _)) => [directory, b"/", BESIDE].concat(),
        None => BESIDE.to_vec(),
    }
}

/// What a step finds, or what it leaves.
type Side = fn(&PathStep) -> Option<Content>;

impl Checkout {
    /// Whether every file of the steps is its blob's bytes, by the attributes of before and of after. It is looked up once.
    pub(super) fn is_plain(&self, repo: &Repo, steps: &Steps, look: &Precheck) -> bool {
        let is_plain = || self.has_plain_files(repo, steps, &look.seen);
        *look.is_plain.get_or_init(is_plain)
    }

    fn has_plain_files(&self, repo: &Repo, steps: &Steps, seen: &IndexSnapshot) -> bool {
        // Settings of an agent's worktree are not to be read.
        if self.view.is_some() {
            return false;
        }
        let sides: &[Side] = if steps.has_attributes {
            &[|step| step.old, |step| step.new]
        } else {
            // A path has the same attributes before and after.
            &[|step| step.new.or(step.old)]
        };
        sides.iter().all(|side| {
            let files =
                steps.list.iter().filter_map(|step| Some((step.path.as_slice(), side(step)?)));
            let attributes = self.attributes_above(steps, seen, *side);
            let files = files.collect();
            attributes.is_some_and(|attributes| are_plain(repo, &self.top, &attributes, &files))
        })
    }

    /// The files of attributes above the steps; `None` where one is there that the index does not know.
    fn attributes_above(
        &self,
        steps: &Steps,
        seen: &IndexSnapshot,
        side: Side,
    ) -> Option<BTreeMap<Vec<u8>, Content>> {
        let mut found = BTreeMap::new();
        for path in steps.attributes_files() {
            // An attributes file that is itself among the steps counts as the side that is asked
            // about; the index knows one side only.
            let content = match steps.list.iter().find(|step| step.path == path) {
                Some(step) => side(step),
                None => match seen.content(&path) {
                    // An untracked file of attributes is obeyed by git as well, but the index says
                    // nothing about its content.
                    None if !self.is_free(&path) => return None,
                    content => content,
                },
            };
            found.extend(content.map(|content| (path, content)));
        }
        Some(found)
    }

    fn is_free(&self, path: &[u8]) -> bool {
        match self.open_above(path) {
            Some(Above::Missing) => true,
            Some(Above::There(directory, name)) => matches!(stat_at(&directory, name), Some(None)),
            None => false,
        }
    }

    /// Writes files where nothing is or in the place of what was looked at, and says what the index is to keep of each that is
    /// `written`; `false` where something else appeared in their place. At no moment is a file missing that is replaced.
    ///
    /// # Errors
    /// `repo-corrupt`, `io`, `disk-full`; the files before the one that failed are there then.
    pub(super) fn write_plain_files(
        &self,
        repo: &Repo,
        (steps, look): (&[&PathStep], &Precheck),
        mut written: impl FnMut(&[u8], StatData),
    ) -> Result<bool> {
        for step in steps {
            if let Some((mode, blob)) = step.new {
                let Some(stat) = self.write_plain(repo, (&step.path, look), mode, blob)? else {
                    return Ok(false);
                };
                written(&step.path, stat);
            }
        }
        Ok(true)
    }

    fn write_plain(
        &self,
        repo: &Repo,
        (path, look): (&[u8], &Precheck),
        mode: u32,
        blob: Oid,
    ) -> Result<Option<StatData>> {
        let content = match blob {
            // The empty blob need not exist as an object: git knows it without one.
            Oid::EMPTY_BLOB => Vec::new(),
            blob => repo.read_blob(blob)?,
        };
        let made = self.make_above(path).map_err(io::Error::from);
        let written = made.and_then(|(directory, name)| {
            match stat_at(&directory, name) {
                Some(Some(found)) if look.is_old(path, &found) => {
                    let is_old = |found: &Stat| look.is_old(path, found);
                    replace_file(&directory, name, is_old, (mode, &content))
                }
                // Whatever else is there keeps it from being made.
                _ => make_file(&directory, name, (mode, &content))?.stat(&directory, name),
            }
        });
        match written.as_ref().map_err(io::Error::kind) {
            // Something appeared here after the look. It may be the user's, so it stays, and git
            // says what it is.
            Err(ErrorKind::AlreadyExists | ErrorKind::NotADirectory) => Ok(None),
            _ => {
                let stat = written.at("could not write", self.top.join(OsStr::from_bytes(path)))?;
                Ok(Some(stat_data(&stat)))
            }
        }
    }

    /// Makes the directories above a path that are not there, and opens the last of them, never through a symlink; gives
    /// the name in it too.
    fn make_above<'p>(&self, path: &'p [u8]) -> rustix::io::Result<(OwnedFd, &'p [u8])> {
        // The usual case costs one call. Directories are made one by one only where one is missing.
        if let Some(Above::There(directory, name)) = self.open_above(path) {
            return Ok((directory, name));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut directory = rustix::fs::open(&self.top, flags, Mode::empty())?;
        let mut rest = path;
        while let Some((name, behind)) = split_once(rest, b'/') {
            let flags = flags | OFlags::NOFOLLOW;
            directory = match openat(&directory, name, flags, Mode::empty()) {
                Err(Errno::NOENT) => {
                    mkdirat(&directory, name, Mode::from_raw_mode(0o777))?;
                    // It is opened without following links: another process may have replaced what
                    // was just made.
                    openat(&directory, name, flags, Mode::empty())?
                }
                opened => opened?,
            };
            rest = behind;
        }
        Ok((directory, rest))
    }
}

/// What was made: a file, which is open, or a symlink, which cannot be.
struct Made(Option<File>);

impl Made {
    /// Its stat data under the name that it has by now.
    fn stat(&self, directory: &OwnedFd, name: &[u8]) -> io::Result<Stat> {
        Ok(match &self.0 {
            Some(file) => fstat(file)?,
            None => statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?,
        })
    }
}

/// Makes a file beside one that `is_old`, and gives it that one's name.
fn replace_file(
    directory: &OwnedFd,
    name: &[u8],
    is_old: impl Fn(&Stat) -> bool,
    content: (u32, &[u8]),
) -> io::Result<Stat> {
    let made = make_file(directory, BESIDE, content)?;
    // Asked again right before: writing took its time.
    let found = stat_at(directory, name).flatten();
    let replaced = if found.as_ref().is_some_and(is_old) {
        renameat(directory, BESIDE, directory, name).map_err(io::Error::from)
    } else {
        Err(ErrorKind::AlreadyExists.into())
    };
    if let Err(error) = replaced {
        let _ = unlinkat(directory, BESIDE, AtFlags::empty());
        return Err(error);
    }
    made.stat(directory, name)
}

/// Makes a file or a symlink that must not exist; nothing is left of one that could not be written.
fn make_file(directory: &OwnedFd, name: &[u8], (mode, content): (u32, &[u8])) -> io::Result<Made> {
    if mode == SYMLINK {
        symlinkat(content, directory, name)?;
        return Ok(Made(None));
    }
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // The umask takes its bits from these, as with git.
    let bits = if mode == EXECUTABLE { 0o777 } else { 0o666 };
    let mut file = File::from(openat(directory, name, flags, Mode::from_raw_mode(bits))?);
    let written = file.write_all(content);
    if written.is_err() {
        // The caller counts only whole files as written, and would leave this one.
        let _ = unlinkat(directory, name, AtFlags::empty());
    }
    written.map(|()| Made(Some(file)))
}

// Telling by its content that a file is what the index holds, where its stat data prove nothing.
//
// That is so of files that were written in the same tick of the clock as the index itself, as a landing writes them. Git
// would read them, too (`git update-index --refresh`), but would look at every other file of the worktree first.

/// Longer files are left to git.
const LONGEST: u64 = 64 << 20;

impl Checkout {
    /// Reads the files of the steps that the index proves nothing about, and the files of attributes above them, and finds each
    /// to hold what the index says. `false` where it is not so of one of them, or where git could see another content in it than
    /// its bytes. `scratch` is the name of a file that may be made on the index's file system.
    ///
    /// # Errors
    /// `io`, `disk-full`.
    pub(super) fn compare_contents(
        &self,
        repo: &Repo,
        steps: &Steps,
        look: &mut Precheck,
        scratch: &Path,
    ) -> Result<bool> {
        let Some(doubts) = self.doubts(steps, look) else {
            return Ok(false);
        };
        if !self.is_plain(repo, steps, look) {
            return Ok(false);
        }
        // The clock of the file system decides, not that of the system: the two differ by up to a
        // tick, and on a network file system by more.
        let mut now = time_of(scratch)?;
        // A file that was changed in this very tick could be changed again without a new time, and
        // what is read here would prove nothing about it later.
        let is_settled = |path| self.stat(path).is_some_and(|stat| is_before(&stat, now));
        if !doubts.keys().all(|path| is_settled(path)) {
            // What is written from now on has to bear another time than what was written last.
            std::thread::sleep(TICK * 2);
            now = time_of(scratch)?;
        }
        for (path, content) in doubts {
            let Some(stat) = self.unchanged(&path, content, now) else {
                return Ok(false);
            };
            look.compared.insert(path, stat);
        }
        for place in &mut look.places {
            if *place == PathState::Unknown {
                *place = PathState::Old;
            }
        }
        Ok(true)
    }

    /// The files to be read, with what they should hold; `None` where one is something else than a file.
    fn doubts(&self, steps: &Steps, look: &Precheck) -> Option<BTreeMap<Vec<u8>, Content>> {
        let is_file = |(mode, _): &Content| [FILE, EXECUTABLE].contains(mode);
        let mut doubts = BTreeMap::new();
        for (step, place) in steps.list.iter().zip(&look.places) {
            if *place == PathState::Unknown {
                // Whether what comes is its blob's bytes says so of what is there, if both are files.
                step.new.is_none_or(|new| is_file(&new)).then_some(())?;
                doubts.insert(step.path.clone(), step.old.filter(is_file)?);
            }
        }
        for path in steps.attributes_files() {
            if let Some(content) = look.seen.content(&path)
                && !self.holds(&look.seen, &path)
            {
                doubts.insert(path, Some(content).filter(is_file)?);
            }
        }
        Some(doubts)
    }

    /// The stat data of a file that holds this content, and bears a time that nothing written after `now` bears.
    fn unchanged(&self, path: &[u8], (mode, blob): Content, now: (i64, i64)) -> Option<StatData> {
        let Above::There(directory, name) = self.open_above(path)? else {
            return None;
        };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(&directory, name, flags, Mode::empty()).ok()?);
        let stat = fstat(&file).ok()?;
        let is_executable = stat.st_mode & 0o100 != 0;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile
            || is_executable != (mode == EXECUTABLE)
        {
            return None;
        }
        let mut content = Vec::new();
        // One byte more than is taken tells a file that ends at the limit from one that goes on behind it.
        (&file).take(LONGEST + 1).read_to_end(&mut content).ok()?;
        // No setting about line ends lets git see anything else in a file without one of these.
        if content.len() as u64 > LONGEST
            || content.contains(&b'\r')
            || blob_name(&content).ok()? != blob
        {
            return None;
        }
        // Read between two equal looks, the content belongs to these stat data. A writer in between
        // would show in the second one.
        let after = fstat(&file).ok()?;
        let stat = stat_data(&stat);
        (is_before(&after, now) && stat_data(&after) == stat).then_some(stat)
    }
}

/// Whether a file was changed so long before a moment that whatever changes it after that gives it another time.
fn is_before(stat: &Stat, now: (i64, i64)) -> bool {
    // Its modification time can be set, this one cannot.
    is_past(now, stat.st_ctime.into(), stat.st_ctime_nsec.into())
}

/// What the clock of the file system says.
fn time_of(scratch: &Path) -> Result<(i64, i64)> {
    let file = File::create(scratch).at("could not write", scratch)?;
    let metadata = file.metadata().at("could not look at", scratch)?;
    fs::remove_file(scratch).at("could not remove", scratch)?;
    Ok((metadata.mtime(), metadata.mtime_nsec()))
}
