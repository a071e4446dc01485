//! Rows as they are written, folded, found and listed; `git notes` and `git log` read them too.

use super::{at, noted, oid, open, spawning};
use crate::support::TestRepo;
use git_agent::domain::life::agent::{Move, State};
use git_agent::domain::life::event::{Spawned, What};
use git_agent::domain::life::id::AgentId;
use git_agent::domain::value::oid::Oid;
use git_agent::error::{Code, Error};
use git_agent::store::ledger::{Ledger, RecordedLanding};
use git_agent::store::{chain::keep, files::layout};
use std::os::unix::fs::PermissionsExt;

fn spawned() -> What {
    What::Spawned(Spawned { policy: oid(7), spec_sha: "00".into(), baseline: None })
}

#[test]
fn a_row_is_a_note_that_git_shows() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    let ledger = Ledger::new(&repo);
    let commit = Oid::from_hex(&test.git(["rev-parse", "HEAD"])).expect("oid");
    assert_eq!(ledger.agent(commit).expect("read"), None);
    let events = [
        ledger.append(commit, "me", spawning("fix"), at(0)),
        ledger.append(commit, "me", spawned(), at(0)),
        ledger.append(commit, "me", noted("half way"), at(-60)),
    ]
    .map(|event| event.expect("append"));

    // The clock stood still and ran backwards; the row goes forward.
    assert!(events.is_sorted_by_key(|event| event.at));
    assert_eq!(events[0].previous, None);
    assert_eq!(ledger.events(commit).expect("read"), events);
    let agent = ledger.agent(commit).expect("read").expect("a row");
    assert_eq!(agent.state, State::Ready);
    assert_eq!(agent.policy, Some(oid(7)));
    assert_eq!(agent.irregular, Vec::<String>::new());

    let note = test.git(["log", "-1", "--notes=agents", "--format=%N", "HEAD"]);
    assert_eq!(note.trim_end().lines().count(), 3);
    assert!(note.contains(r#""e":"spawned","by":"me","o":"op-"#), "{note}");
    assert_eq!(test.git(["notes", "--ref=agents", "show", "HEAD"]).lines().count(), 3);
    let trailers = ["log", "--format=%(trailers:key=Git-Agent,valueonly,separator=)"];
    let log = test.git(trailers.into_iter().chain([layout::LEDGER_REF]));
    assert_eq!(log, "1\n1\n1");
    assert_eq!(test.git(["fsck", "--strict", "--no-dangling"]), "");
}

#[test]
fn an_illegal_move_is_refused_under_the_lock() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    let ledger = Ledger::new(&repo);
    ledger.append(oid(1), "me", spawning("fix"), at(0)).expect("append");
    let merge = |agent: Option<&git_agent::domain::life::agent::Agent>| {
        agent.expect("a row").may(Move::Merge)?;
        Ok(What::Merged { commit: oid(2), into: "refs/heads/main".into(), tip: None, from: None })
    };
    let error = ledger.append_if(oid(1), "me", at(1), merge).expect_err("half made");
    assert_eq!(error.code(), Code::AgentState);
    assert_eq!(ledger.events(oid(1)).expect("read").len(), 1);
}

#[test]
fn foreign_lines_stay_and_do_not_disturb() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    let ledger = Ledger::new(&repo);
    let commit = Oid::from_hex(&test.git(["rev-parse", "HEAD"])).expect("oid");
    ledger.append(commit, "me", spawning("fix"), at(0)).expect("append");
    test.git(["notes", "--ref=agents", "append", "-m", "reviewed by\n\nnobody", "HEAD"]);
    ledger.append(commit, "me", spawned(), at(1)).expect("append");
    let note = test.git(["notes", "--ref=agents", "show", "HEAD"]);
    let foreign: Vec<_> = note.lines().filter(|line| !line.starts_with('{')).collect();
    assert_eq!(foreign, ["nobody", "reviewed by"]);
    let agent = ledger.agent(commit).expect("read").expect("a row");
    assert_eq!((agent.state, agent.irregular.len()), (State::Ready, 0));
}

#[test]
fn a_copied_note_or_a_pointer_is_no_second_agent() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    let ledger = Ledger::new(&repo);
    ledger.append(oid(1), "me", spawning("fix"), at(0)).expect("append");
    ledger.append(oid(3), "me", spawning("mend"), at(0)).expect("append");
    // One commit brought the work of both.
    let landings = [oid(1), oid(3)].map(|spawn_commit| RecordedLanding {
        spawn_commit,
        commit: oid(2),
        into: "refs/heads/main".into(),
        tip: None,
        from: None,
        with: Vec::new(),
    });
    ledger.append_landings(&landings, "me", at(1), |_| Ok(())).expect("append");
    assert_eq!(ledger.agents().expect("read").len(), 2);
    assert_eq!(ledger.agent(oid(2)).expect("read"), None);
    let pointers = test.git(["notes", "--ref=agents", "show", &oid(2).to_hex()]);
    assert_eq!(pointers.lines().count(), 2, "{pointers}");
    // All or none.
    let before = test.git(["rev-parse", "refs/notes/agents"]);
    let refused = ledger.append_landings(&landings, "me", at(2), |row| {
        let is_first = row.is_some_and(|row| row.spawn_commit == oid(1));
        if is_first { Ok(()) } else { Err(Error::bug("not this one")) }
    });
    assert!(refused.is_err());
    assert_eq!(test.git(["rev-parse", "refs/notes/agents"]), before);
}

