//! What a command left in its run repository, read as data.

use super::{LONGEST_REF, RunRepo, is_momentary, oid_of};
use crate::agents::context::untrusted;
use crate::domain::Oid;
use crate::domain::value::named::hex;
use crate::error::{IoContext, Result};
use crate::git::Repo;
use crate::git::changes::{CHECKSUM, hash_at_end};
use crate::git::files::admin_dir::{MODULES, SHARED_INDEX};
use crate::git::files::separate::FileStamp;
use crate::store::files::{fsx, layout};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ffi::OsStr;
use std::fmt::Write;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Files of the admin directory that lead git elsewhere or to settings; they are never carried back.
const KEPT: [&str; 4] = ["commondir", "gitdir", "config.worktree", "locked"];

/// The longest file that is carried back, in bytes; an index of a million paths has a tenth of it.
const LONGEST: u64 = 1 << 30;

/// The directories in which git keeps what is unfinished.
const UNFINISHED_IN: [&str; 3] = ["rebase-merge", "rebase-apply", "sequencer"];

/// The longest file of packed refs, in bytes.
const LONGEST_PACKED: u64 = 64 << 20;

/// The end of the noted state of a clone of which not all could be taken in.
const NOT_ALL: &[u8] = b"not all of it was taken in\n";

/// The file of an admin directory with what is staged.
const INDEX: &str = "index";

/// The one that says what is checked out.
const HEAD: &str = "HEAD";

/// What a command has in its run repository, read as data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heads {
    /// The tip of the agent's branch; `None` when it is gone or cannot be read.
    pub branch: Option<Oid>,
    /// The commit of a HEAD that is detached, or on another branch.
    pub detached: Option<Oid>,
    /// Refs that only this repository has, such as a stash, and where they are, with those of worktrees that the command made, as
    /// `worktrees/<name>/HEAD`; and what their logs name besides, as `refs/stash@{1}`.
    pub others: BTreeMap<String, Oid>,
}

/// Whether the name in [`Heads`] is that of a line of a log.
pub fn is_logged(name: &str) -> bool {
    name.contains("@{")
}

impl RunRepo {
    /// What the command has now.
    pub fn heads(&self) -> Heads {
        let mut refs = packed_refs(&self.directory);
        let known = packed_refs(&self.common_dir);
        // `packed-refs` was made of the repository's refs, so only lines that differ can be the command's doing.
        refs.retain(|name, oid| known.get(name) != Some(oid));
        for path in untrusted::files(&self.directory.join("refs")) {
            let path = Path::new("refs").join(path);
            let (Some(name), Some(oid)) =
                (path.to_str(), self.read(&path, LONGEST_REF).and_then(|text| oid_of(&text)))
            else {
                continue;
            };
            refs.insert(name.to_owned(), oid);
        }
        let branch = refs.remove(&self.branch).or_else(|| known.get(&self.branch).copied());
        // A clone has a row and messages of its own, which tell nothing that those here do not.
        let ours = [layout::LEDGER_REF, layout::MAIL_REF, layout::RECEIPTS_REF];
        let is_own_row = |name: &str| self.is_clone && ours.contains(&name);
        // What the command fetched is on its remote, and no work of its own.
        let is_fetched = |name: &str| name.starts_with("refs/remotes/");
        refs.retain(|name, _| !name.ends_with(".lock") && !is_own_row(name) && !is_fetched(name));
        let detached = self.head().and_then(|text| oid_of(&text));
        // Worktrees that the command made.
        let worktrees = untrusted::names(&self.directory.join("worktrees")).into_iter();
        let worktrees = worktrees.filter(|name| *name != *self.name);
        let worktrees: Vec<_> = worktrees.map(|name| Path::new("worktrees").join(name)).collect();
        for worktree in &worktrees {
            let own = untrusted::files(&self.directory.join(worktree).join("refs")).into_iter();
            let own = own.map(|path| Path::new("refs").join(path));
            for path in own.chain([PathBuf::from("HEAD")]).map(|path| worktree.join(path)) {
                let oid = self.read(&path, LONGEST_REF).and_then(|text| oid_of(&text));
                if let (Some(name), Some(oid)) = (path.to_str(), oid) {
                    refs.insert(name.to_owned(), oid);
                }
            }
        }
        // What is in the log of HEAD is carried back with it.
        let mut seen: HashSet<Oid> = refs.values().copied().chain(branch).chain(detached).collect();
        seen.extend(logged(&self.admin_dir(), Path::new("logs/HEAD")));
        // That of the branch began as a copy.
        seen.extend(logged(&self.common_dir, &Path::new("logs").join(&self.branch)));
        for place in worktrees.into_iter().chain([PathBuf::new()]) {
            let logs = place.join("logs");
            for file in untrusted::files(&self.directory.join(&logs)) {
                let name = place.join(&file);
                let Some(name) =
                    name.to_str().filter(|name| !is_fetched(name) && !is_own_row(name))
                else {
                    continue;
                };
                let oids = logged(&self.directory, &logs.join(&file));
                for (back, oid) in oids.into_iter().rev().enumerate() {
                    if seen.insert(oid) {
                        refs.insert(format!("{name}@{{{back}}}"), oid);
                    }
                }
            }
        }
        Heads { branch, detached, others: refs }
    }

