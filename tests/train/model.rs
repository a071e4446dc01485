//! Random small fleets against landing one agent after the other by hand.

use super::Fleet;
use proptest::prelude::*;

/// What an agent of a random fleet does.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Good,
    Bad,
    Left,
    Right,
    /// Changes the line that all of these change.
    Contested,
    /// Fails the first check that gets as far as its part.
    Flaky,
    /// Takes longer, so that answers come in another order.
    Slow,
}

fn kinds() -> impl Strategy<Value = Vec<Kind>> {
    let kind = prop_oneof![
        3 => Just(Kind::Good),
        1 => Just(Kind::Bad),
        1 => Just(Kind::Left),
        1 => Just(Kind::Right),
        1 => Just(Kind::Contested),
        2 => Just(Kind::Flaky),
        1 => Just(Kind::Slow),
    ];
    proptest::collection::vec(kind, 2..6)
}

/// What landing one after the other comes to.
fn one_by_one(kinds: &[Kind]) -> Vec<&'static str> {
    let (mut left, mut right, mut contested) = (false, false, false);
    let mut outcomes = Vec::new();
    for kind in kinds {
        outcomes.push(match kind {
            Kind::Bad => "rejected",
            Kind::Left if right => "rejected",
            Kind::Right if left => "rejected",
            Kind::Contested if contested => "conflicts",
            _ => "landed",
        });
        let landed = outcomes.last() == Some(&"landed");
        left |= landed && matches!(kind, Kind::Left);
        right |= landed && matches!(kind, Kind::Right);
        contested |= landed && matches!(kind, Kind::Contested);
    }
    outcomes
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, max_shrink_iters: 20, ..ProptestConfig::default() })]

    #[test]
    fn a_train_lands_what_one_by_one_lands(kinds in kinds(), squash in any::<bool>()) {
        let mut fleet = Fleet::new();
        for (number, kind) in kinds.iter().enumerate() {
            let own = format!("parts/{number}");
            let contested = format!("{number}\ntwo\nthree\n");
            match kind {
                Kind::Good => fleet.add(&[(&own, "good\n")]),
                Kind::Bad => fleet.add(&[(&own, "bad\n")]),
                Kind::Left => fleet.add(&[(&own, "left\n")]),
                Kind::Right => fleet.add(&[(&own, "right\n")]),
                Kind::Contested => fleet.add(&[("shared", &contested)]),
                Kind::Flaky => fleet.add(&[(&own, "once\n")]),
                Kind::Slow => fleet.add(&[(&own, "slow\n")]),
            };
        }
        let agents: Vec<&str> = fleet.agents.iter().map(String::as_str).collect();
        // With more jobs another one of two that exclude each other may land.
        let mut words = [&["--jobs=1"], &agents[..]].concat();
        words.extend(squash.then_some("--squash"));
        let (answer, _) = fleet.train(&words);
        prop_assert_eq!(fleet.outcomes(&answer), one_by_one(&kinds));
        // Where no other kind of failure hides the accident, it is reported.
        let is_flaky = |kind: &Kind| matches!(kind, Kind::Flaky);
        let is_quiet = |kind: &Kind| matches!(kind, Kind::Good | Kind::Slow | Kind::Flaky);
        if kinds.iter().any(is_flaky) && kinds.iter().all(is_quiet) {
            prop_assert_eq!(answer["flaky"].as_array().map(Vec::len), Some(1));
        }
        let any_landed = answer["items"].as_array().expect("items").iter().any(|item| item["outcome"] == "landed");
        prop_assert!(!any_landed || fleet.checked().contains(&fleet.tree()));
        fleet.require_sound();
    }
}
