//! `discard`: removes an agent's worktree and branch, after everything in them was kept.
//!
//! [`plan`] looks and refuses, [`execute`] looks again and removes. The steps, each named for the tests
//! that stop the process there:
//!
//! 1. `aside`: the worktree bears a hidden name beside its own. Only now it is looked at. Files that are too long to be read are
//!    moved out of it ([`crate::store::files::large_files`]).
//! 2. `kept`: tip, salvage, bundle and what only reflogs still name hang on the keep chain, by one append.
//! 3. `salvaged`: the row names them.
//! 4. `proven`: what was kept still has the very bytes, and no directory has got or lost a name; where several agents go, every
//!    file is as it was seen. Where that is not so, the salvage was made again, and kept too.
//!    From here on the file `discarding` in the agent's directory says that the rest only needs doing.
//! 5. `trashed`: the worktree is in the trash, where another process deletes it.
//! 6. `unlinked`: the admin directory is, too.
//! 7. `discarded`: the row says so and names the tip; before the branch goes, so that no moment
//!    exists in which the tip has no name.
//! 8. `unbranched`: the branch is deleted if it is still where the row says, with its section of the
//!    configuration.
//!
//! Why nothing is lost: until step 5 every file is on disk. From step 1 on no process can open anything by the path that the
//! agent was given, because it does not exist; only a process that stands inside or holds a file open still could write, and
//! of those, ours hold `live.lock` and are refused. A file that git does not see at all is found by walking the disk
//! ([`crate::git::uncommitted::salvage::beside`]) and is a refusal. Line ends and filters are stored as committing
//! would; files that git ignores are kept with `--with-ignored`
//! alone, and named in the report otherwise.
//!
//! A kill between two steps leaves a worktree under one of its two names, or an admin directory without
//! a worktree, or a branch without either. Running `discard` again finds each and goes on; `gc` does
//! it for everybody. `doctor --fix` gives a worktree that is not proven yet its name back, and completes every discard that has
//! come further. A discard that finds in the worktree what it must refuse to remove gives the name back, too (`back`).
//!
//! Several agents are removed together: the steps 2, 3, 7 and 8 are done for all of them at once, the steps 4 to 6 for one
//! after the other.
//!
//! All of it happens under `landing.lock`, so that the same work does not land meanwhile, and the steps from
//! 5 to 6 under `spawn.lock`, because a spawn makes the directories that become empty there.

mod batch;
mod gate;
mod remove;
mod salvage;

use crate::agents::upkeep::{clone, crash_recovery};
use crate::agents::who::authority::require_orchestrator;
use crate::agents::who::lookup::clone_id;
use crate::agents::{
    Ctx, Scratch, context::run_repo, place::worktree, stock::layered, who::lookup,
};
use crate::domain::{Agent, Move, Oid, State};
use crate::error::{Code, Error, Result};
use crate::ops::agent_report::{AgentReport, Reporter, rfc3339};
use crate::ops::discard::salvage::Salvage;
use crate::proc::launch;
use crate::store::files::large_files::LargeFile;
use crate::store::files::{fsx, large_files, layout};
use crate::wire::output::path_text::PathText;
pub use batch::discard_each;
pub(in crate::ops) use batch::execute_each;
pub(in crate::ops) use gate::WorktreeSnapshot;
use gate::{Place, Remains};
pub use remove::execute;
use serde::Serialize;
use serde_with_macros::skip_serializing_none;

/// The steps, in order, under the names given to [`crate::agents::context::ctx::Seams::reached`].
pub const STEPS: [&str; 8] =
    ["aside", "kept", "salvaged", "proven", "trashed", "unlinked", "discarded", "unbranched"];

/// What the caller asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiscardOptions {
    /// Salvage ignored files too.
    pub with_ignored: bool,
    /// Also an agent that lives in another clone.
    pub force: bool,
    /// Leaves the commands of `[hooks]` out.
    pub no_hooks: bool,
    /// Keeps an agent whose branch has moved since the plan was made.
    pub unmoved: bool,
}

