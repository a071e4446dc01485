//! Telling by its content that a file is what the index holds, where its stat data prove nothing.
//!
//! That is so of files that were written in the same tick of the clock as the index itself, as a landing writes them. Git
//! would read them, too (`git update-index --refresh`), but would look at every other file of the worktree first.

use super::Checkout;
use super::precheck::{Above, PathState, Precheck};
use super::steps::Steps;
use crate::error::{IoContext, Result};
use crate::git::Repo;
use crate::git::changes::{Content, StatData, stat_data};
use crate::git::files::separate::{TICK, is_past};
use crate::git::objects::blob_name;
use crate::git::tree::{EXECUTABLE, FILE};
use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, openat};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

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
