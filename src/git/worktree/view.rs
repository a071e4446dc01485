//! A stand-in for the admin directory of a worktree that an agent can write, through which git looks at it.
//!
//! ```text
//! <view>/HEAD                    copied once it is proved to be one
//! <view>/commondir               the shared repository: its objects, refs and settings
//! <view>/gitdir                  the worktree
//! <view>/config.worktree         the main worktree's settings, and whether the checkout is sparse
//! <view>/info/sparse-checkout    copied
//! <view>/sharedindex.*           copied
//! ```
//!
//! Git started in the worktree itself would obey the `config.worktree` of its admin directory, which names
//! filters, a file system monitor, hooks and external programs, and whatever repository its `.git` file leads to. All
//! of that an agent can write. Through a view git obeys the settings of the user and of the repository alone, and
//! starts no monitor and no hook. The index stays where it is.

use crate::domain::paths::path::{rsplit_once, split_once};
use crate::error::{Code, Error, IoContext, Remedy, Result};
use crate::git::files::admin_dir::SHARED_INDEX;
use crate::git::files::layer::WorktreeLayer;
use crate::git::files::temporary::TemporaryDirectory;
use crate::git::files::untrusted;
use crate::git::{Repo, core::command};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Settings that keep git from starting a program that is not needed for a look.
const SETTINGS: [&str; 5] = [
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "submodule.recurse=false",
    "gc.auto=0",
    "maintenance.auto=false",
];

/// The longest `HEAD`, and the longest other files that are copied, in bytes.
const LONGEST_HEAD: u64 = 4096;
const LONGEST_SETTINGS: u64 = 1 << 20;
const LONGEST_INDEX: u64 = 1 << 32;

/// Settings of the main worktree that say where it is, or where its hooks are.
const PLACE: [&str; 3] = ["core.bare", "core.worktree", "core.hookspath"];

/// What of an agent's own settings counts: that files may be absent, which no program depends on.
const SPARSE: [&str; 3] = ["core.sparsecheckout", "core.sparsecheckoutcone", "index.sparse"];

/// A stand-in for an admin directory, removed when this is dropped.
#[derive(Debug)]
pub struct WorktreeView {
    root: TemporaryDirectory,
    git_dir: PathBuf,
    top: PathBuf,
    index: PathBuf,
    /// Settings that take the place of those whose programs lie in the tree.
    programs: Vec<String>,
}

impl WorktreeView {
    /// Makes one for the worktree at `top`; `scratch` is a directory that the agent cannot write.
    ///
    /// # Errors
    /// `git-failed` for a `HEAD` that is none; `layer-invalid` where the layer of a layered worktree is gone; `io`, `disk-full`.
    pub fn make(repo: &Repo, admin_dir: &Path, top: &Path, scratch: &Path) -> Result<WorktreeView> {
        if WorktreeLayer::is_lost(top, admin_dir) {
            return Err(WorktreeLayer::lost(admin_dir, Code::LayerInvalid));
        }
        let common_dir = repo.common_dir();
        // Copied, not linked: git would follow a `HEAD` that the agent exchanges after it was
        // proved.
        let head = untrusted::read(admin_dir, Path::new("HEAD"), LONGEST_HEAD)
            .filter(|head| is_head(head))
            .ok_or_else(|| unreadable_head(admin_dir))?;
        let root = TemporaryDirectory::make(scratch, "view")?;
        // Hooks tell by this name which agent the worktree belongs to.
        let name = admin_dir.file_name().unwrap_or(OsStr::new("worktree"));
        let view = WorktreeView {
            git_dir: root.path().join(name),
            root,
            // The changed files of a layered worktree are not where it is.
            top: WorktreeLayer::of(admin_dir).map_or_else(|| top.to_owned(), |layer| layer.upper),
            index: admin_dir.join("index"),
            programs: repo.program_settings()?,
        };
        fs::create_dir(&view.git_dir).at("could not make", &view.git_dir)?;
        view.write("HEAD", &head)?;
        view.lead_to(common_dir)?;
        view.write("gitdir", &line(&top.join(".git")))?;
        view.take_settings(common_dir, admin_dir)?;
        // Git looks for the shared part of a split index beside `HEAD`, and not beside the index.
        for file in untrusted::names(admin_dir) {
            if file.as_bytes().starts_with(SHARED_INDEX.as_bytes())
                && let Some(content) = untrusted::read(admin_dir, Path::new(&file), LONGEST_INDEX)
            {
                let path = view.git_dir.join(&file);
                fs::write(&path, content).at("could not write", &path)?;
            }
        }
        Ok(view)
    }

