//! In which order conflicting work should land so that most of it does.
//!
//! Of two that conflict only the first lands, whatever the order of the others. So the most that can
//! land are the most of which no two conflict (a maximum independent set): found exactly for groups of up
//! to [`EXACT`] that conflict with each other directly or through others, and for larger groups by taking
//! the one with the fewest conflicts first. Equal choices fall on the lower number.

/// The largest group that is searched completely; about a million cases at worst.
pub const EXACT: usize = 20;

/// The numbers, ascending, of those that should land of `count`; `conflict` tells for two of them.
pub fn most_without_conflict(count: usize, conflict: impl Fn(usize, usize) -> bool) -> Vec<usize> {
    let neighbours: Vec<Vec<usize>> = (0..count)
        .map(|one| {
            (0..count)
                .filter(|two| *two != one && conflict(one, *two))
                .collect()
        })
        .collect();
    let mut chosen = Vec::new();
    for group in groups(&neighbours) {
        if group.len() <= EXACT {
            chosen.extend(exactly(&group, &neighbours))
        } else {
            chosen.extend(greedily(&group, &neighbours))
        }
    }
    chosen.sort_unstable();
    chosen
}

/// The numbers in groups that have no conflict between them.
fn groups(neighbours: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut seen = vec![false; neighbours.len()];
    let mut groups = Vec::new();
    for start in 0..neighbours.len() {
        if seen[start] {
            continue;
        }
        seen[start] = true;
        let mut group = vec![start];
        let mut next = 0;
        while next < group.len() {
            for &neighbour in &neighbours[group[next]] {
                if !std::mem::replace(&mut seen[neighbour], true) {
                    group.push(neighbour);
                }
            }
            next += 1;
        }
        group.sort_unstable();
        groups.push(group);
    }
    groups
}

/// Tries every choice that can still be better than the best so far, with each number taken before it is
/// left out: the first of the best is the one with the lowest numbers.
fn exactly(group: &[usize], neighbours: &[Vec<usize>]) -> Vec<usize> {
    let place = |number: &usize| group.binary_search(number).ok();
    let against: Vec<u32> = group
        .iter()
        .map(|number| {
            neighbours[*number]
                .iter()
                .filter_map(place)
                .fold(0, |bits, at| bits | 1 << at)
        })
        .collect();
    let mut best = 0u32;
    // What is taken, what may still be, and where to go on.
    let mut open = vec![(0u32, u32::MAX >> (32 - group.len()), 0usize)];
    while let Some((taken, free, at)) = open.pop() {
        // Even with all that is free it would not be larger than the best, so it is not searched.
        // Equal ones come later and have higher numbers.
        if taken.count_ones() + free.count_ones() <= best.count_ones() {
            continue;
        }
        if free == 0 {
            best = taken;
            continue;
        }
        let bit = 1u32 << at;
        if free & bit == 0 {
            open.push((taken, free, at + 1));
            continue;
        }
        // The last one pushed is tried first, which is the one that takes this number.
        open.push((taken, free & !bit, at + 1));
        open.push((taken | bit, free & !bit & !against[at], at + 1));
    }
    let taken = (0..group.len()).filter(|at| best & (1 << at) != 0);
    taken.map(|at| group[at]).collect()
}

fn greedily(group: &[usize], neighbours: &[Vec<usize>]) -> Vec<usize> {
    let mut left = group.to_vec();
    let mut taken = Vec::new();
    loop {
        let conflicts = |number: &usize| {
            let own = neighbours[*number].iter();
            own.filter(|neighbour| left.binary_search(neighbour).is_ok())
                .count()
        };
        let Some(next) = left
            .iter()
            .copied()
            .min_by_key(|number| (conflicts(number), *number))
        else {
            return taken;
        };
        taken.push(next);
        left.retain(|number| *number != next && !neighbours[next].contains(number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(count: usize, conflicts: &[(usize, usize)], expected: &[usize]) {
        let conflict =
            |one, two| conflicts.contains(&(one, two)) || conflicts.contains(&(two, one));
        assert_eq!(most_without_conflict(count, conflict), expected);
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
        assert_eq!(most_without_conflict(100, star).len(), 99);
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
            let chosen = most_without_conflict(count, conflict);
            let set = chosen.iter().fold(0u32, |set, at| set | 1 << at);
            prop_assert!(clean(set));
            let most = (0..1u32 << count).filter(|set| clean(*set)).map(u32::count_ones).max();
            prop_assert_eq!(Some(set.count_ones()), most);
        }
    }
}
