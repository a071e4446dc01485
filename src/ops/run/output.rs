//! The file that an agent's answer goes to.
//!
//! It is below the output directory: `agent.outputDir`, by default `output` in the agent's bundle, which it
//! may always write, which is never committed, and which a discard keeps. Another writer there
//! could have put a symbolic link in the way, so every directory below the trusted one is opened without
//! following any, missing ones are made the same way, and nothing is handed to the agent but a path that
//! was walked like this just before it starts.
//!
//! Agents at work at the same time may want the same name. The one that makes the file has it: an empty one is made
//! just before the agent starts, which fails where there is one, and goes again where nothing was written.

#[cfg(test)]
mod tests;

use crate::agents::context::real_path::real_path;
use crate::agents::who::assignment::Workplace;
use crate::agents::{Ctx, Scratch, context::untrusted, stock::layered};
use crate::domain::paths::output_file::{EXISTS, OutputProblem};
use crate::domain::{AgentId, paths::output_file, value::shell};
use crate::error::{Code, Error, IoContext, Remedy, Result};
use crate::git::files::separate::wait_for_another_time;
use crate::store::files::layout;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

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
    directory: OutputDirectory,
    /// The directories between that one and the file.
    parents: Vec<OsString>,
    name: OsString,
    taken: IfTaken,
    /// The file as it was before the agent started.
    before: Option<Mark>,
    /// Whether it is ours: made for this answer, and empty.
    claimed: bool,
    /// Where the agent writes it, if that is another place.
    staged: Option<Staged>,
}

/// What is done where a file goes by the name already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IfTaken {
    /// Nothing: the answer is refused a place.
    Refuse,
    /// The answer may replace it.
    Overwrite,
    /// The next name is tried: this one was not requested.
    Number,
}

/// What tells one state of a file from another: inode, size, seconds and nanoseconds of its last change.
type Mark = (u64, u64, i64, i64);

impl Output {
    /// Decides where the answer goes; makes nothing.
    ///
    /// # Errors
    /// `output-outside`, `output-exists`, `path-invalid` for the setting, `io`.
    pub fn plan(
        ctx: &Ctx,
        (agent, place): (AgentId, &Workplace),
        wish: &OutputWish,
        agent_type: &str,
    ) -> Result<Output> {
        let mut directory = OutputDirectory::of(ctx, place)?;
        directory.enter_layer(ctx, agent)?;
        match &wish.file {
            Some(name) if wish.allow_overwrite => {
                Output::below(directory, name, IfTaken::Overwrite)
            }
            Some(name) => Output::below(directory, name, IfTaken::Refuse),
            None => {
                let name = output_file::default_name(agent_type, ctx.now());
                Output::below(directory, &name, IfTaken::Number)
            }
        }
    }

    fn below(directory: OutputDirectory, name: &str, taken: IfTaken) -> Result<Output> {
        let top = directory.path_for_agent();
        let inside = output_file::relative(name, top.to_str()).map_err(|problem| {
            let code = match problem {
                OutputProblem::Outside => Code::OutputOutside,
                OutputProblem::Nameless | OutputProblem::Control => Code::Usage,
            };
            Error::new(code, problem.to_string()).hint(directory.hint())
        })?;
        let mut parents: Vec<OsString> =
            inside.parts().map(|part| OsString::from_vec(part.to_vec())).collect();
        let name = parents.pop().unwrap_or_default();
        let mut output =
            Output { directory, parents, name, taken, before: None, claimed: false, staged: None };
        let parent = output.parent(false)?;
        // Of a name that was made up, the next free one is taken, so nothing has to be judged here.
        if let Some(parent) = parent.filter(|_| taken != IfTaken::Number) {
            output.before = output.judge(&parent)?;
        }
        Ok(output)
    }

    /// Follows an agent into its layer, which one that was just made did not have when this was planned.
    ///
    /// # Errors
    /// `path-invalid` for a directory that no layer can have.
    pub fn enter_layer(&mut self, ctx: &Ctx, agent: AgentId) -> Result<()> {
        self.directory.enter_layer(ctx, agent)
    }

