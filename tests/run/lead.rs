use crate::support::agent::{agent_command, describe, json_of};
use crate::support::{TestRepo, git_in, isolated};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const ROLE: &str = "extends = \"edit-local\"\nmay_spawn = true\nrelaxes = [\"may_spawn\"]\n";

/// What a stand-in for a host does for an agent whose task is `part <name>`: it writes that file and commits it.
const PART: &str = r#"
name=$(printf '%s' "$prompt" | sed -n 's/^part \([a-z]*\)$/\1/p' | head -n 1)
case $name in
  "") ;;
  slow) while :; do sleep 0.01; done ;;
  *) echo "$name" > "src/$name.txt"; git add src; git commit -qm "part $name"
     echo '{"type":"result","result":"Done.","session_id":"5e55","total_cost_usd":0.5}'; exit ;;
esac
"#;

/// A repository with a role that may spawn, checks, and a program `claude` that is the script of the lead, or does a part.
struct Stage {
    repo: TestRepo,
    beside: PathBuf,
}

impl Stage {
    fn new(lead: &str) -> Stage {
        let repo = TestRepo::with_commit();
        repo.write("roles/lead.toml", ROLE);
        let settings = "[checks]\ncommands = [\"test -d src\"]\n[bundle]\nrequired = false\n";
        repo.write(".config/git-agent.toml", settings);
        repo.commit_all("a role and checks");
        let beside = repo.path().with_file_name("beside");
        fs::create_dir(&beside).expect("made");
        let program = beside.join("claude");
        let script = format!("#!/bin/sh\nprompt=$(cat)\n{PART}\n{lead}\n");
        fs::write(&program, script).expect("written");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("executable");
        Stage { repo, beside }
    }

    fn command(&self, options: &[&str]) -> Command {
        self.command_within(&["--scope=src/**"], options)
    }

    fn command_within(&self, scope: &[&str], options: &[&str]) -> Command {
        let mut command = agent_command(&self.repo.path());
        let path = std::env::var("PATH").expect("a path");
        command
            .env("PATH", format!("{}:{path}", self.beside.display()))
            .env("BESIDE", &self.beside)
            .args(["run", "lead the others", "--name=lead", "--role=lead"])
            .args(scope)
            .args(["--host=claude", "--format=json", "--allow-write"])
            .arg(&self.beside)
            .args(options);
        command
    }

    fn run(&self, options: &[&str]) -> Value {
        let output = self.command(options).output().expect("starts");
        let read = serde_json::from_slice(&output.stdout);
        read.unwrap_or_else(|_| panic!("{}", describe(&output)))
    }

    /// What the lead's commands said.
    fn said(&self, name: &str) -> String {
        fs::read_to_string(self.beside.join(name)).unwrap_or_default()
    }

    fn show(&self, agent: &str) -> Value {
        self.repo.agent_json(&["show", agent])
    }
}

fn names(agents: &Value) -> Vec<(String, String)> {
    let agents = agents["agents"].as_array().expect("a list").iter();
    let text = |agent: &Value, key: &str| agent[key].as_str().unwrap_or_default().to_owned();
    agents.map(|agent| (text(agent, "name"), text(agent, "state"))).collect()
}

