//! Telling by its stat data alone that a file was not replaced or written since an earlier look.
//!
//! Equal numbers do not prove that by themselves. Many file systems give the inode number of a removed file to the next one that is
//! made, and their clocks tick every few milliseconds: what is written in the tick of the first look can bear all of its
//! numbers. So an earlier look counts only if the file had been left alone for longer than a tick by then. Every other
//! comparison errs towards "changed", and its caller reads the content.
//!
//! The time that decides is that of the last status change (`ctime`): programs set modification times as they like.

use rustix::fs::Stat;
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// For so long a file has to be left alone: the clocks of kernels and file systems tick every 10 ms, or more often.
pub(in crate::git) const TICK: Duration = Duration::from_millis(20);

/// What a look at a file saw of it.
#[derive(Clone, Copy, Debug)]
pub struct FileStamp {
    /// Device, inode, size, and the times of the last change of status and of content in seconds and nanoseconds.
    numbers: [i128; 7],
    /// When the look was, in seconds and nanoseconds, if the file was changed shortly before.
    in_doubt_at: Option<(i64, i64)>,
}

impl FileStamp {
    /// Looks at what has a path, a symlink itself; `None` where nothing can be seen.
    pub fn of(path: &Path) -> Option<FileStamp> {
        let file = fs::symlink_metadata(path).ok()?;
        let numbers = [
            file.dev().into(),
            file.ino().into(),
            file.size().into(),
            file.ctime().into(),
            file.ctime_nsec().into(),
            file.mtime().into(),
            file.mtime_nsec().into(),
        ];
        let now = now();
        let is_left_alone = is_past(now, file.ctime().into(), file.ctime_nsec().into());
        Some(FileStamp {
            numbers,
            in_doubt_at: (!is_left_alone).then_some(now),
        })
    }

    /// Whether two looks at a path show that what is there, if anything, was not changed in between.
    pub fn is_unchanged(before: Option<&FileStamp>, now: Option<&FileStamp>) -> bool {
        match (before, now) {
            (Some(before), Some(now)) => {
                before.in_doubt_at.is_none() && before.numbers == now.numbers
            }
            (before, now) => before.is_none() && now.is_none(),
        }
    }
}

/// Waits until whatever is changed from now on gets another time than these files bear.
pub fn wait_for_another_time<'s>(mut files: impl Iterator<Item = &'s Stat>) {
    let now = now();
    if !files.all(|stat| is_past(now, stat.st_ctime.into(), stat.st_ctime_nsec.into())) {
        thread::sleep(TICK * 2);
    }
}

/// Whether `now` is so long after a moment, given in seconds and nanoseconds, that whatever happens from now on bears another
/// time.
pub(in crate::git) fn is_past(now: (i64, i64), seconds: i128, nanoseconds: i128) -> bool {
    let (since, beyond) = (i128::from(now.0) - seconds, i128::from(now.1) - nanoseconds);
    // A file system that knows seconds alone writes no other.
    match nanoseconds {
        0 => since > 0,
        _ => since * 1_000_000_000 + beyond >= TICK.as_nanos().cast_signed(),
    }
}

/// What the clock of the kernel says, which is that of its file systems.
#[expect(
    clippy::useless_conversion,
    reason = "the types of these fields differ between systems"
)]
fn now() -> (i64, i64) {
    let now = clock_gettime(ClockId::Realtime);
    (now.tv_sec.into(), now.tv_nsec.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_place_of_another_is_never_taken_for_it() {
        let directory = tempfile::tempdir().expect("made");
        let path = directory.path().join("file");
        for (content, other) in [("a", "b"), ("b", "a")].repeat(200) {
            fs::write(&path, content).expect("written");
            let before = FileStamp::of(&path);
            fs::remove_file(&path).expect("removed");
            fs::write(&path, other).expect("written");
            let now = FileStamp::of(&path);
            assert!(!FileStamp::is_unchanged(before.as_ref(), now.as_ref()));
        }
    }

    #[test]
    fn a_file_that_was_left_alone_is_known_again() {
        let directory = tempfile::tempdir().expect("made");
        let path = directory.path().join("file");
        fs::write(&path, "content").expect("written");
        let stat = rustix::fs::stat(&path).expect("there");
        wait_for_another_time([&stat].into_iter());
        let before = FileStamp::of(&path);
        let is_as_before =
            || FileStamp::is_unchanged(before.as_ref(), FileStamp::of(&path).as_ref());
        assert!(is_as_before());
        fs::write(&path, "Content").expect("written");
        assert!(!is_as_before());
    }
}
