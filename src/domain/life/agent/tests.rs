//! The fold by cases, and its totality by properties.

use super::*;
use crate::domain::OperationId;
use crate::domain::life::event::{Competed, Exited, Spawned, Started};
use crate::domain::value::stamp::Stamp;
use chrono::TimeDelta;
use proptest::prelude::*;

const SPAWN: Oid = Oid::from_bytes([7; 20]);
const TREE: Oid = Oid::from_bytes([1; 20]);
const OTHER: Oid = Oid::from_bytes([2; 20]);

fn what(word: &str) -> What {
    let text = || word.to_owned();
    let verdict = |accepted| {
        What::Verified(Verified {
            accepted,
            tip: OTHER,
            tree: TREE,
            base: OTHER,
            merged_tree: None,
            bundle: None,
            policy: OTHER,
            findings: Vec::new(),
            fails_with: None,
            into: None,
        })
    };
    match word {
        "spawning" => What::Spawning(Spawning {
            role: "edit-local".into(),
            isolation: Isolation::Worktree,
            description: "Do it".into(),
            name: None,
            parent: None,
            base: Base { refname: None, oid: OTHER },
            dna: "sha256:00".into(),
            branch: None,
            worktree: None,
            pid: 1,
        }),
        "spawned" => {
            What::Spawned(Spawned { policy: OTHER, spec_sha: "00".into(), baseline: None })
        }
        "started" => What::Started(Started { command: text(), pid: 1, ..Started::default() }),
        "exited" => What::Exited(Exited::default()),
        "broke" => What::Exited(Exited { code: 7, ..Exited::default() }),
        "commit-judged" => What::Committed { commit: OTHER, tree: TREE },
        "commit-other" => What::Committed { commit: OTHER, tree: OTHER },
        "accepted" => verdict(true),
        "unaccepted" => verdict(false),
        "unjudged" => What::Unjudged { reason: text() },
        "done" => What::Done { summary: text(), whole: None },
        "failed" => What::Failed { reason: text(), whole: None },
        "merged" => What::Merged { commit: OTHER, into: text(), tip: None, from: None },
        "rejected" => What::Rejected { reason: text(), whole: None },
        "deferred" => What::Deferred { reason: text(), whole: None },
        "discarded" => What::Discarded { tip: None },
        "salvaged" => What::Salvaged { commit: OTHER },
        "rescued" => What::Rescued { to: text() },
        "reopened" => What::Reopened {},
        "competed" => What::Competed(Competed::default()),
        "noted" => What::Noted { text: text() },
        _ => What::Unknown { kind: text(), needs: None },
    }
}

const WORDS: [&str; 22] = [
    "spawning",
    "spawned",
    "started",
    "exited",
    "broke",
    "commit-judged",
    "commit-other",
    "accepted",
    "unaccepted",
    "unjudged",
    "done",
    "failed",
    "merged",
    "rejected",
    "deferred",
    "discarded",
    "salvaged",
    "rescued",
    "reopened",
    "competed",
    "noted",
    "levitated",
];

fn events<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<Event> {
    let mut last = None;
    let mut events = Vec::new();
    for word in words {
        let at = Stamp::next(DateTime::UNIX_EPOCH, 1, last);
        last = Some(at);
        events.push(Event {
            at,
            agent: AgentId::from_spawn_commit(SPAWN),
            by: "me".into(),
            operation: None,
            previous: None,
            ahead: Vec::new(),
            what: what(word),
        });
    }
    events
}

fn fold<'a>(words: impl IntoIterator<Item = &'a str>) -> Option<Agent> {
    Agent::fold(SPAWN, &events(words))
}

/// Folds the words after a complete spawn.
#[track_caller]
fn check(words: &str, state: State, deferred: bool, irregular: usize) {
    let spawn = ["spawning", "spawned"];
    let agent = fold(spawn.into_iter().chain(words.split_whitespace())).expect("a row");
    let got = (agent.state, agent.deferred, agent.irregular.len());
    assert_eq!(got, (state, deferred, irregular), "{words}: {:?}", agent.irregular);
}

#[test]
fn very_many_impossible_events_are_not_all_listed() {
    let words = ["spawning", "spawned"].into_iter();
    let agent = fold(words.chain(["spawned"; 1000])).expect("a row");
    assert_eq!(agent.irregular.len(), 51);
    assert!(agent.irregular[50].contains("more"), "{:?}", agent.irregular[50]);
}