#[test]
fn a_lead_brings_three_agents_to_one_green_train_on_its_own_branch() {
    let stage = Stage::new(
        r#"exec 2> "$BESIDE/err" > "$BESIDE/out"
        set -e
        echo own > src/own.txt; git add src; git commit -qm "the lead's own"
        for part in one two three; do git-agent spawn -m "part $part" --name $part --new src/$part.txt; done
        for part in one two three; do git-agent run $part --host claude --background; done
        git-agent wait one two three
        git-agent diff one --name-only
        git-agent verify two
        git-agent show three --format json | grep -c '"state":"done"'
        git-agent train one two three
        git status --porcelain
        cat src/*.txt
        echo more >> src/own.txt; git commit -qam "more of its own""#,
    );
    let before = stage.repo.git(["rev-parse", "main"]);
    let report = stage.run(&[]);
    let said = stage.said("out") + &stage.said("err");
    assert_eq!(report["status"], "success", "{report}\n{said}");
    assert_eq!(report["verdict"], "accept", "{report}\n{said}");
    for line in ["src/one.txt", "3 landed, 0 not", "accepted", "one\nown\nthree\ntwo\n"] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let lead = stage.show("lead");
    for part in ["one", "two", "three"] {
        let agent = stage.show(part);
        assert_eq!(agent["state"], "merged", "{agent}");
        assert_eq!(agent["parent_id"], lead["agent_id"]);
        let enforced = |who: &str| {
            let ended = stage.repo.agent_json(&["wait", who]);
            ended["runs"][0]["sandbox"]["enforced"].clone()
        };
        assert_eq!(enforced(part), report["sandbox"]["enforced"]);
    }
    assert_eq!(stage.repo.git(["rev-parse", "main"]), before, "nothing landed there");
    let branch = lead["branch"].as_str().expect("a branch");
    let log = stage.repo.git(["log", "--format=%s", branch]);
    let expected = "more of its own\npart three\npart two\npart one\nthe lead's own\n";
    assert!(log.starts_with(expected), "{log}");
    let top = lead["worktree_abspath"].as_str().expect("a worktree");
    assert_eq!(git_in(top.as_ref(), ["status", "--porcelain"]), "");
    stage.repo.agent_json(&["merge", "lead"]);
    let landed = stage.repo.git(["ls-tree", "--name-only", "main", "src/"]);
    for part in ["one", "two", "three", "own"] {
        assert!(landed.contains(&format!("src/{part}.txt")), "{landed}");
    }
    stage.repo.git(["fsck", "--strict"]);
}

#[test]
fn a_lead_gets_nothing_that_it_may_not_do_itself() {
    let stage = Stage::new(
        r#"exec 2> "$BESIDE/err" > "$BESIDE/out"
        no() { if "$@" >> "$BESIDE/said" 2>&1; then echo "allowed: $*" >> "$BESIDE/allowed"; fi; }
        # Beyond its scope, its role and its agents.
        no git-agent spawn -m "part wide" --scope '**'
        no git-agent spawn -m "part docs" --new docs/a.md
        no git-agent spawn -m "part up" --new ../../x.txt
        no git-agent spawn -m "part lead" --role lead
        no git-agent spawn -m "part base" --base main
        no git-agent spawn -m "part path" --path /tmp/elsewhere
        no git-agent spawn -m "part branch" --branch main2
        no git-agent spawn -m "part check" --check 'touch /tmp/checked'
        for verb in run show diff verify merge train stop; do no git-agent $verb foreign --host claude; done
        for verb in show diff verify merge train stop; do no git-agent $verb foreign; no git-agent $verb claimed; done
        no git-agent run claimed --host claude
        no git-agent amend foreign --scope '**'
        no git-agent discard foreign
        # One of its own, in ways that open something.
        git-agent spawn -m "part mine" --name mine
        no git-agent run mine --host claude --sandbox off
        no git-agent run mine --host claude --allow-write /
        no git-agent run mine --host claude --allow-push
        no git-agent run mine --host claude --no-verify
        no git-agent run mine --host claude -- --dangerously-skip-permissions
        no git-agent run mine --host claude --model=--dangerously-skip-permissions
        no git-agent run mine --host shell
        no git-agent run mine -- sh -c 'touch /tmp/ran'
        no git-agent run mine
        no git-agent merge mine --into main
        no git-agent merge lead
        no git-agent train mine --into main
        no git-agent train mine --push
        no git-agent train --all
        no git-agent train
        no git-agent retry mine
        no git-agent amend mine --scope '**'
        # Written by hand, and there only when it is whole: half a request is none.
        ask() { echo "$1" > "$GIT_AGENT_SPOOL/.$2"; mv "$GIT_AGENT_SPOOL/.$2" "$GIT_AGENT_SPOOL/$2.json"; }
        ask '{"schema":"git-agent.request/1","json":true,"nonce":"x","request":{"verb":"run","tasks":["mine"],"words":["--sandbox=off"]}}' a
        ask '{"schema":"git-agent.request/1","json":true,"nonce":"../../x","request":{"verb":"discard","agent":"foreign"}}' b
        ask '{"schema":"git-agent.request/1","json":true,"nonce":"y","request":{"verb":"show","who":"--help"}}' c
        ask '{"schema":"git-agent.request/1","json":true,"nonce":"z","request":{"verb":"show","who":"foreign"}}' d
        ! echo x > "$(dirname "$GIT_AGENT_SPOOL")/../$(basename "$GIT_AGENT_SPOOL")/answers/forged.json"
        # What is still there when the command ends is carried out by no supervisor.
        while ls "$GIT_AGENT_SPOOL"/*.json; do sleep 0.01; done
        true"#,
    );
    let foreign = ["spawn", "part foreign", "--name=foreign", "--scope=src/**"];
    stage.repo.agent_json(&foreign);
    let refs = || stage.repo.git(["for-each-ref", "refs/heads/main", "refs/heads/agent/foreign-*"]);
    let before = refs();
    // It is not there yet, and its name is a claim of a person's: what counts is how it was made.
    let mut run = stage.command(&[]);
    let claimed = ["spawn", "part claimed", "--name=claimed", "--scope=**"];
    stage.repo.agent_json(&claimed);
    let output = run.output().expect("starts");
    let said = stage.said("said");
    assert!(output.status.success(), "{}\n{}", describe(&output), stage.said("err"));
    assert_eq!(stage.said("allowed"), "", "{said}");
    assert_eq!(refs(), before);
    let agents = names(&stage.repo.agent_json(&["list", "--all"]));
    let known = ["foreign", "claimed", "lead", "mine"];
    assert!(agents.iter().all(|(name, _)| known.contains(&name.as_str())), "{agents:?}");
    assert_eq!(agents.len(), known.len(), "{agents:?}");
    for name in ["foreign", "claimed", "mine"] {
        assert_eq!(stage.show(name)["run"], Value::Null, "{name} was started");
    }
    // What is no request comes back as a note; what is one and is refused was answered.
    let notes = stage.repo.agent_json(&["receive", "--peek", "--agent=lead"]);
    let notes = notes["messages"].as_array().expect("messages");
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(said.contains("out-of-scope") && said.contains("orchestrator-only"), "{said}");
    // Neither that it lands nothing, nor that the task is gone.
    assert_eq!(said.matches("names those that its train lands").count(), 2, "{said}");
    assert!(said.contains("inside the sandbox only"), "{said}");
}

/// A person may let one of its agents do more than the lead may. What the lead is told to do then takes that out, and nothing else.
#[test]
fn the_way_out_of_what_landed_on_a_lead_and_is_beyond_it_keeps_the_rest() {
    let stage = Stage::new(
        r#"exec 2> "$BESIDE/err" > "$BESIDE/out"
        set -e
        for part in one two three; do git-agent spawn -m "part $part" --name $part --new src/$part.txt; done
        for part in one two three; do git-agent run $part --host claude; done"#,
    );
    stage.run(&[]);
    stage.repo.agent_json(&["amend", "two", "--add-scope", "docs/**", "--new", "docs/**"]);
    let two = stage.show("two");
    let top = PathBuf::from(two["worktree_abspath"].as_str().expect("a worktree"));
    fs::create_dir(top.join("docs")).expect("made");
    fs::write(top.join("docs/new.md"), "new\n").expect("written");
    fs::write(top.join("src/two.txt"), "two and more\n").expect("written");
    stage.repo.agent_json(&["commit", "two", "-m", "more"]);
    for part in ["one", "two", "three"] {
        stage.repo.agent_json(&["mark", "done", part]);
        stage.repo.agent_json(&["merge", part, "--no-ff"]);
    }
    let verdict = stage.repo.agent(&["verify", "lead", "--format=json"]).stdout;
    let verdict: Value = serde_json::from_slice(&verdict).expect("JSON");
    let findings = verdict["findings"].as_array().expect("findings").iter();
    let fixes: Vec<_> = findings.map(|it| it["fix"].as_str().expect("a fix")).collect();
    assert_eq!(fixes.len(), 1, "{verdict:#}");
    let (_, command) = fixes[0].split_once(", run ").expect("a command");
    let lead = stage.show("lead");
    let top = lead["worktree_abspath"].as_str().expect("a worktree");
    let done = isolated("sh", top.as_ref()).args(["-c", command]).status();
    assert!(done.expect("starts").success(), "{command}");
    let verdict = stage.repo.agent_json(&["verify", "lead"]);
    assert_eq!(verdict["verdict"], "accept", "{verdict:#}");
    let changed = git_in(top.as_ref(), ["diff", "--name-only", "main", "HEAD"]);
    assert_eq!(changed, "src/one.txt\nsrc/three.txt\nsrc/two.txt");
    let subjects = git_in(top.as_ref(), ["log", "--format=%s", "main..HEAD"]);
    for part in ["part one", "part two", "part three", "more"] {
        assert!(subjects.lines().any(|line| line == part), "{subjects}");
    }
}

#[test]
fn a_lead_with_the_default_scope_gives_that_and_any_part_of_it_away() {
    let stage = Stage::new(
        r#"for scope in '' '--scope=src/**' '--scope=src/lib.rs --scope=README.md'; do
            git-agent spawn -m "part $scope" $scope > "$BESIDE/said" 2>&1 || exit 1
        done
        # What the lead is denied stays denied.
        if git-agent spawn -m "part hooks" --scope '.github/**' --scope '**' --new .github/workflows/x.yml; then exit 1; fi"#,
    );
    let output = stage.command_within(&[], &[]).output().expect("starts");
    assert!(output.status.success(), "{}\n{}", describe(&output), stage.said("said"));
    let agents = stage.repo.agent_json(&["list", "--all"]);
    assert_eq!(agents["agents"].as_array().map(Vec::len), Some(4), "{agents}");
}

#[test]
fn an_agent_that_a_person_gave_a_parent_is_not_the_leads() {
    let stage = Stage::new(
        r#"exec 2> "$BESIDE/err" > "$BESIDE/out"
        touch "$BESIDE/begun"; while ! [ -e "$BESIDE/go" ]; do sleep 0.01; done
        ! git-agent show wide"#,
    );
    let mut child = stage.command(&[]).stdout(Stdio::piped()).spawn().expect("starts");
    while !stage.beside.join("begun").exists() {
        assert!(child.try_wait().expect("asked").is_none(), "{}", stage.said("err"));
        crate::support::pause();
    }
    let branch = stage.show("lead")["branch"].as_str().expect("a branch").to_owned();
    let spawn = ["spawn", "part wide", "--name=wide", "--scope=**", "--parent=lead", "--base"];
    stage.repo.agent_json(&[&spawn[..], &[&branch]].concat());
    fs::write(stage.beside.join("go"), "").expect("written");
    let output = child.wait_with_output().expect("ended");
    assert!(output.status.success(), "{}", stage.said("err"));
    assert!(stage.said("err").contains("orchestrator-only"), "{}", stage.said("err"));
}

#[test]
fn an_agent_without_the_right_asks_in_vain() {
    let repo = TestRepo::with_commit();
    let script = r#"! git-agent spawn -m "part one" && echo '{"schema":"git-agent.request/1","json":true,"nonce":"x",
        "request":{"verb":"spawn","message":["part two"]}}' > "$GIT_AGENT_SPOOL/x.json""#;
    let path = format!(
        "{}:{}",
        PathBuf::from(env!("CARGO_BIN_EXE_git-agent")).parent().expect("a parent").display(),
        std::env::var("PATH").expect("a path")
    );
    let mut command = agent_command(&repo.path());
    command.args(["run", "do it", "--name=one", "--no-verify", "--format=json"]);
    command.args(["--", "sh", "-c", script]).env("PATH", path);
    assert_eq!(json_of(command)["status"], "success");
    assert_eq!(names(&repo.agent_json(&["list", "--all"])).len(), 1);
    let notes = repo.agent_json(&["receive", "--peek", "--agent=one"]);
    assert_eq!(notes["count"], 1, "{notes}");
}

/// Starts a lead that starts a slow agent, lets `end` end it, and gives how the run of that agent ended.
fn slow_part(lead: &str, end: impl FnOnce(&Stage, std::process::Child)) -> Value {
    let stage = Stage::new(&format!(
        "exec 2> \"$BESIDE/err\" > \"$BESIDE/out\"; set -e
        git-agent spawn -m 'part slow' --name slow; git-agent run slow --host claude --background
        touch \"$BESIDE/begun\"
        {lead}"
    ));
    let child = stage.command(&[]).stdout(Stdio::null()).spawn();
    end(&stage, child.expect("starts"));
    // It ends with the status of that run.
    let output = stage.repo.agent(&["wait", "slow", "--format=json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    report["runs"][0]["ended"].clone()
}

#[test]
fn what_a_lead_has_started_ends_with_it() {
    let ended = |stage: &Stage, mut child: std::process::Child| {
        assert!(child.wait().expect("ended").success(), "{}", stage.said("err"));
    };
    assert_eq!(slow_part("true", ended), "stopped");
    let killed = |stage: &Stage, mut child: std::process::Child| {
        while !stage.beside.join("begun").exists() {
            assert!(child.try_wait().expect("asked").is_none(), "{}", stage.said("err"));
            crate::support::pause();
        }
        child.kill().expect("killed");
        child.wait().expect("dead");
    };
    assert_eq!(slow_part("while :; do sleep 0.01; done", killed), "lost");
}

#[test]
fn a_lead_gives_away_no_more_time_and_money_than_it_has() {
    let stage = Stage::new(
        r#"exec 2> "$BESIDE/err" > "$BESIDE/out"
        for part in one two three; do git-agent spawn -m "part $part" --name $part --new src/$part.txt; done
        git-agent run one --host claude --max-cost 0.9 --timeout 2h
        git-agent run two --host claude --max-cost 9
        git-agent run three --host claude
        git-agent run three --host claude --resume -m again
        true"#,
    );
    let report = stage.run(&["--max-cost=1", "--timeout=1h"]);
    assert_eq!(report["exit_code"], 0, "{report}");
    // Each spends half a dollar, whatever it was given.
    for name in ["one", "two"] {
        let ended = stage.repo.agent_json(&["wait", name]);
        let limit = ended["runs"][0]["timeout_ms"].as_u64();
        assert!(limit.is_some_and(|limit| limit <= 3_600_000), "{ended}");
    }
    assert_eq!(stage.show("three")["run"], Value::Null);
    assert!(stage.said("err").contains("error[limit-reached]"), "{}", stage.said("err"));
}

#[test]
fn what_landed_and_was_not_taken_over_is_in_the_worktree_when_the_lead_is_gone() {
    let stage = Stage::new(
        r#"exec 2> "$BESIDE/err" > "$BESIDE/out"; set -e
        git-agent spawn -m "part one" --name one --new src/one.txt
        git-agent run one --host claude
        echo '{"schema":"git-agent.request/1","json":true,"nonce":"x","request":{"verb":"train","agents":["one"]}}' > "$GIT_AGENT_SPOOL/.x"
        mv "$GIT_AGENT_SPOOL/.x" "$GIT_AGENT_SPOOL/x.json"
        answers=$(dirname "$GIT_AGENT_SPOOL")/../$(basename "$GIT_AGENT_SPOOL")/answers
        while ! grep -l '"tip"' $answers/*.json; do sleep 0.01; done"#,
    );
    let report = stage.run(&[]);
    assert_eq!(report["status"], "success", "{report} {}", stage.said("err"));
    let lead = stage.show("lead");
    let top = PathBuf::from(lead["worktree_abspath"].as_str().expect("a worktree"));
    assert!(top.join("src/one.txt").exists());
    assert_eq!(git_in(&top, ["status", "--porcelain"]), "");
}

#[test]
fn work_that_is_not_committed_keeps_a_landing_away() {
    let stage = Stage::new(
        r#"exec 2> "$BESIDE/err" > "$BESIDE/out"; set -e
        git-agent spawn -m "part one" --name one --new src/one.txt
        git-agent run one --host claude
        echo '// more' >> src/lib.rs
        ! git-agent merge one
        git commit -qam mine
        git-agent merge one -m "The first part""#,
    );
    let report = stage.run(&[]);
    assert_eq!(report["status"], "success", "{report} {}", stage.said("err"));
    assert!(stage.said("err").contains("error[target-dirty]"), "{}", stage.said("err"));
    let lead = stage.show("lead");
    let branch = lead["branch"].as_str().expect("a branch");
    let log = stage.repo.git(["log", "-2", "--format=%s", branch]);
    assert_eq!(log, "The first part\nmine");
}
