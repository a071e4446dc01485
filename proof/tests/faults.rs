//! Every property can fail: where a step leaves out what protects it, the checker finds a way in which it breaks.

use git_agent_proof::{Outcome, all, claim, exchange, landing, layers, ledger, limits, removal};
use git_agent_proof::{train, undo};

fn breaks(outcome: Outcome, property: &str) {
    let model = outcome.model;
    let broken: Vec<_> = outcome.failures.keys().collect();
    let steps = outcome.failures.get(property);
    let steps = steps.unwrap_or_else(|| panic!("{model}: {broken:?} and not {property}"));
    assert!(!steps.is_empty(), "{model}: {property} fails where nothing happened");
}

#[test]
fn ledger_faults_are_found() {
    use ledger::Fault;
    let of = |fault| ledger::explore(Some(fault));
    breaks(of(Fault::SwapsWithoutCompare), "what was acknowledged is in the ledger");
    breaks(of(Fault::ForgetsTheLastStamp), "rows are in the order in which they were written");
}

#[test]
fn exchange_faults_are_found() {
    use exchange::Fault;
    let of = |fault| exchange::explore(Some(fault));
    let acknowledged = "the remote has what was acknowledged";
    let twice = |fault| exchange::explore_loss(Some(fault));
    breaks(of(Fault::DeletesWhenLate), acknowledged);
    breaks(of(Fault::PushesByForce), acknowledged);
    breaks(of(Fault::TrustsThePush), acknowledged);
    breaks(of(Fault::TakesTheirs), "a clone has what was written in it");
    breaks(of(Fault::TakesForeignRefs), "what is not ours stays on the remote");
    breaks(twice(Fault::TakesTheirs), "a clone has what was written in it");
}

#[test]
fn claim_faults_are_found() {
    use claim::Fault;
    let of = |fault| claim::explore_timely(Some(fault));
    breaks(of(Fault::BelievesClocks), "one clone holds the claim");
    breaks(of(Fault::SwapsWithoutCompare), "one clone holds the claim");
    breaks(of(Fault::ForgetsAtFailure), "a clone knows its own claim");
    let of = |fault| claim::explore_late(Some(fault));
    breaks(of(Fault::DeletesTakeover), "the work of one clone lands, once");
    breaks(of(Fault::LandsWithoutToken), "what lands is by the clone that the claim names");
    breaks(of(Fault::SwapsWithoutCompare), "what lands is by the clone that the claim names");
}

#[test]
fn landing_faults_are_found() {
    use landing::Fault;
    let of = |fault| landing::explore(Some(fault));
    let judged = "a target moves only from and to what was judged";
    breaks(of(Fault::SwapsWithoutCompare), judged);
    breaks(of(Fault::ForgetsTheBranch), judged);
    breaks(of(Fault::AsksTheRowAlone), "what failed or was put off does not land");
    breaks(of(Fault::RecordsFirst), "what a row says has landed is on the target");
    breaks(of(Fault::LandsAgain), "no work lands twice");
}

#[test]
fn train_faults_are_found() {
    use train::Fault;
    let of = |fault| train::explore(Some(fault));
    breaks(of(Fault::SwapsWithoutCompare), "what others brought stays");
    breaks(
        train::explore_flaky(Some(Fault::RemembersRed)),
        "only what is bad on what is good is rejected",
    );
    breaks(of(Fault::ChecksTheFirstOnly), "trains move the target only to green trees");
}

#[test]
fn removal_faults_are_found() {
    use removal::Fault;
    let of = |fault| removal::explore(Some(fault));
    let (committed, files) =
        ("what the agent committed can be had back", "what is in the worktree can be had back");
    let persons = "a person's commit is neither moved nor deleted by us";
    breaks(of(Fault::RemovesFirst), committed);
    breaks(of(Fault::ForgetsWhatCannotMove), committed);
    breaks(of(Fault::PrunesAtOnce), committed);
    breaks(of(Fault::KeepsLater), files);
    breaks(of(Fault::LooksOnce), files);
    breaks(of(Fault::SwapsWithoutCompare), persons);
    breaks(of(Fault::DeletesWithoutCompare), persons);
}

#[test]
fn undo_faults_are_found() {
    use undo::Fault;
    let of = |fault| undo::explore(Some(fault));
    let persons = "no undo takes away what a person committed";
    breaks(of(Fault::MovesWhatWasBuiltUpon), persons);
    breaks(of(Fault::SwapsWithoutCompare), persons);
    breaks(of(Fault::RecordsFirst), "rows say what was so when they were written");
}

#[test]
fn limits_faults_are_found() {
    use limits::Fault;
    let of = |fault| limits::explore(Some(fault));
    breaks(of(Fault::ForgetsTheWaiting), "the limits hold");
    breaks(of(Fault::HoldsAlone), "the limits hold");
    breaks(of(Fault::TakesWithoutLock), "no two have one number");
    breaks(of(Fault::CountsLater), "where none works the first that waits may begin");
}

#[test]
fn layers_faults_are_found() {
    use layers::Fault;
    let of = |fault| layers::explore(Some(fault));
    let (base, seen) = ("an agent's base is there", "what was told to be kept is seen");
    breaks(of(Fault::TakesBlindly), base);
    breaks(of(Fault::AsksForTheRecord), base);
    breaks(of(Fault::SweepsByTheList), base);
    breaks(of(Fault::RemovesTheRecordFirst), "files of a base are named");
    breaks(of(Fault::ForgetsTheUpper), "an upper has one mount");
    breaks(of(Fault::AcknowledgesUnsynced), seen);
    breaks(of(Fault::RemovesTheLayerFirst), seen);
    breaks(of(Fault::TrustsTheNote), seen);
}

#[test]
fn every_model_is_named_once() {
    let mut names: Vec<&str> = all().iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    let count = names.len();
    names.dedup();
    assert_eq!(names.len(), count);
}
