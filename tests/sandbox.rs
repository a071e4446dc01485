//! The kernel's fence around an agent's command, tried from inside with the real git.
//!
//! Where the kernel has no Landlock, these tests say so in a line and hold nothing.

/// Ways out, tried and refused.
pub mod escapes;
/// Files that are one with files outside.
mod hard_links;
/// Terminals, system calls, capabilities and sockets.
mod kernel;
/// What the fence lets through, and what notices it afterwards.
mod limits;
/// Locks that others wait for.
mod locks;
/// What the command has of its own, and what is open where it can have nothing.
mod namespaces;
/// The places of a fence, and what `strict` leaves of a worktree.
mod places;
/// Pushing, which no git does from inside.
mod push;
/// The fence as `run` puts it up.
mod run;
/// What an agent has to be able to do.
mod work;

use crate::support::agent::{SHARED_TASK, TASK};
use crate::support::{TestRepo, isolated, temporary_of};
use crate::verify::Agent;
use git_agent::agents::context::ctx::Ctx;
use git_agent::agents::context::ctx::Env;
use git_agent::agents::context::ctx::Seams;
use git_agent::agents::context::run_repo::{RunRepo, around};
use git_agent::agents::upkeep::publish;
use git_agent::agents::upkeep::publish::Published;
use git_agent::domain::life::agent::Agent as Row;
use git_agent::domain::life::sandbox::{Enforcement, Level, Mode, Namespaces};
use git_agent::error::Result;
use git_agent::git::Repo;
use git_agent::ops::run::fence;
use git_agent::ops::run::fence::Bounds;
use git_agent::proc::sandbox::{self, FenceOutcome, Plan, read_report};
use git_agent::store::files::layout;
use git_agent::store::landing::spawn_commit;
use git_agent::store::ledger::Ledger;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The level that this kernel enforces; `None`, after saying so, without Landlock.
#[expect(clippy::print_stdout, reason = "a test that holds nothing here says so")]
pub fn level() -> Option<Level> {
    let program = Path::new(env!("CARGO_BIN_EXE_git-agent"));
    match sandbox::Kernel::new(program, None).enforcement(Mode::Auto).expect("auto never fails") {
        Enforcement::Fenced(level) => Some(level),
        other => {
            println!("skipped, since this kernel cannot fence: {other:?}");
            None
        }
    }
}

/// An agent, the places around it, and the fence.
pub struct Fenced {
    pub agent: Agent,
    pub bounds: Bounds,
    level: Level,
}

impl Fenced {
    /// An agent of [`TASK`] in a fence of this kernel's best; `None` where it has none.
    pub fn new(mode: Mode) -> Option<Fenced> {
        level()?;
        Fenced::around(Agent::of_task(TASK), mode)
    }

    /// As [`Fenced::new`], for an agent that is there.
    pub fn around(agent: Agent, mode: Mode) -> Option<Fenced> {
        let level = level()?;
        let bounds = bounds(&agent, mode, &[]).expect("a fence");
        let surroundings = ctx(&agent);
        let row = Ledger::new(&surroundings.repo).find(&agent.id).expect("a row");
        let tip =
            surroundings.repo.tip(row.branch.as_deref().expect("a branch")).expect("read").oid();
        let run_repo = run_repo(&surroundings, &row);
        run_repo.set_up(&surroundings.repo, tip.expect("a branch"), &[]).expect("made");
        Some(Fenced { agent, bounds, level })
    }

    /// The same fence where no namespaces can be had.
    pub fn without_namespaces(mut self) -> Fenced {
        self.level.namespaces = Namespaces::None;
        self
    }

    /// A directory beside the repository.
    pub fn beside(&self, name: &str) -> PathBuf {
        beside(&self.agent, name)
    }

    /// Where the helper reports.
    pub fn report(&self) -> PathBuf {
        self.beside("report")
    }

    /// A command behind the fence, in the worktree.
    pub fn command(&self, words: &[&str]) -> Command {
        self.command_at(self.level, words)
    }

    /// As [`Fenced::command`], on an older kernel.
    pub fn command_at(&self, level: Level, words: &[&str]) -> Command {
        let plan = Plan { fence: &self.bounds.fence, level, report: &self.report() };
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let program = Path::new(env!("CARGO_BIN_EXE_git-agent"));
        let line = sandbox::wrap(program, &plan, &words);
        let mut command = isolated(&line[0], &self.agent.worktree);
        command.args(&line[1..]);
        self.surround(&mut command);
        command
    }

    /// The same command without a fence.
    pub fn unfenced(&self, words: &[&str]) -> Command {
        let mut command = isolated(words[0], &self.agent.worktree);
        command.args(&words[1..]);
        self.surround(&mut command);
        command
    }

    fn surround(&self, command: &mut Command) {
        command
            .env("TMPDIR", self.beside("tmp"))
            .env("HOME", self.beside("home"))
            .env("MAIN", self.agent.repo.path())
            .env("COMMON", self.agent.repo.path().join(".git"))
            .env("OUT", self.beside("out"))
            .env("US", env!("CARGO_BIN_EXE_git-agent"));
    }

