//! An exchange that dies at any step: see [`death`].

use super::{Hub, REFS, json, names, row, tip};
use crate::support::death::{self, Order, Reached, steps_of};
use crate::support::git_in;
use git_agent::ops::sync::{self, STEPS, SyncOptions};
use std::collections::BTreeSet;
use std::path::Path;

/// Not a test: the process that dies. It does nothing unless a step is named.
#[test]
fn child() {
    if let Some(order) = Order::received() {
        sync_with(&order.directory, order.dying());
    }
}

fn sync_with(clone: &Path, reached: Reached) {
    let ctx = death::ctx(clone, reached);
    sync::sync(&ctx, &SyncOptions::with(None)).expect("exchanged");
}

/// A remote that has news for the first of three clones, and a hook by which another clone is always faster at the shared
/// ledger. In a crowd there is an outbox as well, and the first clone is new; else it knows the remote as it was before.
fn contended(is_crowd: bool) -> Hub {
    let hub = Hub::new(3);
    hub.send_all();
    let [one, two, three] = [0, 1, 2].map(|n| hub.clones[n].clone());
    row(&three, "outbox");
    if is_crowd {
        let outbox = "refs/notes/agents:refs/agents/from/0123456789abcdef/ledger";
        git_in(&three, ["push", "--quiet", "origin", outbox]);
    } else {
        for clone in [&three, &one, &two] {
            json(clone, &["sync"]);
        }
    }
    row(&two, "there");
    git_in(&two, ["push", "--quiet", "origin", "refs/notes/agents"]);
    row(&two, "faster");
    let faster = tip(&two, "refs/notes/agents");
    git_in(&two, ["push", "--quiet", "origin", "refs/notes/agents:refs/heads/waiting"]);
    hub.hook(
        "update",
        &format!(
            "test $1 != refs/notes/agents || test -e once || \
             {{ touch once; git update-ref refs/notes/agents {faster}; }}"
        ),
    );
    row(&one, "mine");
    hub
}

#[test]
fn the_steps_are_reached_as_they_are_listed() {
    let steps = [true, false].map(|is_crowd| {
        let hub = contended(is_crowd);
        steps_of(|reached| {
            sync_with(&hub.clones[0], reached.clone());
            sync_with(&hub.clones[0], reached);
        })
    });
    let reached: BTreeSet<&str> = steps.iter().flatten().map(String::as_str).collect();
    assert_eq!(reached, STEPS.iter().copied().collect(), "{steps:?}");
}

#[test]
fn whatever_a_kill_leaves_the_next_exchange_completes_and_no_row_is_lost() {
    for step in STEPS {
        // Where other clones are expected, the outbox is not pushed by itself, and nothing is pushed ahead by one that is new.
        let hub = contended(!["pushed-ahead", "outbox-pushed", "outbox-listed"].contains(step));
        let clone = &hub.clones[0];
        if *step == "outboxes-deleted" {
            // The first exchange ends in the outbox; the second takes over what others left.
            json(clone, &["sync"]);
        }
        death::die_at("sync::kill::child", clone, step, &[]);
        for clone in hub.clones.iter().chain(&hub.clones) {
            json(clone, &["sync"]);
        }
        for clone in &hub.clones {
            assert_eq!(names(clone), ["faster", "mine", "outbox", "there"], "after {step}");
            hub.assert_equal(clone);
        }
        for name in REFS.iter().take(2) {
            assert_ne!(hub.remote_tip(name), "", "after {step}: {name}");
        }
        assert_eq!(hub.outboxes(), Vec::<String>::new(), "after {step}");
        let fsck = ["fsck", "--strict", "--no-progress", "--no-dangling"];
        assert_eq!(git_in(&hub.bare, fsck), "", "after {step}");
    }
}
