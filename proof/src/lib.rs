//! Models of the protocols of git-agent, explored to the end.
//!
//! A model is a small world: a few clones, processes and refs, and every step that one of them may take next, death among them. The
//! checker visits each state that these steps lead to and holds the properties of the model against it. What a step decides is decided
//! by the product's own rules where those are pure functions (`git_agent::domain`, the union of rows, the fold of a row); the
//! order of the steps, and what is lost with a process, is written down here a second time.
//!
//! | model | the code that it is of |
//! |---|---|
//! | [`ledger`] | `store/chain`, `domain/value/stamp`, `git/record/notes` |
//! | [`exchange`] | `ops/sync/{exchange,push}`, `domain/exchange` |
//! | [`claim`] | `ops/sync/claim`, `domain/claim` |
//! | [`landing`] | `ops/merge/execute`, `domain/agent` |
//! | [`train`] | `domain/train`, `ops/train/track` |
//! | [`removal`] | `agents/publish`, `ops/discard/remove`, `git gc` beside them |
//! | [`undo`] | `ops/undo`, `domain/operation` |
//! | [`limits`] | `agents/admission`, `store/tickets`, `domain/limits` |
//! | [`layers`] | `agents/{layered,frozen}`, `ops/materialize` |
//!
//! A property that cannot fail proves nothing. So each model has faults: a step that leaves out what protects the property. For each of
//! them the checker must find a way in which the property breaks (`tests/faults.rs`).

pub mod claim;
pub mod exchange;
pub mod landing;
pub mod layers;
pub mod ledger;
pub mod limits;
pub mod removal;
pub mod rows;
pub mod train;
pub mod undo;

use stateright::{Checker, Expectation, HasDiscoveries, Model};
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// What came of an exploration.
pub struct Outcome {
    pub model: &'static str,
    /// What the world of the model has.
    pub bounds: &'static str,
    /// How many different states there are.
    pub states: usize,
    /// The longest way to one of them, in steps.
    pub depth: usize,
    pub took: Duration,
    /// The properties that must hold always, and those that must hold somewhere.
    pub properties: Vec<(&'static str, bool)>,
    /// Each property that failed, with the steps that lead there.
    pub failures: BTreeMap<&'static str, Vec<String>>,
}

/// Visits every state of a model.
pub fn explore<M>(model: &'static str, bounds: &'static str, world: M) -> Outcome
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq + Send + Sync + 'static,
{
    let begun = Instant::now();
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let properties = world.properties();
    let is_safety = |expectation: &Expectation| *expectation == Expectation::Always;
    // Ends early where a property fails, and nowhere else.
    let checker = world.checker().threads(threads);
    let checker = checker.finish_when(HasDiscoveries::AnyFailures);
    let checker = checker.spawn_bfs().join();
    let mut found = checker.discoveries();
    let mut failures = BTreeMap::new();
    for property in &properties {
        let path = found.remove(property.name);
        match (&property.expectation, path) {
            (Expectation::Always, Some(path)) => {
                let end = format!("{:?}", path.last_state());
                let steps = path.into_actions();
                let steps = steps.iter().map(|step| format!("{step:?}"));
                failures.insert(property.name, steps.chain([end]).collect());
            }
            (Expectation::Sometimes, None) => {
                failures.insert(property.name, vec!["no state has it".to_owned()]);
            }
            _ => {}
        }
    }
    Outcome {
        model,
        bounds,
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        took: begun.elapsed(),
        properties: { properties.iter() }
            .map(|one| (one.name, is_safety(&one.expectation)))
            .collect(),
        failures,
    }
}

/// All models, in the order in which `main` shows them.
pub fn all() -> Vec<(&'static str, fn() -> Outcome)> {
    vec![
        ("ledger", || ledger::explore(None)),
        ("exchange", || exchange::explore(None)),
        ("exchange-loss", || exchange::explore_loss(None)),
        ("claim-timely", || claim::explore_timely(None)),
        ("claim-late", || claim::explore_late(None)),
        ("landing", || landing::explore(None)),
        ("train", || train::explore(None)),
        ("train-flaky", || train::explore_flaky(None)),
        ("removal", || removal::explore(None)),
        ("undo", || undo::explore(None)),
        ("limits", || limits::explore(None)),
        ("layers", || layers::explore(None)),
    ]
}
