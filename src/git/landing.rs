//! Moving worktrees along with the branch that they have checked out.
//!
//! What `git reset --keep` does, in two halves, because the ref must move by compare-and-swap in between:
//! [`Checkout::require_unblocked`] asks whether anything would be lost, [`Checkout::carry`] moves files and index.
//! Where few plain files differ, exactly those are looked at (`precheck`) and moved (`fast_checkout`). Everything else, and
//! every doubt, goes through `git read-tree -m -u` (`by_git`), which refuses to touch a changed or untracked file. It does
//! overwrite ignored files (git 2.34 and later), so those are looked for here.
//!
//! Moving an index that is already where it should be changes nothing: a landing that was killed after
//! this and before the ref moved can be repeated.

mod by_git;
mod fast_checkout;
mod interrupted;
mod obstacles;
mod plain_files;
mod precheck;
mod steps;

use crate::domain::judge::evidence::{Conflict, Unfinished};
use crate::domain::{Oid, branch_name, value::shell};
use crate::error::{Code, Error, GitPlace, Remedy, Result};
use crate::git::config::ConfigFile;
use crate::git::files::admin_dir::{rebased, taken_branch};
use crate::git::files::layer::WorktreeLayer;
use crate::git::files::untrusted;
use crate::git::history::merge::conflicts;
use crate::git::worktree::view::WorktreeView;
use crate::git::{Repo, core::command};
pub(in crate::git) use by_git::index_line;
pub(in crate::git) use fast_checkout::FastCheckout;
pub use interrupted::LandingNote;
pub(in crate::git) use precheck::copy_with_time;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
pub(in crate::git) use steps::FEW;
use steps::Way;

/// Files in a git dir that stand for something unfinished, and git's command for it.
// A bisection is not listed: it detaches HEAD, so no branch is checked out there that could move.
const UNFINISHED: [(&str, &str); 5] = [
    ("MERGE_HEAD", "merge"),
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
];

/// What is unfinished in the worktree with this git dir, each once.
pub fn unfinished(git_dir: &Path) -> Vec<Unfinished> {
    let is_there = |(file, _): &&(&str, &str)| {
        let found = git_dir.join(file).symlink_metadata();
        found.is_ok_and(|found| found.is_file() || found.is_dir())
    };
    let is_missing = |name: String| untrusted::text(git_dir, &name).is_none();
    let is_am = git_dir.join("rebase-apply/applying").is_file();
    let found = UNFINISHED.iter().filter(is_there).map(|&(file, what)| {
        if is_am && file == "rebase-apply" {
            return Unfinished { what: "am", is_broken: false };
        }
        // A rebase leads back to a branch and a commit. Where its directory does not say which, it neither goes on nor back.
        let needed = ["head-name", "onto", "orig-head"].map(|name| format!("{file}/{name}"));
        Unfinished { what, is_broken: what == "rebase" && needed.into_iter().any(is_missing) }
    });
    let mut found: Vec<_> = found.collect();
    // Several files may say the same of one operation.
    found.dedup_by_key(|unfinished| unfinished.what);
    // Of several commits to pick, one whose conflict was committed leaves nothing but the list of those that come yet. As git has it, a
    // list whose first line is none of these is no list.
    let todo = untrusted::text(git_dir, "sequencer/todo").unwrap_or_default();
    let what = match todo.split_whitespace().next() {
        Some("pick" | "p") => "cherry-pick",
        Some("revert") => "revert",
        _ => return found,
    };
    if found.is_empty() {
        found.push(Unfinished { what, is_broken: is_missing("sequencer/head".to_owned()) });
    }
    found
}

/// How often an index that another process has locked is tried, and the time in between: 5 s in all.
const ATTEMPTS: usize = 200;
const PAUSE: Duration = Duration::from_millis(25);

/// A worktree and its own git dir.
#[derive(Clone, Debug)]
pub struct Checkout {
    /// Its top.
    pub top: PathBuf,
    /// Where its HEAD and index are.
    pub git_dir: PathBuf,
    /// What git looks through where that is not ours to trust: in an agent's worktree.
    pub view: Option<Arc<WorktreeView>>,
}

