use super::{Hub, REFS, agent, json, names, row, state, tip};
use crate::support::agent::describe;
use crate::support::git_in;
use serde_json::json as value;

#[test]
fn what_a_mirror_push_deletes_comes_back_and_is_reported() {
    let hub = Hub::new(2);
    hub.send_all();
    let [one, two] = [0, 1].map(|n| hub.clones[n].clone());
    row(&one, "a");
    json(&one, &["sync"]);
    git_in(&two, ["push", "--quiet", "--mirror"]);
    assert_eq!(hub.remote_tip("refs/notes/agents"), "");
    let report = json(&one, &["sync"]);
    let healed = report["healed"].as_array().expect("a list");
    assert!(healed.contains(&value!("refs/notes/agents")), "{report:#}");
    hub.assert_equal(&one);
    assert_eq!(json(&one, &["sync"])["healed"], value!([]));
}

#[test]
fn what_a_hostile_clone_pushes_to_every_ref_is_named_and_healed() {
    let hub = Hub::new(3);
    hub.send_all();
    let [one, two, hostile] = [0, 1, 2].map(|n| hub.clones[n].clone());
    row(&one, "a");
    json(
        &one,
        &["send", "--type=notify", "--to=bob", "--payload=message=x"],
    );
    json(&one, &["receive", "--agent=bob"]);
    json(&one, &["sync"]);
    json(&two, &["sync"]);
    let old = tip(&one, "refs/notes/agents");
    row(&one, "b");
    json(&one, &["sync"]);
    // Rewound, deleted, and replaced by code; and an outbox of code.
    git_in(
        &hostile,
        ["fetch", "--quiet", "origin", "refs/notes/agents"],
    );
    let outbox = "main:refs/agents/from/0123456789abcdef/ledger".to_owned();
    let rewind = format!("+{old}:refs/notes/agents");
    let pushes = [
        rewind.as_str(),
        ":refs/agents/keep",
        "+main:refs/agents/mail",
        "+main:refs/notes/agents-mail",
        &outbox,
    ];
    git_in(
        &hostile,
        [&["push", "--quiet", "--force", "origin"][..], &pushes].concat(),
    );

    let report = json(&two, &["sync"]);
    let said = report["warnings"].to_string();
    for name in [
        "refs/agents/mail",
        "refs/notes/agents-mail",
        "0123456789abcdef/ledger",
    ] {
        assert!(said.contains(name), "{name}: {report:#}");
    }
    let report = json(&one, &["sync"]);
    let healed = [&json(&two, &["sync"])["healed"], &report["healed"]].map(ToString::to_string);
    assert!(
        healed
            .iter()
            .any(|healed| healed.contains("refs/notes/agents\"")),
        "{healed:?}"
    );
    for clone in [&one, &two] {
        json(clone, &["sync"]);
        hub.assert_equal(clone);
        assert_eq!(names(clone), ["a", "b"]);
        for name in REFS {
            assert_ne!(tip(clone, name), "", "{name}");
        }
    }
}

#[test]
fn a_forced_fetch_over_rows_that_were_not_pushed_is_undone() {
    let hub = Hub::new(2);
    let [one, two] = [0, 1].map(|n| hub.clones[n].clone());
    row(&two, "theirs");
    json(&two, &["sync"]);
    row(&one, "mine");
    git_in(
        &one,
        ["fetch", "--quiet", "origin", "+refs/notes/*:refs/notes/*"],
    );
    assert_eq!(names(&one), ["theirs"]);
    // Rows that are written meanwhile do not hide it.
    row(&one, "later");
    let report = json(&one, &["sync"]);
    assert_eq!(
        report["restored"],
        value!(["refs/notes/agents"]),
        "{report:#}"
    );
    assert_eq!(names(&one), ["later", "mine", "theirs"]);
    assert_eq!(
        hub.remote_tip("refs/notes/agents"),
        tip(&one, "refs/notes/agents")
    );
    assert_eq!(json(&one, &["sync"])["restored"], value!([]));
}

#[test]
fn rows_that_were_fetched_and_never_united_survive_a_rewound_remote() {
    let hub = Hub::new(2);
    let [one, two] = [0, 1].map(|n| hub.clones[n].clone());
    row(&one, "a");
    json(&one, &["sync"]);
    let old = tip(&one, "refs/notes/agents");
    row(&one, "b");
    json(&one, &["sync"]);
    // The second clone fetched everything and died before it united it.
    let copy = "+refs/notes/agents:refs/agents/remote/origin/ledger";
    git_in(&two, ["fetch", "--quiet", "origin", copy]);
    git_in(&hub.bare, ["update-ref", "refs/notes/agents", &old]);
    let report = json(&two, &["sync"]);
    assert_eq!(
        report["healed"],
        value!(["refs/notes/agents"]),
        "{report:#}"
    );
    assert_eq!(state(&report, "refs/notes/agents"), "pushed");
    assert_eq!(names(&two), ["a", "b"]);
}

#[test]
fn a_lost_remote_is_filled_anew_by_whichever_clone_comes_first() {
    let hub = Hub::new(2);
    hub.send_all();
    let [one, two] = [0, 1].map(|n| hub.clones[n].clone());
    row(&one, "a");
    json(&one, &["sync"]);
    json(&two, &["sync"]);
    std::fs::remove_dir_all(&hub.bare).expect("removed");
    let bare = hub.bare.to_str().expect("UTF-8");
    git_in(&one, ["init", "--quiet", "--bare", bare]);
    let output = agent(&two, &["sync"]);
    assert!(
        describe(&output).contains("healed"),
        "{}",
        describe(&output)
    );
    hub.assert_equal(&two);
    assert_eq!(names(&two), ["a"]);
}
