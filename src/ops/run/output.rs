//! The file that an agent's answer goes to.
//!
//! It is below the output directory: `agent.outputDir`, by default `output` in the agent's bundle, which it
//! may always write, which is never committed, and which a discard keeps. Whoever else writes there
//! could have put a symbolic link in the way, so every directory below the trusted one is opened without
//! following any, missing ones are made the same way, and nothing is handed to the agent but a path that
//! was walked like this just before it starts.

mod directory;

use super::Place;
use crate::domain::output_file::{self, EXISTS, OUTSIDE, OutputProblem};
use crate::domain::shell;
use crate::error::{Code, Error, IoContext, Result};
use crate::ops::Ctx;
use directory::Directory;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, mkdirat, openat, statat};
use rustix::io::Errno;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// What was asked for.
#[derive(Clone, Debug, Default)]
pub struct OutputWish {
    /// The file's name; the default one where there is none.
    pub file: Option<String>,
    /// Whether it may exist already.
    pub allow_overwrite: bool,
}

/// Where one answer goes.
#[derive(Debug)]
pub struct Output {
    directory: Directory,
    /// The directories between that one and the file.
    parents: Vec<OsString>,
    name: OsString,
    allow_overwrite: bool,
    /// The file as it was before the agent started.
    before: Option<Mark>,
}

/// What tells one state of a file from another: inode, size, seconds and nanoseconds of its last change.
type Mark = (u64, u64, i64, i64);

impl Output {
    /// Decides where the answer goes; makes nothing.
    ///
    /// # Errors
    /// `output-outside`, `output-exists`, `path-invalid` for the setting, `io`.
    pub fn plan(ctx: &Ctx, place: &Place, wish: &OutputWish, agent_type: &str) -> Result<Output> {
        let directory = Directory::of(ctx, place)?;
        let default = || output_file::default_name(agent_type, ctx.now());
        let name = wish.file.clone().unwrap_or_else(default);
        Output::below(directory, &name, wish.allow_overwrite)
    }

    fn below(directory: Directory, name: &str, allow_overwrite: bool) -> Result<Output> {
        let top = directory.path();
        let inside = output_file::relative(name, top.to_str()).map_err(|problem| {
            let code = match problem {
                OutputProblem::Outside => Code::OutputOutside,
                OutputProblem::Nameless | OutputProblem::Control => Code::Usage,
            };
            Error::new(code, problem.to_string()).hint(directory.hint())
        })?;
        let mut parents: Vec<OsString> = inside
            .parts()
            .map(|part| OsString::from_vec(part.to_vec()))
            .collect();
        let name = parents.pop().unwrap_or_default();
        let mut output = Output {
            directory,
            parents,
            name,
            allow_overwrite,
            before: None,
        };
        if let Some(parent) = output.parent(false)? {
            output.before = output.judge(&parent)?;
        }
        Ok(output)
    }

    /// The file, absolute.
    pub fn path(&self) -> PathBuf {
        self.directory_of_file().join(&self.name)
    }

    /// The directory that the file is in, absolute.
    pub fn directory_of_file(&self) -> PathBuf {
        let mut path = self.directory.path();
        path.extend(&self.parents);
        path
    }

    /// Makes the directories, and judges the file again.
    ///
    /// # Errors
    /// As [`Output::plan`].
    pub fn prepare(&mut self) -> Result<()> {
        std::fs::create_dir_all(&self.directory.anchor)
            .at("could not make", &self.directory.anchor)?;
        if let Some(parent) = self.parent(true)? {
            self.before = self.judge(&parent)?;
        }
        Ok(())
    }

    /// Whether the agent wrote the file: it is a regular one, and not as it was before.
    ///
    /// # Errors
    /// As [`Output::plan`], where the way to it was changed since.
    pub fn is_written(&self) -> Result<bool> {
        let Some(parent) = self.parent(false)? else {
            return Ok(false);
        };
        let now = self.look(&parent)?;
        Ok(now.is_some_and(|stat| is_regular(&stat) && Some(mark(&stat)) != self.before))
    }

    /// The directory of the file, reached without a symbolic link; `None` where it does not exist and
    /// is not to be made.
    fn parent(&self, make: bool) -> Result<Option<OwnedFd>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut path = self.directory.anchor.clone();
        let mut open = match openat(CWD, &path, flags, Mode::empty()) {
            Ok(anchor) => anchor,
            Err(Errno::NOENT) if !make => return Ok(None),
            Err(errno) => return Err(self.unreachable(&path, errno)),
        };
        for part in self.directory.inside.iter().chain(&self.parents) {
            path.push(part);
            if make {
                match mkdirat(&open, part, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(self.unreachable(&path, errno)),
                }
            }
            open = match openat(&open, part, flags | OFlags::NOFOLLOW, Mode::empty()) {
                Ok(next) => next,
                Err(Errno::NOENT) if !make => return Ok(None),
                Err(errno @ (Errno::LOOP | Errno::NOTDIR)) => {
                    let stat = statat(&open, part, AtFlags::SYMLINK_NOFOLLOW);
                    return Err(match stat.is_ok_and(|stat| is_link(&stat)) {
                        true => self.leads_out(&path),
                        false => self.unreachable(&path, errno),
                    });
                }
                Err(errno) => return Err(self.unreachable(&path, errno)),
            };
        }
        Ok(Some(open))
    }

    /// The state of the file, if its being there is no reason to refuse.
    fn judge(&self, parent: &OwnedFd) -> Result<Option<Mark>> {
        let Some(stat) = self.look(parent)? else {
            return Ok(None);
        };
        if is_link(&stat) {
            return Err(self.leads_out(&self.path()));
        }
        if self.allow_overwrite && is_regular(&stat) {
            return Ok(Some(mark(&stat)));
        }
        let error = Error::new(Code::OutputExists, EXISTS);
        let path = self.path();
        Err(match is_regular(&stat) {
            true => error.hint(format!(
                "to see it, run cat {}",
                shell::word(path.as_os_str().as_encoded_bytes())
            )),
            false => error.detail(format!("{} is no regular file", path.display())),
        })
    }

    fn look(&self, parent: &OwnedFd) -> Result<Option<Stat>> {
        match statat(parent, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(self.unreachable(&self.path(), errno)),
        }
    }

    fn leads_out(&self, link: &Path) -> Error {
        Error::new(Code::OutputOutside, OUTSIDE)
            .detail(format!("{} is a symbolic link", link.display()))
            .hint(self.directory.hint())
    }

    fn unreachable(&self, path: &Path, errno: Errno) -> Error {
        Error::io(
            format!("could not use {} for output", path.display()),
            errno.into(),
        )
    }
}

fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

fn is_link(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
}

#[expect(
    clippy::cast_sign_loss,
    clippy::unnecessary_cast,
    reason = "the types of these fields differ between systems, and equal bits are equal files"
)]
fn mark(stat: &Stat) -> Mark {
    (
        stat.st_ino as u64,
        stat.st_size as u64,
        stat.st_ctime as i64,
        stat.st_ctime_nsec as i64,
    )
}

#[cfg(test)]
mod tests;
