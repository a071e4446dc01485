//! The one door to the environment of this process.

use crate::domain::oid::Oid;
use crate::error::{Code, Error, Result};
use crate::git::changes::Staging;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What we read from the environment, once.
#[derive(Clone, Debug, Default)]
pub struct Env {
    /// Where the caller stands.
    pub directory: PathBuf,
    /// The user's home, for `~/` in settings.
    pub home: Option<PathBuf>,
    /// `GIT_AGENT_ID`: set inside an agent that we started.
    pub agent: Option<String>,
    /// `GIT_AGENT_FENCED`: set where a kernel sandbox of ours is around us.
    pub fenced: bool,
    /// `GIT_AGENT_SPOOL`: where messages are left instead of sent, inside a fence that keeps refs from
    /// being written.
    pub spool: Option<PathBuf>,
    /// What git tells a hook about the commit it is making.
    pub staging: Staging,
    /// This program's own file, for hooks to run.
    pub program: Option<PathBuf>,
    /// `TMPDIR`, where it is set: files there are nobody's work.
    pub temporary: Option<PathBuf>,
    /// `GIT_AGENT_DEPTH`: how many agents this process is inside of.
    pub depth: u32,
    /// Where commands are looked for, in order.
    pub search: Vec<PathBuf>,
    /// The words that this program was called with, to call it in the same way again.
    pub words: Vec<OsString>,
}

impl Env {
    /// Reads the environment of this process.
    ///
    /// # Errors
    /// `io` when the current directory is gone.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one door to the environment"
    )]
    pub fn of_process() -> Result<Env> {
        let directory = std::env::current_dir()
            .map_err(|source| Error::io("the current directory is gone", source))?;
        Ok(Env {
            directory,
            home: std::env::var_os("HOME").map(PathBuf::from),
            agent: std::env::var("GIT_AGENT_ID")
                .ok()
                .filter(|id| !id.is_empty()),
            fenced: std::env::var_os("GIT_AGENT_FENCED").is_some_and(|fenced| !fenced.is_empty()),
            spool: std::env::var_os("GIT_AGENT_SPOOL")
                .filter(|path| !path.is_empty())
                .map(PathBuf::from),
            staging: Staging {
                index: std::env::var_os("GIT_INDEX_FILE").map(PathBuf::from),
                merged: std::env::vars_os()
                    .filter_map(|(name, _)| Oid::from_hex(name.to_str()?.strip_prefix("GITHEAD_")?))
                    .collect(),
            },
            program: std::env::current_exe().ok(),
            temporary: std::env::var_os("TMPDIR").map(PathBuf::from),
            depth: std::env::var("GIT_AGENT_DEPTH")
                .ok()
                .and_then(|depth| depth.parse().ok())
                .unwrap_or(0),
            search: std::env::var_os("PATH")
                .map(|path| std::env::split_paths(&path).collect())
                .unwrap_or_default(),
            words: std::env::args_os().skip(1).collect(),
        })
    }

    /// This program's own file, to start it again.
    ///
    /// # Errors
    /// `io` when the system does not tell.
    pub fn require_program(&self) -> Result<&Path> {
        self.program.as_deref().ok_or_else(|| {
            let what = "the system does not say which file this program is";
            Error::new(Code::Io, what)
                .hint("to see whether /proc is mounted, run ls -l /proc/self/exe")
        })
    }
}