    /// What the agent's HEAD is to be; `None` where the command left none that git takes.
    ///
    /// One on another branch is detached at that branch's commit, which is what index and files are of: the repository's own branch of
    /// that name need not be there, and no commit in this worktree is to move it. One on a branch that is not born stays there.
    fn head(&self) -> Option<Vec<u8>> {
        let content = untrusted::read(&self.admin_dir(), Path::new(HEAD), LONGEST_REF)?;
        let text = std::str::from_utf8(&content).ok()?.trim_ascii();
        let Some(name) = text.strip_prefix("ref: ") else {
            return oid_of(&content).is_some().then_some(content);
        };
        if name == self.branch {
            return Some(content);
        }
        if !Repo::is_valid_ref(name) {
            return None;
        }
        let loose = self.read(Path::new(name), LONGEST_REF).and_then(|text| oid_of(&text));
        match loose.or_else(|| packed_refs(&self.directory).remove(name)) {
            Some(oid) => Some(format!("{oid}\n").into_bytes()),
            None => name.starts_with("refs/heads/").then_some(content),
        }
    }

    /// What changes whenever the command changes something that [`crate::agents::upkeep::publish`] takes over.
    pub(super) fn state(&self) -> Vec<u8> {
        let admin = self.admin_dir();
        let head = untrusted::text(&admin, "HEAD");
        let mut state = format!("{head:?} {:?}\n", self.heads());
        let mut files: Vec<_> = untrusted::names(&admin).into_iter().map(PathBuf::from).collect();
        files.retain(|file| {
            is_of_worktree(file) || UNFINISHED_IN.iter().any(|name| file == Path::new(name))
        });
        for file in files {
            // One that was changed just now holds the time of this look, so no later text is equal to it. Writing to a string
            // does not fail.
            let _ = writeln!(state, "{file:?} {:?}", FileStamp::of(&admin.join(&file)));
        }
        state.into_bytes()
    }

    /// That of the clone when it was last taken in.
    pub(super) fn known_state(&self) -> Vec<u8> {
        let known = fsx::load_if_there(&self.notes.with_extension("state"));
        let mut known = known.ok().flatten().unwrap_or_default();
        known.truncate(known.strip_suffix(NOT_ALL).map_or(known.len(), <[u8]>::len));
        known
    }

    /// Whether all of the clone was taken in then.
    pub fn was_all_taken(&self) -> bool {
        let known = fsx::load_if_there(&self.notes.with_extension("state"));
        !known.ok().flatten().unwrap_or_default().ends_with(NOT_ALL)
    }

