//! What an operation needs from the world: the repository, a little environment, a clock, random
//! numbers. Tests replace the last two and stop the process at a named step.

mod env;

use crate::agents::context::{run_repo, untrusted};
use crate::domain::paths::path::PlaceNames;
use crate::domain::{AgentId, OperationId};
use crate::error::{Code, Error, Result};
use crate::git::changes::ignore::Rules;
use crate::git::config::Identities;
use crate::git::files::admin_dir::admin_dir_of_clone;
use crate::git::files::temporary::TemporaryDirectory;
use crate::git::{Checkout, Repo};
use crate::proc;
use crate::proc::sandbox::Kernel;
use crate::store::Ledger;
use crate::store::files::{fsx, layout, lock};
use chrono::{DateTime, Utc};
pub use env::{Env, HOOK_DEPTH, HOOK_HOMES, OUTPUT_FILE, REPOSITORY_HOOKS, WITHIN_HOOK};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tracing::debug_span;
use tracing::field::Empty;
use tracing::span::EnteredSpan;

/// The surroundings of one operation.
pub struct Ctx {
    /// The repository.
    pub repo: Repo,
    /// The caller's surroundings.
    pub env: Env,
    seams: Seams,
    log: StepLog,
}

/// What tests put in place of the world.
#[derive(Clone)]
pub struct Seams {
    /// The wall clock.
    pub clock: Arc<dyn Fn() -> DateTime<Utc> + Send + Sync>,
    /// 128 random bits.
    pub nonce: Arc<dyn Fn() -> Result<[u8; 16]> + Send + Sync>,
    /// Told the name of every step that was just completed.
    pub reached: Arc<dyn Fn(&str) + Send + Sync>,
    /// Told what is done at the moment, where that takes long.
    pub observer: ActivityObserver,
}

impl Seams {
    /// The real world.
    #[expect(clippy::disallowed_methods, reason = "this is the one door to the clock")]
    pub fn real() -> Seams {
        Seams {
            clock: Arc::new(Utc::now),
            nonce: Arc::new(|| {
                let mut bytes = [0; 16];
                getrandom::fill(&mut bytes).map_err(|error| {
                    Error::new(Code::Io, "the system has no random numbers")
                        .because(error.to_string())
                })?;
                Ok(bytes)
            }),
            reached: Arc::new(|_| {}),
            observer: Arc::new(|_, _| {}),
        }
    }
}

/// A [`Ctx`] that can travel to another thread; an open repository cannot.
#[derive(Clone)]
pub struct Seed {
    git_dir: PathBuf,
    objects: Option<PathBuf>,
    operation: Arc<OnceLock<OperationId>>,
    env: Env,
    seams: Seams,
}

impl Seed {
    /// Opens the repository again.
    ///
    /// # Errors
    /// Those of [`Repo::open`].
    pub fn open(&self) -> Result<Ctx> {
        let repo = Repo::open_writing_to(&self.git_dir, self.objects.as_deref())?;
        Ok(Ctx::new(repo.at_operation(&self.operation), self.env.clone(), self.seams.clone()))
    }

    /// As [`Seed::open`], with what [`Ctx::to_examine`] forgives.
    ///
    /// # Errors
    /// Those of [`Repo::open_to_examine`].
    pub fn open_to_examine(&self) -> Result<Ctx> {
        Ok(Ctx::new(Repo::open_to_examine(&self.git_dir)?, self.env.clone(), self.seams.clone()))
    }
}

