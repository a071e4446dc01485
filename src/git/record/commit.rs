//! Committing as the user would: in a worktree by the user's own `git commit`, with every hook; in the object
//! database alone with the user's signature. Also the trailers of a message that is about to be used.

use crate::domain::Oid;
use crate::domain::paths::change::Content;
use crate::domain::paths::path::split_name;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::config::Identities;
use crate::git::files::lock_file::is_same_file;
use crate::git::files::untrusted;
use crate::git::landing::{Checkout, FEW, FastCheckout, copy_with_time, index_line};
use crate::git::objects::NewCommit;
use crate::git::refs::Tip;
use crate::git::worktree::view::WorktreeView;
use crate::git::worktree::{BranchCopy, moved_meanwhile};
use crate::git::{Repo, core::command};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};

/// What `git commit` is asked for.
pub struct ToCommit<'a> {
    /// The file with the message.
    pub message: &'a Path,
    /// The index, where it is not the worktree's own.
    pub index: Option<&'a Path>,
    /// The directory of the hooks that run, where it is not what the settings say.
    pub hooks: Option<&'a Path>,
    /// Further variables of the environment.
    pub environment: &'a [(&'static str, PathBuf)],
}

/// What to do where a commit cannot be signed.
const SIGNING: &str =
    "to see how commits are signed, run git config --get-regexp '^(gpg|user.signingkey)'";

impl Checkout {
    /// Writes to `copy` an index in which these paths are as HEAD has them, and all others as staged.
    ///
    /// # Errors
    /// `io`, `git-failed`.
    pub fn index_without(&self, paths: &[Vec<u8>], copy: &Path) -> Result<()> {
        let index = self.git_dir.join("index");
        copy_with_time(&index, copy)?;
        let mut command = self.git();
        command.env("GIT_INDEX_FILE", copy).args([
            "reset",
            "--quiet",
            "--pathspec-from-file=-",
            "--pathspec-file-nul",
        ]);
        // A path may contain `*` or begin with a colon, and here it means itself.
        command.env("GIT_LITERAL_PATHSPECS", "1");
        command::feed_paths(command, paths).map(drop)
    }

    /// Commits what is staged, here or in another `index`, with the message in a file. Gives the new
    /// HEAD. The worktree is one that is looked at through a view, and on a branch.
    ///
    /// Git locks nothing that is shared: it moves a copy of the branch and writes a copy of the index, which then become
    /// the branch and the index.
    ///
    /// # Errors
    /// `commit-refused` with what git and the hooks said; `lost-race` when the branch moved meanwhile; `lock-timeout`.
    pub fn commit(&self, repo: &Repo, new: &ToCommit<'_>, who: &Identities) -> Result<Oid> {
        let (Some(view), head) = (&self.view, self.head()) else {
            return Err(Error::bug("a commit is made through a view"));
        };
        let branch = head.strip_prefix("ref: ").unwrap_or_default();
        let own = BranchCopy::make(repo, view, branch)?;
        // 1. The commit, on copies.
        let staged = match new.index {
            // An index of the caller's is a scratch file already and needs no copy.
            Some(_) => None,
            None => Some(IndexCopy::make(self, view)?),
        };
        let index = staged.as_ref().map(|staged| staged.copy.as_path());
        let commit = self.commit_copies(new, index, who);
        let kept = own.keep_files();
        let commit = commit?;
        kept?;
        // 2. What git and the hooks made of the index, then the branch: from the index, a branch that lags behind has
        // everything staged.
        if let Some(staged) = staged {
            staged.publish(self)?;
        }
        let log = untrusted::log(view.git_dir(), Path::new("logs/HEAD"));
        let log = String::from_utf8_lossy(&log);
        let reason = log.lines().last().and_then(|line| line.split_once('\t'));
        // A user may have switched reflogs off; the branch gets an entry all the same where it has
        // a log.
        let reason = reason.map_or("commit", |(_, reason)| reason);
        own.publish(commit, &who.committer, reason)?;
        // Last, because an entry for a commit that did not become the branch's would mislead.
        self.keep_reflog()?;
        Ok(commit)
    }

