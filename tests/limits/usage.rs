//! Runs that take too much end, with all their processes, and those beside them do not.

use super::admission::cost;
use super::{beside, ended, run, spawned, wait_for, with_settings};
use crate::support::TestRepo;
use crate::support::agent::{TASK, agent_command};
use serde_json::{Value, json};
use std::sync::Barrier;

/// Two processes that take 90 MB each, and a third that only waits.
const TAKES: &str = r#"
take() { (head -c 90000000 /dev/zero; echo > "$BESIDE/taken.$1"; sleep 1000) | tail -n 1; }
take one & take two & sleep 1000"#;

/// At most 511 processes, each of which starts two.
const FORKS: &str = r#"
fork() { if [ "$1" -gt 0 ]; then fork $(($1 - 1)) & fork $(($1 - 1)) & fi; sleep 1000; }
fork 8"#;

fn report(repo: &TestRepo, agent: &str, options: &[&str], script: &str) -> Value {
    let output = run(repo, agent, options, script).output().expect("starts");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["exit_code"], output.status.code().expect("a status"), "{report}");
    report
}

/// How many processes have the variable that the commands of this repository's runs have.
fn left(repo: &TestRepo) -> usize {
    let variable = format!("BESIDE={}", beside(repo, "").display()).into_bytes();
    let has_it = |directory: &std::path::Path| {
        let environment = std::fs::read(directory.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| one == variable)
    };
    let entries = std::fs::read_dir("/proc").expect("there").flatten();
    entries.filter(|entry| has_it(&entry.path())).count()
}

#[test]
fn a_run_whose_processes_take_too_much_memory_ends_and_one_beside_it_does_not() {
    let repo = with_settings("[limits]\nmemory = \"128M\"\n");
    let (greedy, modest) = (spawned(&repo), spawned(&repo));
    let waits = r#"touch "$BESIDE/waits"; while [ ! -e "$BESIDE/go" ]; do sleep 0.01; done"#;
    let beside_it = run(&repo, &modest, &[], waits).spawn().expect("starts");
    wait_for(&beside(&repo, "waits"));
    for options in [["--sandbox=auto"], ["--sandbox=off"]] {
        let report = report(&repo, &greedy, &options, TAKES);
        assert_eq!(report["ended"], "limit-memory", "{report}");
        assert_eq!(report["exit_code"], 125, "{report}");
        let shown = repo.agent_json(&["show", &greedy]);
        assert_eq!(shown["run"]["ended"], "limit-memory", "{shown}");
        assert!(shown["summary"].to_string().contains("(limit-memory)"), "{shown}");
    }
    std::fs::write(beside(&repo, "go"), "").expect("written");
    let output = ended(beside_it);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["ended"], "exit", "{report}");
    assert_eq!(left(&repo), 0);
}

#[test]
fn memory_that_processes_share_counts_once() {
    let repo = with_settings("[limits]\nmemory = \"300M\"\n");
    let agent = spawned(&repo);
    // Five processes see the same 90 MB, of which perl may have made two copies; the looks of the supervisor fall into this time.
    let shares =
        r#"my $x = "a" x 9e7; for (1 .. 4) { if (!fork) { sleep 1; exit 0 } } wait for 1 .. 4;"#;
    let script = format!("command -v perl > /dev/null || exit 0; exec perl -e '{shares}'");
    let report = report(&repo, &agent, &[], &script);
    assert_eq!(report["ended"], "exit", "{report}");
}

#[test]
fn a_run_with_too_many_processes_ends_with_all_of_them() {
    let repo = with_settings("[limits]\npids = 40\n");
    let agent = spawned(&repo);
    for options in [["--sandbox=auto"], ["--sandbox=off"]] {
        let report = report(&repo, &agent, &options, FORKS);
        assert_eq!(report["ended"], "limit-pids", "{report}");
        assert_eq!(report["exit_code"], 125, "{report}");
        assert_eq!(left(&repo), 0);
    }
    // Threads of programs and pipelines of a shell fit.
    let report = report(&repo, &agent, &[], "seq 100 | sort -n | tail -n 1");
    assert_eq!(report["summary"], "100", "{report}");
}

