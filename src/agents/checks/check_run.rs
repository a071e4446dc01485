//! Running check commands: in a worktree of their own, after its set-up, behind a fence.
//!
//! ```text
//! CheckRoom::open   worktree of the commit (over a frozen base, a warm one, or new) ─> ignored files of [setup] ─> fence
//! set_up            commands of [setup], behind the fence ─> None, or the one that failed
//! run, run_hook     check commands or git hooks, behind the fence
//! drop              worktree, temporary files and caches are gone
//! ```
//!
//! **One check, one room.** What a check leaves behind is in its worktree, its `TMPDIR` and its caches, for the fence lets it write nothing
//! else, and all of that is removed with the room. So no check can decide how a later one ends. A worktree that is cleaned by git's rules
//! would not do: an ignored file, or a `.gitignore` that hides itself, survives such a cleaning, and with it, for example, bytecode that
//! Python takes for that of another source file.

use crate::agents::checks::check_layer::CheckLayer;
use crate::agents::checks::check_worktree::{CheckSetup, CheckStage, CheckWorktree};
use crate::agents::context::ctx::Ctx;
use crate::agents::context::scratch::Scratch;
use crate::agents::place::hidden_places::{self, Variable, open_places, private_caches};
use crate::agents::place::worktree::AgentWorktree;
use crate::agents::work::uncommitted::whole_tree;
use crate::agents::{context::untrusted, life::admission, stock::commands};
use crate::domain::judge::evidence::{CommandEnd, TestBound};
use crate::domain::judge::test_count::TestCount;
use crate::domain::life::sandbox::{Level, Mode, Namespaces};
use crate::domain::{CommandRun, Enforcement, Fence, Oid, RequiredChecks, value::shell};
use crate::error::{Error, IoContext, Result};
use crate::proc::sandbox::Plan;
use crate::proc::supervisor::TreeBounds;
use crate::proc::{self, End, Job};
use crate::store::files::fsx;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// What a check room is for.
pub(crate) struct CheckRequest<'a> {
    /// The commit to check.
    pub commit: Oid,
    /// Whether commands alone look into the worktree, so that it may be layered.
    pub for_commands: bool,
    /// Where its worktree goes; the caller keeps all others away from there. `None` where nothing may be written to the repository: the commit
    /// is then checked out in a temporary repository.
    pub place: Option<CheckWorktree>,
    /// What the worktree is set up with.
    pub setup: &'a CheckSetup,
    /// What fence is around the commands, and how much of it there is.
    pub fence: (Mode, &'a Enforcement),
    /// Variables that the commands get beside ours.
    pub variables: &'a [Variable],
}

/// A worktree of a commit in which no other check has written, and the fence around what runs in it. All of it is gone when this is dropped.
pub(crate) struct CheckRoom<'a> {
    ctx: &'a Ctx,
    path: PathBuf,
    setup: &'a CheckSetup,
    /// Whether the set-up commands have run in it already.
    is_set_up: bool,
    fence: Option<CheckFence>,
    variables: Vec<Variable>,
    commit: Oid,
    // Dropped in this order.
    stage: Option<CheckStage<'a>>,
    scratch: Scratch,
}