impl Repo {
    /// The short name of the branch that is being rebased in the worktree that this was opened in.
    pub fn branch_being_rebased(&self) -> Option<String> {
        let name = rebased(self.git_dir())?;
        Some(branch_name(&name).to_owned())
    }

    /// The full name of the branch that the main worktree is on, by whatever name its HEAD has for it, or comes back to.
    pub fn branch_of_main(&self) -> Option<String> {
        taken_branch(self.common_dir()).map(|name| self.branch_behind(&name))
    }

    /// Every worktree, the main one first.
    ///
    /// # Errors
    /// `io`.
    pub fn every_checkout(&self) -> Result<Vec<Checkout>> {
        let main = self.main_worktree()?.map(|top| Checkout {
            top,
            git_dir: self.common_dir().to_owned(),
            view: None,
        });
        let linked = self.worktrees()?.into_iter().map(|worktree| Checkout {
            git_dir: self.admin_dir(&worktree.name),
            // The main worktree comes first and without a view: its configuration is the user's
            // own.
            top: worktree.path,
            view: None,
        });
        Ok(main.into_iter().chain(linked).collect())
    }

    /// The worktrees that have a branch checked out, the main one first.
    ///
    /// # Errors
    /// `worktree-busy` when one of them is in the middle of a merge, a rebase or the like of that branch, or not
    /// here; `main-worktree-unknown` when a repository that calls itself bare has the branch's files somewhere; `io`.
    pub fn checkouts(&self, branch: &str) -> Result<Vec<Checkout>> {
        self.require_no_unknown_files(branch)?;
        let mut checkouts = Vec::new();
        for checkout in self.every_checkout()? {
            // A rebase detaches HEAD and moves the branch only at its end, so HEAD alone would not
            // show that the branch is taken.
            let head = checkout.head();
            let head = head.strip_prefix("ref: ");
            let on = head.is_some_and(|name| self.is_of_branch(name, branch));
            let concerned = on || checkout.rebases(self, branch);
            // A merge of the user's that has not been committed yet has this branch's tip as its
            // first parent. If the branch moved beneath it, the commit would undo what landed.
            if concerned && (checkout.is_busy() || !checkout.top.is_dir()) {
                return Err(checkout.busy());
            }
            if on {
                checkouts.push(checkout);
            }
        }
        Ok(checkouts)
    }

    /// Refuses a branch whose files lie where no setting says, as `git --git-dir=… --work-tree=…` leaves them, or where `core.bare` was set
    /// by mistake. If the branch moved, the next commit there would undo what landed.
    fn require_no_unknown_files(&self, branch: &str) -> Result<()> {
        let index = self.common_dir().join("index");
        if !index.is_file()
            || self.main_worktree()?.is_some()
            || self.branch_of_main().as_deref() != Some(branch)
        {
            return Ok(());
        }
        let says = [ConfigFile::Main, ConfigFile::Shared]
            .into_iter()
            .find(|file| self.setting_in(*file, "core.bare").is_ok_and(|value| value.is_some()));
        let config =
            shell::path(&self.common_dir().join(says.unwrap_or(ConfigFile::Shared).as_str()));
        let what = format!(
            "the repository is bare, and its index says that files of {} are checked out somewhere",
            branch_name(branch)
        );
        Err(Error::new(Code::MainWorktreeUnknown, what)
            .hint(format!("if they are beside it, run git config --file {config} core.bare false"))
            .hint(format!("if they are elsewhere, run git config --file {config} core.worktree <directory> as well"))
            .hint(format!("if there are none, run rm {}", shell::path(&index))))
    }

    /// Whether a name is that of a branch, or of a symbolic ref to it, as `git branch -m` followed by `git symbolic-ref` leaves for those
    /// who know the old name.
    fn is_of_branch(&self, name: &str, branch: &str) -> bool {
        name == branch || self.branch_behind(name) == branch
    }
}

