//! What the helper tells its supervisor: lines of a file, the last of which counts.

use crate::error::{IoContext, Result};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// What became of a fenced command's start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The fence stands, and whatever runs or ran was behind it.
    Fenced,
    /// The kernel would not; the command was not started.
    Refused(String),
}

/// The open report.
pub(super) struct Report {
    file: File,
    path: PathBuf,
}

impl Report {
    pub(super) fn create(path: &Path) -> Result<Report> {
        Ok(Report {
            file: File::create(path).at("could not write", path)?,
            path: path.to_owned(),
        })
    }

    pub(super) fn say(&mut self, outcome: &Outcome) -> Result<()> {
        let line = to_line(outcome);
        self.file
            .write_all(line.as_bytes())
            .at("could not write", &self.path)
    }
}

/// Reads what the helper reported; `None` while it has said nothing, which after its end means that it
/// did not get as far as restricting itself.
///
/// # Errors
/// `io` when the file is there and cannot be read.
pub fn read_report(path: &Path) -> Result<Option<Outcome>> {
    let bytes = fs::read(path).at_if_there("could not read", path)?;
    let text = bytes.as_deref().map(String::from_utf8_lossy);
    Ok(text.and_then(|text| text.lines().filter_map(from_line).next_back()))
}

fn to_line(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Fenced => "fenced\n".to_owned(),
        Outcome::Refused(why) => format!("refused {}\n", why.replace(['\n', '\r'], " ")),
    }
}

fn from_line(line: &str) -> Option<Outcome> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "fenced" => Some(Outcome::Fenced),
        "refused" => Some(Outcome::Refused(rest.to_owned())),
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
        let outcomes = [Outcome::Fenced, Outcome::Refused("no Landlock".into())];
        for outcome in outcomes {
            report.say(&outcome).expect("said");
            assert_eq!(read_report(&path).expect("read"), Some(outcome));
        }
    }
}
