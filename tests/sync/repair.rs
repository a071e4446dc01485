use super::{Hub, OLD_SERVER, REFS, agent, json, names, row, state, tip};
use crate::support::agent::describe;
use crate::support::git_in;
use serde_json::json as value;
use std::path::Path;

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
    let said = report["warnings"].to_string();
    assert!(said.contains("was deleted") && said.contains("--mirror"), "{said}");
    hub.assert_equal(&one);
    assert_eq!(json(&one, &["sync"])["healed"], value!([]));
}

#[test]
fn what_a_hostile_clone_pushes_to_every_ref_is_named_and_healed() {
    let hub = Hub::new(3);
    hub.send_all();
    let [one, two, hostile] = [0, 1, 2].map(|n| hub.clones[n].clone());
    row(&one, "a");
    json(&one, &["send", "--type=notify", "--to=bob", "--payload=message=x"]);
    json(&one, &["receive", "--agent=bob"]);
    json(&one, &["sync"]);
    json(&two, &["sync"]);
    let old = tip(&one, "refs/notes/agents");
    row(&one, "b");
    json(&one, &["sync"]);
    // Rewound, deleted, and replaced by code; and an outbox of code.
    git_in(&hostile, ["fetch", "--quiet", "origin", "refs/notes/agents"]);
    let outbox = "main:refs/agents/from/0123456789abcdef/ledger".to_owned();
    let rewind = format!("+{old}:refs/notes/agents");
    let pushes = [
        rewind.as_str(),
        ":refs/agents/keep",
        "+main:refs/agents/mail",
        "+main:refs/notes/agents-mail",
        &outbox,
    ];
    git_in(&hostile, [&["push", "--quiet", "--force", "origin"][..], &pushes].concat());

    let report = json(&two, &["sync"]);
    let said = report["warnings"].to_string();
    for name in ["refs/agents/mail", "refs/notes/agents-mail", "0123456789abcdef/ledger"] {
        assert!(said.contains(name), "{name}: {report:#}");
    }
    let report = json(&one, &["sync"]);
    let healed = [&json(&two, &["sync"])["healed"], &report["healed"]].map(ToString::to_string);
    assert!(healed.iter().any(|healed| healed.contains("refs/notes/agents\"")), "{healed:?}");
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
    git_in(&one, ["fetch", "--quiet", "origin", "+refs/notes/*:refs/notes/*"]);
    assert_eq!(names(&one), ["theirs"]);
    // Rows that are written meanwhile do not hide it.
    row(&one, "later");
    let report = json(&one, &["sync"]);
    assert_eq!(report["restored"], value!(["refs/notes/agents"]), "{report:#}");
    assert_eq!(names(&one), ["later", "mine", "theirs"]);
    assert_eq!(hub.remote_tip("refs/notes/agents"), tip(&one, "refs/notes/agents"));
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
    assert_eq!(report["healed"], value!(["refs/notes/agents"]), "{report:#}");
    assert_eq!(state(&report, "refs/notes/agents"), "pushed");
    assert_eq!(names(&two), ["a", "b"]);
}

/// That `sync` names the ref of the remote as damaged, and no hint deletes it.
fn assert_named_as_damaged(clone: &Path, refname: &str) {
    let output = agent(clone, &["sync"]);
    let said = describe(&output);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("its repository is damaged"), "{said}");
    assert!(said.contains(refname), "{said}");
    assert!(!said.contains("--delete") && said.contains("lost"), "{said}");
}

#[test]
fn a_remote_whose_ref_leads_to_nothing_is_named_and_no_hint_deletes_it() {
    let hub = Hub::new(1);
    hub.send_all();
    let clone = &hub.clones[0];
    row(clone, "a");
    json(clone, &["sync"]);
    let nothing = "1234567890123456789012345678901234567890\n";
    std::fs::write(hub.bare.join("refs/notes/agents"), nothing).expect("written");
    for server in ["git-upload-pack", OLD_SERVER] {
        git_in(clone, ["config", "remote.origin.uploadpack", server]);
        assert_named_as_damaged(clone, "refs/notes/agents");
    }
    // Where the ref is gone, the clones send what they have.
    git_in(&hub.bare, ["update-ref", "-d", "refs/notes/agents"]);
    let report = json(clone, &["sync"]);
    assert_eq!(report["healed"], value!(["refs/notes/agents"]), "{report:#}");
    hub.assert_equal(clone);
}

