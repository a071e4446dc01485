//! Which untracked files count as work: exactly those that `git add -A` in the worktree would add now.
//!
//! Git itself decides, by every `.gitignore` file of the worktree as it is, tracked or not, `info/exclude` and the
//! user's excludes file. Two things are not left to the worktree. The excludes file is the one that the shared
//! configuration names, because an agent can write the `config.worktree` of its worktree. And the bundle is
//! ignored by a rule of the command line, the strongest there is, so that no `.gitignore` file brings it back.

use crate::domain::paths::path::fold;
use crate::domain::{Oid, RepoPath};
use crate::error::Result;
use crate::git::files::untrusted;
use crate::git::repo::failed;
use crate::git::{Repo, core::tree};
use std::collections::hash_map::{Entry, HashMap};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use walkdir::WalkDir;

/// The name of the files that hold rules.
const FILE_NAME: &str = ".gitignore";

/// Decides which untracked files of a worktree count as work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// The user's excludes file, as the value of `core.excludesFile`.
    excludes_file: OsString,
    /// A directory that never counts, by its path from the top.
    never: Option<String>,
    /// Whether ignored files count too.
    ignored_too: bool,
}

impl Rules {
    /// The same rules where a directory, given by its path from the top, never counts.
    #[must_use]
    pub fn without(&self, directory: Option<&str>) -> Rules {
        Rules { never: directory.map(str::to_owned), ..self.clone() }
    }

    /// The same rules where ignored files count too, all but the directory that never does.
    #[must_use]
    pub fn with_ignored(self) -> Rules {
        Rules { ignored_too: true, ..self }
    }

    /// Whether ignored files are left out.
    pub(in crate::git) fn leave_out(&self) -> bool {
        !self.ignored_too
    }

    /// The directory that never counts, by its path from the top.
    pub(in crate::git) fn never(&self) -> Option<&str> {
        self.never.as_deref()
    }

    /// Names the excludes file to a `git` that was prepared and has no subcommand yet.
    pub(in crate::git) fn configure(&self, git: &mut Command) {
        let mut setting = OsString::from("core.excludesFile=");
        setting.push(&self.excludes_file);
        git.arg("-c").arg(setting);
    }

    /// Adds to a `git ls-files` what makes it apply these rules.
    pub(in crate::git) fn apply(&self, ls_files: &mut Command) {
        if !self.ignored_too {
            ls_files.arg("--exclude-standard");
        }
        if let Some(directory) = &self.never {
            ls_files.arg("--exclude").arg(pattern(directory));
        }
    }
}

