use super::{ANYWHERE, Agent, lines, repo, spawn};
use crate::support::TestRepo;
use crate::support::agent::describe;

/// Agents that are done, each with its bundle and one changed line in each of these files.
fn done(repo: &TestRepo, name: &str, changed: &[(&str, usize)]) -> Agent {
    let agent = spawn(repo, name, ANYWHERE);
    for file in ["plan.md", "chatlog.md", "handoffs.md", "review.md"] {
        agent.write(&format!(".agent/{file}"), "written\n");
    }
    agent.write(".agent/progress.json", "{\"status\": \"done\"}\n");
    for (file, line) in changed {
        agent.write(file, &lines(&[(*line, name)]));
    }
    let output = repo.agent(&["done", name, "--summary=finished"]);
    assert!(output.status.success(), "{}", describe(&output));
    agent
}

/// One agent that conflicts with two others, one that nobody minds, one that `main` has overtaken, one
/// without any work.
fn fleet() -> TestRepo {
    let repo = repo();
    done(&repo, "hub", &[("a/one", 3), ("b/one", 3)]);
    done(&repo, "left", &[("a/one", 3)]);
    done(&repo, "right", &[("b/one", 3)]);
    done(&repo, "alone", &[("c/one", 3)]);
    done(&repo, "late", &[("c/two", 3)]);
    done(&repo, "idle", &[]);
    repo.write("c/two", lines(&[(3, "main")]));
    repo.commit_all("main moves on");
    repo
}

#[test]
fn an_order_lands_the_most_and_says_why() {
    let repo = fleet();
    let objects = repo.git(["count-objects", "-v"]);
    let report = repo.agent_json(&["overlap", "--order"]);
    let after = repo.git(["count-objects", "-v"]);
    assert_eq!(after, objects, "no object is written");
    let steps: Vec<String> = report["order"]
        .as_array()
        .expect("steps")
        .iter()
        .map(|step| {
            let text = |key: &str| step[key].as_str().expect(key).to_owned();
            format!("{} {}: {}", text("name"), text("state"), text("why"))
        })
        .collect();
    insta::assert_snapshot!(steps.join("\n"), @r"
    left clean: goes before what it conflicts with
    right clean: goes before what it conflicts with
    alone clean: conflicts with no other
    hub conflicts: waits for what it conflicts with
    late conflicts: conflicts with main as it is
    ");
    assert_eq!(repo.agent_json(&["overlap", "--order"]), report, "twice the same");
    let text = String::from_utf8(repo.agent(&["overlap", "--order"]).stdout).expect("UTF-8");
    assert!(text.starts_with("landing order on main\n  1 "), "{text}");
}

#[test]
fn the_best_order_lands_more_than_the_oldest_first() {
    let landed = |order: &str| {
        let repo = fleet();
        let output = repo.agent(&["merge", "--all", order, "--format=json"]);
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let verdicts = report["items"].as_array().expect("items").iter();
        let landed = verdicts.filter(|one| one["outcome"] == "merged").count();
        assert_eq!(repo.git(["status", "--porcelain"]), "");
        landed
    };
    assert_eq!(landed("--order=spawned"), 2);
    assert_eq!(landed("--order=best"), 3);
}

#[test]
fn what_landed_as_a_squash_does_not_conflict_with_what_comes_after_it() {
    let repo = repo();
    let agent = done(&repo, "again", &[("a/one", 3)]);
    repo.agent_json(&["merge", "again", "--squash"]);
    agent.write("a/one", &lines(&[(3, "second")]));
    repo.agent_json(&["mark", "done", "again"]);
    let report = repo.agent_json(&["overlap", "--order"]);
    assert_eq!(report["order"][0]["state"], "clean", "{report:#}");
}

#[test]
fn there_may_be_nothing_to_land() {
    let repo = repo();
    spawn(&repo, "one", &["a/**"]);
    let output = repo.agent(&["overlap", "--order"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "nothing is ready to land\n");
}