#[test]
fn long_texts_are_cut_and_long_facts_refused() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    let ledger = Ledger::new(&repo);
    let event = ledger.append(oid(1), "me", noted("\"ä\n".repeat(2_000)), at(0));
    event.expect("append");
    let body = test.git(["notes", "--ref=agents", "show", &oid(1).to_hex()]);
    assert!((600..1024).contains(&body.len()), "{}", body.len());
    assert!(body.contains('…'));
    let What::Spawning(mut facts) = spawning("fix") else { unreachable!() };
    facts.worktree = Some("/x".repeat(600));
    let error = ledger.append(oid(1), "me", What::Spawning(facts), at(1)).expect_err("too long");
    assert_eq!(error.code(), Code::EventTooLong);
    assert_eq!(ledger.events(oid(1)).expect("read").len(), 1);
}

#[test]
fn an_agent_is_found_by_every_name_it_has() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    let ledger = Ledger::new(&repo);
    let same_start = |number: u8| {
        let mut bytes = *oid(5).as_bytes();
        bytes[6] = number;
        Oid::from_bytes(bytes)
    };
    for (commit, name) in [(oid(1), "fix"), (same_start(1), "twin"), (same_start(2), "twin")] {
        ledger.append(commit, "me", spawning(name), at(0)).expect("append");
    }
    let id = AgentId::from_spawn_commit(oid(1));
    let names = [
        id.to_string(),
        id.short(),
        id.hex()[..4].to_owned(),
        id.to_string()[..20].to_owned(),
        oid(1).to_hex(),
        oid(1).to_hex()[..16].to_owned(),
        oid(1).to_hex()[..10].to_uppercase(),
        "fix".into(),
        "agent/fix-20261120T214929Z".into(),
        "refs/heads/agent/fix-20261120T214929Z".into(),
        format!("{}/.claude/worktrees/fix", test.path().display()),
        format!("{}/.claude/worktrees/fix/", test.path().display()),
    ];
    for name in names {
        assert_eq!(ledger.find(&name).expect("found").id, id, "{name}");
    }
    for name in ["nobody", "", "ffffffff", "/repo", "fi"] {
        let error = ledger.find(name).expect_err("unknown");
        assert_eq!(error.code(), Code::AgentUnknown, "{name}");
    }
    for name in ["twin", &oid(5).to_hex()[..8]] {
        let error = ledger.find(name).expect_err("two of them");
        assert_eq!(error.code(), Code::AgentAmbiguous, "{name}");
        assert_eq!(error.details()[0].lines().count(), 2);
    }
    assert!(ledger.is_prefix_taken(&id.short()).expect("read"));
    assert!(!ledger.is_prefix_taken("ffffffff").expect("read"));
}

#[test]
fn the_list_is_the_same_with_an_old_a_broken_and_no_cache() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    let ledger = Ledger::new(&repo);
    let cache = layout::ledger_cache(repo.common_dir());
    let mut written = 0;
    let mut list = |count: usize| {
        for number in written..written + count {
            let what = spawning(&format!("n{number}"));
            ledger.append(oid(number), "me", what, at(1)).expect("append");
        }
        written += count;
        let names: Vec<_> =
            ledger.agents().expect("read").into_iter().map(|agent| agent.spawn_commit).collect();
        let mut expected: Vec<_> = (0..written).map(oid).collect();
        expected.sort();
        assert_eq!(names, expected);
    };
    list(3);
    assert!(!cache.exists(), "not worth it");
    list(60);
    assert!(cache.exists());
    list(2);
    let content = std::fs::read(&cache).expect("cache");
    for broken in [&content[..content.len() / 2], b"", b"git-agent ledger cache 9 x\n"] {
        std::fs::write(&cache, broken).expect("write");
        list(0);
    }
    // A foreign hand removed a row; the cache must not bring it back.
    list(70);
    test.git(["notes", "--ref=agents", "remove", &oid(0).to_hex()]);
    assert_eq!(ledger.agents().expect("read").len(), written - 1);
}

