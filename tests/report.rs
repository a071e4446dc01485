//! `report`: what is in it, and a page that any browser can read and nobody can break out of.

/// The page in a real browser.
mod browser;
/// A reader of pages, strict where browsers are lenient.
mod page;

use crate::support::agent::{SHARED_TASK, TASK, agent_command, describe};
use crate::support::death;
use crate::support::{TestRepo, git_in};
use crate::verify::Agent;
use git_agent::agents::context::ctx::Seams;
use git_agent::ops::report;
use git_agent::ops::report::watch::ReportWatch;
use page::Page;
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Output, Stdio};
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
    assert_eq!(states(&agents[4]), ["spawning", "ready", "idle", "rejected"]);
    for agent in agents {
        let spans = agent["spans"].as_array().expect("spans");
        for pair in spans.windows(2) {
            assert_eq!(pair[0]["left_at"], pair[1]["entered_at"]);
        }
    }
    let landed = &agents[0]["landed"];
    assert_eq!(landed["commit"], repo.git(["rev-parse", "main"]).as_str());
    assert_eq!(landed["subject"], repo.git(["log", "-1", "--format=%s", "main"]).as_str());
    assert_eq!(landed["target"]["ref"], "refs/heads/main");
    let findings = &agents[4]["verdicts"][0]["findings"];
    let codes: Vec<_> = findings.as_array().expect("findings").iter().collect();
    assert!(codes.iter().any(|found| found["code"] == "scope.not-in-whitelist"));
    assert!(codes.iter().all(|found| found["meaning"].is_string()));
    let depths: Vec<_> = report["tree"].as_array().expect("a tree").iter().collect();
    let depths: Vec<_> = depths.iter().map(|entry| entry["depth"].as_u64()).collect();
    assert_eq!(depths[..3], [Some(0), Some(1), Some(2)]);
    let text = repo.agent(&["report"]).stdout;
    let text = String::from_utf8(text).expect("UTF-8");
    assert!(text.starts_with("6 agents as of "), "{text}");
    assert!(text.ends_with(": 2 ready, 1 failed, 1 merged, 1 rejected, 1 discarded\n"), "{text}");
}

#[test]
fn runs_are_told_from_the_ledger() {
    use git_agent::domain::life::event::{Exited, Started, What};
    use git_agent::domain::life::run::Ending;
    use git_agent::{git::Repo, store::ledger::Ledger};
    let repo = TestRepo::with_commit();
    let commit = repo.spawn()["spawn_commit"].as_str().expect("a commit").to_owned();
    let commit = git_agent::domain::value::oid::Oid::from_hex(&commit).expect("an oid");
    let opened = Repo::open(&repo.path()).expect("opens");
    let ledger = Ledger::new(&opened);
    let report = repo.agent_json(&["report"]);
    assert_eq!(report["agents"][0]["runs"], Value::Array(Vec::new()));
    let started =
        What::Started(Started { command: "agent --go <now>".to_owned(), ..Started::default() });
    let exited =
        What::Exited(Exited { code: 124, ended: Some(Ending::Timeout), ..Exited::default() });
    for what in [started.clone(), exited, started] {
        ledger.append(commit, "test", what, chrono::Utc::now()).expect("appends");
    }
    let report = repo.agent_json(&["report"]);
    let runs = &report["agents"][0]["runs"];
    assert_eq!(
        (&runs[0]["exit_code"], &runs[0]["command"]),
        (&124.into(), &"agent --go <now>".into())
    );
    assert!(runs[0]["duration_ms"].is_i64() && runs[0]["ended_at"].is_string());
    assert_eq!((&runs[1]["exit_code"], &runs[1]["ended_at"]), (&Value::Null, &Value::Null));
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
    for heading in ["Timeline", "Who asked for whom", "Work in progress", "Verdicts", "Landed"] {
        assert!(page.headings.iter().any(|found| found == heading), "{heading}");
    }
    // Every state that the timeline paints is named in its legend.
    let source = html(&repo);
    let (_, after) = source.split_once("<p class=\"legend\">").expect("a legend");
    let legend = after.split("</p>").next().expect("its end");
    let painted: BTreeSet<_> =
        source.split("class=\"bar ").skip(1).filter_map(|rest| rest.split('"').next()).collect();
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
    assert!(page.text.contains("</style></title><script>alert(1)</script>\" onload='x'"));
    assert!(page.text.contains("</p><b>no</b>"));
    let allowed: BTreeSet<&str> = [
        "html", "head", "meta", "title", "style", "body", "header", "main", "footer", "nav",
        "section", "h1", "h2", "p", "ul", "li", "a", "b", "span", "code", "table", "thead",
        "tbody", "tr", "th", "td", "div", "svg", "rect", "line", "circle", "text", "details",
        "summary", "dl", "dt", "dd",
    ]
    .into();
    let used: BTreeSet<&str> = page.elements.iter().map(String::as_str).collect();
    assert_eq!(used.difference(&allowed).collect::<Vec<_>>(), Vec::<&&str>::new());
}

