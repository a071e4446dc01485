//! The git hooks of an agent's worktree: what they should be, and whether they are.

use crate::agents::context::ctx::{Ctx, HOOK_HOMES};
use crate::agents::place::worktree::WorktreeFiles;
use crate::agents::{context::untrusted, place::worktree, upkeep::clone};
use crate::domain::{Agent, AgentId};
use crate::error::{IoContext, Result};
use crate::git::repo::program;
use crate::git::repo::program::Version;
use crate::store::files::{fsx, layout, lock};
use crate::store::hooks;
use crate::store::hooks::inspect::{HookProblem, Inspection, inspect};
use crate::store::hooks::{CommitHooks, Route, Site};
use std::ffi::OsString;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Puts the hooks of a new worktree in place, by the route that this git follows.
///
/// # Errors
/// Those of [`hooks::install`], `lock-timeout`.
pub(crate) fn install(
    ctx: &Ctx,
    agent: AgentId,
    worktree: &Path,
    git: Option<Version>,
) -> Result<()> {
    // Hooks are written by spawns as well, and to the same files of git's configuration.
    let _spawns = lock::hold(ctx.repo.common_dir(), layout::SPAWN_LOCK)?;
    // Not found by its path, the program is looked for on PATH.
    let program = ctx.env.program.as_deref().unwrap_or(Path::new("git-agent"));
    hooks::install(&site(ctx, &agent.short(), worktree), program, Route::for_git(git))
}

/// Writes the hooks anew where time has passed over them: the repository got a hook of a new name, or this program another
/// version or place. What an agent did to them stays, for `doctor` to find.
///
/// # Errors
/// Those of [`inspect`] and [`install`].
pub(crate) fn refresh(ctx: &Ctx, agent: &Agent) -> Result<()> {
    // An agent's clone has hooks of its own.
    let Some(worktree) = linked_worktree(ctx, agent).filter(|_| !clone::is_one(ctx, agent.id))
    else {
        return Ok(());
    };
    let found = inspect(&site(ctx, &agent.id.short(), &worktree), None)?;
    let is_old = |problem: &HookProblem| !problem.is_tampering();
    // Where anything was tampered with, nothing is written anew: that would hide it.
    if found.problems.is_empty() || !found.problems.iter().all(is_old) {
        return Ok(());
    }
    install(ctx, agent.id, &worktree, this_git(ctx))
}

/// Writes the hooks for a commit of ours in the agent's worktree to a new directory.
///
/// # Errors
/// Those of [`hooks::for_commit`].
pub(crate) fn for_commit(
    ctx: &Ctx,
    agent: AgentId,
    worktree: &Path,
    directory: &Path,
) -> Result<CommitHooks> {
    let program = ctx.env.program.as_deref().unwrap_or(Path::new("git-agent"));
    hooks::for_commit(&site(ctx, &agent.short(), worktree), program, directory)
}

/// Whether the repository has hooks of its own that a commit of ours in the agent's worktree runs.
///
/// # Errors
/// Those of [`hooks::has_own`].
pub(crate) fn has_own(ctx: &Ctx, agent: AgentId, worktree: &Path) -> Result<bool> {
    hooks::has_own(&site(ctx, &agent.short(), worktree))
}

/// Looks at the hooks of one agent's worktree; `None` when it has none here.
///
/// # Errors
/// `git-failed` when a configuration file cannot be read.
pub fn inspection(ctx: &Ctx, agent: &Agent, git: Option<Version>) -> Result<Option<Inspection>> {
    match linked_worktree(ctx, agent) {
        Some(worktree) => inspect(&site(ctx, &agent.id.short(), &worktree), git).map(Some),
        None => Ok(None),
    }
}

/// The agent's worktree while git knows it.
pub(crate) fn linked_worktree(ctx: &Ctx, agent: &Agent) -> Option<PathBuf> {
    let admin = worktree::admin_dir(&ctx.repo, agent.id);
    if admin.is_dir() { worktree::find(&ctx.repo, agent) } else { None }
}

fn site<'a>(ctx: &'a Ctx, short_id: &'a str, worktree: &'a Path) -> Site<'a> {
    Site { repo: &ctx.repo, short_id, worktree, home: ctx.env.home.as_deref() }
}

pub(crate) fn this_git(ctx: &Ctx) -> Option<Version> {
    program::ask_version(&ctx.env.directory).ok()?.answer()
}