impl Ctx {
    /// The ledger of the repository.
    pub fn ledger(&self) -> Ledger<'_> {
        Ledger::new(&self.repo)
    }

    /// The surroundings of this process.
    ///
    /// # Errors
    /// Those of [`Repo::from_env`] and [`Env::of_process`].
    pub fn of_process() -> Result<Ctx> {
        let env = Env::of_process()?;
        let around = || {
            let around = run_repo::around(&env.directory);
            around.or_else(|| admin_dir_of_clone(&env.directory))
        };
        // Inside the fence the run repository is the right one, and `GIT_DIR` names another on
        // purpose.
        let may_be_around = !env.fenced && env.git_dir.is_none();
        let repo = match may_be_around.then(around).flatten() {
            // The worktree leads to a repository that a fenced command, or an agent, writes.
            Some(admin_dir) => Repo::open_git_dir(&admin_dir),
            None => Repo::from_env(),
        };
        Ctx::shared(env, repo)
    }

    /// The surroundings of this process, for what concerns no repository. Where there is none that can be opened, an empty
    /// one takes its place, in a directory that is removed with what is given beside the surroundings.
    ///
    /// # Errors
    /// Those of [`Env::of_process`] and [`TemporaryDirectory::make`].
    pub fn anywhere() -> Result<(Ctx, Option<TemporaryDirectory>)> {
        if let Ok(ctx) = Ctx::of_process() {
            return Ok((ctx, None));
        }
        let env = Env::of_process()?;
        // git wants a repository even to check a signature, so an empty one is made.
        let place = env.directory.join(env.temporary_place());
        let directory = TemporaryDirectory::make(&place, "anywhere")?;
        let repo = Repo::empty_below(directory.path())?;
        Ok((Ctx::new(repo, env, Seams::real()), Some(directory)))
    }

    /// The surroundings of this process; a repository whose main worktree is not where it should be is
    /// seen as if it were bare.
    ///
    /// # Errors
    /// Those of [`Repo::from_env_to_examine`] and [`Env::of_process`].
    pub fn to_examine() -> Result<Ctx> {
        let env = Env::of_process()?;
        Ctx::shared(env, Repo::from_env_to_examine())
    }

    /// The surroundings of this process, which from now on leaves what it makes to whom the repository is shared
    /// with.
    fn shared(env: Env, repo: Result<Repo>) -> Result<Ctx> {
        let repo = repo.map_err(|error| name_git_dir(error, &env))?;
        layout::require_no_links(repo.common_dir())?;
        // `core.sharedRepository` asks for this, and files that we make ourselves are not made by
        // git.
        let sharing = repo.sharing()?;
        proc::change_umask(|umask| sharing.umask(umask));
        if sharing.is_with_group() {
            fsx::share_private_files();
        }
        // Its supervisor holds the lock, which the fence hides.
        if let (true, Some(id)) = (env.fenced, env.agent.as_deref().and_then(AgentId::parse)) {
            lock::assume_held(repo.common_dir(), &layout::live_lock(id));
        }
        Ok(Ctx::new(repo, env, Seams::real()))
    }

    /// Surroundings made by hand.
    pub fn new(repo: Repo, env: Env, seams: Seams) -> Ctx {
        Ctx { repo, env, seams, log: StepLog::begin() }
    }

    /// The same surroundings, which tell what is done at the moment.
    pub fn narrated_by(mut self, observer: ActivityObserver) -> Ctx {
        self.seams.observer = observer;
        self
    }

    /// Whom to ask what can be enforced here.
    ///
    /// # Errors
    /// `io` when the system does not tell this program's own file.
    pub(crate) fn kernel(&self) -> Result<Kernel<'_>> {
        // What is judged from copies of objects alone, as in continuous integration, is to write nothing.
        let answers = layout::kernel_answers(self.repo.common_dir());
        let answers = Some(answers).filter(|_| !self.repo.is_scratch());
        Ok(Kernel::new(self.env.require_program()?, answers))
    }

    /// Tells what is done from here on, until what is given is dropped.
    pub(crate) fn activity(&self, what: &str) -> Activity {
        Activity::begin(&self.seams.observer, what)
    }

    /// The same surroundings, in which objects are written below a directory of the caller's and nothing else is.
    ///
    /// # Errors
    /// Those of [`Repo::with_scratch_objects`].
    pub fn with_scratch_objects(&self, directory: &Path) -> Result<Ctx> {
        let repo = self.repo.with_scratch_objects(directory)?;
        let repo = repo.at_operation(self.repo.shared_operation());
        Ok(Ctx::new(repo, self.env.clone(), self.seams.clone()))
    }

    /// What another thread needs to make the same surroundings its own.
    pub fn seed(&self) -> Seed {
        Seed {
            git_dir: self.repo.git_dir().to_owned(),
            objects: self.repo.scratch_objects().map(Path::to_owned),
            // What the threads of one command write is one operation, which is taken back as one.
            operation: Arc::clone(self.repo.shared_operation()),
            env: self.env.clone(),
            seams: self.seams.clone(),
        }
    }

    /// The time.
    pub fn now(&self) -> DateTime<Utc> {
        (self.seams.clock)()
    }

    /// 128 random bits.
    ///
    /// # Errors
    /// `io` when the system has none.
    pub fn nonce(&self) -> Result<[u8; 16]> {
        (self.seams.nonce)()
    }

    /// Says that a step is complete.
    pub fn reached(&self, step: &str) {
        self.log.passed(step);
        (self.seams.reached)(step);
    }

    /// As [`Ctx::reached`], of a step that changes nothing: only the log is told.
    pub fn logged(&self, step: &str) {
        self.log.passed(step);
    }

    /// The worktrees that have a branch checked out, without that of the agent that asks from inside its fence.
    ///
    /// # Errors
    /// Those of [`untrusted::checkouts`].
    pub(crate) fn checkouts(&self, branch: &str) -> Result<Vec<Checkout>> {
        let lead = self.env.lead.as_ref();
        untrusted::checkouts(&self.repo, branch, &self.temporary_place(), lead)
    }

    /// Author and committer of what we commit now.
    ///
    /// # Errors
    /// Those of [`Repo::identities`].
    pub fn identities(&self) -> Result<Identities> {
        self.repo.identities(self.now().timestamp())
    }

    /// Who the ledger says did this: the agent we are called from, else git's committer.
    ///
    /// # Errors
    /// Those of [`Repo::identities`].
    pub fn actor(&self) -> Result<String> {
        match &self.env.agent {
            Some(agent) => Ok(agent.clone()),
            None => Ok(self.identities()?.committer.name),
        }
    }

    /// A text for the ledger, which travels: absolute paths in it are named by the directory they are in.
    /// `worktree` is that of the agent whom it is about.
    ///
    /// # Errors
    /// Those of [`Repo::root`].
    pub fn public_text(&self, text: &str, worktree: Option<&Path>) -> Result<String> {
        let root = self.repo.root()?;
        // The longest of them that fits names the place: a worktree usually lies below the root,
        // and that below the home.
        let places = [
            (worktree, "{worktree}"),
            (Some(root.as_path()), "{root}"),
            (self.env.home.as_deref(), "~"),
        ];
        let named = places.into_iter().filter_map(|(path, name)| {
            let path = path?.to_str()?;
            Some((path.trim_end_matches('/').to_owned(), name))
        });
        Ok(PlaceNames::new(named).shorten(text))
    }

    /// The rules by which untracked files of a worktree count as work.
    ///
    /// # Errors
    /// Those of [`Repo::ignore_rules`].
    pub fn ignore_rules(&self) -> Result<Rules> {
        self.repo.ignore_rules(&self.env.default_excludes())
    }

    /// Where temporary files go that no agent can write: outside of every repository.
    pub fn temporary_place(&self) -> PathBuf {
        self.absolute(self.env.temporary_place())
    }

    /// The program of this name on the path; none that lies in the repository or in a worktree, which agents can write. A path in
    /// place of a name is taken as it is.
    ///
    /// # Errors
    /// Those of listing worktrees.
    pub fn trusted_program(&self, name: &str) -> Result<Option<PathBuf>> {
        let mut inside = vec![self.repo.root()?];
        inside.extend(self.repo.worktrees()?.into_iter().map(|one| one.path));
        let is_outside = |file: &PathBuf| {
            // A name without a directory is relative to where the caller stands, which may be a worktree. A link on the path may
            // lead into one, so the directory is resolved first.
            let real = file.parent().map(std::fs::canonicalize);
            file.is_absolute()
                && matches!(real, Some(Ok(real)) if !inside.iter().any(|top| real.starts_with(top)))
        };
        let mut files = self.env.search.iter().map(|place| place.join(Path::new(name)));
        Ok(files.find(|file| file.is_file() && is_outside(file)))
    }

    /// An absolute path for one that the caller gave.
    pub fn absolute(&self, path: &Path) -> PathBuf {
        // A shell expands `~` before we see it; in a setting it is left to us.
        match (path.strip_prefix("~"), &self.env.home) {
            (Ok(rest), Some(home)) => home.join(rest),
            _ => self.env.directory.join(path),
        }
    }
}