    /// The packs of a clone that it was made with.
    ///
    /// # Errors
    /// `io`.
    pub fn known_packs(&self) -> Result<Vec<String>> {
        let record = fsx::load_if_there(&layout::clones_dir(&self.common_dir).join(&self.name))?;
        let record = String::from_utf8(record.unwrap_or_default()).unwrap_or_default();
        Ok(record.lines().map(str::to_owned).collect())
    }

    /// Takes in what the clone has with `publish`, and notes that it did, and whether it was all.
    ///
    /// # Errors
    /// Those of `publish`; `io`, `disk-full`.
    pub fn settle<T>(&self, publish: impl FnOnce() -> Result<(T, bool)>) -> Result<T> {
        // Taken before: what changes meanwhile is taken in the next time.
        let state = self.is_clone.then(|| self.state());
        let (published, is_all) = publish()?;
        if let Some(mut state) = state {
            state.extend_from_slice(if is_all { b"" } else { NOT_ALL });
            fsx::write_private(&self.notes.with_extension("state"), &state)?;
        }
        Ok(published)
    }

    /// Brings the agent's admin directory up to date: index, HEAD, reflog, and what git keeps of an unfinished merge
    /// or rebase. A file that is no regular one, a HEAD that is none and an index that names what is not in the
    /// repository are left out. Gives the names of files that were left out.
    /// `broken` tells of commits that are new in a reflog which of them lead to something missing: these go out of it, because
    /// `git gc` follows reflogs.
    ///
    /// # Errors
    /// `io`, `disk-full`; those of `broken`.
    pub fn carry_back(
        &self,
        repo: &Repo,
        broken: &mut dyn FnMut(BTreeSet<Oid>) -> Result<HashSet<Oid>>,
    ) -> Result<Vec<PathBuf>> {
        let (from, to) = (self.admin_dir(), self.outer_admin_dir());
        let mut left = Vec::new();
        let mut files = untrusted::files_except(&from, MODULES);
        if self.is_clone {
            // The rest of it is what a worktree finds in the common directory.
            files.retain(|file| is_of_worktree(file));
        }
        for file in &files {
            if is_kept(file) || file == Path::new(INDEX) {
                continue;
            }
            if untrusted::are_equal([&from, &to], file) {
                continue;
            }
            let content = if file == Path::new(HEAD) {
                self.head()
            } else {
                let content = untrusted::read(&from, file, LONGEST);
                content.filter(|content| is_plausible(repo, file, content))
            };
            let Some(mut content) = content else {
                left.push(file.clone());
                continue;
            };
            if file.starts_with("logs") {
                let before = untrusted::read(&to, file, LONGEST).unwrap_or_default();
                content = without_broken(content, &before, broken)?;
            }
            fsx::create_dir(to.join(file).parent().unwrap_or(&to))?;
            fsx::write_atomic(&to.join(file), &content)?;
        }
        // Last, as it may share what it holds with another file.
        if !self.carry_index(repo)? {
            left.push(PathBuf::from(INDEX));
        }
        // What the command finished, such as a merge, is unfinished no longer.
        for file in untrusted::files_except(&to, MODULES) {
            if !is_kept(&file) && files.binary_search(&file).is_err() && !is_vital(&file) {
                fs::remove_file(to.join(&file)).at("could not remove", to.join(&file))?;
            }
        }
        for directory in UNFINISHED_IN {
            // Only an empty one goes.
            let _ = fs::remove_dir(to.join(directory));
        }
        Ok(left)
    }