    /// A `git` on the worktree and its index that obeys the settings of the user and the repository alone.
    pub fn git(&self) -> Command {
        let mut command = command::git(&self.top);
        command
            .env("GIT_DIR", &self.git_dir)
            .env("GIT_WORK_TREE", &self.top)
            .env("GIT_INDEX_FILE", &self.index)
            // What git says is read for words in some places, so it has to be in one language.
            .env("LC_ALL", "C");
        let programs = self.programs.iter().map(String::as_str);
        for setting in SETTINGS.into_iter().chain(programs) {
            command.args(["-c", setting]);
        }
        command
    }

    /// The directory that git takes for the admin directory.
    pub fn git_dir(&self) -> &Path {
        &self.git_dir
    }

    /// The index of the worktree.
    pub fn index(&self) -> &Path {
        &self.index
    }

    /// A directory of ours beside it, for more files that go when this does.
    pub fn room(&self) -> &Path {
        self.root.path()
    }

    /// Leads git to the shared repository, or to a stand-in for it.
    pub(in crate::git) fn lead_to(&self, common_dir: &Path) -> Result<()> {
        self.write("commondir", &line(common_dir))
    }

    /// Writes a file of the stand-in.
    pub(in crate::git) fn write(&self, name: &str, content: &[u8]) -> Result<()> {
        let path = self.git_dir.join(name);
        fs::write(&path, content).at("could not write", &path)
    }

    /// Takes over the main worktree's own settings, as a new worktree does, and whether the checkout is sparse.
    fn take_settings(&self, common_dir: &Path, admin_dir: &Path) -> Result<()> {
        let mut text = Vec::new();
        let main = common_dir.join("config.worktree");
        if main.exists() {
            let failed = |error: git2::Error| {
                crate::git::repo::failed(&format!("could not read {}", main.display()), error)
            };
            let config = git2::Config::open(&main).map_err(failed)?;
            let mut entries = config.entries(None).map_err(failed)?;
            while let Some(entry) = entries.next() {
                let entry = entry.map_err(failed)?;
                let value = entry.has_value().then(|| entry.value_bytes());
                // These would lead git back to the main worktree, or to hooks.
                if !PLACE.iter().any(|key| key.as_bytes() == entry.name_bytes()) {
                    text.extend(setting(entry.name_bytes(), value).unwrap_or_default());
                }
            }
        }
        let sparse = sparse_settings(&sparse_words_at(admin_dir));
        // Without it git would take every file that a sparse checkout leaves out for deleted.
        if !sparse.is_empty() {
            text.extend(sparse);
            let patterns = Path::new("info/sparse-checkout");
            if let Some(patterns) = untrusted::read(admin_dir, patterns, LONGEST_SETTINGS) {
                let info = self.git_dir.join("info");
                fs::create_dir(&info).at("could not make", &info)?;
                self.write("info/sparse-checkout", &patterns)?;
            }
        }
        if text.is_empty() {
            return Ok(());
        }
        self.write("config.worktree", &text)
    }
}

