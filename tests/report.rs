//! `report`: what is in it, and a page that any browser can read and nobody can break out of.

/// A reader of pages, strict where browsers are lenient.
mod page;

use crate::support::agent::{SHARED_TASK, TASK, describe};
use crate::support::death;
use crate::support::{TestRepo, git_in};
use crate::verify::Agent;
use git_agent::agents::ctx::Seams;
use git_agent::ops::report;
use page::Page;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A task whose text tries to get out of every place that a page could put it.
const HOSTILE: &str = r#"role = "edit-local"
task = """</style></title><script>alert(1)</script>" onload='x' & more"""
[scope]
whitelist = ["src/**"]
"#;

fn html(repo: &TestRepo) -> String {
    let output = repo.agent(&["report", "--html=-"]);
    assert!(output.status.success(), "{}", describe(&output));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Agents in every state that a few commands can bring about.
fn fleet() -> TestRepo {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.verify(&[]);
    agent.repo.agent_json(&["merge", &agent.id]);
    let repo = agent.repo;
    let id = |report: &Value| report["agent_id"].as_str().expect("an id").to_owned();
    let child = id(&repo.spawn_task(TASK, &["--name=child", "--parent", &agent.id]));
    repo.spawn_task(TASK, &["--name=grandchild", "--parent", &child]);
    let failed = repo.spawn_task(SHARED_TASK, &[]);
    repo.agent_json(&["fail", &id(&failed), "--reason=no network"]);
    let bad = repo.spawn_task(HOSTILE, &[]);
    let worktree = bad["worktree_abspath"].as_str().expect("a path");
    std::fs::write(format!("{worktree}/outside.md"), "x").expect("write");
    let verdict = repo.agent(&["verify", &id(&bad), "--record"]);
    assert_eq!(verdict.status.code(), Some(1), "{}", describe(&verdict));
    repo.agent_json(&["reject", &id(&bad), "--reason=</p><b>no</b>"]);
    let gone = repo.spawn_task(TASK, &["--name=gone"]);
    repo.agent_json(&["discard", &id(&gone)]);
    repo
}

#[test]
fn the_report_tells_each_life() {
    let repo = fleet();
    let report = repo.agent_json(&["report"]);
    let agents = report["agents"].as_array().expect("agents");
    let states = |agent: &Value| -> Vec<String> {
        let spans = agent["spans"].as_array().expect("spans").iter();
        let states = spans.map(|span| span["state"].as_str().expect("a state").to_owned());
        states.collect()
    };
    assert_eq!(states(&agents[0]), ["spawning", "ready", "done", "merged"]);
    assert_eq!(
        states(&agents[4]),
        ["spawning", "ready", "idle", "rejected"]
    );
    for agent in agents {
        let spans = agent["spans"].as_array().expect("spans");
        for pair in spans.windows(2) {
            assert_eq!(pair[0]["left_at"], pair[1]["entered_at"]);
        }
    }
    let landed = &agents[0]["landed"];
    assert_eq!(landed["commit"], repo.git(["rev-parse", "main"]).as_str());
    assert_eq!(
        landed["subject"],
        repo.git(["log", "-1", "--format=%s", "main"]).as_str()
    );
    assert_eq!(landed["target"]["ref"], "refs/heads/main");
    let findings = &agents[4]["verdicts"][0]["findings"];
    let codes: Vec<_> = findings.as_array().expect("findings").iter().collect();
    assert!(
        codes
            .iter()
            .any(|found| found["code"] == "scope.not-in-whitelist")
    );
    assert!(codes.iter().all(|found| found["meaning"].is_string()));
    let depths: Vec<_> = report["tree"].as_array().expect("a tree").iter().collect();
    let depths: Vec<_> = depths.iter().map(|entry| entry["depth"].as_u64()).collect();
    assert_eq!(depths[..3], [Some(0), Some(1), Some(2)]);
    let text = repo.agent(&["report"]).stdout;
    let text = String::from_utf8(text).expect("UTF-8");
    assert!(text.starts_with("6 agents as of "), "{text}");
    assert!(
        text.ends_with(": 2 ready, 1 failed, 1 merged, 1 rejected, 1 discarded\n"),
        "{text}"
    );
}

#[test]
fn runs_are_told_from_the_ledger() {
    use git_agent::domain::event::{Exited, Started, What};
    use git_agent::domain::run::Ending;
    use git_agent::{git::Repo, store::ledger::Ledger};
    let repo = TestRepo::with_commit();
    let commit = repo.spawn()["spawn_commit"]
        .as_str()
        .expect("a commit")
        .to_owned();
    let commit = git_agent::domain::oid::Oid::from_hex(&commit).expect("an oid");
    let opened = Repo::open(&repo.path()).expect("opens");
    let ledger = Ledger::new(&opened);
    let report = repo.agent_json(&["report"]);
    assert_eq!(report["agents"][0]["runs"], Value::Array(Vec::new()));
    let started = What::Started(Started {
        command: "agent --go <now>".to_owned(),
        ..Started::default()
    });
    let exited = What::Exited(Exited {
        code: 124,
        ended: Some(Ending::Timeout),
        ..Exited::default()
    });
    for what in [started.clone(), exited, started] {
        ledger
            .append(commit, "test", what, chrono::Utc::now())
            .expect("appends");
    }
    let report = repo.agent_json(&["report"]);
    let runs = &report["agents"][0]["runs"];
    assert_eq!(
        (&runs[0]["exit_code"], &runs[0]["command"]),
        (&124.into(), &"agent --go <now>".into())
    );
    assert!(runs[0]["duration_ms"].is_i64() && runs[0]["ended_at"].is_string());
    assert_eq!(
        (&runs[1]["exit_code"], &runs[1]["ended_at"]),
        (&Value::Null, &Value::Null)
    );
    let page = Page::read(&html(&repo));
    assert!(page.text.contains("agent --go <now>"));
    assert!(page.text.contains("124 (timeout)"));
}

#[test]
fn the_page_is_well_formed_and_complete() {
    let repo = fleet();
    let page = Page::read(&html(&repo));
    let report = repo.agent_json(&["report"]);
    for agent in report["agents"].as_array().expect("agents") {
        let id = agent["agent_id"].as_str().expect("an id");
        assert!(page.ids.contains(&format!("agent-{id}")), "{id}");
        let short = agent["short_id"].as_str().expect("an id");
        assert!(page.text.matches(short).count() >= 3, "{short}");
    }
    for link in &page.links {
        let target = link.strip_prefix('#').expect("a link into the page");
        assert!(page.ids.contains(target), "{link}");
    }
    assert_eq!(page.headings.first().map(String::as_str), Some("Needs you"));
    for heading in [
        "Timeline",
        "Who asked for whom",
        "Work in progress",
        "Verdicts",
        "Landed",
    ] {
        assert!(
            page.headings.iter().any(|found| found == heading),
            "{heading}"
        );
    }
    // Every state that the timeline paints is named in its legend.
    let source = html(&repo);
    let (_, after) = source.split_once("<p class=\"legend\">").expect("a legend");
    let legend = after.split("</p>").next().expect("its end");
    let painted = source.split("class=\"bar ").skip(1);
    let painted: BTreeSet<_> = painted.filter_map(|rest| rest.split('"').next()).collect();
    assert!(painted.len() > 2, "{painted:?}");
    for state in painted {
        let named = format!("<span class=\"state {state}\">{state}</span>");
        assert!(legend.contains(&named), "{state}: {legend}");
    }
    assert_eq!(page.count("h1"), 1);
    assert_eq!(page.count("details"), 6);
    // Every picture says in words what it shows.
    assert_eq!(page.count("svg"), page.labelled_pictures);
    let columns = page.count("th");
    assert!(columns > 0 && page.scoped_headers == columns);
}

#[test]
fn what_others_wrote_stays_text() {
    let repo = fleet();
    let text = html(&repo);
    let page = Page::read(&text);
    assert!(
        page.text
            .contains("</style></title><script>alert(1)</script>\" onload='x'")
    );
    assert!(page.text.contains("</p><b>no</b>"));
    let allowed: BTreeSet<&str> = [
        "html", "head", "meta", "title", "style", "body", "header", "main", "footer", "nav",
        "section", "h1", "h2", "p", "ul", "li", "a", "b", "span", "code", "table", "thead",
        "tbody", "tr", "th", "td", "div", "svg", "rect", "line", "details", "summary", "dl", "dt",
        "dd",
    ]
    .into();
    let used: BTreeSet<&str> = page.elements.iter().map(String::as_str).collect();
    assert_eq!(
        used.difference(&allowed).collect::<Vec<_>>(),
        Vec::<&&str>::new()
    );
}

#[test]
fn nothing_comes_from_elsewhere() {
    let text = html(&fleet()).to_ascii_lowercase();
    for word in [
        "http:", "https:", "url(", "@import", "<script", "<link", "<img", " src=",
    ] {
        assert!(!text.contains(word), "{word}");
    }
}

#[test]
fn time_goes_on_where_nothing_happens() {
    let repo = fleet();
    let later = chrono::Utc::now() + chrono::TimeDelta::hours(1);
    let seams = Seams {
        clock: Arc::new(move || later),
        ..Seams::real()
    };
    let report = report::report(&death::ctx_with(&repo.path(), seams)).expect("a report");
    let made_at = report.made_at.parse::<chrono::DateTime<chrono::Utc>>();
    let apart = made_at.expect("a time") - later;
    assert!(apart.abs() < chrono::TimeDelta::milliseconds(1), "{apart}");
    let failed = report
        .agents
        .iter()
        .find(|agent| agent.agent.state == "failed");
    let last = failed
        .and_then(|agent| agent.spans.last())
        .expect("a state");
    assert_eq!(last.end, later);
    // What is over does not go on.
    let merged = &report.agents[0].spans;
    assert!(merged.last().is_some_and(|span| span.end < later));
}

#[test]
fn no_agents_is_a_page_too() {
    let repo = TestRepo::with_commit();
    let page = Page::read(&html(&repo));
    assert!(page.text.contains("No agent has been spawned here yet."));
    assert_eq!(page.count("table"), 0);
}

#[test]
fn a_file_that_is_no_report_is_left_alone() {
    let repo = fleet();
    let file = repo.path().join("report.html");
    let name = file.to_str().expect("UTF-8");
    let saved = repo.agent_json(&["report", "--html", name]);
    assert_eq!(
        (&saved["path"], &saved["agents"]),
        (&name.into(), &6.into())
    );
    let page = std::fs::read_to_string(&file).expect("read");
    assert_eq!(Page::read(&page).ids, Page::read(&html(&repo)).ids);
    // A second time it replaces its own page, told by a name relative to where one stands.
    let output = repo.agent(&["report", "--html=report.html"]);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("{name}: 6 agents\n")
    );
    std::fs::write(&file, "my own words").expect("write");
    let output = repo.agent(&["report", "--html", name]);
    assert_eq!(output.status.code(), Some(3), "{}", describe(&output));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("error[path-exists]: "));
    assert_eq!(
        std::fs::read_to_string(&file).expect("read"),
        "my own words"
    );
    std::fs::remove_file(&file).expect("removed");
    std::fs::create_dir(repo.path().join("below")).expect("made");
    let saved = repo.agent_json(&["report", "--html=below/../report.html"]);
    assert_eq!(saved["path"], name);
    let nowhere = repo.agent(&["report", "--html=no/such/directory/report.html"]);
    assert_eq!(nowhere.status.code(), Some(4), "{}", describe(&nowhere));
    assert_eq!(
        git_in(&repo.path(), ["status", "--porcelain"]),
        "?? report.html"
    );
}