impl Checkout {
    /// The same, which git looks at through a view.
    ///
    /// # Errors
    /// As [`WorktreeView::make`].
    pub fn through_view(self, repo: &Repo, scratch: &Path) -> Result<Checkout> {
        let view = WorktreeView::make(repo, &self.git_dir, &self.top, scratch)?;
        let view = Some(Arc::new(view));
        Ok(Checkout { view, ..self })
    }

    /// How git reaches it.
    pub fn git_place(&self) -> GitPlace {
        WorktreeLayer::git_place(&self.top, &self.git_dir)
    }

    /// What its HEAD file says, without the line end.
    pub fn head(&self) -> String {
        // An agent can write its HEAD, so it is read as data: no link is followed, and its size is
        // bounded.
        let text = untrusted::text(&self.git_dir, "HEAD").unwrap_or_default();
        text.trim_end().to_owned()
    }

    /// Whether a merge, a rebase or the like is unfinished in it.
    pub fn is_busy(&self) -> bool {
        !unfinished(&self.git_dir).is_empty()
    }

    /// The error for one that is, or that is not here.
    pub fn busy(&self) -> Error {
        let top = self.top.display();
        if !self.top.is_dir() {
            return Error::new(Code::WorktreeBusy, format!("{top} is not here"))
                .hint("if it was moved, run git worktree repair in its new place")
                .hint("if it was deleted, run git worktree prune");
        }
        Error::new(
            Code::WorktreeBusy,
            format!("{top} is in the middle of a merge, a rebase or the like"),
        )
        .remedy("to see of what", Remedy::GitIn(self.git_place(), vec!["status".to_owned()]))
    }

    fn rebases(&self, repo: &Repo, branch: &str) -> bool {
        rebased(&self.git_dir).is_some_and(|name| repo.is_of_branch(&name, branch))
    }

    /// The short id of the agent whose worktree this is.
    fn agent(&self) -> Option<&str> {
        self.git_dir.file_name()?.to_str()?.strip_prefix("agent-")
    }

    /// Refuses a layered worktree that is not mounted: what is written to its place would be seen by none.
    fn require_files(&self) -> Result<()> {
        if WorktreeLayer::of(&self.git_dir).is_none() {
            return Ok(());
        }
        let what = format!("the layered worktree {} is not mounted", self.top.display());
        let id = self.agent().unwrap_or_default().to_owned();
        Err(Error::new(Code::WorktreeBusy, what)
            .remedy("to make an ordinary worktree of it", Remedy::Materialize(id.clone()))
            .unless_mounted(id))
    }

    /// Refuses if going from one commit to the other would touch a changed file, or one
    /// that git does not track. Changes no file but what a killed landing left half written. `scratch` is a name on the index's file system that is not in use.
    ///
    /// # Errors
    /// `target-dirty`, naming the paths; `git-missing`, `git-failed`, `io`.
    pub fn require_unblocked(
        &self,
        repo: &Repo,
        old: Oid,
        new_tree: Oid,
        scratch: &Path,
    ) -> Result<()> {
        self.require_files()?;
        self.undo_interrupted(repo)?;
        // The fast look comes first: git's rehearsal reads and refreshes the whole index, which in
        // a large worktree costs more than everything else here.
        let look = self.look(repo, (repo.tree_of(old)?, new_tree), scratch);
        let _ = fs::remove_file(scratch);
        if look?.is_some() {
            return Ok(());
        }
        // Looking takes no lock and changes nothing, so git looks at a copy of the index.
        let index = self.git_dir.join("index");
        if index.exists() {
            precheck::copy_with_time(&index, scratch)?;
        }
        let way = Way::between(repo, old, new_tree, new_tree);
        // The rehearsal is what names the files in the way, so it runs even where the look already
        // knows that the answer is no.
        let rehearsed = way.and_then(|way| self.rehearse(way, scratch));
        let _ = fs::remove_file(scratch);
        rehearsed.map(|_| ())
    }

