use crate::support::TestRepo;
use crate::support::agent::describe;
use crate::support::isolated;
use serde_json::Value;

const LEDGER: &str = "refs/notes/agents";

/// An agent with a few events; its id and its spawn commit.
fn scene() -> (TestRepo, String, String) {
    let repo = TestRepo::with_commit();
    let agent = repo.spawn();
    let id = agent["agent_id"].as_str().expect("an id").to_owned();
    repo.agent_json(&["done", &id, "-m", "It is done"]);
    repo.agent_json(&["defer", &id, "-m", "Not today"]);
    let branch = agent["branch"].as_str().expect("a branch");
    let spawn = repo.git(["rev-parse", branch]);
    (repo, id, spawn)
}

/// The answer of `ledger verify`, whose verdict the status repeats.
pub fn verify(repo: &TestRepo, options: &[&str]) -> Value {
    let output = repo.agent(&[&["ledger", "verify", "--format=json"], options].concat());
    let answer: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("no answer: {}", describe(&output)));
    let expected = if answer["verdict"] == "accept" { 0 } else { 1 };
    assert_eq!(output.status.code(), Some(expected), "{answer}");
    answer
}

/// Eve writes the note of a row anew.
fn write_as_eve(repo: &TestRepo, spawn: &str, body: &str) {
    let file = repo.path().with_file_name("body");
    std::fs::write(&file, body).expect("write");
    let mut git = isolated("git", &repo.path());
    git.env("GIT_COMMITTER_NAME", "Eve").env("GIT_COMMITTER_EMAIL", "eve@example.com");
    git.args(["notes", "--ref=agents", "add", "--force", "-F"]).arg(file).arg(spawn);
    assert!(git.output().expect("git starts").status.success());
}

fn body(repo: &TestRepo, spawn: &str) -> String {
    repo.git(["notes", "--ref=agents", "show", spawn])
}

#[test]
fn a_removed_event_is_found_and_the_commit_that_removed_it_named() {
    let (repo, id, spawn) = scene();
    let sound = verify(&repo, &[]);
    assert_eq!((&sound["verdict"], &sound["rows"]), (&"accept".into(), &1.into()));
    let whole = body(&repo, &spawn);
    let (kept, _) = whole.rsplit_once('\n').expect("lines");
    write_as_eve(&repo, &spawn, kept);
    let commit = repo.git(["rev-parse", LEDGER]);
    // What is recorded since does not hide it, and it is one removal however many ways lead to it.
    let made = |parents: &[&str]| {
        let tree = format!("{commit}^{{tree}}");
        let words = ["commit-tree", "-m", parents[0], &tree];
        let parents = parents.iter().flat_map(|parent| ["-p", *parent]);
        repo.git(words.into_iter().chain(parents).collect::<Vec<_>>())
    };
    let side = made(&[&commit]);
    repo.git(["update-ref", LEDGER, &made(&[&side, &commit])]);
    repo.spawn();
    let found = verify(&repo, &[]);
    let removals = found["removals"].as_array().expect("removals");
    assert_eq!(removals.len(), 1, "{found}");
    assert_eq!(removals[0]["agent_id"], id);
    assert_eq!(removals[0]["commit"], commit);
    assert_eq!(removals[0]["by"], "Eve <eve@example.com>");
    assert_eq!(removals[0]["events"], 1);
    let text = describe(&repo.agent(&["ledger", "verify"]));
    let told = format!("1 event removed by commit {} of Eve <eve@example.com>", &commit[..7]);
    assert!(text.contains(&told), "{text}");
    repo.agent(&["doctor", "--fix"]);
    assert_eq!(body(&repo, &spawn), whole);
    assert_eq!(verify(&repo, &[])["verdict"], "accept");
}

#[test]
fn an_altered_event_breaks_the_chain_and_leads_to_its_author() {
    let (repo, id, spawn) = scene();
    let whole = body(&repo, &spawn);
    assert!(whole.contains("It is done"), "{whole}");
    write_as_eve(&repo, &spawn, &whole.replace("It is done", "It is fine"));
    let found = verify(&repo, &[]);
    assert_eq!(found["removals"][0]["by"], "Eve <eve@example.com>", "{found}");
    assert_eq!(found["broken"][0]["agent_id"], id);
    assert_eq!(found["broken"][0]["removed"], 1, "{found}");
}

#[test]
fn a_ledger_that_was_set_back_lacks_events_that_no_commit_removed() {
    let (repo, id, _) = scene();
    let before = repo.git(["rev-parse", &format!("{LEDGER}~1")]);
    repo.git(["update-ref", LEDGER, &before]);
    let found = verify(&repo, &[]);
    let removal = &found["removals"][0];
    assert_eq!(removal["agent_id"], id, "{found}");
    assert!(removal.get("commit").is_none() && removal.get("by").is_none());
}

#[test]
fn what_this_clone_decided_binds_though_its_line_is_gone() {
    let repo = TestRepo::with_commit();
    for decide in [&["amend", "--scope", "src/bin/**"][..], &["mark", "reject", "-m", "no"]] {
        let agent = repo.agent_json(&["spawn", "do it", "--scope=src/**", "--new=docs/**"]);
        let id = agent["agent_id"].as_str().expect("an id");
        let worktree = agent["worktree_abspath"].as_str().expect("a path");
        std::fs::write(format!("{worktree}/src/new.rs"), "").expect("written");
        let spawn = repo.git(["rev-parse", agent["branch"].as_str().expect("a branch")]);
        let before = body(&repo, &spawn);
        repo.agent_json(&[decide, &[id]].concat());
        // The line goes in the ledger's history, and then with the history.
        let tip = repo.git(["rev-parse", LEDGER]);
        write_as_eve(&repo, &spawn, &before);
        for _ in 0..2 {
            let verdict = repo.agent(&["verify", id, "--format=json"]);
            let verdict: Value = serde_json::from_slice(&verdict.stdout).expect("JSON");
            let codes = verdict["findings"].to_string();
            assert!(codes.contains("ledger.chain"), "{decide:?} {verdict}");
            assert_eq!(repo.agent(&["merge", id]).status.code(), Some(3), "{decide:?}");
            repo.git(["update-ref", LEDGER, &format!("{tip}~1")]);
        }
        repo.agent(&["doctor", "--fix"]);
        let merged = describe(&repo.agent(&["merge", id]));
        assert!(!merged.contains("ledger.chain") && merged.contains("exit status: 3"), "{merged}");
    }
}
