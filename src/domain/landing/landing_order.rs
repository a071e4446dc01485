//! In which order conflicting work should land so that most of it does.
//!
//! Of two that conflict only the first lands, whatever the order of the others. So the most that can
//! land are the most of which no two conflict (a maximum independent set): found exactly for groups of up
//! to [`EXACT`] that conflict with each other directly or through others, and for larger groups by taking
//! the one with the fewest conflicts first. Equal choices fall on the lower number.

use std::collections::BTreeMap;

/// The largest group that is searched completely; about a million cases at worst.
pub const EXACT: usize = 20;

/// Numbers that conflict with each other directly or through others, each with those that it conflicts with.
type Group = BTreeMap<usize, Vec<usize>>;

/// Those of `numbers`, ascending, that should land; `conflict` tells for two of them.
pub fn most_without_conflict(
    numbers: &[usize],
    conflict: impl Fn(usize, usize) -> bool,
) -> Vec<usize> {
    let conflicting = |one: &usize| {
        let others = numbers.iter().copied().filter(|two| two != one && conflict(*one, *two));
        (*one, others.collect())
    };
    let mut chosen = Vec::new();
    for group in groups(numbers.iter().map(conflicting).collect()) {
        if group.len() <= EXACT {
            chosen.extend(exactly(&group))
        } else {
            chosen.extend(greedily(group))
        }
    }
    chosen.sort_unstable();
    chosen
}

/// The numbers in groups that have no conflict between them.
fn groups(mut left: Group) -> Vec<Group> {
    let mut groups = Vec::new();
    while let Some(first) = left.pop_first() {
        let (mut group, mut open) = (Group::new(), vec![first]);
        while let Some((number, conflicting)) = open.pop() {
            open.extend(conflicting.iter().filter_map(|one| left.remove_entry(one)));
            group.insert(number, conflicting);
        }
        groups.push(group);
    }
    groups
}

/// Tries every choice that can still be better than the best so far, with each number taken before it is
/// left out: the first of the best is the one with the lowest numbers.
fn exactly(group: &Group) -> Vec<usize> {
    let place = |number: &usize| group.keys().position(|one| one == number);
    let bits = |numbers: &Vec<usize>| {
        let places = numbers.iter().filter_map(place);
        places.fold(0u32, |bits, at| bits | 1 << at)
    };
    let against: Vec<u32> = group.values().map(bits).collect();
    let mut best = 0u32;
    // What is taken, and what may still be.
    let mut open = vec![(0u32, u32::MAX >> (32 - group.len()))];
    while let Some((taken, free)) = open.pop() {
        // Even with all that is free it would not be larger than the best, so it is not searched.
        // Equal ones come later and have higher numbers.
        if taken.count_ones() + free.count_ones() <= best.count_ones() {
            continue;
        }
        let at = free.trailing_zeros();
        // Nothing is free any more.
        let Some(against) = against.get(at as usize) else {
            best = taken;
            continue;
        };
        let (bit, free) = (1 << at, free & !(1 << at));
        // The last one pushed is tried first, which is the one that takes this number.
        open.push((taken, free));
        open.push((taken | bit, free & !against));
    }
    let taken = group.keys().enumerate();
    taken.filter(|(at, _)| best & (1 << at) != 0).map(|(_, number)| *number).collect()
}

fn greedily(mut left: Group) -> Vec<usize> {
    let mut taken = Vec::new();
    let conflicts = |left: &Group, conflicting: &Vec<usize>| {
        let own = conflicting.iter();
        own.filter(|one| left.contains_key(one)).count()
    };
    while let Some(next) = left
        .iter()
        .min_by_key(|(number, conflicting)| (conflicts(&left, conflicting), **number))
        .map(|(number, _)| *number)
    {
        taken.push(next);
        for other in left.remove(&next).into_iter().flatten() {
            left.remove(&other);
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(count: usize, conflicts: &[(usize, usize)], expected: &[usize]) {
        let conflict =
            |one, two| conflicts.contains(&(one, two)) || conflicts.contains(&(two, one));
        let numbers: Vec<usize> = (0..count).collect();
        assert_eq!(most_without_conflict(&numbers, conflict), expected);
    }

    #[test]
    fn the_most_land_and_the_oldest_of_equals() {
        check(0, &[], &[]);
        check(3, &[], &[0, 1, 2]);
        check(2, &[(0, 1)], &[0]);
        // One that is in everybody's way waits, however old.
        check(4, &[(0, 1), (0, 2), (0, 3)], &[1, 2, 3]);
        check(4, &[(0, 1), (1, 2), (2, 3)], &[0, 2]);
    }

    #[test]
    fn large_groups_are_settled_too() {
        let star = |one: usize, two: usize| one == 0 || two == 0;
        let numbers: Vec<usize> = (0..100).collect();
        assert_eq!(most_without_conflict(&numbers, star).len(), 99);
    }

    proptest! {
        #[test]
        fn no_choice_is_larger(count in 1usize..9, bits in any::<u64>()) {
            let conflict = |one: usize, two: usize| {
                let (low, high) = (one.min(two), one.max(two));
                (bits >> ((low * 8 + high) % 64)) & 1 == 1
            };
            let clean = |set: u32| {
                let members: Vec<_> = (0..count).filter(|at| set >> at & 1 == 1).collect();
                members.iter().all(|one| members.iter().all(|two| one == two || !conflict(*one, *two)))
            };
            let numbers: Vec<usize> = (0..count).collect();
            let chosen = most_without_conflict(&numbers, conflict);
            let set = chosen.iter().fold(0u32, |set, at| set | 1 << at);
            prop_assert!(clean(set));
            let most = (0..1u32 << count).filter(|set| clean(*set)).map(u32::count_ones).max();
            prop_assert_eq!(Some(set.count_ones()), most);
        }
    }
}