// Programs that manage a repository's hooks (husky, lefthook, pre-commit, prek): whether what they installed can run in a
// worktree, and what it has to write.
//
// They share one trait that git hooks by themselves do not have: without an install step there is nothing to run, git
// commits all the same, and no program says a word. So `spawn` and `run` do.

/// A manager that is called by the hooks which its install step writes.
struct Manager {
    name: &'static str,
    /// The files at the top of a worktree that configure it.
    configurations: &'static [&'static str],
    /// The programs that its hooks start: one of them is needed.
    programs: &'static [&'static str],
    install: &'static str,
}

const MANAGERS: [Manager; 2] = [
    Manager {
        name: "lefthook",
        configurations: &[
            "lefthook.yml",
            "lefthook.yaml",
            "lefthook.toml",
            "lefthook.json",
            ".lefthook.yml",
            ".lefthook.yaml",
            ".lefthook.toml",
            ".lefthook.json",
            ".config/lefthook.yml",
            ".config/lefthook.yaml",
        ],
        programs: &["lefthook"],
        install: "lefthook install",
    },
    Manager {
        name: "pre-commit",
        configurations: &[".pre-commit-config.yaml", ".pre-commit-config.yml", "prek.toml"],
        programs: &["pre-commit", "prek", "pre_commit"],
        install: "pre-commit install",
    },
];

/// Where husky keeps the hooks that people write, at the top of a worktree.
const HUSKY: &str = ".husky";

/// How hooks call what `npm install` and its like install.
const PACKAGE_RUNNERS: [&str; 7] =
    ["npx", "npm ", "pnpm", "yarn", "bunx", "lint-staged", "node_modules"];

/// Where package managers put programs, from the top of a worktree.
const PACKAGES: &str = "node_modules/.bin";

/// The longest database of pre-commit's that is copied, in bytes. It has a line for each repository of hooks.
const LONGEST_DATABASE: u64 = 64 << 20;

/// The longest hook that is looked into, in bytes.
const LONGEST: u64 = 256 * 1024;

/// Why hooks of the repository will not run in a worktree, one sentence each; in most repositories there is nothing.
///
/// # Errors
/// `git-failed` when a configuration file cannot be read.
pub(crate) fn obstacles(ctx: &Ctx, agent: AgentId, worktree: &Path) -> Result<Vec<String>> {
    let short_id = agent.short();
    let site = site(ctx, &short_id, worktree);
    let setting = ctx.repo.repository_hooks_path()?;
    let directory = hooks::repository_directory(&site)?;
    let files = WorktreeFiles::of(&ctx.repo, agent, worktree);
    let is_there = |name: &str| files.find(Path::new(name)).is_some();
    // 1. A directory that git ignores, as husky's is, and that this worktree does not have.
    if let Some(path) = setting.as_deref().filter(|path| Path::new(path).is_relative())
        && !path.starts_with('~')
        && !files.find(&directory).is_some_and(|directory| directory.is_dir())
    {
        return Ok(vec![format!(
            "the repository's hooks will not run in this worktree: core.hooksPath is {path}, which is made by an \
             install step; to have them run, add that step to [setup] run"
        )]);
    }
    let husky = worktree.join(HUSKY);
    let is_husky = directory.starts_with(&husky);
    let of_husky = texts(&files, &husky);
    let mut obstacles = Vec::new();
    // 2. Husky's hooks, which git finds by a setting alone, and what they call.
    if setting.is_none() && !of_husky.is_empty() {
        obstacles.push(format!(
            "the hooks in {HUSKY} will not run: core.hooksPath does not lead to them; to have them run, run husky once"
        ));
    }
    let calls_packages = of_husky
        .iter()
        .flat_map(|text| text.lines())
        .filter(|line| !line.trim_start().starts_with('#'))
        .any(|line| PACKAGE_RUNNERS.iter().any(|runner| line.contains(runner)));
    if is_husky && calls_packages && is_there("package.json") && !is_there("node_modules") {
        obstacles.push(format!(
            "the hooks in {HUSKY} call packages, and there is no node_modules in this worktree; to have them run, add \
             their installation to [setup] run"
        ));
    }
    // 3. Managers whose install step writes hooks.
    let mut hooks = texts(&files, &directory);
    if is_husky {
        hooks.extend(of_husky);
    }
    for manager in &MANAGERS {
        let Some(file) = manager.configurations.iter().find(|file| is_there(file)) else {
            continue;
        };
        let calls = |text: &&String| manager.programs.iter().any(|one| text.contains(one));
        let hooks: Vec<&String> = hooks.iter().filter(calls).collect();
        let (name, install) = (manager.name, manager.install);
        if hooks.is_empty() {
            obstacles.push(format!(
                "the hooks in {file} will not run: {name} is not installed in this repository; to have them run, run \
                 {install}"
            ));
        } else if !hooks.iter().any(|text| manager.is_found(ctx, &files, text)) {
            obstacles.push(format!(
                "the hooks in {file} will not run: no program of {name} is found; to have them run, install it, or \
                 add its installation to [setup] run"
            ));
        }
    }
    Ok(obstacles)
}