    /// The file, absolute.
    pub fn path(&self) -> PathBuf {
        self.directory_of_file().join(&self.name)
    }

    /// The file as the agent is told, absolute: once prepared, where its host can write.
    pub fn path_for_agent(&self) -> PathBuf {
        self.directory_for_agent().join(&self.name)
    }

    /// Whether it is in the agent's worktree, which the agent may write anyway, and which can be named where it is mounted only.
    pub fn is_in_layer(&self) -> bool {
        self.staged.is_none() && self.directory.seen.is_some()
    }

    /// Whether the agent writes it in another place than its own.
    pub fn is_staged(&self) -> bool {
        self.staged.is_some()
    }

    /// The directory that the agent writes the file in, absolute.
    pub fn directory_for_agent(&self) -> PathBuf {
        if let Some(staged) = &self.staged {
            return staged.directory().to_owned();
        }
        let mut path = self.directory.path_for_agent();
        path.extend(&self.parents);
        path
    }

    /// The directory that the file is in, absolute.
    fn directory_of_file(&self) -> PathBuf {
        let mut path = self.directory.path();
        path.extend(&self.parents);
        path
    }

    /// Makes the directories and takes possession of the file, under the next name that is free where
    /// this one was not requested.
    ///
    /// # Errors
    /// As [`Output::plan`].
    pub fn prepare(&mut self) -> Result<()> {
        std::fs::create_dir_all(&self.directory.anchor)
            .at("could not make", &self.directory.anchor)?;
        match self.parent(true)? {
            Some(parent) if self.taken == IfTaken::Overwrite => {
                self.before = self.judge(&parent)?
            }
            Some(parent) => self.claim(&parent)?,
            None => {}
        }
        Ok(())
    }

    /// Makes another place for the agent to write to where the file is below a git directory.
    ///
    /// # Errors
    /// Those of `Staged::make`.
    pub fn stage(&mut self, ctx: &Ctx) -> Result<()> {
        // No sandbox lets the agent write there, so it writes elsewhere and the answer is fetched.
        // In a layer it is the agent's worktree that it writes to.
        let is_ours = self.directory.path().starts_with(ctx.repo.common_dir());
        if is_ours && self.directory.seen.is_none() {
            self.staged = Some(Staged::make(ctx)?);
        }
        Ok(())
    }

    /// Takes the answer to its place, where the agent wrote it in another one. To be called once nothing of the
    /// command is left.
    ///
    /// # Errors
    /// Those of `Staged::take_to`.
    pub fn collect(&mut self) -> Result<()> {
        let Some(staged) = self.staged.take() else {
            return Ok(());
        };
        let parent = self.parent(true)?;
        parent.map_or(Ok(false), |parent| staged.take_to(&parent, &self.name))?;
        Ok(())
    }

    /// Makes the file, empty, where there is none: of several who try only one succeeds.
    fn claim(&mut self, parent: &OwnedFd) -> Result<()> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let first = self.name.to_string_lossy().into_owned();
        let mut nth = 1;
        loop {
            // As any file that the user makes; the umask says how much of it holds.
            match openat(parent, &self.name, flags, Mode::from_raw_mode(0o666)) {
                Ok(file) => {
                    let stat = fstat(&file).map_err(|errno| unreachable(&self.path(), errno))?;
                    self.before = Some(mark(&stat));
                    self.claimed = true;
                    return Ok(());
                }
                Err(Errno::EXIST) if self.taken == IfTaken::Number => {
                    nth += 1;
                    self.name = output_file::numbered(&first, nth).into();
                }
                // One that is gone again leaves the name free.
                Err(Errno::EXIST) => {
                    self.judge(parent)?;
                }
                Err(errno) => return Err(unreachable(&self.path(), errno)),
            }
        }
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

    /// Gives the name free again where nothing was written: removes the file if it is the empty one that
    /// was made for this answer. Where that cannot be told, it stays.
    pub fn release(&mut self) {
        if !std::mem::take(&mut self.claimed) {
            return;
        }
        let Ok(Some(parent)) = self.parent(false) else {
            return;
        };
        let now = self.look(&parent).ok().flatten();
        // Only the very file that `claim` made, still empty. What anything else wrote stays.
        if now.is_some_and(|stat| stat.st_size == 0 && Some(mark(&stat)) == self.before) {
            let _ = unlinkat(&parent, &self.name, AtFlags::empty());
        }
    }