#[test]
fn a_run_ends_when_the_day_has_cost_what_it_may_only_where_that_is_wanted() {
    let repo = with_settings("[limits]\ncost_day = 1\n");
    repo.git(["config", "agent.limits.costHard", "true"]);
    let (working, spender) = (spawned(&repo), repo.spawn());
    let script = r#"touch "$BESIDE/works"; exec sleep 1000"#;
    let works = run(&repo, &working, &[], script).spawn().expect("starts");
    wait_for(&beside(&repo, "works"));
    let branch = spender["branch"].as_str().expect("a branch");
    let commit = repo.git(["rev-parse", branch]);
    cost(&repo, &commit, 1_000_000, 0);
    let output = works.wait_with_output().expect("ends");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["ended"], "limit-cost", "{report}");
    assert_eq!(output.status.code(), Some(125), "{report}");
}

#[test]
fn a_check_with_too_many_processes_ends_with_all_of_them_and_says_why() {
    let repo = with_settings("[bundle]\nrequired = false\n[limits]\npids = 40\n");
    let task = format!("{TASK}[checks]\ncommands = ['''{FORKS}''']\n");
    let agent = repo.spawn_task(&task, &[]);
    let agent = agent["short_id"].as_str().expect("an id");
    run(&repo, agent, &[], "echo '// new' >> src/lib.rs").output().expect("starts");
    let words = ["verify", agent, "--format", "json"];
    let mut verify = agent_command(&repo.path());
    verify.args(words).env("BESIDE", beside(&repo, ""));
    let output = verify.output().expect("starts");
    let verdict: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let commands = verdict["commands"].to_string();
    assert!(commands.contains("git-agent ended it: limit-pids"), "{verdict:#}");
    assert_eq!(left(&repo), 0);
}

#[test]
fn eight_agents_land_beside_one_that_takes_all_memory_and_one_that_forks_without_end() {
    let repo =
        with_settings("[bundle]\nrequired = false\n[limits]\nmemory = \"128M\"\npids = 60\n");
    let agents: Vec<String> = (0..10).map(|_| spawned(&repo)).collect();
    let start = Barrier::new(agents.len());
    std::thread::scope(|scope| {
        for (number, agent) in agents.iter().enumerate() {
            let (repo, start) = (&repo, &start);
            scope.spawn(move || {
                let honest = format!("echo '// {number}' > src/honest-{number}.rs");
                let (script, end) = match number {
                    0 => (TAKES, "limit-memory"),
                    1 => (FORKS, "limit-pids"),
                    _ => (honest.as_str(), "exit"),
                };
                start.wait();
                let report = report(repo, agent, &[], script);
                assert_eq!(report["ended"], end, "{report}");
            });
        }
    });
    assert_eq!(left(&repo), 0);
    for agent in &agents[2..] {
        repo.agent_json(&["merge", agent, "--now"]);
    }
    let landed = repo.git(["ls-tree", "-r", "--name-only", "HEAD", "src"]);
    assert_eq!(landed.matches("honest-").count(), 8, "{landed}");
}

/// Takes its memory once it is in, and notes how many are in with it.
const TAKES_IN_TURN: &str = r#"
mkdir "$BESIDE/in.$$"
ls -d "$BESIDE"/in.* | wc -l >> "$BESIDE/seen"
head -c 40000000 /dev/zero | tail -n 1 | wc -c
ls -d "$BESIDE"/in.* | wc -l >> "$BESIDE/seen"
rmdir "$BESIDE/in.$$""#;

