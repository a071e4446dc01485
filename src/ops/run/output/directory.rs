//! Which directory answers go to, and how much of the way to it is trusted.

use crate::agents::assignment::Workplace;
use crate::agents::ctx::Ctx;
use crate::agents::real_path::real_path;
use crate::domain::output_file::OUTSIDE;
use crate::error::{Code, Error, Result};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, mkdirat, openat, statat};
use rustix::io::Errno;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

/// The directory of answers in an agent's bundle.
const DIRECTORY: &str = "output";

/// An output directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Directory {
    /// The part that is trusted, symbolic links followed.
    pub anchor: PathBuf,
    /// The names below it.
    pub inside: Vec<OsString>,
}

impl Directory {
    /// The directory that the setting names, else the one in the agent's bundle.
    pub(super) fn of(ctx: &Ctx, place: &Workplace) -> Result<Directory> {
        let setting = ctx.repo.config_string("agent.outputDir")?;
        let Some(setting) = setting.filter(|setting| !setting.is_empty()) else {
            // A shared agent's bundle is among our own files, whose directory the agent cannot replace.
            let anchor = match place.bundle.strip_prefix(&place.directory) {
                Ok(_) => place.directory.as_path(),
                Err(_) => place.bundle.parent().unwrap_or(&place.bundle),
            };
            let bundle = place.bundle.strip_prefix(anchor).unwrap_or(&place.bundle);
            return Ok(Directory {
                anchor: anchor.to_owned(),
                inside: names(&bundle.join(DIRECTORY)).unwrap_or_default(),
            });
        };
        let invalid = || {
            let message = format!("the setting agent.outputDir, `{setting}`, names no directory");
            Error::new(Code::PathInvalid, message)
                .hint("to use the default, run git config --unset agent.outputDir")
        };
        let path = Path::new(&setting);
        // Only the user's own configuration can say this, so the whole way is trusted.
        if path.is_absolute() || path.starts_with("~") {
            return Ok(Directory {
                anchor: real_path(&ctx.absolute(path)).ok_or_else(invalid)?,
                inside: Vec::new(),
            });
        }
        Ok(Directory {
            anchor: place.directory.clone(),
            inside: names(path).ok_or_else(invalid)?,
        })
    }

    /// The directory, absolute.
    pub(super) fn path(&self) -> PathBuf {
        let mut path = self.anchor.clone();
        path.extend(&self.inside);
        path
    }

    /// The directory that `parents` lead to from this one, reached without a symbolic link; `None` where it
    /// does not exist and is not to be made.
    ///
    /// # Errors
    /// `output-outside` for a symbolic link on the way, `io`.
    pub(super) fn open(&self, parents: &[OsString], make: bool) -> Result<Option<OwnedFd>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut path = self.anchor.clone();
        let mut open = match openat(CWD, &path, flags, Mode::empty()) {
            Ok(anchor) => anchor,
            Err(Errno::NOENT) if !make => return Ok(None),
            Err(errno) => return Err(unreachable(&path, errno)),
        };
        for part in self.inside.iter().chain(parents) {
            path.push(part);
            if make {
                match mkdirat(&open, part, Mode::from_raw_mode(0o777)) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(unreachable(&path, errno)),
                }
            }
            // Each step begins where the last one ended, so no name on the way can be replaced by a
            // link.
            open = match openat(&open, part, flags | OFlags::NOFOLLOW, Mode::empty()) {
                Ok(next) => next,
                Err(Errno::NOENT) if !make => return Ok(None),
                Err(errno @ (Errno::LOOP | Errno::NOTDIR)) => {
                    let stat = statat(&open, part, AtFlags::SYMLINK_NOFOLLOW);
                    return Err(if stat.is_ok_and(|stat| is_link(&stat)) {
                        self.leads_out(&path)
                    } else {
                        unreachable(&path, errno)
                    });
                }
                Err(errno) => return Err(unreachable(&path, errno)),
            };
        }
        Ok(Some(open))
    }

    /// The refusal of a symbolic link on the way, or at its end.
    pub(super) fn leads_out(&self, link: &Path) -> Error {
        Error::new(Code::OutputOutside, OUTSIDE)
            .detail(format!("{} is a symbolic link", link.display()))
            .hint(self.hint())
    }

    /// What to say of a name that is not below it.
    pub(super) fn hint(&self) -> String {
        format!(
            "the output directory is {}; to choose another one, run git config agent.outputDir <directory>",
            self.path().display()
        )
    }
}

/// What is said of a path that cannot be used.
pub(super) fn unreachable(path: &Path, errno: Errno) -> Error {
    Error::io(
        format!("could not use {} for output", path.display()),
        errno.into(),
    )
}

/// Whether this is a symbolic link.
pub(super) fn is_link(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
}

/// The names that a relative path consists of; `None` when it climbs.
fn names(path: &Path) -> Option<Vec<OsString>> {
    path.components()
        .filter(|part| !matches!(part, Component::CurDir))
        .map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            _ => None,
        })
        .collect()
}