#[test]
fn what_changes_no_state_does_not_make_it_younger() {
    let words = ["spawning", "spawned", "started", "exited", "done"];
    let mut row = events(words.into_iter().chain(["accepted", "noted"]));
    let minute = |number| DateTime::UNIX_EPOCH + TimeDelta::minutes(number);
    let mut last = None;
    for (number, event) in (0..).zip(&mut row) {
        event.at = Stamp::next(minute(number), 1, last);
        last = Some(event.at);
    }
    let agent = Agent::fold(SPAWN, &row).expect("a row");
    let got = (agent.state, agent.state_since, agent.updated);
    assert_eq!(got, (State::Done, minute(3), minute(6)));
}

#[test]
fn lives_fold_to_states() {
    use State::{Discarded, Done, Failed, Idle, Merged, Ready, Running};
    check("", Ready, false, 0);
    check("noted levitated salvaged rescued", Ready, false, 0);
    check("done", Done, false, 0);
    check("failed", Failed, false, 0);
    check("started exited accepted", Done, false, 0);
    check("unaccepted", Idle, false, 0);
    check("unaccepted accepted", Done, false, 0);
    check("done deferred", Done, true, 0);
    check("done deferred accepted unaccepted", Idle, true, 0);
    check("accepted deferred commit-other", Idle, false, 0);
    check("done deferred merged", Merged, false, 0);
    check("failed rejected discarded", Discarded, false, 0);
    check("discarded", Discarded, false, 0);
    check("done merged discarded", Merged, false, 0);
    // A new run or an unjudged tip re-opens; committing what was judged does not.
    check("unaccepted started", Running, false, 0);
    check("commit-other", Idle, false, 0);
    check("accepted commit-other", Idle, false, 0);
    check("accepted commit-judged merged", Merged, false, 0);
    check("done commit-other", Done, false, 0);
}

#[test]
fn what_comes_after_a_landing_re_opens_the_agent() {
    use State::{Done, Failed, Idle, Merged, Running};
    check("accepted merged commit-other", Idle, false, 0);
    check("accepted merged commit-judged", Merged, false, 0);
    check("done merged commit-other accepted merged", Merged, false, 0);
    check("done merged started", Running, false, 0);
    check("done merged started exited", Done, false, 0);
    check("done merged merged", Merged, false, 0);
    // The run went on while the work landed.
    check("started merged", Merged, false, 0);
    check("started merged exited", Done, false, 0);
    check("started merged broke", Failed, false, 0);
}

#[test]
fn the_end_of_the_last_run_settles_an_agent() {
    use State::{Discarded, Done, Failed, Idle, Ready, Rejected, Running};
    check("started", Running, false, 0);
    check("started exited", Done, false, 0);
    check("started broke", Failed, false, 0);
    check("started broke started", Running, false, 0);
    check("started broke started exited", Done, false, 0);
    check("started exited unaccepted", Idle, false, 0);
    check("started exited unaccepted accepted", Done, false, 0);
    // What is judged while it works ends no run.
    check("started accepted", Running, false, 0);
    check("started unaccepted", Running, false, 0);
    check("started unaccepted exited", Done, false, 0);
    // The end of a run that is none, or no longer matters, moves nothing.
    check("exited", Ready, false, 0);
    check("broke", Ready, false, 0);
    check("started discarded broke", Discarded, false, 0);
    check("started done rejected broke", Rejected, false, 0);
}

/// The table of docs/run.md, a cell at a time.
#[test]
fn what_an_agent_says_of_itself_stands() {
    use State::{Done, Failed, Idle, Running};
    for (said, accepted, unaccepted, broke) in
        [("", Done, Idle, Failed), ("done", Done, Idle, Failed), ("failed", Failed, Failed, Failed)]
    {
        let life = |end: &str| format!("started {said} {end}");
        check(&life("exited accepted"), accepted, false, 0);
        check(&life("exited unaccepted"), unaccepted, false, 0);
        check(&life("broke"), broke, false, 0);
        // No verdict takes it back, however often the work is judged or committed.
        check(&life("broke accepted"), broke, false, 0);
        check(&life("broke unaccepted accepted"), broke, false, 0);
        check(&life("broke accepted commit-other"), broke, false, 0);
    }
    // Nor does what is committed after it, as by an update.
    check("done accepted commit-other", Done, false, 0);
    check("started exited accepted commit-other", Done, false, 0);
    check("started exited accepted deferred commit-other unaccepted", Idle, true, 0);
    check("started failed exited accepted accepted", Failed, false, 0);
    check("failed accepted commit-other accepted", Failed, false, 0);
    // A person does, or a new run.
    check("started failed exited accepted done", Done, false, 0);
    check("started broke done accepted", Done, false, 0);
    check("started failed exited started", Running, false, 0);
    check("started failed exited started exited", Done, false, 0);
    // The last word counts.
    check("started done failed exited", Failed, false, 0);
    check("started failed done exited", Done, false, 0);
}