/// The ignore pattern that means this directory below the top and no other: what gitignore(5) has a meaning for is
/// escaped.
pub fn pattern(directory: &str) -> String {
    let mut pattern = String::from("/");
    for character in directory.chars() {
        if matches!(character, '*' | '?' | '[' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern + "/"
}

/// The name of the files with attributes.
const ATTRIBUTES: &str = ".gitattributes";

/// The longest file of rules, in bytes; git passes over longer `.gitattributes`.
pub(in crate::git) const LONGEST_RULES: u64 = 100 << 20;

/// Files of a worktree that git reads on its own when it lists what is untracked.
pub(in crate::git) const IGNORE_FILES: &[&str] = &[FILE_NAME];
/// Those that it reads when it looks into a file.
pub(in crate::git) const ATTRIBUTES_FILES: &[&str] = &[ATTRIBUTES];
/// Those that `git status` reads.
pub(in crate::git) const RULES_FILES: &[&str] = &[FILE_NAME, ATTRIBUTES];

/// A file with one of these names in a worktree that keeps git waiting: a FIFO, a device or one without measure, which
/// an agent can put there.
pub(in crate::git) fn blocking_file(top: &Path, names: &[&str]) -> Option<PathBuf> {
    let entries = WalkDir::new(top).into_iter().flatten();
    let is_named = |entry: &walkdir::DirEntry| names.iter().any(|name| entry.file_name() == *name);
    let mut files = entries.filter(is_named);
    let blocks = |entry: &walkdir::DirEntry| {
        // Before 2.32 git follows symlinks here.
        untrusted::require_file(entry.path(), LONGEST_RULES).is_err()
    };
    files.find(blocks).map(walkdir::DirEntry::into_path)
}

impl Repo {
    /// The rules for any worktree of this repository. `default` is the user's excludes file where the
    /// configuration names none.
    ///
    /// # Errors
    /// `git-failed` when a configuration file cannot be read.
    pub fn ignore_rules(&self, default: &Path) -> Result<Rules> {
        // The last setting wins, as in git.
        let named = self.shared_settings("core.excludesfile")?.pop();
        Ok(Rules {
            excludes_file: named.map_or_else(|| default.into(), |setting| setting.value.into()),
            never: None,
            ignored_too: false,
        })
    }

    /// Whether git ignores whatever is in a directory, given by its path from the top; the directory need not
    /// exist.
    ///
    /// # Errors
    /// `git-failed`.
    pub fn ignores_all_in(&self, directory: &Path) -> Result<bool> {
        // Only below a path is it known to be a directory without looking.
        let inside = directory.join("file");
        self.inner.is_path_ignored(inside).map_err(|error| {
            let shown = directory.display();
            failed(&format!("could not tell whether {shown} is ignored"), error)
        })
    }
}

// Which tracked paths a path could collide with where file names ignore case.

/// The entries of one tree by the folded form of their names.
type Folded = HashMap<Vec<u8>, Vec<tree::Entry>>;

/// Looks paths up in a tree without regard to case. Reads only the trees on the way, each of them once.
pub struct Spellings<'r> {
    repo: &'r Repo,
    root: Oid,
    trees: HashMap<Oid, Folded>,
}

impl<'r> Spellings<'r> {
    /// For the paths of the tree `root`. Nothing is read yet.
    pub fn new(repo: &'r Repo, root: Oid) -> Spellings<'r> {
        Spellings { repo, root, trees: HashMap::new() }
    }

    /// The deepest entries whose path is, but for case, that of `path` or of a directory above it: all
    /// that a `CaseIndex` needs to find the twins of that path.
    ///
    /// # Errors
    /// `repo-corrupt` when a tree is missing.
    pub fn near(&mut self, path: &RepoPath) -> Result<Vec<RepoPath>> {
        let mut deepest = Vec::new();
        let mut level = vec![(Vec::new(), self.root)];
        for part in path.parts() {
            let folded = fold(part);
            let mut found = Vec::new();
            let mut next = Vec::new();
            for (prefix, tree) in level {
                for entry in self.tree(tree)?.get(&folded).into_iter().flatten() {
                    let path = [prefix.as_slice(), &entry.name].concat();
                    if entry.is_directory() {
                        next.push(([path.as_slice(), b"/"].concat(), entry.oid));
                    }
                    found.push(path);
                }
            }
            if found.is_empty() {
                break;
            }
            deepest = found;
            level = next;
        }
        // A name that no worktree can hold collides with nothing.
        let paths = deepest.iter().filter_map(|path| RepoPath::parse(path).ok());
        Ok(paths.collect())
    }

    fn tree(&mut self, oid: Oid) -> Result<&Folded> {
        match self.trees.entry(oid) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(new) => {
                let mut folded = Folded::new();
                for entry in self.repo.read_tree(oid)? {
                    folded.entry(fold(&entry.name)).or_default().push(entry);
                }
                Ok(new.insert(folded))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::pattern;

    #[test]
    fn a_pattern_means_one_directory_alone() {
        assert_eq!(pattern(".agent"), "/.agent/");
        assert_eq!(pattern("a[1]/b*\\c?"), "/a\\[1]/b\\*\\\\c\\?/");
    }
}
