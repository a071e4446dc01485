//! The order of a row: by simulated clones with wrong clocks, and by lines that were made up.

use super::*;
use crate::domain::Oid;
use proptest::prelude::*;
use std::collections::BTreeMap;

const SPAWN: Oid = Oid::from_bytes([7; 20]);

fn agent() -> AgentId {
    AgentId::from_spawn_commit(SPAWN)
}

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_795_211_369 + seconds, 0).expect("in range")
}

/// Adds the event that follows at that time by the clock of the writer.
fn append(body: &mut Vec<u8>, clone: u16, now: DateTime<Utc>, text: &str) -> Event {
    let text = text.to_owned();
    let row = Row::read(body, agent());
    let event = row.next(now, clone, (agent(), "me"), &OperationId::of(1), What::Noted { text });
    let line = event_line::encode(&event).expect("short");
    *body = notes::union_of_lines([body.as_slice(), line.as_bytes()]);
    event
}

/// What the lines say, in their order.
fn texts(body: &[u8]) -> Vec<String> {
    let events = Row::read(body, agent()).events.into_iter();
    let text = |event: Event| match event.what {
        What::Noted { text } => text,
        _ => String::new(),
    };
    events.map(text).collect()
}

#[test]
fn a_clock_that_is_ahead_dates_only_its_own_events() {
    let mut body = Vec::new();
    append(&mut body, 1, at(0), "one");
    append(&mut body, 2, at(250_000_000_000), "far");
    let after = append(&mut body, 1, at(5), "two");
    assert_eq!(after.at.time(), at(5));
    append(&mut body, 2, at(250_000_000_001), "further");
    let last = append(&mut body, 1, at(9), "three");
    assert_eq!(last.ahead.len(), 1, "the other one follows from it");
    assert_eq!(texts(&body), ["one", "far", "two", "further", "three"]);
    // A clock that is a little ahead is followed, so that bytes sort as events happened.
    append(&mut body, 2, at(300), "soon");
    let next = append(&mut body, 1, at(10), "next");
    assert_eq!(next.at.time(), at(300));
    assert_eq!(texts(&body)[5..], ["soon", "next"]);
}

#[test]
fn a_line_with_other_bytes_and_the_same_stamp_sorts_by_its_stamp() {
    let mut body = Vec::new();
    append(&mut body, 1, at(0), "one");
    let event = append(&mut body, 1, at(5), "two");
    let line = event_line::encode(&event).expect("short");
    let spaced = line.replacen("{\"t\"", "{ \"t\"", 1).replace("two", "between");
    let early = spaced.replace("T214934.", "T214930.");
    assert_ne!(spaced, early);
    let body = notes::union_of_lines([body.as_slice(), early.as_bytes()]);
    assert_eq!(texts(&body), ["one", "between", "two"]);
}

#[test]
fn more_lines_than_an_event_can_name_are_placed_by_those_after_it() {
    let mut body = Vec::new();
    append(&mut body, 1, at(0), "one");
    let forged = 40;
    for number in 0..forged {
        let mut alone = Vec::new();
        append(&mut alone, 9, at(250_000_000_000 + number), "forged");
        body = notes::union_of_lines([body.as_slice(), &alone]);
    }
    let mut appended = 0;
    while texts(&body).last().is_some_and(|last| last == "forged") {
        append(&mut body, 1, at(10 + appended), "ours");
        appended += 1;
    }
    assert!(appended <= 3, "{appended}");
    assert_eq!(Row::read(&body, agent()).events.len() as i64, 1 + forged + appended);
}

#[test]
fn lines_that_name_each_other_come_last_and_each_once() {
    let before = [vec![1], vec![0], vec![], vec![2]];
    let after = [vec![1], vec![0], vec![3], vec![]];
    assert_eq!(sorted(&before, &after, |index| index), [2, 3, 0, 1]);
}

/// Something that happens: a clone appends, or takes over what another one has.
#[derive(Clone, Copy, Debug)]
enum Step {
    Append(usize),
    Unite(usize, usize),
}

fn steps() -> impl Strategy<Value = (Vec<i64>, Vec<Step>)> {
    let offset = prop_oneof![Just(0), -90_000i64..90_000, 0i64..250_000_000_000];
    let step = prop_oneof![
        (0usize..3).prop_map(Step::Append),
        (0usize..3, 0usize..3).prop_map(|(to, from)| Step::Unite(to, from)),
    ];
    (proptest::collection::vec(offset, 3), proptest::collection::vec(step, 0..30))
}

proptest! {
    /// Whatever the clocks say, what a writer had seen comes before what it wrote.
    #[test]
    fn nothing_comes_before_what_its_writer_had_seen((offsets, steps) in steps()) {
        let mut bodies = vec![Vec::new(); 3];
        let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Append(clone) => {
                    let text = number.to_string();
                    seen.insert(text.clone(), texts(&bodies[clone]));
                    let now = at(number as i64 + offsets[clone]);
                    append(&mut bodies[clone], clone as u16, now, &text);
                }
                Step::Unite(to, from) => {
                    bodies[to] = notes::union_of_lines([bodies[to].as_slice(), &bodies[from]]);
                }
            }
            for body in &bodies {
                let order = texts(body);
                for (index, text) in order.iter().enumerate() {
                    for before in &seen[text] {
                        prop_assert!(order[..index].contains(before), "{before} after {text}: {order:?}");
                    }
                }
            }
        }
    }

    /// Any lines have an order, and it does not depend on how they came together.
    #[test]
    fn made_up_lines_have_one_order(
        forged in proptest::collection::vec((0u8..3, 0i64..250_000_000_000, 0usize..8, 0usize..8), 0..12),
        split in 0usize..12,
    ) {
        let mut body = Vec::new();
        append(&mut body, 1, at(0), "one");
        append(&mut body, 1, at(5), "two");
        let mut made = Vec::new();
        for (kind, seconds, names, links) in forged {
            let row = Row::read(&body, agent());
            let digest = |index: usize| event_line::digest(row.lines[index % row.events.len()]);
            let text = format!("{kind} {seconds} {names}");
            let mut event = row.next(at(seconds), u16::from(kind), (agent(), "me"), &OperationId::of(1), What::Noted { text });
            event.previous = (links % 2 == 0).then(|| digest(links));
            event.ahead = (0..names).map(digest).collect();
            let line = event_line::encode(&event).expect("short");
            body = notes::union_of_lines([body.as_slice(), line.as_bytes()]);
            made.push(line);
        }
        let order = texts(&body);
        prop_assert_eq!(order.len(), notes::lines_of(&body).count());
        let (one, two) = made.split_at(split.min(made.len()));
        let join = |part: &[String]| part.join("\n").into_bytes();
        let again = notes::union_of_lines([join(two).as_slice(), &join(one), &body]);
        prop_assert_eq!(texts(&again), order);
    }
}
