//! Objects that an untrusted program wrote into a directory of its own, taken into the repository's store as
//! `git receive-pack` takes those of a push.
//!
//! ```text
//! quarantine/<xx>/<rest>  ─ hard links ─> staging ─> git pack-objects ─┐
//! quarantine/pack/*.pack  ───────────────────────────────────────────┴─> git index-pack --fsck-objects
//!                                                    staging/incoming <──┘
//!                                                                     └─ looked through ─> objects/pack
//! ```
//!
//! `git index-pack` names every object by the hash of what it received and checks its form, so neither the names in
//! the quarantine nor its index files count. The files are opened as data: no link is followed, nothing but
//! a regular file is read. git never runs with a configuration or a directory that the program could write.
//!
//! Where one object is damaged, the whole set is refused, and only what the wanted commits reach is taken.

use super::limits::Load;
use crate::domain::Oid;
use crate::domain::value::named::is_lower_hex;
use crate::error::{Code, Error, IoContext, Result};
use crate::git::files::untrusted;
use crate::git::objects::malformed;
use crate::git::repo::{failed, from_git2};
use crate::git::{Repo, core::command, core::tree};
use crate::system::{self, ResourceLimits};
use rustix::fs::{AtFlags, CWD, linkat};
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What one git may take that unpacks what a program of the agent's wrote. [`limits`](super::limits) has looked at all of it before, so
/// an honest git is far from these; but the program may write on while its files are read.
const LIMITS: ResourceLimits = ResourceLimits { memory: 2 << 30, seconds: 600 };

/// How deep git reads trees that are nested (`core.maxTreeDepth`).
const DEEPEST: usize = 2048;

/// Each thread of git's holds a delta's base and its result.
const ONE_THREAD: &str = "pack.threads=1";

/// How much of a quarantine was taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenObjects {
    /// Every object.
    All,
    /// What the wanted commits reach, because something else in there is damaged.
    Reachable,
}

impl Repo {
    /// Takes the objects of a quarantine in. `staging` is a path that does not exist, on the quarantine's file
    /// system and out of the program's reach; it is removed again. Afterwards every commit of `tips`, and all it
    /// leads to, is in the repository.
    ///
    /// # Errors
    /// `git-failed` when `tips` are not complete or not well formed; `io`, `disk-full`, `git-missing`. What was taken
    /// in until then stays, unreachable, until git removes it.
    pub fn take_in(&self, quarantine: &Path, staging: &Path, tips: &[Oid]) -> Result<TakenObjects> {
        let mut stage = LooseLinks::new(self, quarantine, staging, &|_| true)?;
        let all = stage.take_all();
        self.settle(&stage, all, tips)
    }

    /// As [`Repo::take_in`], of a repository that has most of what is here: only what is not here is taken. `known` names
    /// packs that hold nothing new. Where links cannot be made, as to another file system, files are copied.
    ///
    /// # Errors
    /// As [`Repo::take_in`].
    pub fn take_missing(
        &self,
        objects: &Path,
        staging: &Path,
        known: &[String],
        tips: &[Oid],
    ) -> Result<TakenObjects> {
        let is_new = |name: &str| match Oid::from_hex(name) {
            // Without a look for new packs: a wrong `no` only takes an object in twice.
            Some(oid) => !self.is_at_hand(oid),
            None => !known.iter().any(|known| known == name),
        };
        let mut stage = LooseLinks::new(self, objects, staging, &is_new)?;
        let all = stage.take_new();
        self.settle(&stage, all, tips)
    }

    /// Takes what the tips reach where not all could be taken, and makes sure that it is complete.
    fn settle(
        &self,
        stage: &LooseLinks<'_>,
        all: Result<()>,
        tips: &[Oid],
    ) -> Result<TakenObjects> {
        let taken = match all.and_then(|()| stage.require_sound()) {
            Ok(()) => TakenObjects::All,
            // What the commits reach may be the very thing that is too large.
            Err(error) if error.code() == Code::ObjectTooLarge => return Err(error),
            Err(_) => {
                stage.start_again()?;
                stage.take_reachable(tips)?;
                stage.require_sound()?;
                TakenObjects::Reachable
            }
        };
        stage.hand_over()?;
        // After either way: objects that are each well formed may still lead to some that are
        // nowhere.
        self.require_complete(tips)?;
        Ok(taken)
    }