#[test]
fn a_remote_that_lacks_a_part_of_a_history_is_named() {
    let (hub, [one, two]) = Hub::synchronised();
    for name in ["b", "c"] {
        row(&two, name);
        json(&two, &["sync"]);
    }
    // The newest commit is there, and what it is built on is not.
    let parent = tip(&hub.bare, "refs/notes/agents~1");
    let (directory, file) = parent.split_at(2);
    let object = hub.bare.join("objects").join(directory).join(file);
    std::fs::remove_file(object).expect("removed");
    for server in ["git-upload-pack", OLD_SERVER] {
        git_in(&one, ["config", "remote.origin.uploadpack", server]);
        assert_named_as_damaged(&one, "refs/notes/agents");
    }
}

#[test]
fn a_lost_remote_is_filled_anew_by_whichever_clone_comes_first() {
    let (hub, [one, two]) = Hub::synchronised();
    std::fs::remove_dir_all(&hub.bare).expect("removed");
    let bare = hub.bare.to_str().expect("UTF-8");
    git_in(&one, ["init", "--quiet", "--bare", bare]);
    let output = agent(&two, &["sync"]);
    assert!(describe(&output).contains("healed"), "{}", describe(&output));
    hub.assert_equal(&two);
    assert_eq!(names(&two), ["a"]);
}

#[test]
fn a_ref_that_is_lost_here_comes_back_from_what_the_remote_has() {
    let hub = Hub::new(1);
    hub.send_all();
    let clone = &hub.clones[0];
    row(clone, "a");
    let send = ["send", "--type=notify", "--to=bob", "--payload=message=x"];
    json(clone, &send);
    json(clone, &["receive", "--agent=bob"]);
    json(clone, &["sync"]);
    let git = clone.join(".git");
    let forget_reflog = |name: &str| {
        // A ref that was healed where it is has none.
        let _ = std::fs::remove_file(git.join("logs").join(name));
    };
    let heals = |what: &str, is_restored: bool| {
        let report = json(clone, &["sync"]);
        let restored = report["restored"].as_array().expect("a list");
        assert_eq!(!restored.is_empty(), is_restored, "{what}: {report:#}");
        assert_eq!(names(clone), ["a"], "{what}");
        hub.assert_equal(clone);
        let fsck = ["fsck", "--strict", "--no-progress", "--no-dangling"];
        assert_eq!(git_in(clone, fsck), "", "{what}");
    };
    // Every ref of ours is emptied, as by a power loss, and so is its reflog: the copies are left.
    for name in REFS {
        std::fs::write(git.join(name), "").expect("written");
        forget_reflog(name);
    }
    assert_eq!(names(clone), ["a"], "readers use the copies, too");
    heals("emptied", true);
    // The newest commit is gone, and the copies need it as well.
    let tip = tip(clone, "refs/notes/agents");
    let (directory, file) = tip.split_at(2);
    std::fs::remove_file(git.join("objects").join(directory).join(file)).expect("removed");
    forget_reflog("refs/notes/agents");
    heals("without its commit", true);
    // Neither the ref nor a copy of it is left.
    git_in(clone, ["update-ref", "-d", "refs/agents/remote/origin/ledger"]);
    std::fs::write(git.join("refs/notes/agents"), "").expect("written");
    forget_reflog("refs/notes/agents");
    heals("without a copy", true);
    // A copy is left that leads to nothing.
    for name in ["refs/notes/agents", "refs/agents/remote/origin/ledger"] {
        std::fs::write(git.join(name), "").expect("written");
        forget_reflog(name);
    }
    heals("with an empty copy", true);
    // Deleted, which leaves no trace: the copy of the remote is united as ever.
    git_in(clone, ["update-ref", "-d", "refs/notes/agents"]);
    heals("deleted", false);
    // A copy that leads to nothing is forgotten.
    for content in ["", "1234567890123456789012345678901234567890\n"] {
        std::fs::write(git.join("refs/agents/remote/origin/ledger"), content).expect("written");
        heals("with a damaged copy", false);
    }
}
