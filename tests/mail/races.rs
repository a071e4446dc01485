use super::{fsck, open, post, receive};
use crate::support::TestRepo;
use std::collections::HashMap;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn every_message_goes_to_exactly_one_of_many_receivers() {
    const SENDERS: usize = 6;
    const EACH: usize = 15;
    let test = TestRepo::with_commit();
    let barrier = Barrier::new(SENDERS + 4);
    let taken = AtomicUsize::new(0);
    let mut counts = HashMap::<String, usize>::new();
    std::thread::scope(|scope| {
        for sender in 0..SENDERS {
            let (test, barrier) = (&test, &barrier);
            scope.spawn(move || {
                let repo = open(test);
                barrier.wait();
                for number in 0..EACH {
                    post(&repo, &["b"], &format!("{sender}/{number}"), 0);
                }
            });
        }
        let receivers: Vec<_> = (0..4)
            .map(|_| {
                let (test, barrier, taken) = (&test, &barrier, &taken);
                scope.spawn(move || {
                    let repo = open(test);
                    let mut texts = Vec::new();
                    barrier.wait();
                    while taken.load(Ordering::SeqCst) < SENDERS * EACH {
                        let received = receive(&repo, "b", 0);
                        taken.fetch_add(received.len(), Ordering::SeqCst);
                        texts.extend(received);
                        std::thread::yield_now();
                    }
                    texts
                })
            })
            .collect();
        for receiver in receivers {
            for text in receiver.join().expect("a receiver") {
                *counts.entry(text).or_default() += 1;
            }
        }
    });
    assert_eq!(counts.len(), SENDERS * EACH);
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
    assert_eq!(receive(&open(&test), "b", 1), Vec::<String>::new());
    let commits = test.git(["rev-list", "--count", "refs/agents/mail"]);
    assert_eq!(commits, (SENDERS * EACH).to_string(), "one commit each, no fork");
    fsck(&test);
}