    /// Fails unless everything that commits lead to is here and is what it is taken for. An object may be here without all that it leads to,
    /// as after an attempt that failed here: so only what a ref leads to is known to be whole. Gives the commits that no ref leads to.
    ///
    /// # Errors
    /// `git-failed`, `repo-corrupt`.
    pub fn require_complete(&self, tips: &[Oid]) -> Result<HashSet<Oid>> {
        let is_shallow = self.is_shallow();
        let unnamed = self.unnamed_commits(tips)?;
        for oid in &unnamed {
            let commit = self.read_commit(*oid)?;
            // A shallow clone ends somewhere.
            let parents = commit.parents.iter().filter(|one| !is_shallow || self.has_object(**one));
            let before = parents.map(|parent| self.tree_of(*parent));
            self.sound_changes(&before.collect::<Result<Vec<_>>>()?, commit.tree)?;
        }
        Ok(unnamed)
    }

    /// The commits that these lead to and that no ref leads to.
    ///
    /// # Errors
    /// `git-failed` where history has a hole.
    fn unnamed_commits(&self, tips: &[Oid]) -> Result<HashSet<Oid>> {
        if tips.is_empty() {
            return Ok(HashSet::new());
        }
        let mut git = self.git_here();
        git.args(["rev-list", "--stdin", "--not", "--all"]);
        let listed: String = tips.iter().map(|tip| format!("{tip}\n")).collect();
        let output = command::feed(git, listed.as_bytes())?;
        if output.status.success() {
            let listed = String::from_utf8_lossy(&output.stdout);
            return Ok(listed.lines().filter_map(Oid::from_hex).collect());
        }
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(Error::new(Code::GitFailed, "the command's commits are not complete").because(why))
    }

    /// A git that works in the common directory and nowhere else.
    fn git_here(&self) -> Command {
        let mut git = command::git(self.common_dir());
        // By name, so that git looks for no repository upwards, where a configuration of the
        // program's might lie.
        git.arg("--git-dir").arg(self.common_dir());
        git
    }
}

/// A directory of ours with hard links to the loose objects of a quarantine; removed when dropped.
struct LooseLinks<'r> {
    repo: &'r Repo,
    directory: PathBuf,
    /// Where git puts what it has checked, until all of it is known to do no harm.
    incoming: PathBuf,
    /// The names of the loose objects, and of what else is to be taken.
    loose: Vec<String>,
    /// Links to its packs, without their index files.
    packs: Vec<PathBuf>,
    /// Of these, the ones whose deltas may form chains of any length.
    tangled: Vec<PathBuf>,
    load: Load,
}

