//! `install-shell`: man pages and completions, where a shell looks for them.
//!
//! The files come from the caller, who knows the command line. They go below the user's data directory, or
//! below `share` of a prefix, and a file of the same name that we did not write is left alone. No start
//! file of a shell is touched: what one would need is said instead.

use crate::agents::Env;
use crate::agents::context::real_path::real_path;
use crate::domain::value::named::named;
use crate::error::{Code, Error, Result};
use crate::proc::supervisor::TreeBounds;
use crate::proc::{self, End, Job};
use crate::store::files::fsx;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What every file of ours says in one of its first lines.
const MARK: &str = "Written by git agent install-shell.";

named! {
    /// A kind of files for a shell.
    #[derive(PartialOrd, Ord)]
    pub enum Part {
        /// Completion for bash.
        Bash = "bash",
        /// Completion for fish.
        Fish = "fish",
        /// Man pages.
        Man = "man",
        /// Completion for zsh.
        Zsh = "zsh",
    }
}

impl Part {
    /// Where it belongs below a `share` directory.
    pub(super) fn directory(self) -> &'static str {
        match self {
            Part::Bash => "bash-completion/completions",
            Part::Fish => "fish/vendor_completions.d",
            Part::Man => "man/man1",
            Part::Zsh => "zsh/site-functions",
        }
    }
}

/// A file for a shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShellFile {
    /// What it belongs to.
    pub part: Part,
    /// Its name.
    pub name: String,
    /// All that is in it.
    pub content: Vec<u8>,
}

/// What the caller asked for.
#[derive(Clone, Debug, Default)]
pub struct ShellOptions {
    /// Where `share` is or will be; the user's data directory when left out.
    pub prefix: Option<PathBuf>,
    /// Only these; all of them when there are none.
    pub parts: Vec<Part>,
}

/// What would be written.
#[derive(Clone, Debug)]
pub struct ShellPlan {
    share: PathBuf,
    files: Vec<(ShellFile, FileAction)>,
}

impl ShellPlan {
    /// What it comes to.
    pub fn report(&self, env: &Env) -> ShellReport {
        ShellReport::new(env, &self.share, &self.files)
    }
}

/// Looks at what is there; writes nothing.
///
/// # Errors
/// `usage` when the place of the user's files is unknown; `io`.
pub fn plan(env: &Env, files: Vec<ShellFile>, options: &ShellOptions) -> Result<ShellPlan> {
    let share = match &options.prefix {
        Some(prefix) => {
            let prefix = env.directory.join(prefix);
            real_path(&prefix).unwrap_or(prefix).join("share")
        }
        None => env.data_home().ok_or_else(|| {
            let what = "neither XDG_DATA_HOME nor HOME says where your files belong";
            Error::new(Code::Usage, what)
                .hint("to say it here, run git agent setup shell --dir /usr/local")
        })?,
    };
    let wanted = |file: &ShellFile| options.parts.is_empty() || options.parts.contains(&file.part);
    let mut files: Vec<_> = files.into_iter().filter(wanted).collect();
    files.sort_by(|a, b| (a.part, &a.name).cmp(&(b.part, &b.name)));
    let files = files.into_iter().map(|file| {
        let action = action(&share, &file)?;
        Ok((file, action))
    });
    Ok(ShellPlan { files: files.collect::<Result<_>>()?, share })
}

/// Writes what is missing or of another version.
///
/// # Errors
/// `disk-full`, `io`; what was written until then stays.
pub fn execute(env: &Env, plan: ShellPlan) -> Result<ShellReport> {
    for (file, action) in &plan.files {
        if matches!(action, FileAction::Created | FileAction::Updated) {
            let path = place(&plan.share, file);
            fsx::create_dir(path.parent().unwrap_or(&plan.share))?;
            fsx::write_atomic(&path, &file.content)?;
        }
    }
    Ok(plan.report(env))
}

fn action(share: &Path, file: &ShellFile) -> Result<FileAction> {
    Ok(match fsx::load_if_there(&place(share, file))? {
        None => FileAction::Created,
        Some(content) if content == file.content => FileAction::Unchanged,
        Some(content) if is_ours(&content) => FileAction::Updated,
        Some(_) => FileAction::Foreign,
    })
}

fn is_ours(content: &[u8]) -> bool {
    let text = String::from_utf8_lossy(content);
    // A shell may want the first line of a completion for itself.
    text.lines().take(3).any(|line| line.ends_with(MARK))
}

fn place(share: &Path, file: &ShellFile) -> PathBuf {
    share.join(file.part.directory()).join(&file.name)
}

// The answer of `install-shell`.

/// `git-agent.install-shell/1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.install-shell/1")]
pub struct ShellReport {
    /// What was installed, by kind.
    pub parts: Vec<PartReport>,
    /// What is still up to the user, one sentence each.
    pub advice: Vec<String>,
}

/// The files of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PartReport {
    /// `bash`, `fish`, `man` or `zsh`.
    pub part: &'static str,
    /// The directory they are in, absolute.
    pub directory: String,
    /// The files.
    pub files: Vec<FileReport>,
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileReport {
    /// Its name in the directory.
    pub name: String,
    /// What becomes of it.
    pub action: FileAction,
}

named! {
    /// What becomes of a file.
    pub enum FileAction {
        /// It was not there.
        Created = "created",
        /// It was of another version.
        Updated = "updated",
        /// It is as it should be.
        Unchanged = "unchanged",
        /// Written by another program; it stays as it is.
        Foreign = "foreign",
    }
}