#[test]
fn nothing_comes_from_elsewhere() {
    let text = html(&fleet()).to_ascii_lowercase();
    for word in ["http:", "https:", "url(", "@import", "<script", "<link", "<img", " src="] {
        assert!(!text.contains(word), "{word}");
    }
}

#[test]
fn work_comes_by_state_with_counts_cost_and_time() {
    let repo = TestRepo::with_commit();
    repo.spawn_task(TASK, &["--name=rests"]);
    repo.spawn_task(TASK, &["--name=works"]);
    let result = r#"{"type":"result","total_cost_usd":0.42}"#;
    let command = format!("printf 'a\nb\n' > src/new.rs; echo '{result}'; exit 1");
    repo.agent(&["run", "works", "--", "sh", "-c", &command]);
    let report = repo.agent_json(&["report"]);
    assert_eq!(report["agents"][1]["diff"], json!({ "files": 1, "insertions": 2, "deletions": 0 }));
    let source = html(&repo);
    let (_, work) = source.split_once("<section id=\"work\"").expect("a section");
    let work = &work[..work.find("</section>").expect("its end")];
    // Who failed comes before who has not begun, though the other one is older.
    assert!(work.find("works") < work.find("rests"), "{work}");
    assert!(work.contains("1f +2 −0"), "{work}");
    // A link leads to what is inside of closed details, so that browsers open them.
    let id = report["agents"][1]["agent_id"].as_str().expect("an id");
    assert!(work.contains(&format!("href=\"#agent-{id}\"")));
    assert!(source.contains(&format!("<dl id=\"agent-{id}\">")));
}

/// A repository, and a program of the user's outside of it that writes down what it is to open.
fn with_opener() -> (TestRepo, PathBuf, PathBuf) {
    let repo = TestRepo::with_commit();
    repo.spawn_task(TASK, &["--name=fixer"]);
    let (program, opened) =
        ["browser", "opened"].map(|name| repo.path().with_file_name(name)).into();
    let script = format!("#!/bin/sh\nprintf '%s\\n' \"$@\" > '{}'\n", opened.display());
    fs::write(&program, script).expect("written");
    fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("set");
    (repo, program, opened)
}

fn report_with_browser(repo: &TestRepo, browser: &str, arguments: &[&str]) -> Output {
    let mut command = agent_command(&repo.path());
    command.arg("report").args(arguments).env("BROWSER", browser);
    command.output().expect("starts")
}