impl Drop for LooseLinks<'_> {
    fn drop(&mut self) {
        // What cannot be removed is links to objects that git has by now; `gc` removes the rest.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl<'r> LooseLinks<'r> {
    /// Links what is wanted: loose objects by their names, packs by those of their files.
    fn new(
        repo: &'r Repo,
        quarantine: &Path,
        staging: &Path,
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> Result<LooseLinks<'r>> {
        fs::create_dir_all(staging.join("pack")).at("could not make", staging)?;
        let mut stage = LooseLinks {
            repo,
            directory: staging.to_owned(),
            incoming: staging.join("incoming"),
            loose: Vec::new(),
            packs: Vec::new(),
            tangled: Vec::new(),
            load: Load::default(),
        };
        fs::create_dir(&stage.incoming).at("could not make", &stage.incoming)?;
        for name in directories_in(quarantine)? {
            // The names are looked at before anything is opened: whatever else lies there is none
            // of git's.
            if name.len() == 2 && is_lower_hex(&name) {
                stage.link_loose(quarantine, &name, is_wanted)?;
            }
        }
        stage.link_packs(&quarantine.join("pack"), is_wanted)?;
        Ok(stage)
    }

    fn link_loose(
        &mut self,
        quarantine: &Path,
        fan_out: &str,
        is_wanted: &dyn Fn(&str) -> bool,
    ) -> Result<()> {
        let (from, to) = (quarantine.join(fan_out), self.directory.join(fan_out));
        fs::create_dir(&to).at("could not make", &to)?;
        for entry in fs::read_dir(&from).at("could not list", &from)? {
            let Some(rest) = entry.ok().and_then(|entry| entry.file_name().into_string().ok())
            else {
                continue;
            };
            let name = format!("{fan_out}{rest}");
            if !is_lower_hex(&name) || Oid::from_hex(&name).is_none() || !is_wanted(&name) {
                continue;
            }
            if let Some(linked) = self.link(&from.join(&rest), &to.join(&rest))? {
                // Through our link, whose name the program cannot exchange for another file any
                // more.
                let file = File::open(&linked).at("could not read", &linked)?;
                self.load.add_loose(&name, file)?;
                self.loose.push(name);
            }
        }
        Ok(())
    }

    fn link_packs(&mut self, directory: &Path, is_wanted: &dyn Fn(&str) -> bool) -> Result<()> {
        if !fs::symlink_metadata(directory).is_ok_and(|metadata| metadata.is_dir()) {
            return Ok(());
        }
        for entry in fs::read_dir(directory).at("could not list", directory)? {
            let Some(path) = entry.ok().map(|entry| entry.path()) else {
                continue;
            };
            // A name of our own: git tells packs by it, and the program's might contain anything.
            let name = format!("pack/pack-{}.pack", self.packs.len());
            let wanted = path.file_name().is_some_and(|name| is_wanted(&name.to_string_lossy()));
            if wanted && path.extension().is_some_and(|ending| ending == "pack") {
                let Some(linked) = self.link(&path, &self.directory.join(name))? else {
                    continue;
                };
                let file = File::open(&linked).at("could not read", &linked)?;
                if self.load.add_pack(file)? {
                    self.packs.push(linked);
                } else {
                    self.tangled.push(linked);
                }
            }
        }
        Ok(())
    }

    /// Links a file, if it is a regular one. A link is to the file itself, whose kind cannot change.
    fn link(&self, from: &Path, to: &Path) -> Result<Option<PathBuf>> {
        // Without following a symbolic link. Linking comes before looking, as what is looked at by
        // its old name may be exchanged meanwhile.
        if linkat(CWD, from, CWD, to, AtFlags::empty()).is_err() && !copied(from, to)? {
            return Ok(None);
        }
        if fs::symlink_metadata(to).is_ok_and(|metadata| metadata.is_file()) {
            return Ok(Some(to.to_owned()));
        }
        fs::remove_file(to).at("could not remove", to)?;
        Ok(None)
    }

    /// Takes the loose objects, and of the packs what the repository has not.
    fn take_new(&mut self) -> Result<()> {
        // Every pack counts as tangled here, as most of its objects may be known: `index-pack`
        // would store them all a second time.
        let packs = std::mem::take(&mut self.packs);
        self.tangled.extend(packs);
        self.take_all()
    }

    /// Adds what the repository lacks of packs that are not taken as they are to what is to be packed, which makes chains of at
    /// most 50 deltas.
    fn list_tangled(&mut self) -> Result<()> {
        for pack in std::mem::take(&mut self.tangled) {
            let mut git = self.repo.git_here();
            git.args(["-c", ONE_THREAD, "index-pack"]).arg(&pack);
            command::successful_within(git, &LIMITS)?;
            let index = pack.with_extension("idx");
            let mut git = self.repo.git_here();
            git.arg("show-index");
            // The index is git's own of a moment ago, not the one that the program wrote.
            git.stdin(File::open(&index).at("could not read", &index)?);
            let listed = command::successful(git)?;
            let listed = String::from_utf8_lossy(&listed);
            let named = listed.lines().filter_map(|line| line.split(' ').nth(1));
            let is_new =
                |name: &&str| Oid::from_hex(name).is_some_and(|oid| !self.repo.is_at_hand(oid));
            self.loose.extend(named.filter(is_new).map(str::to_owned));
        }
        Ok(())
    }

    fn take_all(&mut self) -> Result<()> {
        for pack in &self.packs {
            let pack = File::open(pack).at("could not read", pack)?;
            command::successful_within(self.index_pack(pack.into()), &LIMITS)?;
        }
        self.list_tangled()?;
        if self.loose.is_empty() {
            return Ok(());
        }
        let mut names = self.loose.join("\n");
        names.push('\n');
        // No new deltas are looked for: this is about taking objects in, and `git gc` packs well
        // later.
        self.pack(&["--window=0"], names)
    }

    /// Lets go of what was taken.
    fn start_again(&self) -> Result<()> {
        fs::remove_dir_all(&self.incoming).at("could not remove", &self.incoming)?;
        fs::create_dir(&self.incoming).at("could not make", &self.incoming)
    }

    /// Fails where an object would make git fail in all of the repository, though no ref leads to it: `git gc` follows what was written
    /// lately. That something is missing it passes over.
    fn require_sound(&self) -> Result<()> {
        let what = "could not read the command's objects";
        let taken = git2::Odb::new().map_err(|error| failed(what, error))?;
        let path = self.incoming.to_string_lossy();
        taken.add_disk_alternate(&path).map_err(|error| failed(what, error))?;
        let mut oids = Vec::new();
        let all = taken.foreach(|oid| {
            oids.push(*oid);
            true
        });
        all.map_err(|error| failed(what, error))?;
        // Most entries of trees that follow upon each other name the same objects.
        let mut kinds = HashMap::new();
        for oid in &oids {
            let (_, kind) = taken.read_header(*oid).map_err(|error| failed(what, error))?;
            kinds.insert(from_git2(*oid), Some(kind));
        }
        let mut above: HashMap<Oid, Vec<Oid>> = HashMap::new();
        for oid in oids {
            let tree = from_git2(oid);
            if kinds.get(&tree) != Some(&Some(git2::ObjectType::Tree)) {
                continue;
            }
            let object = taken.read(oid).map_err(|error| failed(what, error))?;
            let entries = tree::parse(object.data()).filter(|it| tree::is_well_formed(it));
            for entry in entries.ok_or_else(|| malformed(tree))? {
                let kind = match entry.mode {
                    tree::GITLINK => continue,
                    tree::DIRECTORY => git2::ObjectType::Tree,
                    _ => git2::ObjectType::Blob,
                };
                let found =
                    kinds.entry(entry.oid).or_insert_with(|| self.repo.kind_at_hand(entry.oid));
                if found.is_some_and(|found| found != kind) {
                    return Err(malformed(tree));
                }
                if kind == git2::ObjectType::Tree {
                    above.entry(entry.oid).or_default().push(tree);
                }
            }
        }
        require_shallow_nesting(&above)
    }

    /// Puts all of it into the repository's store.
    fn hand_over(&self) -> Result<()> {
        let (from, to) = (self.incoming.join("pack"), self.repo.common_dir().join("objects/pack"));
        let mut names = untrusted::names(&from);
        // A pack counts from when its index is there, so that one comes last, as git writes them.
        names.sort_by_key(|name| Path::new(name).extension().is_some_and(|ending| ending == "idx"));
        fs::create_dir_all(&to).at("could not make", &to)?;
        for name in names {
            let (from, to) = (from.join(&name), to.join(&name));
            // The store may be on another file system. Under this beginning git knows what a killed process left.
            if fs::rename(&from, &to).is_err() {
                let beside = to.with_file_name(format!("tmp_{}", name.to_string_lossy()));
                fs::copy(&from, &beside).at("could not write", &beside)?;
                fs::rename(&beside, &to).at("could not write", &to)?;
            }
        }
        Ok(())
    }

    /// Takes what the commits reach and the repository has not.
    fn take_reachable(&self, tips: &[Oid]) -> Result<()> {
        for pack in self.packs.iter().chain(&self.tangled) {
            // Of a pack that git cannot read at all, nothing is missed that can be had.
            let mut git = self.repo.git_here();
            git.args(["-c", ONE_THREAD, "index-pack"]).arg(pack);
            match command::successful_within(git, &LIMITS) {
                Err(error) if error.code() == Code::ObjectTooLarge => return Err(error),
                _ => {}
            }
        }
        // `pack-objects` takes revisions and no `--all`.
        let known = self.repo.refs_below("refs/")?;
        let known = known.iter().map(|(_, oid)| format!("^{oid}\n"));
        let revisions: String = tips.iter().map(|tip| format!("{tip}\n")).chain(known).collect();
        self.pack(&["--revs"], revisions)
    }

    /// Packs what the standard input names and takes the pack in.
    fn pack(&self, options: &[&str], input: String) -> Result<()> {
        let mut packer = self.repo.git_here();
        packer
            .args(["-c", "pack.compression=1", "pack-objects", "--stdout", "--quiet"])
            .args(options)
            .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", quoted(&self.directory))
            // glibc gives the room of each deflated object back to the kernel and asks for it again, which takes two
            // thirds of the time. Other libraries pass this over.
            .env("MALLOC_TRIM_THRESHOLD_", "100000000")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut packing = command::launch(&mut packer)?;
        system::limit(packing.id(), &LIMITS);
        let (Some(mut names), Some(packed)) = (packing.stdin.take(), packing.stdout.take()) else {
            return Err(Error::bug("a child has the pipes that it was started with"));
        };
        // The packer reads all names before it writes.
        let written = names.write_all(input.as_bytes());
        drop(names);
        let indexed = command::successful_within(self.index_pack(packed.into()), &LIMITS);
        // Waited for even where the index failed, so that no process is left behind.
        let packed = packing.wait_with_output();
        let packed = packed.map_err(|error| Error::io("could not wait for git", error))?;
        // The packer is named first: where it dies, the other git complains only of an early end.
        if !packed.status.success() || written.is_err() {
            return Err(command::refused(&packer, &packed));
        }
        indexed.map(|_| ())
    }

    /// Names and checks the objects of the pack on its standard input and puts them with what has come in.
    fn index_pack(&self, pack: Stdio) -> Command {
        let mut git = self.repo.git_here();
        git.args(["-c", ONE_THREAD]);
        git.args(["index-pack", "--stdin", "--fix-thin", "--fsck-objects"]);
        git.env("GIT_OBJECT_DIRECTORY", &self.incoming);
        git.env(
            "GIT_ALTERNATE_OBJECT_DIRECTORIES",
            quoted(&self.repo.common_dir().join("objects")),
        );
        git.stdin(pack);
        git
    }
}