#[test]
fn work_is_finished_once_a_run_has_ended_or_that_was_said() {
    let finished = |words: &str| {
        let spawn = ["spawning", "spawned"];
        let agent = fold(spawn.into_iter().chain(words.split_whitespace())).expect("a row");
        agent.finished
    };
    for words in ["", "commit-other", "accepted", "started", "started exited started"] {
        assert!(!finished(words), "{words}");
    }
    for words in ["done", "failed", "started exited", "started broke", "done commit-other"] {
        assert!(finished(words), "{words}");
    }
}

#[test]
fn a_failure_says_why_until_it_is_mended() {
    let summary = |words: &str| {
        let spawn = ["spawning", "spawned"];
        let agent = fold(spawn.into_iter().chain(words.split_whitespace())).expect("a row");
        agent.summary.unwrap_or_default()
    };
    assert_eq!(summary("started broke"), "run 1 ended with status 7");
    assert_eq!(summary("started broke rejected"), "rejected");
    assert_eq!(summary("started broke started"), "");
    assert_eq!(summary("started broke accepted"), "run 1 ended with status 7");
    assert_eq!(summary("started failed exited accepted"), "failed");
    assert_eq!(summary("started failed broke"), "failed");
}

#[test]
fn a_declaration_overrules_a_verdict_and_a_run_and_is_not_made_twice() {
    use State::{Done, Failed, Idle};
    check("accepted done", Done, false, 0);
    check("accepted failed", Failed, false, 0);
    check("unaccepted done unaccepted", Idle, false, 0);
    check("started exited done", Done, false, 0);
    check("started broke done", Done, false, 0);
    check("done accepted done", Done, false, 1);
    check("done unaccepted done", Done, false, 0);
    check("failed accepted failed", Failed, false, 1);
    let words = ["spawning", "spawned", "unaccepted", "done"];
    let agent = fold(words).expect("a row");
    assert_eq!(agent.verdict, None, "the next verdict is told of again");
    let words = ["spawning", "spawned", "accepted", "done"];
    let agent = fold(words).expect("a row");
    assert!(agent.verdict.is_some(), "it says the same");
}

#[test]
fn only_the_last_run_ends_an_agent() {
    let numbered = |what: What, run: u32| match what {
        What::Started(facts) => What::Started(Started { run: Some(run), ..facts }),
        What::Exited(facts) => What::Exited(Exited { run: Some(run), ..facts }),
        what => what,
    };
    let words = ["spawning", "spawned", "started", "started", "broke"];
    let mut events = events(words);
    for (event, run) in events.iter_mut().zip([0, 0, 1, 2, 1]) {
        event.what = numbered(event.what.clone(), run);
    }
    let agent = Agent::fold(SPAWN, &events).expect("a row");
    assert_eq!(agent.state, State::Running);
    assert_eq!(agent.run.expect("a run").end, None);
}

#[test]
fn impossible_orders_are_marked() {
    use State::{Discarded, Merged, Ready, Rejected};
    check("done done", State::Done, false, 1);
    check("started deferred", State::Running, false, 1);
    check("done rejected merged", Merged, false, 1);
    check("done merged rejected done", Merged, false, 2);
    check("discarded done", Discarded, false, 1);
    check("done rejected accepted", Rejected, false, 1);
    check("spawning", Ready, false, 1);
    check("spawned", Ready, false, 1);
}

#[test]
fn of_what_could_not_happen_only_the_policy_is_taken_over() {
    let words = ["spawning", "spawned", "done", "discarded", "failed"];
    let agent = fold(words).expect("a row");
    assert_eq!(agent.summary.as_deref(), Some("done"));
    assert_eq!(agent.irregular.len(), 1);
    let agent = fold(["spawned", "done"]).expect("a row");
    assert_eq!(agent.policy, Some(OTHER));
}

/// Folds the words after a complete spawn, all of them written after the same event.
#[track_caller]
fn check_fork(words: &str, state: State, deferred: bool, irregular: usize) -> Agent {
    let all = ["spawning", "spawned"].into_iter();
    let mut events = events(all.chain(words.split_whitespace()));
    for event in &mut events[2..] {
        event.previous = Some("the spawn".into());
    }
    let agent = Agent::fold(SPAWN, &events).expect("a row");
    let got = (agent.state, agent.deferred, agent.irregular.len());
    assert_eq!(got, (state, deferred, irregular), "{words}");
    assert!(!agent.origin_in_doubt, "{words}");
    agent
}