    /// Moves index and files from one commit to another, as [`Checkout::require_unblocked`] allows; where
    /// it refuses, nothing has moved. The caller keeps other landings away, names a `scratch` as there, is told
    /// of each step that it has `reached`, and drops the note once the branch has moved too: if it is killed before that, the next
    /// landing moves index and files back.
    ///
    /// # Errors
    /// `target-dirty`, naming the paths; `lock-timeout`; `git-failed`, `io`, `disk-full`, which says where files could not be
    /// moved back.
    pub fn carry(
        &self,
        repo: &Repo,
        (old, new): (Oid, Oid),
        scratch: &Path,
        reached: &dyn Fn(&str),
    ) -> Result<LandingNote> {
        self.require_files()?;
        let new_tree = repo.tree_of(new)?;
        let trees = (repo.tree_of(old)?, new_tree);
        // The killed landing is undone before the new note is written, because both are the same
        // file: the new one would overwrite the trees that say what to undo.
        self.undo_interrupted(repo)?;
        let mut note = self.note_landing(trees)?;
        // The fast way gives the work back only while nothing has moved, so git starts from what
        // the index says.
        let moved = self.fast_checkout(repo, trees, scratch, (&mut note, reached))?;
        if moved == FastCheckout::LeftToGit {
            self.carry_by_git(Way::between(repo, old, new, new_tree)?, Some(&mut note))?;
        }
        Ok(note)
    }

    /// Moves index and files back from the second commit to the first, where [`Checkout::carry`] has moved them and the branch
    /// did not follow. If this is killed, the next landing completes it by the note of the way there.
    ///
    /// # Errors
    /// `target-dirty`, naming the paths; `lock-timeout`; `git-failed`, `io`, `disk-full`.
    pub fn carry_back(&self, repo: &Repo, (old, new): (Oid, Oid), note: LandingNote) -> Result<()> {
        let old_tree = repo.tree_of(old)?;
        let moved = self.carry_by_git(Way::between(repo, new, old, old_tree)?, None);
        drop(note);
        moved
    }

    /// Lets the index hold a tree, without touching a file.
    ///
    /// # Errors
    /// `git-failed`, `lock-timeout` while another process has the index.
    pub fn stage(&self, tree: Oid) -> Result<()> {
        let own = self.own_index()?;
        let mut command = own.git()?;
        // Not `-m`, which refuses an index that is behind its files: that is what is to be mended here.
        command.args(["read-tree", "--reset", &tree.to_hex()]);
        let mut output = command::finish(&mut command)?;
        if !output.status.success() {
            // It does not pass over a file that it was told to pass over, once that one has changed.
            self.uncover(&own)?;
            output = command::finish(&mut command)?;
        }
        if !output.status.success() {
            return Err(command::refused(&command, &output));
        }
        // `read-tree` leaves entries without stat data, and the next `git status` would read each
        // of these files.
        refresh_by(own.git()?)?;
        own.publish()
    }

    /// Lets index and files hold a commit. Changed files are overwritten and untracked ones removed; ignored ones stay.
    ///
    /// # Errors
    /// `git-failed`, also where the index is locked.
    pub fn check_out(&self, commit: Oid) -> Result<()> {
        self.require_files()?;
        let commit = commit.to_hex();
        for words in [
            // `--reset -u` overwrites what is tracked; `clean` with `-ff` also removes an untracked
            // directory that is a repository of its own, which a single `-f` leaves. Without `-x`
            // what is ignored stays.
            &["read-tree", "--reset", "-u", &commit][..],
            &["clean", "-ffdq"],
        ] {
            let mut command = self.git();
            command.args(words);
            let output = command::finish(&mut command)?;
            if !output.status.success() {
                return Err(command::refused(&command, &output));
            }
        }
        Ok(())
    }

    /// Moves index and files from a tree that they hold to a commit, by a git that is started `within` something else.
    ///
    /// # Errors
    /// `git-failed`, also where a file is in the way.
    pub fn move_within(
        &self,
        tree: Oid,
        commit: Oid,
        within: &dyn Fn(&Command) -> Command,
    ) -> Result<()> {
        let mut command = self.git();
        command.args(["read-tree", "-m", "-u", &tree.to_hex(), &commit.to_hex()]);
        let output = command::finish(&mut within(&command))?;
        if output.status.success() {
            return Ok(());
        }
        Err(command::refused(&command, &output))
    }