/// Whether this is what `HEAD` of a worktree holds: a branch, or a commit.
fn is_head(text: &[u8]) -> bool {
    let text = text.trim_ascii_end();
    let plain = |byte: &u8| byte.is_ascii_graphic() || *byte >= 0x80;
    match text.strip_prefix(b"ref: ") {
        Some(name) => name.starts_with(b"refs/") && name.iter().all(plain),
        None => text.len() == 40 && text.iter().all(u8::is_ascii_hexdigit),
    }
}

fn unreadable_head(admin_dir: &Path) -> Error {
    let head = admin_dir.join("HEAD");
    Error::new(Code::GitFailed, format!("{} does not say what is checked out", head.display()))
        .remedy("to see what can be done about it", Remedy::Examine)
}

fn line(path: &Path) -> Vec<u8> {
    [path.as_os_str().as_bytes(), b"\n"].concat()
}

/// A setting as a configuration file has it; `None` for a name that has no section.
fn setting(name: &[u8], value: Option<&[u8]>) -> Option<Vec<u8>> {
    let (section, name) = split_once(name, b'.')?;
    let mut text = [b"[", section].concat();
    let (subsection, key) = rsplit_once(name, b'.').unzip();
    if let Some(subsection) = subsection {
        text.extend(b" \"");
        text.extend(escaped(subsection));
        text.push(b'"');
    }
    text.extend(b"]\n\t");
    text.extend(key.unwrap_or(name));
    if let Some(value) = value {
        text.extend(b" = \"");
        text.extend(escaped(value));
        text.push(b'"');
    }
    text.push(b'\n');
    Some(text)
}

fn escaped(text: &[u8]) -> Vec<u8> {
    let escape = |&byte: &u8| match byte {
        b'"' | b'\\' => vec![b'\\', byte],
        b'\n' => b"\\n".to_vec(),
        byte => vec![byte],
    };
    text.iter().flat_map(escape).collect()
}

/// Whether a configuration file as git writes it says that the checkout is sparse.
pub(in crate::git) fn is_sparse(text: &[u8]) -> bool {
    sparse_words(text).contains(&("core.sparsecheckout", true))
}

/// The same as a configuration file has it.
fn sparse_settings(words: &[(&'static str, bool)]) -> Vec<u8> {
    let lines = words.iter().filter_map(|&(name, is_on)| {
        // What is written is only ever one of two words, whatever the agent's file holds.
        let value: &[u8] = if is_on { b"true" } else { b"false" };
        setting(name.as_bytes(), Some(value))
    });
    lines.flatten().collect()
}

/// What the settings of an admin directory say about sparse checkouts; no program depends on it.
pub fn sparse_words_at(admin_dir: &Path) -> Vec<(&'static str, bool)> {
    let own = untrusted::read(admin_dir, Path::new("config.worktree"), LONGEST_SETTINGS);
    sparse_words(&own.unwrap_or_default())
}

/// What holds in a worktree about sparse checkouts: its own settings go before those of its repository, as in git.
pub fn sparse_words_in(common_dir: &Path, admin_dir: &Path) -> BTreeMap<&'static str, bool> {
    let shared = untrusted::read(common_dir, Path::new("config"), LONGEST_SETTINGS);
    let mut words = sparse_words(&shared.unwrap_or_default());
    words.extend(sparse_words_at(admin_dir));
    words.into_iter().collect()
}

/// What a configuration file says about sparse checkouts. Files that it includes are not read.
fn sparse_words(text: &[u8]) -> Vec<(&'static str, bool)> {
    let mut section = String::new();
    let mut found = Vec::new();
    // Read here and not by libgit2, which would follow an `include.path` of the agent's.
    for line in String::from_utf8_lossy(text).lines() {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']').trim().to_ascii_lowercase();
            continue;
        }
        let (key, value) = line.split_once('=').unwrap_or((line, "true"));
        let name = format!("{section}.{}", key.trim().to_ascii_lowercase());
        let is_on = || git2::Config::parse_bool(value.trim()).unwrap_or(false);
        found.extend(SPARSE.into_iter().find(|known| *known == name).map(|known| (known, is_on())));
    }
    found
}