#[test]
fn what_two_settled_without_knowing_of_each_other_is_settled() {
    use State::{Discarded, Done, Failed, Merged, Running};
    let first = check_fork("done done", Done, false, 0);
    assert_eq!(first.summary.as_deref(), Some("done"));
    check_fork("done failed", Failed, false, 0);
    check_fork("failed done", Done, false, 0);
    check_fork("accepted done", Done, false, 0);
    check_fork("done accepted", Done, false, 0);
    let doubted = check_fork("accepted failed", Failed, false, 0);
    assert_eq!(doubted.verdict, None, "a contradicted verdict");
    check_fork("failed failed done", Done, false, 0);
    check_fork("discarded discarded", Discarded, false, 0);
    check_fork("done started", Running, false, 0);
    // These do not go together.
    check_fork("discarded done", Discarded, false, 1);
    check_fork("done merged failed", Merged, false, 1);
    check_fork("done rejected", State::Rejected, false, 0);
    check_fork("done rejected done", State::Rejected, false, 1);
}

#[test]
fn a_second_beginning_puts_in_doubt_what_binds() {
    let doubted = |words: &[&str]| {
        let agent = fold(words.iter().copied()).expect("a row");
        (agent.irregular.len(), agent.origin_in_doubt)
    };
    assert_eq!(doubted(&["spawning", "spawned", "done", "done"]), (1, false));
    assert_eq!(doubted(&["spawning", "spawned", "spawned"]), (1, false));
    assert_eq!(doubted(&["spawning", "spawned", "spawning"]), (1, true));
    assert_eq!(doubted(&["spawned", "done"]), (1, true));
    let mut events = events(["spawning", "spawned", "spawned"]);
    for previous in [None, Some("the same".to_owned())] {
        let What::Spawned(facts) = &mut events[2].what else {
            panic!("a spawned event");
        };
        facts.policy = TREE;
        events[1].previous.clone_from(&previous);
        events[2].previous = previous;
        let agent = Agent::fold(SPAWN, &events).expect("a row");
        assert!(agent.origin_in_doubt, "another policy");
    }
}

#[test]
fn half_made_and_headless_rows_are_rows() {
    let half = fold(["spawning"]).expect("a row");
    assert_eq!((half.state, half.irregular.len()), (State::Spawning, 0));
    let headless = fold(["spawned", "done"]).expect("a row");
    assert_eq!(headless.state, State::Done);
    assert_eq!(headless.irregular.len(), 1);
    assert_eq!(fold([]), None);
}

#[test]
fn a_refused_move_names_agent_state_and_move() {
    let agent = fold(["spawning", "spawned"]).expect("a row");
    let error = agent.may(Move::BringBack).expect_err("ready");
    assert_eq!(error.code(), Code::AgentState);
    assert_eq!(error.message(), "agent 07070707 is ready and cannot be brought back");
}

proptest! {
    #[test]
    fn any_events_fold(words in proptest::collection::vec(0..WORDS.len(), 0..24)) {
        let words: Vec<_> = words.into_iter().map(|index| WORDS[index]).collect();
        let agent = fold(words.iter().copied());
        prop_assert_eq!(agent.is_some(), !words.is_empty());
        if let Some(agent) = agent {
            prop_assert!(agent.started <= agent.updated);
            prop_assert_eq!(agent.landed.is_some(), words.contains(&"merged"));
            prop_assert!(agent.state != State::Waiting);
        }
    }
}

#[test]
fn a_verdict_is_held_back_only_where_nothing_but_what_was_taken_back_ended_the_work() {
    let check = |words: &str, taken_back: usize, by_hand: bool, state: State| {
        let mut row = events(["spawning", "spawned"].into_iter().chain(words.split_whitespace()));
        let operation = OperationId::of(7);
        row[taken_back + 2].operation = Some(operation.clone());
        for event in &mut row {
            if let What::Started(started) = &mut event.what {
                started.by_hand = by_hand;
            }
        }
        let undo = What::Undone { operation, revert: None };
        let at = Stamp::next(DateTime::UNIX_EPOCH, 1, row.last().map(|event| event.at));
        let last = row.last().cloned().expect("an event");
        row.push(Event { at, operation: Some(OperationId::of(8)), what: undo, ..last });
        let agent = Agent::fold(SPAWN, &row).expect("a row");
        assert_eq!(agent.state, state, "{words}: {:?}", agent.irregular);
    };
    check("done accepted", 0, false, State::Ready);
    check("failed accepted", 0, false, State::Ready);
    // A look of a person ends nothing, and a run does.
    check("done started exited accepted", 0, true, State::Idle);
    check("done started exited accepted", 0, false, State::Done);
    check("started exited unaccepted done accepted", 3, false, State::Done);
    check("started exited unaccepted failed accepted accepted", 3, false, State::Done);
    check("done accepted done", 0, false, State::Done);
}