/// What a discard would remove.
pub struct DiscardPlan {
    pub(super) agent: Agent,
    pub(super) options: DiscardOptions,
    pub(super) site: Remains,
    /// What was around it, unless the caller has that.
    around: WorktreeSnapshot,
    /// The branch that has all of its work; what came into its worktree since keeps the agent.
    landed_on: Option<String>,
}

impl DiscardPlan {
    /// The agent as it was when the plan was made.
    pub(in crate::ops) fn agent(&self) -> &Agent {
        &self.agent
    }

    /// The same, of an agent whose work that branch has, if any: it is kept where its worktree has got something else by then.
    pub(in crate::ops) fn of_landed(self, target: Option<String>) -> DiscardPlan {
        // What a killed discard has put aside was to go, whatever is in it.
        let is_in_place = |place: &Place| place.files.as_ref() == Some(&place.path);
        let is_asked = self.site.place.as_ref().is_some_and(is_in_place);
        DiscardPlan { landed_on: target.filter(|_| is_asked), ..self }
    }

    /// Whether there is neither worktree, admin directory nor branch any more.
    pub fn is_empty(&self) -> bool {
        self.site.is_empty()
    }

    /// The files that would not be kept.
    ///
    /// # Errors
    /// Those of reading the worktree.
    pub fn not_kept(&self, ctx: &Ctx) -> Result<NotKept> {
        salvage::not_kept(ctx, &self.agent, &self.site, self.options)
    }
}

/// What a discard would do; nothing is written to the repository.
///
/// # Errors
/// As [`plan`].
pub fn rehearse(ctx: &Ctx, who: &str, options: DiscardOptions) -> Result<DiscardReport> {
    let scratch = Scratch::make(ctx, "discard")?;
    let apart = ctx.with_scratch_objects(scratch.path())?;
    DiscardReport::planned(&apart, &plan(&apart, who, options)?)
}

/// Looks at what there is to remove, after the end of a crashed run is recorded.
///
/// # Errors
/// `agent-unknown`; `agent-state` for one that is being made; `worktree-foreign`, and `discard-refused`
/// for whatever could lose or disturb something, and for an agent that lives in another clone: see the message; `orchestrator-only`.
pub fn plan(ctx: &Ctx, who: &str, options: DiscardOptions) -> Result<DiscardPlan> {
    let around = WorktreeSnapshot::read(ctx)?;
    let plan = plan_among(ctx, who, options, &around)?;
    Ok(DiscardPlan { around, ..plan })
}

/// As [`plan`], with the worktrees that are `around` it.
fn plan_among(
    ctx: &Ctx,
    who: &str,
    options: DiscardOptions,
    around: &WorktreeSnapshot,
) -> Result<DiscardPlan> {
    // An agent is told so before anything is locked or written.
    if ctx.env.fenced || ctx.env.agent.is_some() {
        require_orchestrator(ctx)?;
    }
    let agent = lookup::agent(ctx, &ctx.ledger(), who)?;
    // What cannot be taken in is kept as it is.
    let _ = clone::bring_in(ctx, &agent);
    let agent = crash_recovery::run_at_rest(ctx, agent)?;
    let plan = plan_for(ctx, agent, options, around)?;
    // Last: a person in this very worktree is told to leave it.
    require_orchestrator(ctx)?;
    Ok(plan)
}