impl Manager {
    /// Whether a hook finds the program: at a path that the install step wrote into it, on `PATH`, or among the worktree's
    /// packages.
    fn is_found(&self, ctx: &Ctx, files: &WorktreeFiles, hook: &str) -> bool {
        let named = hook.split(|c: char| c.is_whitespace() || "=\"';".contains(c));
        let mut named = named.map(Path::new).filter(|path| path.is_absolute());
        // Python of pre-commit's own environment is such a path, the shell of the first line is none.
        if named.any(hooks::is_executable) {
            return true;
        }
        let mut places = ctx.env.search.iter().map(PathBuf::as_path).chain([Path::new(PACKAGES)]);
        places.any(|place| {
            let mut programs =
                self.programs.iter().filter_map(|name| files.find(&place.join(name)));
            programs.any(|program| hooks::is_executable(&program))
        })
    }
}

/// The texts of the hooks in a directory, read as data.
fn texts(files: &WorktreeFiles, directory: &Path) -> Vec<String> {
    let read = |name: &&str| {
        let hook = files.find(&directory.join(name))?;
        untrusted::read(hook.parent()?, Path::new(name), LONGEST)
    };
    let texts = hooks::KNOWN.iter().filter_map(read);
    texts.map(|text| String::from_utf8_lossy(&text).into_owned()).collect()
}

/// Makes places for what managers write while their hooks run, below a directory of the run, and gives the variables that
/// name them. Behind a fence the user's own cannot be written, and pre-commit and prek then refuse every
/// commit; it must not be writable either, for what lies there runs in the user's next commit. What was installed is
/// reached through links, or by the paths that pre-commit's database has.
///
/// # Errors
/// `io`, `disk-full`.
pub(crate) fn private_homes(
    ctx: &Ctx,
    agent: AgentId,
    worktree: &Path,
    scratch: &Path,
) -> Result<Vec<(&'static str, OsString)>> {
    let files = WorktreeFiles::of(&ctx.repo, agent, worktree);
    let is_there = |name: &&str| files.find(Path::new(name)).is_some();
    let is_used = MANAGERS
        .iter()
        .filter(|manager| manager.name == "pre-commit")
        .any(|manager| manager.configurations.iter().any(&is_there));
    if !is_used {
        return Ok(Vec::new());
    }
    let mut variables = Vec::new();
    for (variable, name) in HOOK_HOMES {
        let own = ctx
            .env
            .host_variables
            .get(variable)
            .cloned()
            .or_else(|| Some(ctx.env.cache_home()?.join(name)));
        let private = scratch.join(name);
        fsx::create_dir(&private)?;
        if let Some(own) = own {
            // What is downloaded already is used, and what a hook writes stays within the run.
            mirror(&own, &private)?;
        }
        variables.push((variable, private.into_os_string()));
    }
    Ok(variables)
}

/// Copies the database, and makes each directory with a link for each of its entries, so that new ones can be added.
fn mirror(own: &Path, private: &Path) -> Result<()> {
    /// Which environments pre-commit has, and where.
    const DATABASE: &str = "db.db";
    /// The directories of prek in which environments are. Its caches of downloads are written to whatever is read.
    const KEPT: [&str; 3] = ["hooks", "repos", "tools"];
    if let Some(content) = untrusted::read(own, Path::new(DATABASE), LONGEST_DATABASE) {
        fsx::write_private(&private.join(DATABASE), &content)?;
    }
    for directory in KEPT {
        for name in untrusted::names(&own.join(directory)) {
            let link = private.join(directory).join(&name);
            fsx::create_dir(&private.join(directory))?;
            symlink(own.join(directory).join(&name), &link).at("could not link", &link)?;
        }
    }
    Ok(())
}
