//! The answer of `overlap`: `git-agent.overlap/3`.

use crate::domain::path::RepoPath;
use crate::ops::agent_report::AgentRef;
use crate::ops::overlap::merges::MergeState;
use crate::ops::overlap::order::Step;
use crate::ops::overlap::{OverlapOptions, Scene};
use crate::ops::target_report::TargetReport;
use crate::wire::path_text::PathText;
use serde::Serialize;

/// The live agents and the pairs of them that overlap. Absent means not asked for, null that it could not
/// be found out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OverlapReport {
    /// The format's name and version.
    pub schema: &'static str,
    /// What was compared: some of `scopes`, `changes`, `merge`.
    pub compared: Vec<&'static str>,
    /// The agents, oldest first.
    pub agents: Vec<LiveAgent>,
    /// The pairs that have something in common, the older agent of each first.
    pub pairs: Vec<PairReport>,
    /// How what is done should land, first to last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Vec<Step>>,
    /// What could not be found out.
    pub problems: Vec<Problem>,
}

/// One agent that was compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LiveAgent {
    /// Its names.
    #[serde(flatten)]
    pub agent: AgentRef,
    /// `running`, `done` or `failed`.
    pub state: &'static str,
    /// Whether a decision was put off.
    pub deferred: bool,
    /// Whether it may change files.
    pub edits: bool,
    /// The branch it lands on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetReport>,
    /// How many paths it has touched since its base.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub touched: Option<Option<usize>>,
}

/// Two agents that have something in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PairReport {
    /// The id of the older one.
    pub one_id: String,
    /// The id of the other one.
    pub two_id: String,
    /// What both may touch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scopes: Option<ScopesReport>,
    /// What both have touched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<ChangesReport>,
    /// How their work merges.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merge: Option<MergeReport>,
}

/// What two agents may both touch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ScopesReport {
    /// How many tracked paths.
    pub tracked: usize,
    /// The first of these.
    pub examples: Vec<PathText>,
    /// A path that both may write, tracked or not; null where it only could not be ruled out.
    pub example: Option<PathText>,
}

/// What two agents have both touched.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangesReport {
    /// The paths.
    pub paths: Vec<PathText>,
}

/// How the work of two agents merges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MergeReport {
    /// `clean`, `conflicts` or `unrelated`.
    pub state: MergeState,
    /// The paths on which they conflict.
    pub conflicts: Vec<PathText>,
    /// Whether libgit2 answered in git's place.
    pub approximate: bool,
}

/// Something that could not be found out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Whom it is about.
    pub agent_id: String,
    /// The first eight hex digits of the id.
    pub short_id: String,
    /// What is the matter.
    pub message: String,
}

impl OverlapReport {
    /// Whether some pair overlaps in the most telling of the things that were compared: a merge that
    /// conflicts, else the same path touched, else a path that both may touch. Or, in a landing order,
    /// whether an agent cannot land.
    pub fn has_collision(&self) -> bool {
        let stuck = |step: &Step| step.state != MergeState::Clean;
        if self
            .order
            .as_ref()
            .is_some_and(|order| order.iter().any(stuck))
        {
            return true;
        }
        self.pairs.iter().any(|pair| match self.compared.last() {
            Some(&"merge") => pair.conflicts(),
            Some(&"changes") => pair.changes.is_some(),
            _ => pair.scopes.is_some(),
        })
    }
}

impl PairReport {
    /// Whether a merge was tried and did not come out clean.
    pub fn conflicts(&self) -> bool {
        self.merge
            .as_ref()
            .is_some_and(|merge| merge.state != MergeState::Clean)
    }
}

pub(super) fn report(
    scene: &Scene,
    options: &OverlapOptions,
    order: Option<Vec<Step>>,
) -> OverlapReport {
    let compared = [
        ("scopes", options.scopes),
        ("changes", options.changes),
        ("merge", options.merge),
    ];
    let compared = compared
        .into_iter()
        .filter_map(|(name, asked)| asked.then_some(name));
    let problems = scene.problems.iter().map(|(index, message)| Problem {
        agent_id: scene.agents[*index].agent.id.to_string(),
        short_id: scene.agents[*index].agent.id.short(),
        message: message.clone(),
    });
    OverlapReport {
        schema: "git-agent.overlap/3",
        compared: compared.collect(),
        agents: agents(scene, options.changes),
        pairs: scene
            .pairs
            .iter()
            .filter_map(|(one, two)| pair(scene, options, *one, *two))
            .collect(),
        order,
        problems: problems.collect(),
    }
}

fn agents(scene: &Scene, changes: bool) -> Vec<LiveAgent> {
    let agents = scene.agents.iter().zip(&scene.changes);
    agents
        .map(|(live, touched)| LiveAgent {
            agent: AgentRef::of(&live.agent),
            state: live.agent.state.as_str(),
            deferred: live.agent.deferred,
            edits: live.policy.as_ref().is_some_and(|policy| policy.edits),
            target: { live.target.as_deref() }
                .map(|target| TargetReport::new(Some(target), live.target_tip)),
            touched: changes.then(|| touched.as_ref().map(|touched| touched.paths.len())),
        })
        .collect()
}

/// What two agents have in common; `None` for nothing.
fn pair(scene: &Scene, options: &OverlapOptions, one: usize, two: usize) -> Option<PairReport> {
    let text = |path: &RepoPath| PathText::from(path.as_bytes());
    let scopes = scene
        .scopes
        .as_ref()
        .and_then(|scopes| scopes.common(one, two));
    let changes = match (&scene.changes[one], &scene.changes[two]) {
        (Some(one), Some(two)) if options.changes => one.common(two),
        _ => Vec::new(),
    };
    let merges = scene.merges.as_ref().filter(|_| options.merge);
    let merge = merges.and_then(|merges| merges.outcome(one, two));
    // A clean merge of work that has no path in common is nothing to tell.
    let merge = merge.filter(|merge| !merge.is_clean() || !changes.is_empty());
    if scopes.is_none() && changes.is_empty() && merge.is_none() {
        return None;
    }
    let id = |index: usize| scene.agents[index].agent.id.to_string();
    Some(PairReport {
        one_id: id(one),
        two_id: id(two),
        scopes: scopes.map(|common| ScopesReport {
            tracked: common.tracked,
            examples: common.examples.iter().map(text).collect(),
            example: common.example.as_ref().map(text),
        }),
        changes: (!changes.is_empty()).then(|| ChangesReport {
            paths: changes
                .iter()
                .map(|path| PathText::from(path.as_slice()))
                .collect(),
        }),
        merge: merge.map(|merge| MergeReport {
            state: merge.state,
            conflicts: merge.conflicts.clone(),
            approximate: merge.approximate,
        }),
    })
}