    /// The directory of the file, as [`Directory::open`] gives it.
    fn parent(&self, make: bool) -> Result<Option<OwnedFd>> {
        self.directory.open(&self.parents, make)
    }

    /// The state of the file, if its being there is no reason to refuse.
    fn judge(&self, parent: &OwnedFd) -> Result<Option<Mark>> {
        let Some(stat) = self.look(parent)? else {
            return Ok(None);
        };
        if is_link(&stat) {
            return Err(self.directory.leads_out(&self.path()));
        }
        if self.taken == IfTaken::Overwrite && is_regular(&stat) {
            // An answer as long as the last one, written right after it, would else look like that.
            wait_for_another_time([&stat].into_iter());
            return Ok(Some(mark(&stat)));
        }
        let error = Error::new(Code::OutputExists, EXISTS);
        let path = self.path();
        Err(if is_regular(&stat) {
            error.hint(format!("to see it, run cat {}", shell::path(&path)))
        } else {
            error.detail(format!("{} is no regular file", path.display()))
        })
    }

    fn look(&self, parent: &OwnedFd) -> Result<Option<Stat>> {
        match statat(parent, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(unreachable(&self.path(), errno)),
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.release();
    }
}

fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
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
        // The time of the change cannot be set by a program, as that of writing can.
        stat.st_ctime as i64,
        stat.st_ctime_nsec as i64,
    )
}

// Which directory answers go to, and how much of the way to it is trusted.

/// The directory of answers in an agent's bundle.
const DIRECTORY: &str = "output";

/// An output directory.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OutputDirectory {
    /// The part that is trusted, symbolic links followed.
    pub anchor: PathBuf,
    /// Where the agent sees that, if at another place: its worktree, of which what it changes is elsewhere as long as nothing mounts it.
    pub seen: Option<PathBuf>,
    /// Whether a setting names it, so that it need not be the agent's alone.
    pub is_of_setting: bool,
    /// The names below it.
    pub inside: Vec<OsString>,
}