/// As [`plan`], for an agent that was read already.
pub(in crate::ops) fn plan_for(
    ctx: &Ctx,
    agent: Agent,
    options: DiscardOptions,
    around: &WorktreeSnapshot,
) -> Result<DiscardPlan> {
    layout::require_no_link(&layout::agent_dir(ctx.repo.common_dir(), agent.id))?;
    agent.require_understood()?;
    if !options.force {
        require_not_alive_elsewhere(ctx, &agent)?;
    }
    if agent.state == State::Spawning {
        let what = format!("agent {} is still being made", agent.id.short());
        return Err(Error::new(Code::AgentState, what)
            .hint("to take spawns apart that were interrupted, run git agent doctor --fix"));
    }
    // A discard that was killed after its row is completed by the next one.
    if agent.state != State::Discarded {
        agent.may(Move::Discard)?;
    }
    // Else there would be two worktrees, one of which no look sees.
    layered::settle_killed(ctx, &agent)?;
    let site = Remains::look(ctx, &agent, around)?;
    Ok(DiscardPlan { agent, options, site, around: WorktreeSnapshot::default(), landed_on: None })
}

/// Refuses an agent whose work is in another clone: nothing of it could be salvaged from here, and the row would say
/// that it is gone while it goes on.
fn require_not_alive_elsewhere(ctx: &Ctx, agent: &Agent) -> Result<()> {
    let admin_dir = worktree::admin_dir(&ctx.repo, agent.id);
    let is_here = lookup::is_local(ctx, agent) || admin_dir.exists();
    if is_here || !agent.state.is_open() {
        return Ok(());
    }
    let id = agent.id.short();
    Err(gate::refused(format!(
        "agent {id} is {} in another clone, {}, whose last event here is of {}",
        agent.state,
        clone_id(agent),
        rfc3339(agent.updated)
    ))
    .hint(format!("to see its history, run git agent show --log {id}"))
    .hint(format!("to end it in the ledger all the same, run git agent discard {id} --force")))
}

/// Deletes what discards left in the trash, in a process of its own, so that the caller does not wait for it. Where none
/// can be started it stays there for `gc`.
pub fn sweep_later(ctx: &Ctx, trash: &[String]) {
    if let (Some(program), false) = (&ctx.env.program, trash.is_empty()) {
        let words = ["sweep", "--"].into_iter();
        let words = words.chain(trash.iter().map(String::as_str));
        launch::start(program, words, ctx.repo.common_dir(), &[]);
    }
}

/// Deletes what bears these names in the trash.
pub fn sweep(ctx: &Ctx, trash: &[String]) {
    fsx::empty_trash(ctx.repo.common_dir(), trash);
}

/// The commit that salvages stand on: the branch's tip; without a branch, what the agent began with.
fn tip_of(agent: &Agent, site: &Remains) -> Oid {
    site.tip.unwrap_or(agent.spawn_commit)
}

// What a discard answers.

/// The answer of `discard`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.discard/3")]
pub struct DiscardReport {
    /// The agent after it.
    #[serde(flatten)]
    pub agent: AgentReport,
    /// Whether nothing was done yet.
    pub dry_run: bool,
    /// Whether there was a worktree, or its admin directory, to remove.
    pub removes_worktree: bool,
    /// Whether there was a branch to delete.
    pub deletes_branch: bool,
    /// The branch's last commit.
    pub tip: Option<String>,
    /// The commit that holds what was not committed.
    pub salvage_commit: Option<String>,
    /// The commit that holds the bundle.
    pub bundle_commit: Option<String>,
    /// The commits that no branch had and that are kept as well: of a detached HEAD, amended ones, an index with conflicts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub other_commits: Vec<String>,
    /// The files that are not kept.
    #[serde(flatten)]
    pub not_kept: NotKept,
    /// Files that are too long to be read, which were moved away as they are, or would be.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set_aside: Vec<LargeFile>,
    /// What the caller should know though it is discarded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Whether it had been discarded before, and nothing was left of it.
    #[serde(skip)]
    pub was_discarded: bool,
    /// Whether its spawn had failed, so that nothing of it was ever put away.
    #[serde(skip)]
    pub was_never_ready: bool,
    /// Names in the trash that are still to be deleted.
    #[serde(skip)]
    pub trash: Vec<String>,
}

/// The files of a worktree that go with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NotKept {
    /// Ignored files and directories, as `git status --ignored` names them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<PathText>,
    /// FIFOs, sockets and devices, which hold nothing that could be kept.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub special: Vec<PathText>,
    /// Files that are as `[setup]` left them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<PathText>,
}

