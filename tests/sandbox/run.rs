use super::{Fenced, beside, level, shared_agent};
use crate::support::agent::{TASK, agent_command, answer_of, describe};
use crate::support::isolated;
use crate::verify::Agent;
use git_agent::domain::life::sandbox::{Enforcement, Mode, Namespaces};
use serde_json::{Value, json};
use std::fs;
use std::process::{Output, Stdio};

fn run(agent: &Agent, options: &[&str], script: &str) -> Output {
    agent_command(&agent.repo.path())
        .arg("run")
        .args(options)
        .args([&agent.id, "--", "sh", "-ec", script])
        .env("TMPDIR", beside(agent, "temporary"))
        .env("HOME", beside(agent, "home"))
        .env("MAIN", agent.repo.path())
        .output()
        .expect("starts")
}

fn report(agent: &Agent, options: &[&str], script: &str) -> Value {
    let output = run(agent, &[options, &["--format=json"]].concat(), script);
    answer_of(&output)
}

#[test]
fn a_command_is_fenced_unless_somebody_says_otherwise() {
    let Some(level) = level() else {
        return;
    };
    let agent = Agent::of_task(TASK);
    let out = agent.repo.path().join("out");
    let script = "echo '// one' >> src/lib.rs; git add src; git commit -qm one
                  echo x > $TMPDIR/x; echo x > $GIT_AGENT_SPOOL/x; echo x > /dev/stdout
                  git config gc.auto; ! touch $MAIN/out; ! touch $HOME/out";
    for mode in ["auto", "require"] {
        let report = report(&agent, &["--sandbox", mode], script);
        assert_eq!(report["status"], "success", "{report}");
        assert_eq!(report["verdict"], "accept", "{report}");
        assert_eq!(report["summary"], "x\n0");
        assert_eq!(report["warnings"], json!([]));
        assert_eq!(report["sandbox"]["mode"], mode);
        let word = Enforcement::Fenced(level).as_str();
        assert_eq!(report["sandbox"]["enforced"], word, "{report}");
        assert!(!out.exists());
    }
    let report = report(&agent, &["--sandbox=off"], "touch $MAIN/out");
    assert_eq!(report["sandbox"], json!({"mode": "off", "enforced": "off"}));
    assert!(out.exists());
    let agent_row = agent.repo.agent_json(&["show", &agent.id]);
    let commit = agent_row["spawn_commit"].as_str().expect("an oid");
    let row = agent.repo.git(["notes", "--ref=agents", "show", commit]);
    let recorded: Vec<_> = row.split("\"sandbox\":\"").skip(1).collect();
    assert_eq!(recorded.len(), 3, "{row}");
    assert!(recorded[0].starts_with(Enforcement::Fenced(level).as_str()));
    assert!(recorded[2].starts_with("off\""), "{row}");
}

#[test]
fn a_command_gets_nothing_that_its_caller_left_open() {
    let Some(level) = level() else {
        return;
    };
    let agent = Agent::of_task(TASK);
    let outside = agent.repo.path().join("outside");
    let script =
        "for fd in 3 9 250; do ! test -e /proc/self/fd/$fd; ! (echo x >&9) 2>/dev/null; done";
    // Two programs of ours are started before the command, and neither closes what it does not know.
    for (mode, status) in [("require", 0), ("off", 1)] {
        let ours = agent_command(&agent.repo.path());
        let mut shell = isolated("bash", &agent.repo.path());
        let opened = "exec 3<README.md 9>>outside 250<.git; exec \"$@\"";
        shell.args(["-c", opened, "bash"]).arg(ours.get_program());
        shell.args(["run", "--no-verify", "--sandbox", mode, &agent.id, "--"]);
        let output = shell.args(["bash", "-ec", script]).output().expect("starts");
        assert_eq!(output.status.code(), Some(status), "{mode}: {}", describe(&output));
    }
    fs::write(&outside, "").expect("written");
    // The same where the command takes the place of the helper.
    let fenced = Fenced::new(Mode::Require).expect("a fence");
    let without = git_agent::domain::life::sandbox::Level { namespaces: Namespaces::None, ..level };
    let command = fenced.command_at(without, &["bash", "-ec", script]);
    let mut shell = isolated("bash", &fenced.agent.worktree);
    let opened = "exec 3<README.md 9>>\"$OUT/outside\" 250<.; exec \"$@\"";
    shell.args(["-c", opened, "bash"]).arg(command.get_program());
    shell.args(command.get_args()).env("OUT", fenced.beside("out"));
    let output = shell.output().expect("starts");
    assert!(output.status.success(), "{}", describe(&output));
}