#[test]
fn the_page_is_opened_by_a_program_of_the_users() {
    let (repo, program, opened) = with_opener();
    let program = program.display();
    // A file of the user's choice, whose name means something in URLs; and one inside of .git.
    let odd = repo.path().with_file_name("a #1%.html");
    let odd_name = odd.to_str().expect("UTF-8");
    let inside = repo.path().join(".git/agents/cache/report.html");
    for (browser, arguments, expected, page) in [
        (
            format!("/nowhere/at-all:{program} --new %s x"),
            vec!["--html", odd_name, "--open"],
            "--new\nPAGE\nx\n",
            &odd,
        ),
        (format!("{program}"), vec!["--html", "--open"], "PAGE\n", &inside),
    ] {
        let output = report_with_browser(&repo, &browser, &arguments);
        assert!(output.status.success(), "{}", describe(&output));
        let path = page.display().to_string();
        let url = path.replace('%', "%25").replace(' ', "%20").replace('#', "%23");
        let expected = expected.replace("PAGE", &format!("file://{url}"));
        assert_eq!(fs::read_to_string(&opened).expect("opened"), expected);
        assert!(fs::read_to_string(page).expect("written").contains("fixer"));
    }
    for (browser, arguments, status, says) in [
        ("/nowhere/at-all", &["--html", "--open"][..], 127, "none of its commands was found"),
        // One that says no.
        ("false", &["--html", "--open"], 126, "did not open the page"),
        ("false", &["--html=-", "--open"], 2, "not `-` with --open"),
        ("false", &["--open"], 2, "--html"),
    ] {
        let output = report_with_browser(&repo, browser, arguments);
        assert_eq!(output.status.code(), Some(status), "{}", describe(&output));
        assert!(output.stdout.is_empty());
        assert!(String::from_utf8_lossy(&output.stderr).contains(says), "{}", describe(&output));
    }
}

#[test]
fn no_program_of_an_agent_opens_the_page() {
    let (repo, program, opened) = with_opener();
    let answer = repo.agent_json(&["show", "fixer"]);
    let worktree = PathBuf::from(answer["worktree_abspath"].as_str().expect("a path"));
    let planted = worktree.join("src/browser");
    fs::copy(&program, &planted).expect("copied");
    let output =
        report_with_browser(&repo, planted.to_str().expect("UTF-8"), &["--html", "--open"]);
    assert_eq!(output.status.code(), Some(127), "{}", describe(&output));
    // The same by a name, which is looked for where the caller stands first.
    let mut command = agent_command(&worktree.join("src"));
    let path = format!(".:{}", std::env::var("PATH").expect("PATH"));
    command.args(["report", "--html", "--open"]).env("BROWSER", "browser").env("PATH", path);
    let output = command.output().expect("starts");
    assert_eq!(output.status.code(), Some(127), "{}", describe(&output));
    assert!(!opened.exists());
}