impl ShellReport {
    /// The files are in the order of their parts.
    fn new(env: &Env, share: &Path, files: &[(ShellFile, FileAction)]) -> ShellReport {
        let parts: Vec<PartReport> = files
            .chunk_by(|(one, _), (next, _)| one.part == next.part)
            .filter_map(|files| Some((files.first()?.0.part, files)))
            .map(|(part, files)| PartReport {
                part: part.as_str(),
                directory: share.join(part.directory()).display().to_string(),
                files: files
                    .iter()
                    .map(|(file, action)| FileReport { name: file.name.clone(), action: *action })
                    .collect(),
            })
            .collect();
        let ours = files.iter().filter(|(_, action)| *action != FileAction::Foreign);
        let mut kinds: Vec<Part> = ours.map(|(file, _)| file.part).collect();
        kinds.dedup();
        ShellReport {
            parts,
            advice: kinds
                .into_iter()
                .flat_map(|part| [advice(env, share, part), function(share, part)])
                .flatten()
                .collect(),
        }
    }
}

// Where shells and man look, and what they find there.

/// As git's `builtin/help.c: setup_man_path` looks for a page, without showing it.
const FIND_PAGE: &str = r#"MANPATH="$(git --man-path):$MANPATH" man -w git-agent"#;

/// How long man may take to look.
const LIMIT: Duration = Duration::from_secs(5);

/// What man finds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PageState {
    /// No page.
    Missing,
    /// The page of another version.
    Outdated(PathBuf),
    /// This version's page, or one that cannot be compared with it.
    There,
}

/// What `git agent --help` would show.
///
/// # Errors
/// `io` when no shell can be started.
pub(super) fn find_page(env: &Env, files: &[ShellFile]) -> Result<PageState> {
    let asked = proc::run(&Job {
        program: env.require_program()?,
        script: FIND_PAGE,
        directory: &env.directory,
        variables: &[],
        limit: LIMIT,
        bounds: TreeBounds::default(),
        fence: None,
    })?;
    if asked.end != End::Status(0) {
        return Ok(PageState::Missing);
    }
    let path = PathBuf::from(asked.output.lines().next().unwrap_or_default());
    let ours = files.iter().find(|file| file.name == "git-agent.1");
    // A page that is compressed was put there by a package, whose business its version is.
    let outdated = path.extension().is_some_and(|ending| ending == "1")
        && ours.is_some_and(|ours| {
            let there = fsx::load_if_there(&path).ok().flatten();
            there.is_some_and(|there| there != ours.content)
        });
    Ok(if outdated { PageState::Outdated(path) } else { PageState::There })
}

/// The completion that the user's own shell finds: whether it is of this version, and where it is; `None`
/// when there is none.
pub(super) fn installed(env: &Env, file: &ShellFile) -> Option<(bool, PathBuf)> {
    let mut shares = shares(env);
    // A package has put the program beside these files.
    let beside = env.program.as_deref().and_then(Path::parent);
    shares.extend(beside.and_then(Path::parent).map(|prefix| prefix.join("share")));
    shares.into_iter().find_map(|share| {
        let path = place(&share, file);
        let content = fsx::load_if_there(&path).ok().flatten()?;
        Some((content == file.content, path))
    })
}

/// What the user still has to do for a shell to find what is below `share`; `None` for nothing.
fn advice(env: &Env, share: &Path, part: Part) -> Option<String> {
    let directory = share.join(part.directory());
    let directory = directory.display();
    let known = shares(env).iter().any(|known| known == share);
    match part {
        // man looks beside the directories of PATH, which only it can tell.
        Part::Man if beside_path(env, share) => None,
        Part::Man => Some(format!(
            "if man does not find them, add to your shell's start file: export MANPATH=\"{}:$MANPATH\"",
            share.join("man").display()
        )),
        Part::Bash if known => None,
        Part::Bash => {
            Some(format!("to complete in bash, add to ~/.bashrc: source {directory}/git-agent"))
        }
        Part::Zsh if is_of_system(share) => None,
        Part::Zsh => Some(format!(
            "to complete in zsh, add to ~/.zshrc before compinit: fpath+=({directory})"
        )),
        Part::Fish if known => None,
        Part::Fish => Some(format!(
            "to complete in fish, add to config.fish: set -a fish_complete_path {directory}"
        )),
    }
}

/// What makes a shell know the function that goes to an agent's worktree; `None` for man pages.
fn function(share: &Path, part: Part) -> Option<String> {
    let (file, start) = match part {
        Part::Bash => ("agent-cd", "~/.bashrc"),
        Part::Zsh => ("agent-cd.zsh", "~/.zshrc"),
        Part::Fish => ("agent-cd.fish", "config.fish"),
        Part::Man => return None,
    };
    let file = share.join(part.directory()).join(file);
    Some(format!(
        "to have agent-cd <agent>, which goes to an agent's worktree, in {}, add to {start}: source {}",
        part.as_str(),
        file.display()
    ))
}

/// Where shells look: the user's data directory and the system's.
fn shares(env: &Env) -> Vec<PathBuf> {
    let mut shares: Vec<_> = env.data_home().into_iter().collect();
    match env.data_dirs.as_slice() {
        [] => shares.extend(["/usr/local/share", "/usr/share"].map(PathBuf::from)),
        named => shares.extend(named.iter().cloned()),
    }
    shares
}

fn beside_path(env: &Env, share: &Path) -> bool {
    let mut prefixes = env.search.iter().filter_map(|bin| bin.parent());
    prefixes.any(|prefix| prefix.join("share") == share)
}

fn is_of_system(share: &Path) -> bool {
    ["/usr/local/share", "/usr/share"].iter().any(|known| share == Path::new(known))
}