#[test]
fn the_index_of_rows_says_what_the_rows_say() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    let ledger = Ledger::new(&repo);
    let index = layout::row_index(repo.common_dir());
    let append = |number: usize, what: What| {
        let appended = ledger.append(oid(number), "me", what, at(1));
        appended.expect("append");
    };
    let spawn = |numbers: std::ops::Range<usize>| {
        for number in numbers {
            append(number, spawning(&format!("n{number}")));
            append(number, spawned());
        }
    };
    let live = || {
        let agents = ledger.agents().expect("read").into_iter();
        let live = agents.filter(|agent| agent.state.is_live());
        let expected: Vec<_> =
            live.map(|agent| (agent.spawn_commit, agent.name, agent.policy)).collect();
        let found = ledger.live_agents().expect("read").into_iter();
        let found: Vec<_> =
            found.map(|agent| (agent.spawn_commit, agent.name, agent.policy)).collect();
        assert_eq!(found, expected);
        found.len()
    };
    spawn(0..3);
    assert_eq!(live(), 3);
    assert!(!index.exists(), "not worth it");
    spawn(3..40);
    let merged =
        What::Merged { commit: oid(50), into: "refs/heads/main".into(), tip: None, from: None };
    append(4, merged.clone());
    append(5, merged);
    assert_eq!(live(), 38);
    let content = std::fs::read(&index).expect("worth it");
    // What this clone has is asked each time: it did not merge these, and has a worktree of one.
    std::fs::remove_file(layout::closed(repo.common_dir())).expect("removed");
    let name = layout::worktree_name(AgentId::from_spawn_commit(oid(5)));
    let admin_dir = repo.common_dir().join("worktrees").join(name);
    std::fs::create_dir_all(admin_dir).expect("made");
    assert_eq!(live(), 39);
    // A row that says twice how it began is read itself.
    append(6, spawning("other"));
    for broken in [&content[..], &content[..content.len() / 2], b"", b"git-agent row index 9 x\n"] {
        std::fs::write(&index, broken).expect("write");
        assert_eq!(live(), 39);
        let id = AgentId::from_spawn_commit(oid(7));
        assert_eq!(ledger.find("n7").expect("a row").id, id);
        let branch = "refs/heads/agent/n7-20261120T214929Z";
        let held = ledger.last_with_branch(branch).expect("read");
        assert_eq!(held.expect("a row").id, id);
        let place = test.path().join(".claude/worktrees/n7");
        let place = ledger.find(place.to_str().expect("UTF-8"));
        assert_eq!(place.expect("a row").id, id);
        let alias = git_agent::domain::life::id::AgentName::parse("n5").expect("a name");
        assert_eq!(ledger.live_with_alias(&alias).expect("read").len(), 1);
    }
    test.git(["notes", "--ref=agents", "remove", &oid(0).to_hex()]);
    assert_eq!(live(), 38);
}

#[test]
fn the_keep_chain_saves_rows_from_squash_gc_and_prune() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    test.git(["checkout", "--quiet", "-b", "agent/fix"]);
    let spawn = test.commit_all("agent: spawn fix");
    let spawn = Oid::from_hex(&spawn).expect("oid");
    test.write("src/lib.rs", "pub fn two() {}\n");
    test.commit_all("work");
    Ledger::new(&repo).append(spawn, "me", spawning("fix"), at(0)).expect("append");
    keep::keep(&repo, &[spawn], "spawn fix", at(0)).expect("keep");
    test.git(["checkout", "--quiet", "main"]);
    test.git(["merge", "--quiet", "--squash", "agent/fix"]);
    test.commit_all("squashed");
    test.git(["branch", "-D", "--quiet", "agent/fix"]);
    test.git(["reflog", "expire", "--expire=now", "--all"]);
    test.git(["gc", "--quiet", "--prune=now"]);
    test.git(["notes", "--ref=agents", "prune"]);
    let repo = open(&test);
    assert_eq!(Ledger::new(&repo).agents().expect("read").len(), 1);
    assert_eq!(test.git(["fsck", "--strict", "--no-dangling"]), "");
}

#[test]
fn maintenance_starts_when_objects_pile_up() {
    let test = TestRepo::with_commit();
    let pipe = test.path().join(".git/started");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo").success());
    // git asks this hook before it collects; it tells us and refuses.
    let hook = format!("#!/bin/sh\necho \"$0\" >'{}'\nexit 1\n", pipe.display());
    test.write(".git/hooks/pre-auto-gc", hook);
    let hook = test.path().join(".git/hooks/pre-auto-gc");
    std::fs::set_permissions(hook, std::fs::Permissions::from_mode(0o755)).expect("chmod");
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(std::fs::read(pipe)));

    // With this limit two objects in `objects/17` are too many.
    test.git(["config", "gc.auto", "1"]);
    let repo = open(&test);
    let ledger = Ledger::new(&repo);
    let tip = test.path().join(".git/refs/notes/agents");
    let objects = test.path().join(".git/objects/17");
    for number in 0..5_000 {
        ledger.append(oid(number), "me", noted("x"), at(0)).expect("append");
        let piled_up = std::fs::read_dir(&objects).is_ok_and(|entries| entries.count() > 1);
        if piled_up && std::fs::read(&tip).expect("ref").starts_with(b"17") {
            break;
        }
    }
    let hook = receiver.recv_timeout(std::time::Duration::from_secs(60));
    assert!(hook.expect("git gc ran").is_ok());
}
