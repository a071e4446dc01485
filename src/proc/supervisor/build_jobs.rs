//! Compile jobs that the runs of a clone share: a jobserver as GNU make has it for each run, fed by its supervisor.
//!
//! ```text
//! <common dir>/agents/builds/<number>   a job; the supervisor that has it holds the lock of the file
//! <the run's TMPDIR>/jobserver          a pipe with a byte for each job that the run has and does not use
//! ```
//!
//! make, cargo and ninja take a byte out before they start a further process, and put it back when that is over. Each run has a pipe of its
//! own, so no command can keep, or make up, what belongs to another run for longer than it runs itself: the kernel gives back the locks of
//! a supervisor that ends, however it does.

use rustix::io::ioctl_fionread;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The pipe's name in the run's directory for temporary files.
const PIPE: &str = "jobserver";

/// The variables in which programs look for one.
pub const JOBSERVER_VARIABLES: [&str; 2] = ["CARGO_MAKEFLAGS", "MAKEFLAGS"];

/// The jobs of a clone.
#[derive(Clone, Debug)]
pub struct BuildSlots {
    /// The directory with a file for each of them.
    pub directory: PathBuf,
    /// How many there are.
    pub count: u64,
}

impl BuildSlots {
    /// What a program is told of a jobserver in a directory for temporary files.
    pub fn flags(&self, scratch: &Path) -> OsString {
        let mut flags = OsString::from(format!(" -j{} --jobserver-auth=fifo:", self.count + 1));
        flags.push(scratch.join(PIPE));
        flags
    }
}

/// The jobs that one run has.
pub(super) struct BuildJobs {
    pipe: File,
    slots: BuildSlots,
    held: Vec<File>,
}

impl BuildJobs {
    /// Makes the pipe, before there is a command that could put something else in its place.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn begin(slots: &BuildSlots, scratch: &Path) -> std::io::Result<BuildJobs> {
        let path = scratch.join(PIPE);
        crate::system::make_pipe(&path)?;
        fs::create_dir_all(&slots.directory)?;
        // Open for both, so that neither end waits for the other, nor sees an end of the file.
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true);
        let pipe = options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
        Ok(BuildJobs { pipe: pipe.open(path)?, slots: slots.clone(), held: Vec::new() })
    }

    /// Gets one more job where the command has used up what it had, and gives one back where it leaves more than one.
    pub(super) fn balance(&mut self) {
        let mut byte = [b'+'];
        match ioctl_fionread(&self.pipe) {
            Ok(0) => {
                if let Some(job) = self.take()
                    && self.pipe.write_all(&byte).is_ok()
                {
                    self.held.push(job);
                }
            }
            // The command may have been faster, or have written bytes of its own, which stand for no job.
            Ok(2..) if self.pipe.read_exact(&mut byte).is_ok() => drop(self.held.pop()),
            _ => {}
        }
    }

    /// A job that no run has.
    fn take(&self) -> Option<File> {
        (1..=self.slots.count).find_map(|number| {
            let path = self.slots.directory.join(number.to_string());
            let options = OpenOptions::new().create(true).truncate(false).write(true).open(path);
            options.ok().filter(|file| file.try_lock().is_ok())
        })
    }
}

/// Whether a make finds a jobserver by the name of a pipe.
pub fn knows_named_pipes(make: &Path) -> bool {
    let told = Command::new(make).arg("--version").stdin(Stdio::null()).output();
    let told = told.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let version = told.unwrap_or_default();
    let version = version.strip_prefix("GNU Make ").unwrap_or_default();
    let mut numbers = version.split(|letter: char| !letter.is_ascii_digit());
    let mut next = || numbers.next().and_then(|number| number.parse::<u32>().ok());
    (next(), next()) >= (Some(4), Some(4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_shared_and_come_back_with_the_end_of_a_run() {
        if !crate::system::HAS_NAMED_PIPES {
            return;
        }
        let directory = tempfile::tempdir().expect("a directory");
        let slots = BuildSlots { directory: directory.path().join("builds"), count: 2 };
        let run = |name: &str| {
            let scratch = directory.path().join(name);
            fs::create_dir(&scratch).expect("made");
            let jobs = BuildJobs::begin(&slots, &scratch).expect("begun");
            let command = OpenOptions::new().read(true).write(true).open(scratch.join(PIPE));
            (jobs, command.expect("opened"))
        };
        let (mut one, mut its_command) = run("one");
        let (mut other, mut other_command) = run("other");
        let take = |jobs: &mut BuildJobs, command: &mut File| {
            jobs.balance();
            let is_there = ioctl_fionread(&*command).expect("told") > 0;
            is_there.then(|| command.read_exact(&mut [0]).expect("read")).is_some()
        };
        assert!(take(&mut one, &mut its_command) && take(&mut one, &mut its_command));
        // All that there are, one run has.
        assert!(!take(&mut one, &mut its_command) && !take(&mut other, &mut other_command));
        // What it puts back, it keeps one of.
        its_command.write_all(b"++").expect("written");
        one.balance();
        assert!(take(&mut other, &mut other_command) && !take(&mut other, &mut other_command));
        drop(one);
        assert!(take(&mut other, &mut other_command));
        // Bytes that it makes up take nothing from others.
        other_command.write_all(b"+++++").expect("written");
        (0..9).for_each(|_| other.balance());
        assert_eq!(ioctl_fionread(&other_command).expect("told"), 1);
    }
}