#[test]
fn a_page_is_kept_current_until_an_interrupt() {
    let (repo, program, opened) = with_opener();
    let directory = repo.path().with_file_name("site");
    let mut watch = agent_command(&repo.path())
        .args(["report", "--format=ndjson", "--open", "--html", "--watch"])
        .arg(&directory)
        .env("BROWSER", &program)
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut lines = BufReader::new(watch.stdout.take().expect("a pipe")).lines();
    let mut next = || -> Value {
        let line = lines.next().expect("a line").expect("read");
        serde_json::from_str(&line).expect("JSON")
    };
    let file = directory.join("index.html");
    let page = || fs::read_to_string(&file).expect("the page");
    let saved = next();
    assert_eq!((&saved["path"], &saved["agents"]), (&json!(file), &json!(1)));
    Page::read(&page());
    assert!(page().contains("http-equiv=\"refresh\"") && !html(&repo).contains("http-equiv"));
    repo.spawn_task(TASK, &["--name=second"]);
    while next()["agents"] != 2 {}
    assert!(page().contains("second"));
    repo.agent_json(&["done", "second"]);
    while !page().contains("its work is finished and not judged") {
        next();
    }
    let pid = Pid::from_child(&watch);
    rustix::process::kill_process(pid, Signal::INT).expect("sent");
    assert_eq!(watch.wait().expect("ends").code(), Some(0));
    let left: Vec<_> = fs::read_dir(&directory).expect("read").collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(fs::read_to_string(&opened).expect("opened").lines().count(), 1);
    for arguments in
        [&["--html=a.html", "--watch=x"][..], &["--html", "--watch=x", "--format=json"]]
    {
        let output = repo.agent(&[&["report"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
    }
    assert!(!repo.path().join("x").exists());
}

#[test]
fn a_page_is_made_again_only_when_something_changed() {
    let repo = TestRepo::with_commit();
    repo.spawn_task(TASK, &["--name=fixer"]);
    let ctx = death::ctx_with(&repo.path(), Seams::real());
    let mut watch = ReportWatch::new(&ctx);
    assert!(watch.renewed().expect("a report").is_some());
    for _ in 0..3 {
        assert!(watch.renewed().expect("a look").is_none());
    }
    repo.agent_json(&["done", "fixer"]);
    let report = loop {
        if let Some(report) = watch.renewed().expect("a look") {
            break report;
        }
        crate::support::pause();
    };
    assert_eq!(report.agents[0].agent.state, "done");
    watch.again();
    assert!(watch.renewed().expect("a report").is_some());
}

#[test]
fn time_goes_on_where_nothing_happens() {
    let repo = fleet();
    let later = chrono::Utc::now() + chrono::TimeDelta::hours(1);
    let seams = Seams { clock: Arc::new(move || later), ..Seams::real() };
    let report = report::report(&death::ctx_with(&repo.path(), seams)).expect("a report");
    let made_at = report.made_at.parse::<chrono::DateTime<chrono::Utc>>();
    let apart = made_at.expect("a time") - later;
    assert!(apart.abs() < chrono::TimeDelta::milliseconds(1), "{apart}");
    let failed = report.agents.iter().find(|agent| agent.agent.state == "failed");
    let last = failed.and_then(|agent| agent.spans.last()).expect("a state");
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
    assert_eq!((&saved["path"], &saved["agents"]), (&name.into(), &6.into()));
    let page = std::fs::read_to_string(&file).expect("read");
    assert_eq!(Page::read(&page).ids, Page::read(&html(&repo)).ids);
    // A second time it replaces its own page, told by a name relative to where one stands.
    let output = repo.agent(&["report", "--html=report.html"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{name}: 6 agents\n"));
    std::fs::write(&file, "my own words").expect("write");
    let output = repo.agent(&["report", "--html", name]);
    assert_eq!(output.status.code(), Some(3), "{}", describe(&output));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("error[path-exists]: "));
    assert_eq!(std::fs::read_to_string(&file).expect("read"), "my own words");
    std::fs::remove_file(&file).expect("removed");
    std::fs::create_dir(repo.path().join("below")).expect("made");
    let saved = repo.agent_json(&["report", "--html=below/../report.html"]);
    assert_eq!(saved["path"], name);
    let nowhere = repo.agent(&["report", "--html=no/such/directory/report.html"]);
    assert_eq!(nowhere.status.code(), Some(4), "{}", describe(&nowhere));
    assert_eq!(git_in(&repo.path(), ["status", "--porcelain"]), "?? report.html");
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
    for part in ["In each other's way", "conflict in src/lib.rs", "2 received"] {
        assert!(text.contains(part), "{part}");
    }
    // Once in the legend, and once for each pair, which is a line of the picture too.
    assert_eq!(page.matches("<b class=\"failed\">x</b>").count(), 4);
    assert_eq!(page.matches("<line class=\"failed\"").count(), 3);
    assert_eq!(page.matches("<circle").count(), 3);
    let asks = ["--type=clarify", "--from=one", "--to=user"];
    let payload = ["--payload", "question=which?", "--payload", "context=c"];
    repo.agent_json(&[&["send"], &asks[..], &payload].concat());
    // What an agent waits for is counted as its row says, not as its history does.
    let run = repo.agent(&["run", "one", "--no-verify", "--", "true"]);
    assert!(run.status.success(), "{}", describe(&run));
    let report = repo.agent_json(&["report"]);
    assert_eq!(report["agents"][0]["state"], "waiting");
    let states = report["states"].as_array().expect("states");
    let waiting = states.iter().find(|count| count["state"] == "waiting");
    assert_eq!(waiting, Some(&json!({ "state": "waiting", "count": 1 })));
}