#[test]
fn a_fenced_command_sees_its_own_work_and_nothing_wrong_of_others() {
    let Some(_) = level() else {
        return;
    };
    let agent = Agent::of_task(TASK);
    let other = agent.repo.spawn_task(TASK, &[]);
    let other = other["agent_id"].as_str().expect("an id");
    let program = agent_command(&agent.repo.path());
    let program = program.get_program().to_str().expect("UTF-8");
    let own = &agent.id;
    let script = format!(
        "echo '// one' >> src/lib.rs; '{program}' diff --name-only > src/told; '{program}' list --format=ndjson >> src/told
         for words in 'path {other}' 'diff {other}' doctor gc pool; do ! '{program}' $words 2>> src/told; done
         for words in discard 'doctor hooks repair' stop 'wait {own}'; do ! '{program}' $words 2>> src/told; done
         '{program}' list --line >> src/told"
    );
    let ran = run(&agent, &["--no-verify"], &script);
    assert!(ran.status.success(), "{}", describe(&ran));
    let told = fs::read_to_string(agent.worktree.join("src/told")).expect("written");
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[..2].contains(&"src/lib.rs"), "{told}");
    let row = lines.iter().find(|line| line.contains(&format!("\"agent_id\":\"{other}\"")));
    let row: Value = serde_json::from_str(row.expect("listed")).expect("JSON");
    assert_eq!(row.get("worktree_gone"), None, "{row}");
    let count = |what| told.matches(what).count();
    assert_eq!(count("is not seen from inside the sandbox"), 2, "{told}");
    assert_eq!(count("error[orchestrator-only]"), 7, "{told}");
    // It is the command of a run that goes on, whose lock the sandbox hides.
    assert!(told.ends_with("1 running, 1 ready\n"), "{told}");
    let own = lines.iter().find(|line| line.contains(&format!("\"agent_id\":\"{}\"", agent.id)));
    let own: Value = serde_json::from_str(own.expect("listed")).expect("JSON");
    assert_eq!(own["state"], "running", "{own}");
    let main = format!("cd {}\n", agent.repo.path().display());
    assert_eq!(count(&main), 2, "{told}");
}

#[test]
fn strict_and_further_places_are_passed_on() {
    let Some(_) = level() else {
        return;
    };
    let agent = Agent::of_task(TASK);
    let home = beside(&agent, "home");
    let strict = ["--sandbox=strict", "--allow-write", home.to_str().expect("UTF-8")];
    let script = "touch src/new; touch $HOME/new; ! touch new; ! touch $MAIN/new";
    let told = report(&agent, &strict, script);
    assert_eq!(told["exit_code"], 0, "{told}");
    assert!(home.join("new").exists());
}

#[test]
fn a_shared_agent_changes_no_file_of_the_repository() {
    let Some(_) = level() else {
        return;
    };
    let agent = shared_agent();
    let bundle = format!(".agent/{}", &agent.id[..8]);
    let script = format!(
        "cat README.md; ! touch new; ! touch src/lib.rs; ! git update-ref refs/heads/x HEAD
         echo x > {bundle}/plan.md; echo x > $TMPDIR/x; echo x > $GIT_AGENT_SPOOL/x"
    );
    let told = report(&agent, &[], &script);
    assert_eq!(told["exit_code"], 0, "{told}");
    assert_eq!(agent.repo.git(["status", "--porcelain"]), "");
}