    /// Brings the index alone up to date, unless it names what is not in the repository. Gives whether it is.
    ///
    /// # Errors
    /// `io`, `disk-full`.
    pub fn carry_index(&self, repo: &Repo) -> Result<bool> {
        let (from, to, file) = (self.admin_dir(), self.outer_admin_dir(), Path::new(INDEX));
        // An equal file keeps its time, which matters for the index.
        if are_equal_indexes([&from, &to], file) {
            return Ok(true);
        }
        // The time is that of before the content is read, as that of an older index makes git look into more files.
        let dated =
            untrusted::open(&from, file).and_then(|file| file.metadata().ok()?.modified().ok());
        let content = untrusted::read(&from, file, LONGEST);
        let Some(content) = content.filter(|content| content.starts_with(b"DIRC")) else {
            return Ok(fs::symlink_metadata(from.join(file)).is_err());
        };
        let (tried, place) = (fsx::unique_name(&to.join(file)), to.join(file));
        fs::write(&tried, &content).at("could not write", &tried)?;
        let is_whole = is_sealed(&content) && repo.has_all_of_index(&to, &tried, &place);
        if is_whole {
            // With a later time git would not look into a file that was changed in the moment in which it was staged.
            if let Some(modified) = dated {
                let copy = File::options().write(true).open(&tried);
                copy.and_then(|copy| copy.set_modified(modified)).at("could not write", &tried)?;
            }
            fs::rename(&tried, &place).at("could not write", &place)?;
        } else {
            fs::remove_file(&tried).at("could not remove", &tried)?;
        }
        Ok(is_whole)
    }
}

/// Whether a file of the command's admin directory may take the place of the agent's.
fn is_plausible(repo: &Repo, file: &Path, content: &[u8]) -> bool {
    match file.to_str().unwrap_or_default() {
        // What is unfinished could neither be ended nor taken back.
        "MERGE_HEAD" | "CHERRY_PICK_HEAD" | "REVERT_HEAD" => {
            let mut lines = content.trim_ascii().split(|byte| *byte == b'\n');
            lines.all(|line| oid_of(line).is_some_and(|oid| repo.read_commit(oid).is_ok()))
        }
        name if name.starts_with("refs/") => {
            content.starts_with(b"ref: ") || oid_of(content).is_some_and(|oid| repo.has_object(oid))
        }
        // Its name is its hash, where it has one.
        name => name.strip_prefix(SHARED_INDEX).is_none_or(|hash| match hash_at_end(content) {
            Some(own) => hex(&own) == hash,
            None => content.ends_with(&[0; CHECKSUM]),
        }),
    }
}

/// Whether two directories hold the same index. It ends with the hash of all that is before (gitformat-index(5)), which tells as much as every
/// byte; what only claims to be equal is left where it is. Where `index.skipHash` leaves the hash out, zeros stand for it.
fn are_equal_indexes(tops: [&Path; 2], file: &Path) -> bool {
    let end = |top: &Path| {
        let file = untrusted::open(top, file)?;
        let (length, mut hash) = (file.metadata().ok()?.len(), [0; CHECKSUM]);
        file.read_exact_at(&mut hash, length.checked_sub(CHECKSUM as u64)?).ok()?;
        Some((length, hash))
    };
    match tops.map(end) {
        [Some((length, hash)), other] if hash != [0; CHECKSUM] => other == Some((length, hash)),
        _ => untrusted::are_equal(tops, file),
    }
}

/// Whether an index has not changed since git wrote it, as far as that left a hash.
fn is_sealed(content: &[u8]) -> bool {
    content.ends_with(&[0; CHECKSUM]) || hash_at_end(content).is_some()
}

/// The lines of a reflog without those, not there `before`, that name a broken commit.
fn without_broken(
    content: Vec<u8>,
    before: &[u8],
    broken: &mut dyn FnMut(BTreeSet<Oid>) -> Result<HashSet<Oid>>,
) -> Result<Vec<u8>> {
    let known: HashSet<&[u8]> = before.split(|&byte| byte == b'\n').collect();
    let named = |line: &[u8]| -> Vec<Oid> {
        let words = line.split(|&byte| byte == b' ').take(2);
        let oids = words.filter_map(|word| Oid::from_hex(std::str::from_utf8(word).ok()?));
        oids.filter(|oid| !oid.is_zero()).collect()
    };
    let lines = || content.split_inclusive(|&byte| byte == b'\n');
    let is_known = |line: &&[u8]| known.contains(line.strip_suffix(b"\n").unwrap_or(line));
    let broken = broken(lines().filter(|line| !is_known(line)).flat_map(named).collect())?;
    if broken.is_empty() {
        return Ok(content);
    }
    let is_whole =
        |line: &&[u8]| is_known(line) || named(line).iter().all(|oid| !broken.contains(oid));
    Ok(lines().filter(is_whole).flatten().copied().collect())
}