#[test]
fn twelve_runs_that_do_not_fit_together_all_end_in_turn() {
    let repo = with_settings("[limits]\nmemory = \"128M\"\nmemory_total = \"640M\"\n");
    let agents: Vec<String> = (0..12).map(|_| spawned(&repo)).collect();
    let runs: Vec<_> = agents
        .iter()
        // Numbers of processes are the same in two namespaces, so each has a name of its own.
        .map(|agent| TAKES_IN_TURN.replace("$$", agent))
        .zip(&agents)
        .map(|(script, agent)| run(&repo, agent, &[], &script).spawn().expect("starts"))
        .collect();
    for run in runs {
        let report: Value = serde_json::from_slice(&ended(run).stdout).expect("JSON");
        assert_eq!(
            (&report["ended"], &report["summary"]),
            (&json!("exit"), &json!("40000000")),
            "{report}"
        );
    }
    let seen = std::fs::read_to_string(beside(&repo, "seen")).expect("written");
    let most = seen.lines().filter_map(|line| line.trim().parse::<u32>().ok()).max();
    assert!(most.is_some_and(|most| most <= 5), "{seen}");
}

/// Takes two compile jobs, and holds them until it may go.
const BUILDS: &str = r#"
[ "$CARGO_MAKEFLAGS" = " -j3 --jobserver-auth=fifo:$TMPDIR/jobserver" ] || exit 9
exec 3<> "$TMPDIR/jobserver"
head -c 1 <&3 > /dev/null; head -c 1 <&3 > /dev/null
touch "$BESIDE/builds.$NAME"
while [ ! -e "$BESIDE/go" ]; do sleep 0.01; done"#;

#[test]
fn compile_jobs_are_shared_by_all_runs_and_go_with_theirs() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let repo = with_settings("[limits]\nbuilds = 2\n");
    let (one, two) = (spawned(&repo), spawned(&repo));
    let start = |agent: &str, name: &str| {
        let mut command = run(&repo, agent, &[], BUILDS);
        command.env("NAME", name).spawn().expect("starts")
    };
    let slots = repo.path().join(".git/agents/builds");
    let taken = || {
        let slot = |name: &str| std::fs::File::open(slots.join(name)).expect("there");
        ["1", "2"].map(|name| slot(name).try_lock().is_err())
    };
    let mut first = start(&one, "first");
    wait_for(&beside(&repo, "builds.first"));
    assert_eq!(taken(), [true, true]);
    // Its supervisor is left, ends the command, and gives back what it had.
    first.kill().expect("killed");
    first.wait().expect("ended");
    let second = start(&two, "second");
    wait_for(&beside(&repo, "builds.second"));
    assert_eq!(taken(), [true, true]);
    std::fs::write(beside(&repo, "go"), "").expect("written");
    ended(second);
    assert_eq!(taken(), [false, false]);
}

#[test]
fn what_an_agent_and_those_it_asked_for_cost_is_shown() {
    let repo = TestRepo::with_commit();
    let root = repo.spawn();
    let asks = |parent: &Value| {
        let parent = parent["agent_id"].as_str().expect("an id");
        repo.spawn_task(TASK, &["--parent", parent])
    };
    let child = asks(&root);
    let grandchild = asks(&child);
    for (agent, micro_usd) in
        [(&root, 1_000_000), (&root, 250_000), (&child, 500_000), (&grandchild, 2_000_000)]
    {
        let commit = repo.git(["rev-parse", agent["branch"].as_str().expect("a branch")]);
        cost(&repo, &commit, micro_usd, 0);
    }
    let id = root["agent_id"].as_str().expect("an id");
    let shown = repo.agent_json(&["show", id]);
    assert_eq!((&shown["cost_usd"], &shown["children_cost_usd"]), (&json!(1.25), &json!(2.5)));
    let text = String::from_utf8(repo.agent(&["show", id]).stdout).expect("UTF-8");
    assert!(text.contains("$1.25, and $2.50 of the agents that it asked for"), "{text}");
}
