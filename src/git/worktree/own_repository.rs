//! A complete repository for one worktree: its branch, the history of that, and objects of its own.
//!
//! It shares nothing. With the repository's objects as alternates it would be smaller, but a container or another user
//! would have to see the repository's objects, all of them and at the same path, and a repository that goes away would take
//! the clone's history along. Hard links would let a command in the clone write into the repository's packs. So the
//! objects that the branch leads to are packed once more; git reuses the deltas that it finds.
//!
//! Settings are written, not copied: those of the repository name programs that the clone's machine need not have.

use crate::domain::Oid;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::config::quoted;
use crate::git::files::untrusted;
use crate::git::objects::Identity;
use crate::git::{Repo, core::command};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, mkdirat, openat, renameat, renameat_with, unlinkat,
};
use rustix::io::Errno;
use std::fmt::Write;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// The longest index that is copied, in bytes.
const LONGEST_INDEX: u64 = 1 << 30;

/// Settings that say how files of this file system are compared, and how lines end.
const FILES: [&str; 8] = [
    "core.filemode",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.symlinks",
    "core.autocrlf",
    "core.eol",
    "core.safecrlf",
    "core.abbrev",
];

/// A repository that is to be made.
#[derive(Clone, Copy, Debug)]
pub struct OwnRepository<'a> {
    /// The worktree's admin directory, whose index it gets.
    pub admin_dir: &'a Path,
    /// The full name of the branch that is checked out.
    pub branch: &'a str,
    /// Where that is.
    pub tip: Oid,
    /// The branch that the agent started from, and where.
    pub base: Option<(&'a str, Oid)>,
    /// Objects that no commit names.
    pub besides: &'a [Oid],
    /// Who commits there: name and address.
    pub who: Option<(&'a str, &'a str)>,
    /// The directory of its hooks, relative to the worktree.
    pub hooks: &'a str,
}

impl Repo {
    /// Fails where no complete repository can be made of this one.
    ///
    /// # Errors
    /// `usage`.
    pub fn require_cloneable(&self) -> Result<()> {
        let why = if self.is_partial() {
            "a partial clone lacks objects that another one would need"
        } else if self.config_bool("core.sparseCheckout")? == Some(true) {
            "the checkout is sparse, and a clone would be complete"
        } else {
            return Ok(());
        };
        let what = format!("no agent can get a clone of its own here: {why}");
        Err(Error::new(Code::Usage, what)
            .hint("to give the agent a worktree, leave --isolation=clone out"))
    }

    /// Makes the repository in a directory that does not exist. Gives the names of its packs.
    ///
    /// # Errors
    /// `git-failed`, `git-missing`, `io`, `disk-full`.
    pub fn make_own_repository(
        &self,
        directory: &Path,
        new: &OwnRepository<'_>,
    ) -> Result<Vec<String>> {
        // 1. The objects, which git names by what they hold.
        for inside in ["objects/pack", "objects/info", "refs/heads", "refs/tags", "logs", "info"] {
            make(&directory.join(inside))?;
        }
        let packs = self.pack_for(directory, new)?;
        // 2. The refs, and where HEAD is.
        let refs = new.base.into_iter().chain([(new.branch, new.tip)]);
        for (name, oid) in refs {
            let file = directory.join(name);
            make(file.parent().unwrap_or(directory))?;
            write(&file, &format!("{oid}\n"))?;
        }
        write(&directory.join("HEAD"), &format!("ref: {}\n", new.branch))?;
        // 3. What is as in the worktree: the index, which knows these very files, and the rules of what counts.
        let index = new.admin_dir.join("index");
        // Dated as the original: an index that looks younger than it is hides changes of that
        // moment.
        untrusted::copy_as_old(&index, &directory.join("index"), LONGEST_INDEX)?;
        for file in ["info/exclude", "info/attributes", "shallow"] {
            let from = self.common_dir().join(file);
            if from.is_file() {
                fs::copy(&from, directory.join(file)).at("could not copy", &from)?;
            }
        }
        // 4. Its settings.
        write(&directory.join("config"), &self.settings_for(new)?)?;
        Ok(packs)
    }

    /// Packs what the refs lead to.
    fn pack_for(&self, directory: &Path, new: &OwnRepository<'_>) -> Result<Vec<String>> {
        let mut git = command::git(self.common_dir());
        git.arg("--git-dir").arg(self.common_dir());
        git.args(["pack-objects", "--revs", "--quiet"]);
        git.arg(directory.join("objects/pack/pack"));
        let base = new.base.map(|(_, oid)| oid);
        let wanted = [new.tip].into_iter().chain(base).chain(new.besides.iter().copied());
        let wanted: String = wanted.map(|oid| format!("{oid}\n")).collect();
        let output = command::feed(git, wanted.as_bytes())?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(Error::new(Code::GitFailed, "git could not pack the objects of a clone")
                .because(why));
        }
        let named = String::from_utf8_lossy(&output.stdout);
        Ok(named.lines().map(|name| format!("pack-{name}.pack")).collect())
    }

    fn settings_for(&self, new: &OwnRepository<'_>) -> Result<String> {
        let mut text =
            "[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tlogallrefupdates = true\n"
                .to_owned();
        // Writing to a string does not fail.
        for key in FILES {
            if let (Some((_, name)), Some(value)) = (key.split_once('.'), self.config_string(key)?)
            {
                let _ = writeln!(text, "\t{name} = {}", quoted(&value));
            }
        }
        let _ = writeln!(text, "\thooksPath = {}", quoted(new.hooks));
        if let Some((name, email)) = new.who {
            let _ =
                writeln!(text, "[user]\n\tname = {}\n\temail = {}", quoted(name), quoted(email));
        }
        // What git would clear away here is not missed, and a long repack is in the way of the work.
        text.push_str("[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n");
        Ok(text)
    }
}