/// Whether a file of a git dir is one that each worktree has for itself (gitrepository-layout(5)).
fn is_of_worktree(file: &Path) -> bool {
    let (Some(name), Some(first)) = (file.to_str(), file.iter().next().and_then(OsStr::to_str))
    else {
        return false;
    };
    let is_head = name.ends_with("HEAD")
        && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    is_head
        || ["index", "logs/HEAD", "MERGE_MSG", "MERGE_MODE"].contains(&name)
        || name.starts_with(SHARED_INDEX)
        || UNFINISHED_IN.contains(&first)
}

/// Whether a file of an admin directory is not the command's to change.
fn is_kept(file: &Path) -> bool {
    file.to_str().is_none_or(|name| KEPT.contains(&name) || is_momentary(name))
}

/// Files without which git takes an admin directory for none.
fn is_vital(file: &Path) -> bool {
    file.to_str().is_some_and(|name| {
        ["HEAD", "index", "ORIG_HEAD", "logs/HEAD"].contains(&name)
            // The index that stays may need it. git removes those that none has needed for long.
            || name.starts_with(SHARED_INDEX)
    })
}

/// What the lines of a log lead to (git-reflog(1)), oldest first: each has the old object name, the new one and more.
fn logged(git_dir: &Path, log: &Path) -> Vec<Oid> {
    let content = untrusted::read(git_dir, log, LONGEST_PACKED).unwrap_or_default();
    let lines = content.split(|byte| *byte == b'\n');
    let oids = lines.filter_map(|line| oid_of(line.split(|byte| *byte == b' ').nth(1)?));
    // A ref that was deleted leads to zeros.
    oids.filter(|oid| !oid.is_zero()).collect()
}

/// The refs of the `packed-refs` file of a repository (gitrepository-layout(5)): lines of an object name and a name.
pub(super) fn packed_refs(git_dir: &Path) -> BTreeMap<String, Oid> {
    let content = untrusted::read(git_dir, Path::new("packed-refs"), LONGEST_PACKED);
    let content = content.unwrap_or_default();
    let text = String::from_utf8_lossy(&content);
    let refs = text.lines().filter_map(|line| {
        let (oid, name) = line.split_once(' ')?;
        Some((name.to_owned(), Oid::from_hex(oid)?))
    });
    refs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_equal_where_their_hashes_are() {
        let directory = tempfile::tempdir().expect("made");
        let tops = ["one", "two"].map(|name| directory.path().join(name));
        let are_equal = |contents: [&[u8]; 2]| {
            for (top, content) in tops.iter().zip(contents) {
                fs::create_dir_all(top).expect("made");
                fs::write(top.join(INDEX), content).expect("written");
            }
            are_equal_indexes([&tops[0], &tops[1]], Path::new(INDEX))
        };
        let [hash, other, none] = [b"h", b"o", b"\0"].map(|byte| byte.repeat(CHECKSUM));
        let index = |content: &str, hash: &[u8]| [content.as_bytes(), hash].concat();
        assert!(are_equal([&index("DIRC a", &hash), &index("DIRC a", &hash)]));
        assert!(!are_equal([&index("DIRC a", &hash), &index("DIRC a", &other)]));
        assert!(!are_equal([&index("DIRC a", &hash), &index("DIRC", &hash)]));
        assert!(!are_equal([&index("DIRC a", &none), &index("DIRC a", &hash)]));
        // git leaves the hash out.
        assert!(are_equal([&index("DIRC a", &none), &index("DIRC a", &none)]));
        assert!(!are_equal([&index("DIRC a", &none), &index("DIRC b", &none)]));
        assert!(are_equal([b"short", b"short"]));
        assert!(!are_equal([b"short", b"other"]));
    }
}