    /// Makes a tree that is staged the next commit of the branch, as [`Checkout::commit`] does where neither hooks nor
    /// settings have a say in it. `tip` is where the branch was when the tree was made.
    ///
    /// # Errors
    /// `lost-race` when the branch moved meanwhile; `lock-timeout`; those of writing a commit.
    pub fn commit_staged(
        &self,
        repo: &Repo,
        (tip, tree): (Oid, Oid),
        message: &str,
        who: &Identities,
    ) -> Result<Oid> {
        let head = self.head();
        let branch = head.strip_prefix("ref: ").unwrap_or_default();
        let commit = repo.write_commit(&who.commit(tree, &[tip], message))?;
        let reason = format!("commit: {}", message.lines().next().unwrap_or_default());
        let own = Repo::open_git_dir(&self.git_dir)?;
        if own.swap_ref_in_time(branch, Tip::At(tip), commit, &who.committer, &reason)? {
            return Ok(commit);
        }
        Err(moved_meanwhile(branch, commit))
    }

    fn commit_copies(
        &self,
        new: &ToCommit<'_>,
        index: Option<&Path>,
        who: &Identities,
    ) -> Result<Oid> {
        let (message, index) = (new.message, new.index.or(index));
        let mut command = self.git();
        if let Some(directory) = new.hooks {
            let mut setting = OsString::from("core.hooksPath=");
            setting.push(directory);
            command.arg("-c").arg(setting);
        }
        command.envs(new.environment.iter().map(|(name, value)| (name, value)));
        command
            .args(["commit", "--quiet", "--file"])
            .arg(message)
            // Settings such as `commit.verbose` or a hook can ask for an editor, which would wait
            // for a person.
            .env("GIT_EDITOR", ":");
        if let Some(index) = index {
            command.env("GIT_INDEX_FILE", index);
        }
        // Git itself refuses to commit without an identity.
        if who.stand_in {
            for (role, identity) in [("AUTHOR", &who.author), ("COMMITTER", &who.committer)] {
                command.env(format!("GIT_{role}_NAME"), &identity.name);
                command.env(format!("GIT_{role}_EMAIL"), &identity.email);
            }
        }
        let output = command::finish(&mut command)?;
        if !output.status.success() {
            // Hooks print to either stream.
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said).trim().to_owned();
            let what = format!("git commit in {} did not go through", self.top.display());
            let mut error = self
                .with_status(Error::new(Code::CommitRefused, what), "to see what it would hold");
            if said.contains("gpg failed to sign") || said.contains("failed to write commit object")
            {
                error = error.hint(SIGNING);
            }
            return Err(error.because(said));
        }
        let mut command = self.git();
        command.args(["rev-parse", "--verify", "HEAD"]);
        command::named(&command::successful(command)?)
    }
}

/// A copy of a worktree's index, on which git works without a lock.
struct IndexCopy {
    copy: PathBuf,
    /// The index as it was copied, open so that its inode number is not given to the one that takes its place.
    of: File,
}

impl IndexCopy {
    fn make(checkout: &Checkout, view: &WorktreeView) -> Result<IndexCopy> {
        let index = checkout.git_dir.join("index");
        let copy = view.room().join("index");
        let of = copy_with_time(&index, &copy)?;
        Ok(IndexCopy { copy, of })
    }

    /// Makes the copy the index, unless another process wrote that meanwhile: git leaves it at that, too.
    fn publish(self, checkout: &Checkout) -> Result<()> {
        let lock = checkout.lock_index()?;
        let index = checkout.git_dir.join("index");
        if !is_same_file(&self.of, &index) {
            return Ok(());
        }
        lock.publish_by(|mut body| {
            let copy = untrusted::open_at(&self.copy);
            let mut copy = copy.ok_or(std::io::ErrorKind::NotFound)?;
            std::io::copy(&mut copy, &mut body)?;
            // An index that looks younger than it is hides changes of that moment.
            body.set_modified(copy.metadata()?.modified()?)
        })
    }
}

impl Checkout {
    /// Adds what git wrote to the reflog of `HEAD` in a view to that of the worktree.
    fn keep_reflog(&self) -> Result<()> {
        let Some(view) = &self.view else {
            return Ok(());
        };
        let lines = untrusted::log(view.git_dir(), Path::new("logs/HEAD"));
        if lines.is_empty() {
            return Ok(());
        }
        let log = untrusted::append(&self.git_dir, Path::new("logs/HEAD"), &lines);
        log.at("could not write", self.git_dir.join("logs/HEAD"))
    }
}