    /// The repository that its commands work in.
    pub fn run_repo(&self) -> RunRepo {
        let surroundings = ctx(&self.agent);
        let row = Ledger::new(&surroundings.repo).find(&self.agent.id).expect("a row");
        run_repo(&surroundings, &row)
    }

    /// A shell script behind the fence.
    pub fn shell(&self, script: &str) -> Output {
        // As the supervisor does while a command runs.
        let run_repo = self.run_repo();
        run_repo.follow(&mut run_repo.followed());
        self.command(&["sh", "-ec", script]).output().expect("starts")
    }

    /// What `run` does when the command is over.
    pub fn finish(&self) -> Published {
        let surroundings = ctx(&self.agent);
        let row = Ledger::new(&surroundings.repo).find(&self.agent.id).expect("a row");
        let run_repo = run_repo(&surroundings, &row);
        publish::finish(&surroundings, &row, &run_repo).expect("published")
    }

    /// What the helper said.
    pub fn outcome(&self) -> Option<FenceOutcome> {
        read_report(&self.report()).expect("readable")
    }
}

const ACTION: &str = "GIT_AGENT_TEST_ACTION";

/// The words that start this test binary again to do one thing that no common program does.
pub fn actor() -> Vec<String> {
    let program = std::env::current_exe().expect("this binary");
    let program = program.to_str().expect("UTF-8").to_owned();
    [program.as_str(), "--exact", "sandbox::child", "--nocapture"].map(str::to_owned).to_vec()
}

/// Not a test: what is done inside a fence. It does nothing unless an action is named, and fails when that
/// action is refused.
#[test]
fn child() {
    use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixStream};
    let variable = |name: &str| std::env::var(name).expect(name);
    let Ok(action) = std::env::var(ACTION) else {
        return;
    };
    match action.as_str() {
        "abstract-socket" => {
            let name = variable("SOCKET");
            let address = SocketAddr::from_abstract_name(name).expect("a name");
            UnixStream::connect_addr(&address).expect("connected");
        }
        "descriptor" => {
            let victim = variable("VICTIM").parse().expect("a pid");
            let victim = Pid::from_raw(victim).expect("a pid");
            let victim = pidfd_open(victim, PidfdFlags::empty()).expect("opened");
            pidfd_getfd(&victim, 1, PidfdGetfdFlags::empty()).expect("taken");
        }
        "udp" => {
            let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("bound");
            let sent = socket.send_to(b"out", variable("ADDRESS")).expect("sent");
            assert_eq!(sent, 3);
        }
        other => panic!("no action {other}"),
    }
}

fn beside(agent: &Agent, name: &str) -> PathBuf {
    let path = agent.repo.path().with_file_name(name);
    std::fs::create_dir_all(path.parent().expect("above")).expect("directories");
    if name != "report" {
        std::fs::create_dir_all(&path).expect("directories");
    }
    path
}

/// The surroundings of somebody who stands in the main worktree.
pub fn ctx(agent: &Agent) -> Ctx {
    ctx_in(&agent.repo.path(), agent)
}

fn ctx_in(directory: &Path, agent: &Agent) -> Ctx {
    let env = Env {
        directory: directory.to_owned(),
        home: Some(beside(agent, "home")),
        temporary: temporary_of(directory),
        ..Env::default()
    };
    let repo = match around(directory) {
        Some(admin_dir) => Repo::open_git_dir(&admin_dir),
        None => Repo::open(directory),
    };
    let repo = repo.expect("a repository");
    Ctx::new(repo, env, Seams::real())
}

/// Where the command of an agent works.
fn run_repo(ctx: &Ctx, row: &Row) -> RunRepo {
    let worktree = ctx.repo.worktree(&layout::worktree_name(row.id)).expect("linked");
    RunRepo::of(&ctx.repo, row.id, &worktree.path, row.branch.as_deref().expect("a branch"))
}

/// The fence of an agent, as `run` works it out.
pub fn bounds(agent: &Agent, mode: Mode, allow: &[&Path]) -> Result<Bounds> {
    let repo = agent.repo.path();
    bounds_from(&repo, agent, mode, allow)
}

/// As [`bounds`], for a caller who stands in a directory.
pub fn bounds_from(stands: &Path, agent: &Agent, mode: Mode, allow: &[&Path]) -> Result<Bounds> {
    let ctx = ctx_in(stands, agent);
    let row = Ledger::new(&ctx.repo).find(&agent.id).expect("a row");
    let blob = row.policy.expect("a policy");
    let policy = spawn_commit::load_policy(&ctx.repo, blob).expect("there").expect("ours");
    let spool = ctx.repo.common_dir().join("agents/spool").join(row.id.short());
    let allow: Vec<PathBuf> = allow.iter().map(|path| path.to_path_buf()).collect();
    fence::bounds(
        &ctx,
        &fence::FenceRequest {
            agent: &row,
            policy: &policy,
            mode,
            temporary: &beside(agent, "tmp"),
            spool: &spool,
            allow: &allow,
        },
    )
}

/// An agent without a worktree.
pub fn shared_agent() -> Agent {
    let repo = TestRepo::with_commit();
    let report = repo.spawn_task(SHARED_TASK, &[]);
    Agent {
        id: report["agent_id"].as_str().expect("an id").to_owned(),
        worktree: repo.path(),
        branch: String::new(),
        repo,
    }
}