#[test]
fn changed_settings_are_put_back_before_the_work_is_judged() {
    let Some(_) = level() else {
        return;
    };
    let agent = Agent::of_task(TASK);
    let script = "git config --worktree filter.x.clean 'touch $MAIN/started; cat'
                  echo '* filter=x' > src/.gitattributes; echo '// x' >> src/lib.rs";
    let told = report(&agent, &[], script);
    assert_eq!(told["verdict"], "accept", "{told}");
    assert!(!agent.repo.path().join("started").exists());
    assert_eq!(told["sandbox"].get("restored"), None, "{told}");
    let before_status = agent.git(&["status", "--porcelain"]);
    // What was there is no work of the agent's, so it is not in the worktree any more.
    let scripts = [
        "rm .git; git init -q; git commit -q --allow-empty -m x; chmod 500 .git",
        "echo gitdir: /x > .git",
        "ln -sf /x .git",
    ];
    let kept = agent.repo.path().join(format!(".git/agents/{}/run-repo.git", &agent.id[..8]));
    for (before, script) in scripts.iter().enumerate() {
        let told = report(&agent, &[], script);
        let restored = told["sandbox"]["restored"].as_array().expect("files");
        let restored = restored[0].as_str().expect("a path");
        assert_eq!(Some(restored), agent.worktree.join(".git").to_str());
        let warning = told["warnings"][0].as_str().expect("a warning");
        assert!(warning.starts_with(&format!("the command changed {restored}")), "{warning}");
        let kept = kept.join((before + 1).to_string());
        assert!(warning.ends_with(&format!("was there is {}", kept.display())), "{warning}");
        assert!(fs::symlink_metadata(kept).is_ok(), "{script}");
        assert_eq!(told["verdict"], "accept", "{told}");
        assert_eq!(agent.git(&["status", "--porcelain"]), before_status, "{script}");
    }
}