impl Repo {
    /// Writes a commit as the user's git would for a merge of its own: signed where `commit.gpgSign` says so,
    /// with whatever `gpg.format`, `gpg.program` and `user.signingKey` name. Touches no ref. A signed one gets no
    /// header besides git's own.
    ///
    /// # Errors
    /// `commit-refused` when it cannot be signed; as [`Repo::write_commit`].
    pub fn write_commit_as_user(&self, new: &NewCommit<'_>) -> Result<Oid> {
        if self.config_bool("commit.gpgSign")? != Some(true) {
            return self.write_commit(new);
        }
        self.write_signed_commit(new, "commit.gpgSign is set, and git could not sign the commit")
    }

    /// Writes a commit that git signs, whatever `commit.gpgSign` says. Touches no ref, and writes no header besides
    /// git's own. `failure` says what could not be done.
    ///
    /// # Errors
    /// `commit-refused` when it cannot be signed; `git-missing`, `git-failed`.
    pub fn write_signed_commit(&self, new: &NewCommit<'_>, failure: &str) -> Result<Oid> {
        let mut command = self.plumbing();
        command.args(["commit-tree", "-S", &new.tree.to_hex()]);
        for parent in new.parents {
            command.args(["-p", &parent.to_hex()]);
        }
        for (role, who) in [("AUTHOR", new.author), ("COMMITTER", new.committer)] {
            command.env(format!("GIT_{role}_NAME"), &who.name);
            command.env(format!("GIT_{role}_EMAIL"), &who.email);
            // The `@` keeps git from guessing at what else the digits could mean.
            command.env(format!("GIT_{role}_DATE"), format!("@{}", who.date()));
        }
        let output = command::feed(command, new.message.as_bytes())?;
        if output.status.success() {
            return command::named(&output.stdout);
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(Error::new(Code::CommitRefused, failure).hint(SIGNING).because(said))
    }
}

// What an index holds as a tree, and letting it hold another one by touching only the paths that differ.

impl Checkout {
    /// The tree of what is staged.
    ///
    /// # Errors
    /// `git-failed` while paths are unmerged, or while another process has the index.
    pub fn staged_tree(&self, repo: &Repo) -> Result<Oid> {
        // What another process is about to put there must not be passed over.
        let is_locked = self.git_dir.join("index.lock").exists();
        if !is_locked && let Some(tree) = repo.index_tree(&self.git_dir.join("index"))? {
            return Ok(tree);
        }
        let own = self.own_index()?;
        let mut command = own.git()?;
        command.arg("write-tree");
        let tree = command::named(&command::successful(command)?)?;
        // Kept, because git has noted the trees in it, and the next question is answered without
        // git.
        own.publish()?;
        Ok(tree)
    }

    /// As [`Checkout::stage`] for an index that is known to hold the tree `old`. The next `git status` looks
    /// at the paths that differ, and at no other. The caller keeps landings away; `scratch` is a name on the
    /// index's file system that is not in use.
    ///
    /// # Errors
    /// As [`Checkout::stage`].
    pub fn restage(&self, repo: &Repo, old: Oid, new: Oid, scratch: &Path) -> Result<()> {
        if self.stage_fast(repo, old, new, scratch)? == FastCheckout::Moved {
            return Ok(());
        }
        let changes = repo.tree_changes(&[old], new)?;
        // Above that number reading the whole tree costs no more than naming each path.
        if changes.len() > FEW {
            return self.stage(new);
        }
        let paths: Vec<_> = changes.into_iter().map(|change| change.path).collect();
        // Another process has the index, or it is not as it was known: the long way waits for both.
        self.stage_from(repo, new, &paths).or_else(|_| self.stage(new))
    }

    /// Lets the index hold at these paths what a tree holds there, if anything, and leaves all others as they are.
    /// What an index can hide of a file is uncovered by it.
    ///
    /// # Errors
    /// `git-failed` while another process has the index; `repo-corrupt` when a tree is missing.
    pub fn stage_from(&self, repo: &Repo, tree: Oid, paths: &[Vec<u8>]) -> Result<()> {
        let contents = restaged_contents(repo, tree, paths)?;
        let lines: Vec<_> =
            paths.iter().zip(contents).map(|(path, content)| index_line(path, content)).collect();
        let own = self.own_index()?;
        own.feed(&["update-index", "-z", "--index-info"], &lines)?;
        own.publish()
    }
}

/// What a tree holds at each of these paths that is no directory, if anything.
pub(in crate::git) fn restaged_contents(
    repo: &Repo,
    tree: Oid,
    paths: &[Vec<u8>],
) -> Result<Vec<Option<Content>>> {
    let mut directories: HashMap<&[u8], Files> = HashMap::new();
    let mut contents = Vec::with_capacity(paths.len());
    for path in paths {
        let (directory, name) = split_name(path).unwrap_or((b"", path));
        let files = match directories.entry(directory) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(files(repo, tree, directory)?),
        };
        contents.push(files.get(name).copied());
    }
    Ok(contents)
}