/// Puts a repository into the place of a worktree's `.git` file, in one step where the file system can exchange two names.
///
/// # Errors
/// `io`.
pub fn take_place_of_pointer(worktree: &Path, made: &Path) -> Result<()> {
    let file = worktree.join(".git");
    if renameat_with(CWD, made, CWD, &file, RenameFlags::EXCHANGE).is_err() {
        // Without an exchange there is a moment in which the worktree has no `.git`, which nothing
        // can avoid.
        let aside: PathBuf = made.with_extension("pointer");
        fs::rename(&file, &aside).at("could not move", &file)?;
        fs::rename(made, &file).at("could not move", made)?;
        return fs::remove_file(&aside).at("could not remove", &aside);
    }
    fs::remove_file(made).at("could not remove", made)
}

/// The repository of its own that a worktree has; `None` where its `.git` is no directory.
pub fn own_repository_in(worktree: &Path) -> Option<PathBuf> {
    let own = worktree.join(".git");
    fs::symlink_metadata(&own).is_ok_and(|found| found.is_dir()).then_some(own)
}

/// A history of ours that such a repository is given: full name of the ref, and what each of its commits says and notes.
pub struct OwnHistory<'a> {
    /// The ref.
    pub name: &'a str,
    /// The commits, oldest first, which add no files but notes.
    pub commits: Vec<OwnCommit>,
}

/// A commit of an [`OwnHistory`].
pub struct OwnCommit {
    /// The whole message.
    pub message: String,
    /// A note of this object.
    pub note: Option<(Oid, Vec<u8>)>,
}

/// Gives such a repository histories, each in the place of the one there. git writes them in `scratch`, a directory that does not exist
/// yet and that no agent can write; what it wrote is then added as files, and nothing that the repository leads to is followed.
///
/// # Errors
/// `git-failed`, `git-missing`, `io`.
pub fn write_histories(repository: &Path, scratch: &Path, all: &[OwnHistory<'_>]) -> Result<()> {
    let added = histories_in(scratch, all).and_then(|()| {
        let files = untrusted::files(scratch);
        // A ref comes after what it leads to.
        let (objects, others): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|file| file.starts_with("objects"));
        let is_ref = |file: &PathBuf| all.iter().any(|one| file == Path::new(one.name));
        for file in objects.into_iter().chain(others.into_iter().filter(is_ref)) {
            let from = scratch.join(&file);
            let content = fs::read(&from).at("could not read", &from)?;
            create(repository, &file, &content).at("could not write", repository.join(&file))?;
        }
        Ok(())
    });
    let _ = fs::remove_dir_all(scratch);
    added
}

/// Has git write histories, and what they consist of, to a new repository, which has nothing else.
fn histories_in(scratch: &Path, all: &[OwnHistory<'_>]) -> Result<()> {
    make(&scratch.join("refs"))?;
    make(&scratch.join("objects"))?;
    write(&scratch.join("HEAD"), "ref: refs/heads/main\n")?;
    let who = Identity::stand_in(0);
    let mut feed = Vec::new();
    for (one, commit) in all.iter().flat_map(|one| one.commits.iter().map(move |it| (one, it))) {
        // Writing to a vector does not fail.
        let _ = write!(
            feed,
            "commit {}\ncommitter {} <{}> 0 +0000\ndata {}\n{}\n",
            one.name,
            who.name,
            who.email,
            commit.message.len(),
            commit.message
        );
        if let Some((noted, body)) = &commit.note {
            let _ = write!(feed, "M 100644 inline {noted}\ndata {}\n", body.len());
            feed.extend_from_slice(body);
            feed.push(b'\n');
        }
    }
    let mut git = command::git(scratch);
    git.arg("--git-dir").arg(scratch);
    // As single objects: of a pack it is not known which of its objects are new.
    git.args(["-c", "core.hooksPath=/dev/null", "-c", "fastimport.unpackLimit=1000000"]);
    git.args(["fast-import", "--quiet", "--date-format=raw"]);
    let output = command::feed(git, &feed)?;
    if output.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Error::new(Code::GitFailed, "git could not write what a clone is to have").because(why))
}

/// Puts a file into a repository, with the directories above it. No link is followed, and a file that is there is replaced.
pub(super) fn create(top: &Path, relative: &Path, content: &[u8]) -> std::io::Result<()> {
    // Each directory is opened by its name in the one above, because the agent can put a link in
    // the place of any of them.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::DIRECTORY;
    let mut directory = openat(CWD, top, flags, Mode::empty())?;
    for part in relative.parent().into_iter().flat_map(Path::iter) {
        match mkdirat(&directory, part, Mode::from_raw_mode(0o777)) {
            Err(error) if error != Errno::EXIST => return Err(error.into()),
            _ => directory = openat(&directory, part, flags, Mode::empty())?,
        }
    }
    let name = relative.file_name().unwrap_or_default();
    let new = Path::new("git-agent.new");
    // A kill has left this, or the agent has put it there.
    let _ = unlinkat(&directory, new, AtFlags::empty());
    // A file of that name which appears in between makes this fail, and is not written through.
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = openat(&directory, new, flags, Mode::from_raw_mode(0o644))?;
    fs::File::from(file).write_all(content)?;
    // Into place by a rename, because a reader in the clone must never see half an object.
    Ok(renameat(&directory, new, &directory, name)?)
}

fn make(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).at("could not make", directory)
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).at("could not write", path)
}