#[test]
fn what_a_killed_run_committed_is_published_by_the_next_command() {
    let Some(_) = level() else {
        return;
    };
    let afterwards: [&[&str]; 6] = [
        &["verify"],
        &["commit", "--message=work"],
        &["discard"],
        &["wait"],
        &["doctor", "--fix"],
        &["run", "--no-verify"],
    ];
    for words in afterwards {
        let agent = Agent::of_task(TASK);
        let ready = agent.worktree.join(".agent/ready");
        let script = "git config --worktree filter.x.clean 'touch $MAIN/started; cat'
                      git commit -q --allow-empty -m saved
                      echo '* filter=x' > src/.gitattributes; echo '// x' >> src/lib.rs
                      touch .agent/ready; sleep 1000";
        let mut supervisor = agent_command(&agent.repo.path())
            .args(["run", &agent.id, "--", "sh", "-ec", script])
            .env("TMPDIR", beside(&agent, "temporary"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("starts");
        while !ready.exists() {
            assert!(supervisor.try_wait().expect("known").is_none(), "it works");
            crate::support::pause();
        }
        supervisor.kill().expect("killed");
        supervisor.wait().expect("ends");
        let state = || agent.repo.agent_json(&["show", &agent.id])["run"]["state"].clone();
        while state() == "running" {
            crate::support::pause();
        }
        assert_eq!(state(), "dead");
        let run_repo = format!(".git/agents/{}/run-repo", &agent.id[..8]);
        let run_repo = agent.repo.path().join(run_repo);
        assert!(run_repo.exists());

        let mut again = agent_command(&agent.repo.path());
        again.args(words).env("MAIN", agent.repo.path());
        match words[0] {
            "doctor" => &mut again,
            "run" => again.args([&agent.id, "--", "true"]),
            _ => again.arg(&agent.id),
        };
        let output = again.env("TMPDIR", beside(&agent, "temporary")).output();
        let said = describe(&output.expect("starts"));
        assert!(!agent.repo.path().join("started").exists(), "{words:?}: {said}");
        assert_ne!(state(), "dead", "{words:?}: {said}");
        assert!(!run_repo.exists(), "{words:?}: {said}");
        let log = agent.repo.git(["log", "--all", "--format=%s"]);
        assert!(log.lines().any(|line| line == "saved"), "{words:?}: {log}");
        assert_eq!(agent.repo.git(["fsck", "--strict", "--no-dangling"]), "");
        if words[0] != "discard" {
            agent.git(&["status"]);
        }
    }
}

#[test]
fn a_person_reads_what_was_enforced() {
    let Some(level) = level() else {
        return;
    };
    let agent = Agent::of_task(TASK);
    let output = run(&agent, &["--no-verify"], "true");
    let word = Enforcement::Fenced(level).as_str();
    let said = describe(&output);
    assert!(said.contains(&format!("  sandbox {word}")), "{said}");
}

/// A first attempt brings the objects in and fails; that nothing new comes with the next is no proof that all is there.
#[test]
fn commits_that_are_not_whole_never_come_out_of_the_fence() {
    if level().is_none() {
        return;
    }
    // As a file: what is missing, and what is a commit, which is written after it was named, as git's own tools look at what they are given.
    let missing = "echo > c; file=deadbeefdeadbeefdeadbeefdeadbeefdeadbeef; write=blob";
    let other = "git cat-file commit HEAD > c; echo more >> c; file=$(git hash-object -t commit c); write=commit";
    let commit = "src=$( (git ls-tree HEAD:src; printf '100644 blob %s\\tzz\\n' $file) | git mktree --missing)
                  git hash-object -w -t $write c
                  top=$( (git ls-tree HEAD | grep -v src; printf '040000 tree %s\\tsrc\\n' $src) | git mktree)
                  rm c; new=$(git commit-tree $top -p HEAD -m x)";
    // What a reflog names is found by `git gc` as well.
    let back = "; git -c core.hooksPath=/dev/null update-ref HEAD HEAD@{1}";
    let cases = [
        (missing, "HEAD", ""),
        (missing, "refs/stash", ""),
        (other, "HEAD", ""),
        (missing, "HEAD", back),
    ];
    for (file, refname, after) in cases {
        let agent = Agent::of_task(TASK);
        let tip = agent.git(&["rev-parse", "HEAD"]);
        let script = format!(
            "{file}; {commit}; git -c core.hooksPath=/dev/null update-ref {refname} $new{after}"
        );
        let bad = report(&agent, &[], &script);
        let said = bad["warnings"].to_string();
        if !after.is_empty() {
            assert!(said.contains("they are kept without these"), "{bad:#}");
        } else if refname == "HEAD" {
            assert!(said.contains("could not be taken over"), "{bad:#}");
            assert_eq!(bad["verdict"], Value::Null, "{bad:#}");
        } else {
            assert!(said.contains("the command made refs/stash, which leads to"), "{bad:#}");
        }
        if refname == "HEAD" && after.is_empty() {
            // What is on the branch is not all that the agent made.
            let judged = agent.repo.agent(&["verify", &agent.id, "--format=json"]);
            assert_eq!(judged.status.code(), Some(1), "{}", describe(&judged));
            assert!(describe(&judged).contains("work.unreadable"), "{}", describe(&judged));
            let landed = agent.repo.agent(&["merge", &agent.id, "--format=json"]);
            assert!(describe(&landed).contains("work.unreadable"), "{}", describe(&landed));
            let found = agent.repo.agent(&["doctor", "--format=json"]);
            assert!(describe(&found).contains("runs.refused"), "{}", describe(&found));
        }
        report(&agent, &[], "true");
        assert_eq!(agent.git(&["rev-parse", "HEAD"]), tip, "{refname}");
        agent.repo.git(["fsck", "--strict", "--no-dangling", "--connectivity-only"]);
        agent.repo.git(["gc", "--quiet"]);
        // What could not be taken over is nowhere else, so it is named until a person has moved it.
        let kept = format!("agents/{}/run-repo.altered", &agent.id[..8]);
        let discarded = agent.repo.agent_json(&["discard", &agent.id]);
        let is_left = refname == "HEAD" && after.is_empty();
        assert_eq!(discarded["warnings"].to_string().contains(&kept), is_left, "{discarded:#}");
        let uninstalled = agent.repo.agent(&["uninstall", "--yes"]);
        assert_eq!(describe(&uninstalled).contains(&kept), is_left, "{}", describe(&uninstalled));
        assert_eq!(agent.repo.path().join(".git").join(&kept).exists(), is_left);
    }
}

/// An object that `git fsck` dislikes, as an ordinary fetch of old history brings them, spoils nothing else.
#[test]
fn what_lies_beside_a_damaged_object_is_kept() {
    if level().is_none() {
        return;
    }
    let agent = Agent::of_task(TASK);
    let script = "echo x | git hash-object -w -t commit --literally --stdin
                  echo '// one' >> src/lib.rs; git stash -q; git rev-parse stash > src/oid
                  echo staged > src/staged; git add src/staged; rm src/staged";
    let told = report(&agent, &["--no-verify"], script);
    let warnings = told["warnings"].to_string();
    let kept = agent.repo.path().join(format!(".git/agents/{}/run-repo.altered", &agent.id[..8]));
    let said = format!("the rest of what the command left is kept in {}", kept.display());
    assert!(warnings.contains(&said), "{told:#}");
    let stash = fs::read_to_string(agent.worktree.join("src/oid")).expect("written");
    let discarded = agent.repo.agent_json(&["discard", &agent.id]);
    agent.repo.git(["gc", "--quiet", "--prune=now"]);
    let admin = kept.join(format!("worktrees/agent-{}", &agent.id[..8]));
    let git_dir = ["--git-dir", admin.to_str().expect("UTF-8")];
    let git = |words: &[&str]| agent.repo.git([&git_dir[..], words].concat());
    assert_eq!(git(&["rev-parse", "stash@{0}"]), stash.trim_end(), "{discarded:#}");
    assert_eq!(git(&["show", ":src/staged"]), "staged");
}

/// git follows what the indexes of all worktrees name, so one of these would make `git gc` fail in all of the repository.
#[test]
fn an_index_that_names_what_is_missing_never_comes_out_of_the_fence() {
    if level().is_none() {
        return;
    }
    let missing = "1111111111111111111111111111111111111111";
    let stage = format!("git update-index --add --cacheinfo 100644,{missing},src/x");
    let conflict =
        format!("printf '100644 {missing} 2\\tsrc/x\\n' | git update-index --index-info");
    let scripts = [
        (stage.clone(), true),
        (format!("{stage}; git update-index --split-index"), true),
        (conflict.clone(), true),
        (format!("{conflict}; echo x > src/x; git add src/x"), true),
        (format!("git update-index --add --cacheinfo 160000,{missing},src/x"), false),
        ("git update-index --split-index; git add src/y; git add -N src/z".to_owned(), false),
    ];
    for (script, is_left) in scripts {
        let agent = Agent::of_task(TASK);
        let script = format!("echo y > src/y; echo z > src/z; {script}; echo y > src/y");
        let told = report(&agent, &["--no-verify"], &script);
        let warnings = told["warnings"].to_string();
        assert_eq!(warnings.contains("cannot use the file index"), is_left, "{script}: {told:#}");
        assert_eq!(warnings.contains("is kept in"), is_left, "{script}: {told:#}");
        agent.repo.git(["gc", "--quiet"]);
        let staged = agent.git(&["ls-files", "--stage", "src/x"]);
        assert_eq!(staged.is_empty(), !script.contains("160000"), "{script}: {staged}");
    }
}

#[test]
fn an_edit_in_the_moment_of_staging_is_seen_after_the_run() {
    if level().is_none() {
        return;
    }
    let agent = Agent::of_task(TASK);
    // All in one second, long ago: git looks into such a file because its index is no younger.
    let then = "touch -d @1700000000";
    let script = format!(
        "echo aa > src/x; {then} src/x; git add src/x; {then} \"$(git rev-parse --git-path index)\"
         echo bb > src/x; {then} src/x"
    );
    report(&agent, &["--no-verify"], &script);
    // As where the edit does not even change the time of the file's status.
    let seen = agent.git(&["-c", "core.trustctime=false", "diff", "--name-only"]);
    assert_eq!(seen, "src/x");
}

#[test]
fn an_index_that_is_damaged_or_gone_leaves_what_was_staged_before() {
    if level().is_none() {
        return;
    }
    let index = "i=$(git rev-parse --git-path index); d=$(dirname \"$i\")";
    let put = |bytes: &str, at: &str| {
        format!("{index}; printf {bytes} | dd of=\"$i\" bs=1 seek=$(({at})) conv=notrunc")
    };
    for (script, is_told) in [
        (put("XXXX", "$(wc -c < \"$i\") - 4"), true),
        // By its end it is the one that is there.
        (put("X", "20"), false),
        (format!("{index}; rm \"$i\" \"$d\"/sharedindex.*"), false),
        (format!("{index}; s=$(echo \"$d\"/sharedindex.*); echo >> \"$s\""), true),
    ] {
        let agent = Agent::of_task(TASK);
        let split =
            "export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.splitIndex GIT_CONFIG_VALUE_0=true
                     echo staged > src/new; git add src/new; git update-index --split-index";
        report(&agent, &["--no-verify"], split);
        let told = report(&agent, &["--no-verify"], &script);
        let warnings = told["warnings"].to_string();
        assert_eq!(warnings.contains("index"), is_told, "{script}: {told:#}");
        assert_eq!(agent.git(&["diff", "--cached", "--name-only"]), "src/new", "{script}");
        assert_eq!(agent.git(&["show", ":src/new"]), "staged", "{script}");
    }
}

#[test]
fn what_names_no_commit_is_nothing_unfinished() {
    if level().is_none() {
        return;
    }
    let agent = Agent::of_task(TASK);
    let missing = "1111111111111111111111111111111111111111";
    let script = format!(
        "d=$(dirname \"$(git rev-parse --git-path index)\"); mkdir -p \"$d/refs/worktree\"
         echo rubbish > \"$d/CHERRY_PICK_HEAD\"; echo {missing} > \"$d/MERGE_HEAD\"
         echo {missing} > \"$d/refs/worktree/x\"; echo more >> src/lib.rs; git commit -qam more"
    );
    let told = report(&agent, &["--no-verify"], &script);
    let warnings = told["warnings"].to_string();
    for name in ["CHERRY_PICK_HEAD", "MERGE_HEAD", "refs/worktree/x"] {
        assert!(warnings.contains(&format!("git cannot use the file {name} ")), "{name}: {told:#}");
    }
    agent.git(&["for-each-ref"]);
    agent.repo.agent_json(&["discard", &agent.id]);
}

#[test]
fn beside_a_damaged_object_the_index_is_that_of_the_commits() {
    if level().is_none() {
        return;
    }
    let agent = Agent::of_task(TASK);
    let before = agent.git(&["status", "--porcelain"]);
    let script = "echo x | git hash-object -w -t commit --literally --stdin
                  echo '// one' >> src/lib.rs; git commit -qam one";
    let told = report(&agent, &["--no-verify"], script);
    assert!(told["warnings"].to_string().contains("are damaged"), "{told:#}");
    assert_eq!(agent.git(&["status", "--porcelain"]), before);
}