#[test]
fn overlaps_and_mail_are_told() {
    let repo = TestRepo::with_commit();
    let spawn = |name: &str| {
        let report = repo.spawn_task(HOSTILE, &[&format!("--name={name}")]);
        let worktree = report["worktree_abspath"].as_str().expect("a path");
        std::fs::write(format!("{worktree}/src/lib.rs"), name).expect("write");
    };
    spawn("one");
    assert_eq!(repo.agent_json(&["report"]).get("overlap"), None);
    spawn("two");
    spawn("three");
    for to in ["two", "all"] {
        let arguments = ["--type=notify", "--from=one", "--to", to];
        let payload = ["--payload", "subject=a", "--payload", "message=b"];
        repo.agent_json(&[&["send"], &arguments[..], &payload].concat());
    }
    let taken = repo.agent(&["receive", "--agent=two"]);
    assert!(taken.status.success(), "{}", describe(&taken));
    let report = repo.agent_json(&["report"]);
    let count =
        |agent: &Value| ["sent", "received", "pending"].map(|key| agent["mail"][key].clone());
    let agents = report["agents"].as_array().expect("agents").iter();
    let mail: Vec<_> = agents.map(count).collect();
    assert_eq!(json!(mail), json!([[2, 0, 0], [0, 2, 0], [0, 0, 1]]));
    assert_eq!(report["overlap"], repo.agent_json(&["overlap"]));
    let page = html(&repo);
    let text = Page::read(&page).text;
    for part in [
        "In each other's way",
        "conflict in src/lib.rs",
        "2 received",
    ] {
        assert!(text.contains(part), "{part}");
    }
    // Once in the legend, and once for each pair.
    assert_eq!(page.matches("<b class=\"failed\">x</b>").count(), 4);
}