/// What a directory of a tree holds that is no directory, by name.
type Files = HashMap<Vec<u8>, Content>;

/// Those of the directory at a path, which may not be there.
fn files(repo: &Repo, tree: Oid, directory: &[u8]) -> Result<Files> {
    let mut tree = tree;
    for name in directory.split(|&byte| byte == b'/') {
        if name.is_empty() {
            continue;
        }
        let mut entries = repo.read_tree(tree)?.into_iter();
        let below = entries.find(|entry| entry.name == name && entry.is_directory());
        match below {
            Some(below) => tree = below.oid,
            // A file may stand where the path has a directory; then nothing of it is in the tree.
            None => return Ok(Files::new()),
        }
    }
    let entries = repo.read_tree(tree)?.into_iter();
    let files = entries.filter(|entry| !entry.is_directory());
    Ok(files.map(|entry| (entry.name, (entry.mode, entry.oid))).collect())
}

// Trailers of a commit message that git is about to use.

/// Adds a trailer to a message file unless it has this very one. Git itself does it, because it knows
/// where comments and the diff of `commit --verbose` begin. `directory` is where git looks for its settings, which
/// can name programs: the common dir, never an agent's worktree.
///
/// # Errors
/// `git-missing`, `git-failed`.
pub fn add_trailer(directory: &Path, message: &Path, trailer: &str) -> Result<()> {
    interpret(directory, message, "--if-exists=addIfDifferent", trailer)
}

/// Adds a trailer to a message file in the place of one with the same key.
///
/// # Errors
/// As [`add_trailer`].
pub fn set_trailer(directory: &Path, message: &Path, trailer: &str) -> Result<()> {
    interpret(directory, message, "--if-exists=replace", trailer)
}

/// Whether a message holds nothing but comments, as git tells them by its settings.
///
/// # Errors
/// `git-missing`, `git-failed`, `io`.
pub fn is_comment(directory: &Path, message: &str) -> Result<bool> {
    let mut command = command::git(directory);
    command.args(["stripspace", "--strip-comments"]);
    let output = command::feed(command, message.as_bytes())?;
    Ok(output.status.success() && output.stdout.is_empty())
}

fn interpret(directory: &Path, message: &Path, if_exists: &str, trailer: &str) -> Result<()> {
    let arguments = [
        "interpret-trailers",
        "--in-place",
        // A message may hold a line of three hyphens, which would else end it.
        "--no-divider",
        if_exists,
        "--trailer",
        trailer,
        "--",
    ];
    let arguments = arguments.iter().map(OsStr::new).chain([message.as_os_str()]);
    command::run(directory, arguments).map(|_| ())
}

/// Gives a commit message with a trailer at its end, in the block of trailers that it ends with if there is one. A
/// trailer that is in that block already is not added.
pub fn appended_trailer(message: &str, trailer: &str) -> String {
    let message = message.trim();
    let trailers = git2::message_trailers_strs(message).ok();
    let known: Vec<String> = trailers
        .iter()
        .flat_map(|trailers| trailers.iter())
        .map(|(key, value)| format!("{key}: {value}"))
        .collect();
    if known.iter().any(|known| known == trailer) {
        return format!("{message}\n");
    }
    // A further trailer joins the paragraph of the others, or git would take none of them for
    // trailers.
    let separator = if known.is_empty() { "\n\n" } else { "\n" };
    format!("{message}{separator}{trailer}\n")
}

/// A commit message without the trailers that it ends with.
pub fn without_trailers(message: &str) -> &str {
    let message = message.trim();
    let (before, last) = message.rsplit_once("\n\n").unwrap_or((message, ""));
    let count = git2::message_trailers_strs(message).map_or(0, |found| found.iter().count());
    // A last paragraph that is trailers and nothing else; any other one is text.
    if count > 0 && count >= last.lines().count() && !last.is_empty() {
        before.trim_end()
    } else {
        message
    }
}

/// Gives a message as `git commit` keeps one that is not edited, without needless space.
///
/// # Errors
/// `git-failed`.
pub fn tidied_trailer(message: &str) -> Result<String> {
    git2::message_prettify(message, None)
        .map_err(|error| crate::git::repo::failed("could not read the message", error))
}