impl OutputDirectory {
    /// The directory that the setting names, else the one in the agent's bundle.
    fn of(ctx: &Ctx, place: &Workplace) -> Result<OutputDirectory> {
        let setting = ctx.repo.config_string("agent.outputDir")?;
        let Some(setting) = setting.filter(|setting| !setting.is_empty()) else {
            // A shared agent's bundle is among our own files, whose directory the agent cannot replace.
            let anchor = match place.bundle.strip_prefix(&place.directory) {
                Ok(_) => place.directory.as_path(),
                Err(_) => place.bundle.parent().unwrap_or(&place.bundle),
            };
            let bundle = place.bundle.strip_prefix(anchor).unwrap_or(&place.bundle);
            return Ok(OutputDirectory {
                anchor: anchor.to_owned(),
                seen: None,
                is_of_setting: false,
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
            return Ok(OutputDirectory {
                anchor: real_path(&ctx.absolute(path)).ok_or_else(invalid)?,
                seen: None,
                is_of_setting: true,
                inside: Vec::new(),
            });
        }
        Ok(OutputDirectory {
            anchor: place.directory.clone(),
            seen: None,
            is_of_setting: true,
            inside: names(path).ok_or_else(invalid)?,
        })
    }

    /// Leads into the layer of an agent whose worktree has one, if that is where the directory is.
    ///
    /// # Errors
    /// `path-invalid` for one beside the bundle, of which the base may hold a part.
    fn enter_layer(&mut self, ctx: &Ctx, agent: AgentId) -> Result<()> {
        let layer = layered::of(&ctx.repo, agent);
        let worktree = ctx.repo.worktree(&layout::worktree_name(agent)).map(|found| found.path);
        let Some(layer) =
            layer.filter(|_| worktree.is_some() && worktree == real_path(&self.anchor))
        else {
            return Ok(());
        };
        if self.is_of_setting {
            let what = "agent.outputDir leads into the agent's worktree, which is layered";
            return Err(Error::new(Code::PathInvalid, what)
                .remedy("to make an ordinary worktree of it", Remedy::Materialize(agent.short()))
                .hint("to use the default, run git config --unset agent.outputDir"));
        }
        self.seen = Some(std::mem::replace(&mut self.anchor, layer.upper));
        Ok(())
    }

    /// The directory, absolute.
    fn path(&self) -> PathBuf {
        let mut path = self.anchor.clone();
        path.extend(&self.inside);
        path
    }

    /// As [`OutputDirectory::path`], as the agent sees it.
    fn path_for_agent(&self) -> PathBuf {
        let mut path = self.seen.as_ref().unwrap_or(&self.anchor).clone();
        path.extend(&self.inside);
        path
    }

    /// The directory that `parents` lead to from this one, reached without a symbolic link; `None` where it
    /// does not exist and is not to be made.
    ///
    /// # Errors
    /// `output-outside` for a symbolic link on the way, `io`.
    fn open(&self, parents: &[OsString], make: bool) -> Result<Option<OwnedFd>> {
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
    fn leads_out(&self, link: &Path) -> Error {
        Error::new(Code::OutputOutside, OutputProblem::Outside.as_str())
            .detail(format!("{} is a symbolic link", link.display()))
            .hint(self.hint())
    }

    /// What to say of a name that is not below it.
    fn hint(&self) -> String {
        format!(
            "the output directory is {}; to choose another one, run git config agent.outputDir <directory>",
            self.path().display()
        )
    }
}

/// What is said of a path that cannot be used.
fn unreachable(path: &Path, errno: Errno) -> Error {
    Error::io(format!("could not use {} for output", path.display()), errno.into())
}

/// Whether this is a symbolic link.
fn is_link(stat: &Stat) -> bool {
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

// An answer on its way: written where the agent's host writes, taken to its place when the command is over.

/// The longest answer that is taken, in bytes.
const LONGEST: u64 = 256 << 20;

/// A directory for one answer, outside of every repository. Hosts refuse to write below a git directory, where the
/// bundle of an agent without a worktree is, and the agent can write nothing but this.
struct Staged(Scratch);

impl Staged {
    /// Makes the directory. No file is in it: some hosts write over none that they have not read.
    ///
    /// # Errors
    /// Those of [`Scratch::make`].
    fn make(ctx: &Ctx) -> Result<Staged> {
        Scratch::make(ctx, "answer").map(Staged)
    }

    fn directory(&self) -> &Path {
        self.0.path()
    }

    /// Takes the answer to the file of that name in a directory, all of it by one rename; `false` where there is
    /// none: nothing, a symbolic link, or anything else that is no regular file.
    ///
    /// # Errors
    /// `io`, `disk-full`; `output-outside` for an answer without measure.
    fn take_to(&self, parent: &OwnedFd, name: &OsStr) -> Result<bool> {
        let Some(answer) = untrusted::open(self.0.path(), Path::new(name)) else {
            return Ok(false);
        };
        let mut next = OsString::from(".");
        next.push(name);
        next.push(".new");
        let fail = |error: io::Error| Error::io("could not take the answer to its place", error);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(0o666);
        let file = openat(parent, &next, flags | OFlags::CLOEXEC, mode);
        let file = file.map_err(|errno| unreachable(Path::new(&next), errno))?;
        let copied = io::copy(&mut answer.take(LONGEST + 1), &mut File::from(file));
        let taken = copied.map_err(fail).and_then(|length| {
            if length > LONGEST {
                let message = format!("the answer is longer than {} MiB", LONGEST >> 20);
                return Err(Error::new(Code::OutputOutside, message));
            }
            renameat(parent, &next, parent, name).map_err(|errno| fail(errno.into()))
        });
        if taken.is_err() {
            let _ = unlinkat(parent, &next, AtFlags::empty());
        }
        taken.map(|()| true)
    }
}

impl fmt::Debug for Staged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.path().fmt(f)
    }
}