/// Fails where trees, given with those above each of them, are nested deeper than git reads.
fn require_shallow_nesting(above: &HashMap<Oid, Vec<Oid>>) -> Result<()> {
    // From the trees that stand at the bottom, one level at a time: what is nested too deep still has one above it after as many.
    let mut level: HashSet<Oid> = above.keys().copied().collect();
    for _ in 0..DEEPEST {
        level = level.iter().filter_map(|tree| above.get(tree)).flatten().copied().collect();
        if level.is_empty() {
            return Ok(());
        }
    }
    Err(Error::new(Code::RepoCorrupt, "the command left directories that are nested too deep"))
}

/// Copies a regular file that cannot be linked, because it is another user's or on another file system; `false` for
/// anything else, and for a file with holes, which no object has.
fn copied(from: &Path, to: &Path) -> Result<bool> {
    let Some(file) = untrusted::open_at(from) else {
        return Ok(false);
    };
    let metadata = file.metadata().at("could not read", from)?;
    // A sparse file costs its writer nothing and the copy its whole length.
    if metadata.blocks() * 512 < metadata.len() / 2 {
        return Ok(false);
    }
    let mut copy = File::create_new(to).at("could not write", to)?;
    // It may grow while it is read.
    io::copy(&mut file.take(metadata.len()), &mut copy).at("could not write", to)?;
    Ok(true)
}

/// The names of the directories in a directory that a program of the agent's could write; links are left out.
fn directories_in(directory: &Path) -> Result<Vec<String>> {
    let metadata = fs::symlink_metadata(directory).at("could not look at", directory)?;
    if !metadata.is_dir() {
        let what = format!("{} is not a directory", directory.display());
        return Err(Error::new(Code::RepoCorrupt, what));
    }
    let entries = fs::read_dir(directory).at("could not list", directory)?;
    let names = entries
        .filter_map(std::result::Result::ok)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok());
    Ok(names.collect())
}

/// A path as the variable takes it, in which a colon separates two and a quote begins a quoted one.
fn quoted(path: &Path) -> OsString {
    let text = path.to_string_lossy();
    if text.contains([':', '"', '\\']) {
        format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")).into()
    } else {
        path.as_os_str().to_owned()
    }
}
