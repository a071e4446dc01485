//! What the helper tells its supervisor: lines of a file, the last of which counts.

use crate::domain::life::run;
use crate::error::{IoContext, Result};
use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// What became of a fenced command's start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FenceOutcome {
    /// The fence stands, and whatever runs or ran was behind it.
    Fenced,
    /// The kernel would not; the command was not started.
    Refused(String),
    /// How the command ended. Only a fence with a namespace of processes says so, since the first process of such a
    /// namespace cannot be ended by a signal as the command was.
    Ended(run::Outcome),
}

/// The open report.
pub(super) struct Report {
    file: File,
    path: PathBuf,
}

impl Report {
    pub(super) fn create(path: &Path) -> Result<Report> {
        let mut options = File::options();
        let file = options.read(true).write(true).create(true).truncate(true).open(path);
        Ok(Report { file: file.at("could not write", path)?, path: path.to_owned() })
    }

    /// A path by which another process can open it: it leads through the mount by which it was opened. A mount on which a
    /// file is open for writing cannot be made read-only.
    pub(super) fn handle(&self) -> PathBuf {
        let process = std::process::id();
        PathBuf::from(format!("/proc/{process}/fd/{}", self.file.as_raw_fd()))
    }

    /// Opens one that was created.
    pub(super) fn append(path: &Path) -> Result<Report> {
        let file = File::options().append(true).open(path);
        Ok(Report { file: file.at("could not write", path)?, path: path.to_owned() })
    }

    /// How the command ended, if that was said.
    pub(super) fn end(&self) -> Result<Option<run::Outcome>> {
        // By now its path may lead elsewhere.
        let mut bytes = Vec::new();
        let mut file = &self.file;
        file.rewind()
            .and_then(|()| file.read_to_end(&mut bytes))
            .at("could not read", &self.path)?;
        let text = String::from_utf8_lossy(&bytes);
        Ok(match text.lines().filter_map(from_line).next_back() {
            Some(FenceOutcome::Ended(end)) => Some(end),
            _ => None,
        })
    }

    pub(super) fn say(&mut self, outcome: &FenceOutcome) -> Result<()> {
        let line = to_line(outcome);
        self.file.write_all(line.as_bytes()).at("could not write", &self.path)
    }
}

/// Reads what the helper reported; `None` while it has said nothing, which after its end means that it
/// did not get as far as restricting itself.
///
/// # Errors
/// `io` when the file is there and cannot be read.
pub fn read_report(path: &Path) -> Result<Option<FenceOutcome>> {
    let bytes = fs::read(path).at_if_there("could not read", path)?;
    let text = bytes.as_deref().map(String::from_utf8_lossy);
    let is_start = |outcome: &FenceOutcome| !matches!(outcome, FenceOutcome::Ended(_));
    Ok(text.and_then(|text| text.lines().filter_map(from_line).rfind(is_start)))
}

fn to_line(outcome: &FenceOutcome) -> String {
    match outcome {
        FenceOutcome::Fenced => "fenced\n".to_owned(),
        FenceOutcome::Refused(why) => format!("refused {}\n", why.replace(['\n', '\r'], " ")),
        FenceOutcome::Ended(end) => format!("ended {}", end.to_line()),
    }
}

fn from_line(line: &str) -> Option<FenceOutcome> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "fenced" => Some(FenceOutcome::Fenced),
        "refused" => Some(FenceOutcome::Refused(rest.to_owned())),
        "ended" => run::Outcome::parse(&format!("{rest}\n")).map(FenceOutcome::Ended),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_counts() {
        let place = tempfile::tempdir().expect("directory");
        let path = place.path().join("report");
        assert_eq!(read_report(&path).expect("absent"), None);
        let mut report = Report::create(&path).expect("made");
        assert_eq!(read_report(&path).expect("empty"), None);
        let outcomes = [FenceOutcome::Fenced, FenceOutcome::Refused("no Landlock".into())];
        for outcome in outcomes {
            report.say(&outcome).expect("said");
            assert_eq!(read_report(&path).expect("read"), Some(outcome));
        }
        assert_eq!(report.end().expect("read"), None);
        let end = run::Outcome::TIMEOUT;
        let mut again = Report::append(&path).expect("there");
        again.say(&FenceOutcome::Ended(end)).expect("said");
        assert_eq!(report.end().expect("read"), Some(end));
        let start = read_report(&path).expect("read");
        assert_eq!(start, Some(FenceOutcome::Refused("no Landlock".into())));
    }
}