/// Where no repository can be opened and `GIT_DIR` is set, that is the first thing to look at.
fn name_git_dir(error: Error, env: &Env) -> Error {
    match &env.git_dir {
        None => error,
        Some(git_dir) => error.hint(format!(
            "GIT_DIR is {}; to go by the current directory instead, run unset GIT_DIR",
            git_dir.display()
        )),
    }
}

// The steps of an operation in the log that `GIT_AGENT_LOG` asks for: one span for each.

/// The step under way. Its span is open from the end of the step before it, and is named when it is complete.
pub(crate) struct StepLog(RefCell<Option<EnteredSpan>>);

impl StepLog {
    /// Begins the first step.
    pub(crate) fn begin() -> StepLog {
        StepLog(RefCell::new(Some(open())))
    }

    /// Ends the step under way, which is called `step`, and begins the next one.
    pub(crate) fn passed(&self, step: &str) {
        let mut under_way = self.0.borrow_mut();
        if let Some(span) = under_way.take() {
            span.record("step", step);
        }
        *under_way = Some(open());
    }
}

impl Drop for StepLog {
    fn drop(&mut self) {
        if let Some(span) = self.0.borrow_mut().take() {
            span.record("step", "rest");
        }
    }
}

fn open() -> EnteredSpan {
    debug_span!("step", step = Empty).entered()
}

// What a command does at the moment, for a person who waits for it.

/// Told under a number what is done from now on; without a text, that it is over.
pub type ActivityObserver = Arc<dyn Fn(u64, Option<&str>) + Send + Sync>;

/// Something that takes long, until this is dropped.
pub(crate) struct Activity {
    number: u64,
    observer: ActivityObserver,
}

impl Activity {
    pub(crate) fn begin(observer: &ActivityObserver, what: &str) -> Activity {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let activity = Activity {
            number: COUNT.fetch_add(1, Ordering::Relaxed),
            observer: Arc::clone(observer),
        };
        activity.now(what);
        activity
    }

    /// Replaces what was said before.
    pub(crate) fn now(&self, what: &str) {
        (self.observer)(self.number, Some(what));
    }
}

impl Drop for Activity {
    fn drop(&mut self) {
        (self.observer)(self.number, None);
    }
}