impl<'a> CheckRoom<'a> {
    /// Makes one: over a base or from a warm worktree that was set up from the same files, else anew.
    ///
    /// # Errors
    /// `path-exists` when something else is where the worktree would go; `usage` for a place in the settings that does not exist; `io`,
    /// `disk-full`, `git-failed`.
    pub(crate) fn open(ctx: &'a Ctx, request: CheckRequest<'a>) -> Result<CheckRoom<'a>> {
        let scratch = Scratch::make(ctx, "checks")?;
        let CheckRequest { commit, setup, .. } = request;
        let (stage, path, is_set_up) = match request.place {
            Some(place) => {
                let tree = ctx.repo.tree_of(commit)?;
                let is_able = matches!(request.fence.1, Enforcement::Fenced(level) if level.namespaces == Namespaces::Processes);
                let base =
                    if request.for_commands && is_able { setup.base(ctx, tree)? } else { None };
                // A base or a warm worktree that cannot be used costs time, and changes no answer.
                let mut ready =
                    base.and_then(|base| CheckStage::over(ctx, place.clone(), commit, &base).ok());
                if ready.is_none() {
                    ready = setup
                        .claim(ctx, tree)
                        .and_then(|slot| CheckStage::from_slot(ctx, slot, commit).ok());
                }
                let is_warm = ready.is_some();
                let stage = match ready {
                    Some(stage) => stage,
                    None => CheckStage::build(ctx, place, commit)?,
                };
                let path = stage.path().to_owned();
                (Some(stage), path, is_warm)
            }
            None => {
                let directory = scratch.path().join("merged");
                // Without a place in the repository a kill leaves nothing to be removed but a
                // directory.
                ctx.repo.check_out_apart(&directory, commit)?;
                (None, directory, false)
            }
        };
        if !is_set_up {
            setup.copy_files(ctx, &path)?;
        }
        // The report of the fence is in the same directory, outside of what the fence opens.
        let (temporary, caches) = (scratch.path().join("tmp"), scratch.path().join("cache"));
        for directory in [&temporary, &caches] {
            fsx::create_dir(directory)?;
        }
        let open = open_places(ctx, &[])?;
        let mut variables = request.variables.to_vec();
        variables.push(("TMPDIR".into(), temporary.clone().into()));
        let mut fence = None;
        if let (mode, Enforcement::Fenced(level)) = request.fence {
            let kept = scratch.path().join("views");
            let caches_of = private_caches(ctx, &open, (&caches, &kept), *level)?;
            variables.extend(caches_of.variables);
            let own = [path.as_path(), &temporary, &caches];
            let report = scratch.path().join("fence");
            let admin_dir = stage.as_ref().map(CheckStage::admin_dir).transpose()?;
            let around = CheckFence::around(ctx, open, &own, mode, *level, report, admin_dir);
            let mut around = around?;
            around.fence.caches = caches_of.mounts;
            // The same files at another path.
            around.fence.writable.extend(stage.as_ref().and_then(CheckStage::base));
            fence = Some(around);
        }
        ctx.reached("check-ready");
        Ok(CheckRoom { ctx, path, setup, is_set_up, fence, variables, commit, stage, scratch })
    }

    /// Runs the commands of `[setup]`, one after the other; gives the one that failed. Their time has a limit of its own.
    ///
    /// # Errors
    /// `io` when one cannot be started; `sandbox-unavailable` when the kernel refused the fence.
    pub(crate) fn set_up(&mut self) -> Result<Option<CommandRun>> {
        let scripts = &self.setup.run;
        let scripts = if self.is_set_up { &[] } else { scripts.as_slice() };
        let failed = self.run_setup(scripts)?;
        self.is_set_up = failed.is_none();
        Ok(failed)
    }

    /// Runs set-up commands until one fails; gives that one.
    fn run_setup(&self, scripts: &[String]) -> Result<Option<CommandRun>> {
        let mut variables = commands::setup_variables(self.ctx, &self.path)?;
        variables.extend(self.variables.iter().cloned());
        for script in scripts {
            let run = self.run_one(script, &variables, commands::LIMIT)?;
            if !run.is_success() {
                return Ok(Some(CommandRun { is_setup: true, ..run }));
            }
        }
        Ok(None)
    }

    /// Runs commands one after the other, until one fails, or all of them with `keep_going`. `limit` is how long each may take.
    ///
    /// # Errors
    /// As [`CheckRoom::set_up`].
    pub(crate) fn run(
        &self,
        checks: &RequiredChecks,
        limit: Duration,
        keep_going: bool,
    ) -> Result<Vec<CommandRun>> {
        let mut runs = Vec::new();
        let began = SystemTime::from(self.ctx.now());
        for script in &checks.commands {
            let run = self.run_one(script, &self.variables, limit)?;
            let goes_on = run.is_success() || keep_going;
            runs.push(run);
            if !goes_on {
                break;
            }
        }
        if runs.iter().all(CommandRun::is_success) {
            for bound in &checks.test_bounds {
                self.count_tests(&mut runs, bound, began);
            }
        }
        Ok(runs)
    }

    /// Has the last command that a bound counts fail where too few tests passed in all of those.
    fn count_tests(&self, runs: &mut [CommandRun], bound: &TestBound, began: SystemTime) {
        let is_counted = |run: &CommandRun| bound.commands.contains(&run.command);
        // Without any count there is none, which is not the same as no tests.
        let counts = runs.iter().filter(|run| is_counted(run)).filter_map(|run| run.tests);
        // What the commands said counts; reports are read only where they said nothing.
        let found =
            counts.reduce(u64::saturating_add).or_else(|| tests_in_reports(self.written(), began));
        if let Some(last) = runs.iter_mut().rfind(|run| is_counted(run))
            && found.unwrap_or(0) < u64::from(bound.wanted)
        {
            last.end = CommandEnd::TooFewTests { found, wanted: bound.wanted };
        }
    }

    /// Runs the set-up and then the checks; where the set-up fails, that is the only answer.
    ///
    /// # Errors
    /// As [`CheckRoom::set_up`].
    pub(crate) fn check(
        &mut self,
        checks: &RequiredChecks,
        limit: Duration,
        keep_going: bool,
    ) -> Result<Vec<CommandRun>> {
        // What a warm worktree was set up with is the repository's; projects are set up where they are checked.
        let failed = match self.set_up()? {
            None => self.run_setup(&checks.setup)?,
            failed => failed,
        };
        let mut runs = match failed {
            Some(failed) => vec![failed],
            None => self.run(checks, limit, keep_going)?,
        };
        for run in &mut runs {
            run.project = checks.projects.get(&run.command).cloned();
        }
        Ok(runs)
    }

    /// Runs a git hook of the repository on what is staged: all in which the commit differs from `onto`. Gives how it ended, and whether it
    /// changed a file that git does not ignore.
    ///
    /// The hook gets a repository of its own, because hooks write: lint-staged makes stashes, pre-commit writes trees. That is made after the
    /// set-up and opened to the hook alone, so nothing of the agent's has had a hand in it.
    ///
    /// # Errors
    /// As [`CheckRoom::set_up`]; `git-failed`, `disk-full`.
    pub(crate) fn run_hook(&mut self, name: &str, onto: Oid) -> Result<(CommandRun, bool)> {
        let Some(stage) = &self.stage else {
            return Err(Error::bug("a hook runs in a worktree of the repository"));
        };
        let place = AgentWorktree::new(self.path.clone(), stage.admin_dir()?);
        let directory = self.scratch.path().join(name);
        let index = place.admin_dir.join("index");
        let git_dir = self.ctx.repo.stage_apart(&directory, &self.path, &index, onto)?;
        if let Some(own) = &mut self.fence {
            let directory = fs::canonicalize(&directory).at("could not resolve", &directory)?;
            // A hook may stage what it changes, which git writes there.
            own.fence.writable.push(directory);
        }
        // What the set-up changed is not the hook's.
        let content = || whole_tree(self.ctx, self.commit, &place, None);
        let before = content()?;
        let git_dir = shell::quoted(&git_dir.to_string_lossy());
        let script = format!("GIT_DIR={git_dir}; export GIT_DIR; exec git hook run {name}");
        let run = self.run_one(&script, &self.variables, commands::LIMIT)?;
        Ok((run, content()? != before))
    }

    /// Where what commands write is seen from outside.
    fn written(&self) -> &Path {
        let layer = self.stage.as_ref().and_then(|stage| stage.layer.as_ref());
        layer.map_or(&self.path, CheckLayer::upper)
    }

    /// The fence around the next command: of what is mounted for it, each gets a mount of its own.
    fn next_fence(&self) -> Result<Option<CheckFence>> {
        let layer = self.stage.as_ref().and_then(|stage| stage.layer.as_ref());
        let Some(mut fence) = self.fence.clone() else {
            return Ok(None);
        };
        fence.fence.layer = layer.map(CheckLayer::mount).transpose()?;
        hidden_places::renew_views(&fence.fence.caches)?;
        Ok(Some(fence))
    }

    fn run_one(&self, script: &str, variables: &[Variable], limit: Duration) -> Result<CommandRun> {
        let fence = self.next_fence()?;
        let _activity = self.ctx.activity(&format!("running the check `{script}`"));
        let clock = Instant::now();
        let finished = proc::run(&Job {
            program: self.ctx.env.require_program()?,
            script,
            directory: &self.path,
            variables,
            limit,
            bounds: TreeBounds::of(&admission::load(self.ctx)?),
            fence: fence.as_ref().map(CheckFence::plan),
        })?;
        let end = match finished.end {
            End::Status(status) => CommandEnd::Status(status),
            End::TimedOut => CommandEnd::TimedOut(limit),
        };
        Ok(CommandRun {
            command: script.to_owned(),
            end,
            output: finished.output,
            is_setup: false,
            took: clock.elapsed(),
            tests: finished.tests,
            project: None,
            taken_over_from: None,
            is_layered: fence.is_some_and(|fence| fence.fence.layer.is_some()),
        })
    }
}