    /// A git command on exactly this worktree.
    pub(in crate::git) fn git(&self) -> Command {
        if let Some(view) = &self.view {
            return view.git();
        }
        let mut command = command::git(&self.top);
        // The main worktree's index lies beside its `HEAD`, and stays split if its user has it so.
        if self.common_dir() == self.git_dir {
            for (name, _) in command::WHOLE_INDEX {
                command.env_remove(name);
            }
        }
        command
            // Both are named, so that git neither searches upwards nor follows a `.git` file that
            // says otherwise. Messages are compared, so they come untranslated.
            .env("GIT_DIR", &self.git_dir)
            .env("GIT_WORK_TREE", &self.top)
            .env("LC_ALL", "C");
        command
    }

    /// A directory for temporary files that no agent can write.
    fn room(&self) -> &Path {
        self.view.as_ref().map_or(&self.git_dir, |view| view.room())
    }

    fn locked_out(&self) -> Error {
        let lock = self.lock_path();
        let what = format!("waited too long for the index lock {}", lock.display());
        let lock = shell::path(&lock);
        Error::new(Code::LockTimeout, what)
            .hint(format!("to clear it when no git process is at work, run rm {lock}"))
    }
}

/// Lets git compare the content of files whose stat data differ from an index, and note what it finds.
fn refresh_by(mut git: Command) -> Result<()> {
    git.args(["update-index", "-q", "--refresh"]);
    // It fails where files differ, too.
    command::finish(&mut git).map(|_| ())
}

/// The checkout of an agent's worktree, whatever it has checked out. `scratch` is a directory that the agent cannot
/// write.
///
/// # Errors
/// As [`WorktreeView::make`].
pub fn linked_at(repo: &Repo, name: &str, top: &Path, scratch: &Path) -> Result<Checkout> {
    let checkout = Checkout { top: top.to_owned(), git_dir: repo.admin_dir(name), view: None };
    checkout.through_view(repo, scratch)
}

// A merge that conflicts, left in a worktree as `git merge` leaves it.
//
// Git itself merges, in memory (`git merge-tree`), and the files go the way of every landing, so that a changed file is in
// the way and a kill is undone. What `git merge` would have done in one go is done after that: the index gets the three
// sides of each path in conflict, and the admin directory the files that say what is being merged (the caller's part,
// because agents can write there).

/// What a merge gave that conflicts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConflictedMerge {
    /// The tree with conflict markers.
    pub tree: Oid,
    /// Where it conflicts and how, ordered by path.
    pub conflicts: Vec<Conflict>,
    /// The sides of each path, as lines of `git update-index --index-info`.
    stages: Vec<Vec<u8>>,
}

impl Checkout {
    /// The commit that is being merged in this worktree; `None` where none is, or several are.
    pub fn merge_head(&self) -> Option<Oid> {
        let text = untrusted::text(&self.git_dir, "MERGE_HEAD")?;
        // An octopus merge has one line for each head, so it is no single name.
        Oid::from_hex(text.trim_end())
    }