impl NotKept {
    fn new<'p>(
        ignored: impl IntoIterator<Item = &'p Vec<u8>>,
        setup: &[Vec<u8>],
        special: &[Vec<u8>],
    ) -> NotKept {
        let text = |path: &Vec<u8>| PathText::from(path.as_slice());
        let texts = |paths: &[Vec<u8>]| paths.iter().map(text).collect();
        NotKept {
            ignored: ignored.into_iter().map(text).collect(),
            setup: texts(setup),
            special: texts(special),
        }
    }
}

/// The files that would be set aside, each where it is now.
fn large_files(ctx: &Ctx, plan: &DiscardPlan, place: &Place) -> Result<Vec<LargeFile>> {
    let Some(top) = place.contents() else {
        return Ok(Vec::new());
    };
    let paths = remove::candidates(ctx, &plan.agent, place, &top, plan.options)?;
    let files = paths.iter().filter_map(|path| large_files::at(&top, path));
    Ok(files.collect())
}

impl DiscardReport {
    /// What a plan would do.
    ///
    /// # Errors
    /// `discard-refused` for an agent that another process works for, and for files that no salvage can hold; those of reading the repository.
    pub fn planned(ctx: &Ctx, plan: &DiscardPlan) -> Result<DiscardReport> {
        remove::require_unheld(ctx, &plan.agent)?;
        let reporter = Reporter::new(ctx)?;
        let mut report = DiscardReport::new(ctx, &reporter, &plan.agent, &plan.site);
        report.agent = reporter.agent(ctx, &plan.agent);
        report.dry_run = true;
        report.not_kept = plan.not_kept(ctx)?;
        if let Some(place) = &plan.site.place {
            report.set_aside = large_files(ctx, plan, place)?;
            let tip = ctx.repo.read_commit(tip_of(&plan.agent, &plan.site))?;
            salvage::keep_bundle(ctx, &plan.agent, &plan.site, &tip)?;
        }
        Ok(report)
    }

    fn new(ctx: &Ctx, reporter: &Reporter, agent: &Agent, site: &Remains) -> DiscardReport {
        let left = run_repo::left_in(&layout::agent_dir(ctx.repo.common_dir(), agent.id));
        let left = left.iter().map(|place| {
            format!("what a run left and was not taken over stays in {}", place.display())
        });
        let foreign = site.foreign_branch.iter().map(|name| {
            format!("{name} stays: nothing in this clone proves that it is this agent's branch")
        });
        let along = site.tip.and_then(|tip| gate::goes_along(ctx, agent, tip));
        let was_discarded = agent.state == State::Discarded && site.is_empty();
        DiscardReport {
            // What holds the agent's lock by now is the discard.
            agent: AgentReport { state: agent.state.as_str(), ..reporter.row(agent) },
            dry_run: false,
            removes_worktree: site.place.is_some(),
            deletes_branch: site.branch.is_some(),
            tip: site.tip.map(|tip| tip.to_hex()),
            salvage_commit: None,
            bundle_commit: None,
            other_commits: Vec::new(),
            not_kept: NotKept::default(),
            set_aside: Vec::new(),
            warnings: foreign.chain(left).chain(site.losses.clone()).chain(along).collect(),
            was_discarded,
            was_never_ready: was_discarded && lookup::was_never_ready(ctx, agent),
            trash: Vec::new(),
        }
    }

    fn found(&mut self, salvage: &Salvage) {
        self.salvage_commit = salvage.work.map(|oid| oid.to_hex());
        self.bundle_commit = salvage.bundle.map(|oid| oid.to_hex());
        self.other_commits = salvage.leftovers.iter().map(|oid| oid.to_hex()).collect();
        self.not_kept = salvage.not_kept.clone();
        self.warnings.extend(salvage.warning.clone());
        self.warnings.extend(salvage.losses.clone());
    }
}