/// The largest report of tests that is read, in bytes.
const LARGEST_REPORT: u64 = 16 << 20;

/// How many tests passed by reports in JUnit's format that were written since then; `None` where there is none.
fn tests_in_reports(top: &Path, since: SystemTime) -> Option<u64> {
    let files = untrusted::files(top).into_iter();
    let reports = files.filter(|file| file.extension().is_some_and(|ending| ending == "xml"));
    let counts = reports.filter_map(|file| {
        let written = untrusted::open(top, &file)?.metadata().ok()?.modified().ok()?;
        // A report that was there before tells of other work.
        let bytes = untrusted::read(top, &file, LARGEST_REPORT).filter(|_| written >= since)?;
        TestCount::of_junit(&String::from_utf8_lossy(&bytes))
    });
    counts.reduce(u64::saturating_add)
}

/// Runs set-up commands in a worktree whose files others wrote: behind the fence that check commands run behind.
///
/// # Errors
/// As [`commands::set_up`]; `sandbox-unavailable` where there is no fence.
pub(crate) fn set_up_fenced(
    ctx: &Ctx,
    subject: &commands::CommandSubject<'_>,
    run: &[String],
    worktree: &Path,
    admin_dir: PathBuf,
) -> Result<()> {
    // Never without a fence: these commands start programs that others wrote.
    let mode = Mode::Require;
    let Enforcement::Fenced(level) = ctx.kernel()?.enforcement(mode)? else {
        return Err(Error::bug("a mode that insists gives a fence"));
    };
    let scratch = Scratch::make(ctx, "setup")?;
    let [temporary, caches] = ["tmp", "cache"].map(|name| scratch.path().join(name));
    for directory in [&temporary, &caches] {
        fsx::create_dir(directory)?;
    }
    let open = open_places(ctx, &[])?;
    let kept = scratch.path().join("views");
    let caches_of = private_caches(ctx, &open, (&caches, &kept), level)?;
    let mut variables = caches_of.variables;
    variables.push(("TMPDIR".into(), temporary.clone().into()));
    let own = [worktree, &temporary, &caches];
    let report = scratch.path().join("fence");
    let mut fence = CheckFence::around(ctx, open, &own, mode, level, report, Some(admin_dir))?;
    fence.fence.caches = caches_of.mounts;
    let place = commands::FencedPlace { plan: fence.plan(), variables: &variables };
    commands::set_up(ctx, subject, run, worktree, Some(&place))
}

/// What check commands may write, and where the kernel's answer is kept while one runs.
#[derive(Clone)]
struct CheckFence {
    fence: Fence,
    level: Level,
    report: PathBuf,
}

impl CheckFence {
    /// What a command is started behind.
    fn plan(&self) -> Plan<'_> {
        Plan { fence: &self.fence, level: self.level, report: &self.report }
    }

    fn around(
        ctx: &Ctx,
        open: Vec<PathBuf>,
        own: &[&Path],
        mode: Mode,
        level: Level,
        report: PathBuf,
        admin_dir: Option<PathBuf>,
    ) -> Result<CheckFence> {
        let mut writable = open;
        for place in own {
            writable.push(fs::canonicalize(place).at("could not resolve", place)?);
        }
        writable.sort_unstable();
        writable.dedup();
        let mut fence = Fence { writable, unix_sockets: mode != Mode::Strict, ..Fence::default() };
        hidden_places::hide(ctx, None, ctx.env.require_program()?, &mut fence)?;
        // git in the worktree reads its own admin directory, which lies among those of others.
        fence.shown.extend(admin_dir);
        Ok(CheckFence { fence, level, report })
    }
}