    /// Merges two commits in memory as [`Repo::merge`] does, with markers that show the base as well, unless the user's
    /// `merge.conflictStyle` says otherwise. `None` where nothing conflicts. The worktree is one that is looked at through a view.
    ///
    /// # Errors
    /// `update-conflicts` where git is older than 2.38, which cannot tell; `git-missing`, `git-failed`, `io`.
    pub fn conflicted_merge(
        &self,
        repo: &Repo,
        ours: Oid,
        theirs: Oid,
    ) -> Result<Option<ConflictedMerge>> {
        let view = self.view.as_ref();
        let view = view.ok_or_else(|| Error::bug("an agent's worktree has a view"))?;
        let style = repo.config_string("merge.conflictStyle")?;
        // The names that git is given stand beside the markers, and an agent knows these two; the view is ours alone.
        let before = format!("{}\n", self.head());
        view.write("HEAD", format!("{ours}\n").as_bytes())?;
        view.write("MERGE_HEAD", format!("{theirs}\n").as_bytes())?;
        let mut git = view.git();
        // Git starts merge drivers where it stands, and no file there may be the agent's. It needs no worktree for this.
        git.current_dir(repo.common_dir());
        // Merge drivers and line ends are chosen by attributes. They come from the commit, not from
        // files that the agent has in its worktree.
        git.env("GIT_ATTR_SOURCE", ours.to_hex())
            // Replacement refs and grafts would let git merge other commits than the two that are
            // named.
            .env("GIT_NO_REPLACE_OBJECTS", "1")
            .env("GIT_GRAFT_FILE", "/dev/null");
        if style.is_none() {
            git.args(["-c", "merge.conflictStyle=zdiff3"]);
        }
        git.args(["merge-tree", "--write-tree", "-z", "HEAD", "MERGE_HEAD"]);
        let output = command::finish(&mut git);
        // The view's HEAD returns before any error does: later commands use the same view.
        view.write("HEAD", before.as_bytes())?;
        let output = output?;
        match output.status.code() {
            // Status 0 means a clean merge, 1 a merge with conflicts, anything else a failure; only
            // 1 prints the stages.
            Some(0) => Ok(None),
            Some(1) => {
                let malformed = || Error::new(Code::GitFailed, "git merge-tree gave no answer");
                parse(&output.stdout).map(Some).ok_or_else(malformed)
            }
            _ => {
                let what = "git could not say how the merge conflicts; git 2.38 or newer can";
                Err(command::refused(&git, &output).because(what))
            }
        }
    }

    /// Gives the index the sides of each path in conflict, once index and files hold the tree with the markers, and lets git
    /// solve what it has seen solved before (`git rerere`).
    ///
    /// # Errors
    /// `lock-timeout`, `git-failed`, `io`.
    pub fn stage_conflicts(&self, merge: &ConflictedMerge) -> Result<()> {
        let gone = merge.conflicts.iter().map(|one| {
            let line = format!("0 {}\t", Oid::ZERO);
            [line.as_bytes(), &one.path].concat()
        });
        // Git reads the lines in order: the entry without a conflict has to be gone before the
        // stages of the same path come.
        let lines: Vec<_> = gone.chain(merge.stages.iter().cloned()).collect();
        let own = self.own_index()?;
        own.feed(&["update-index", "-z", "--index-info"], &lines)?;
        own.publish()?;
        // Only where the user has it on; it fails where a path has no three sides, too.
        let mut rerere = self.git();
        rerere.arg("rerere");
        command::finish(&mut rerere).map(drop)
    }

    /// What `git rerere` noted of the conflicts, for the admin directory.
    pub fn rerere_note(&self) -> Option<Vec<u8>> {
        let view = self.view.as_ref()?;
        untrusted::read(view.git_dir(), Path::new("MERGE_RR"), 1 << 20)
    }

    /// The paths of which the index holds more than one side.
    ///
    /// # Errors
    /// `git-missing`, `git-failed`.
    pub fn unmerged_paths(&self) -> Result<Vec<Vec<u8>>> {
        let mut list = self.git();
        list.args(["ls-files", "--unmerged", "-z"]);
        let output = command::successful(list)?;
        let path = |line: &[u8]| line.splitn(2, |&byte| byte == b'\t').nth(1).map(<[u8]>::to_vec);
        let mut paths: Vec<_> = command::names(&output).filter_map(path).collect();
        // Git lists one line for each stage, and all stages of a path are next to each other.
        paths.dedup();
        Ok(paths)
    }
}

/// Reads the answer of `git merge-tree -z`: the tree, the sides of each path, and messages.
fn parse(answer: &[u8]) -> Option<ConflictedMerge> {
    let mut fields = answer.split(|&byte| byte == 0);
    let tree = Oid::from_hex(std::str::from_utf8(fields.next()?).ok()?)?;
    // The clone reads ahead to the empty field that ends the stages; `conflicts` then reads the
    // same fields again.
    let stages = fields.clone().take_while(|field| !field.is_empty());
    Some(ConflictedMerge {
        tree,
        stages: stages.map(<[u8]>::to_vec).collect(),
        conflicts: conflicts(&mut fields)?,
    })
}
