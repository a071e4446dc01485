use super::{Patient, comes_to, examine, heals, is_left_alone, problems, strings};
use crate::support::agent::{TASK, agent_command, describe};
use crate::support::{TestRepo, git_in, git_output};
use crate::verify::{Agent, refused};
use std::path::{Path, PathBuf};

pub fn make_old(path: &Path) {
    let file = std::fs::File::options().append(true).open(path).expect("open");
    let then = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    file.set_modified(then).expect("an old time");
}

#[test]
fn settings_that_turn_against_the_user_are_taken_back() {
    let set = |key: &'static str, value: fn(&Patient) -> String| {
        move |patient: &Patient| {
            let value = value(patient);
            drop(patient.repo.git(["config", "--file", ".git/config", key, &value]));
        }
    };
    heals(&["settings.main-is-bare"], set("core.bare", |_| "true".into()));
    heals(
        &["settings.main-led-away"],
        set("core.worktree", |patient| patient.top.to_string_lossy().into_owned()),
    );
    heals(
        &["settings.place-shared"],
        set("core.worktree", |patient| patient.repo.path().to_string_lossy().into_owned()),
    );
    // From git 2.54 on the agent's hooks are in the configuration, which this setting does not lead away.
    let shown = ["config", "--get", "hook.git-agent-pre-commit.event"];
    let in_configuration = git_output(&Patient::new().top, shown).status.success();
    let expected = &["settings.hooks-led-away", "hooks.inert"];
    heals(
        &expected[..2 - usize::from(in_configuration)],
        set("core.hooksPath", |patient| {
            let hooks = patient.git_dir().join("agents").join(patient.short());
            hooks.join("hooks").to_string_lossy().into_owned()
        }),
    );
    heals(&["settings.prunes-at-once"], set("gc.pruneExpire", |_| "now".into()));
    for (key, value) in [("core.bare", "true"), ("core.worktree", "/nowhere")] {
        heals(&["settings.worktree-led-away"], |patient| {
            git_in(&patient.top, ["config", "--worktree", key, value]);
            assert!(!git_output(&patient.top, ["status"]).status.success(), "{key}");
        });
    }
    heals(&["settings.worktree-config-off", "hooks.inert"], |patient| {
        drop(patient.repo.git(["config", "--unset", "extensions.worktreeConfig"]))
    });
}

#[test]
fn a_hook_that_is_newer_than_an_agent_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let patient = Patient::new();
    let shown = ["config", "--get", "hook.git-agent-pre-commit.event"];
    if git_output(&patient.top, shown).status.success() {
        // From git 2.54 on git runs the repository's hooks itself.
        return;
    }
    let hook = patient.git_dir().join("hooks/post-rewrite");
    std::fs::create_dir_all(hook.parent().expect("a directory")).expect("made");
    std::fs::write(&hook, "#!/bin/sh\n").expect("written");
    std::fs::set_permissions(&hook, PermissionsExt::from_mode(0o755)).expect("set");
    let said = describe(&patient.repo.agent(&["doctor"]));
    assert!(said.contains("the repository's post-rewrite hook is newer than the agent"), "{said}");
}

#[test]
fn a_main_worktree_that_leads_nowhere_is_named_and_taken_back() {
    let patient = Patient::new();
    // What is around it is another repository.
    git_in(patient.repo.path().parent().expect("a directory"), ["init", "--quiet"]);
    let config = patient.git_dir().join("config");
    let before = std::fs::read_to_string(&config).expect("settings");
    let led_away = format!("{before}[core]\n\tworktree = /nowhere/at/all\n");
    std::fs::write(&config, led_away).expect("write");
    let status = git_output(&patient.repo.path(), ["status"]);
    assert!(!status.status.success(), "git itself gives up");
    for directory in [&patient.repo.path(), &patient.git_dir()] {
        let output = agent_command(directory).arg("list").output();
        refused(&output.expect("starts"), "main-worktree-gone", 4);
    }
    let (status, report) = patient.doctor(&[]);
    // Git cannot be asked for branches meanwhile.
    let expected = ["settings.main-led-away", "doctor.unexamined"];
    assert_eq!((status, problems(&report)), (1, strings(&expected)), "{report:#}");
    let (status, report) = patient.doctor(&["--fix"]);
    assert_eq!((status, problems(&report)), (0, vec![]), "{report:#}");
    assert_eq!(patient.repo.git(["status", "--porcelain"]), "");
    assert_eq!(patient.repo.git(["config", "--get-all", "core.bare"]), "false");
    assert_eq!(patient.repo.agent_json(&["show", &patient.id])["state"], "idle");
}

#[test]
fn a_main_worktree_on_a_missing_disk_is_not_forgotten() {
    let repo = TestRepo::with_commit();
    let git_dir = repo.path().with_file_name("apart");
    let apart = git_dir.to_str().expect("UTF-8");
    repo.git(["init", "--quiet", "--separate-git-dir", apart]);
    let disk = repo.path().with_file_name("disk");
    repo.git(["config", "core.worktree", disk.to_str().expect("UTF-8")]);
    for arguments in [&["doctor"][..], &["doctor", "--fix"]] {
        let output = agent_command(&git_dir).args(arguments).output().expect("starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains("settings.main-led-away"), "{text}");
    }
    let config = std::fs::read_to_string(git_dir.join("config")).expect("settings");
    assert!(config.contains("/disk"), "{config}");
}

#[test]
fn a_bare_repository_with_worktrees_is_healthy() {
    let repo = TestRepo::with_commit();
    let bare = repo.path().with_file_name("bare.git");
    repo.git(["clone", "--quiet", "--bare", ".", bare.to_str().expect("UTF-8")]);
    let task = repo.task_file(TASK);
    let spawned = agent_command(&bare).args(["spawn", &task]).output().expect("starts");
    assert!(spawned.status.success());
    let output = agent_command(&bare).arg("doctor").output().expect("starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
    // What git itself makes of the settings of worktrees depends on its version.
    let side = bare.with_file_name("side");
    git_in(&bare, ["worktree", "add", "--quiet", "--detach", side.to_str().expect("UTF-8")]);
    let is_refused = !git_output(&side, ["checkout", "--quiet", "main"]).status.success();
    let said = describe(&output);
    assert_eq!(said.contains("HEAD of a bare repository"), is_refused, "{said}");
}

/// Lock files that only git makes, wherever a kill may leave one.
fn locks(patient: &Patient) -> Vec<PathBuf> {
    let git_dir = patient.git_dir();
    let names = [
        "index.lock",
        "HEAD.lock",
        "AUTO_MERGE.lock",
        "packed-refs.lock",
        "config.lock",
        "shallow.lock",
        "refs/notes/agents.lock",
        "refs/agents/keep.lock",
        "refs/remotes/origin/main.lock",
        "refs/heads/deep/er.lock",
    ];
    let linked = ["index.lock", "HEAD.lock", "AUTO_MERGE.lock"];
    let locks = names.map(|name| git_dir.join(name)).into_iter();
    let locks = locks.chain(linked.map(|name| patient.admin().join(name)));
    locks
        .inspect(|path| {
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("made");
            std::fs::write(path, "").expect("written");
        })
        .collect()
}

#[cfg(target_os = "linux")]
#[test]
fn lock_files_that_no_process_has_open_are_named_and_cleared_once_they_are_old() {
    let patient = Patient::new();
    let locks = locks(&patient);
    // A young one is named with its age, and stays: its owner may be about to give it its name.
    let expected = vec!["locks.stale".to_owned(); locks.len()];
    for arguments in [&[][..], &["--fix"]] {
        let said = comes_to(&patient.repo, arguments, 1, &expected).to_string();
        assert!(said.contains("removed once it is 10 s old"), "{said}");
    }
    assert!(locks.iter().all(|lock| lock.exists()));
    locks.iter().for_each(|lock| make_old(lock));
    let is_free = |said: &String| said.contains("no process has it open");
    let ask = || comes_to(&patient.repo, &[], 1, &expected).to_string();
    let said = std::iter::repeat_with(ask).take(50).find(is_free).expect("the others end");
    assert!(said.contains(" s old"), "{said}");
    comes_to(&patient.repo, &["--fix"], 0, &[]);
    assert!(!locks.iter().any(|lock| lock.exists()));
}

#[cfg(target_os = "linux")]
#[test]
fn a_lock_file_that_a_process_may_hold_stays_however_old_it_is() {
    // Open in a process that has nothing else to do with the repository. That process opens it by itself: what this one
    // has open, a child that another test starts at the same moment has open too until it becomes another program.
    let patient = Patient::new();
    let lock = patient.git_dir().join("refs/remotes/origin/main.lock");
    std::fs::create_dir_all(lock.parent().expect("a parent")).expect("made");
    let mut command = std::process::Command::new("sh");
    let piped = std::process::Stdio::piped;
    command.args(["-c", "exec 3>\"$0\" && echo && exec cat"]);
    command.arg(&lock).current_dir("/");
    let mut holder = command.stdin(piped()).stdout(piped()).spawn().expect("sh starts");
    let said = holder.stdout.as_mut().expect("a pipe");
    std::io::Read::read_exact(said, &mut [0]).expect("it has opened the file");
    make_old(&lock);
    for arguments in [&[][..], &["--fix"]] {
        let (status, report) = patient.doctor(arguments);
        let stale = vec!["locks.stale".to_owned()];
        assert_eq!((status, problems(&report)), (1, stale), "{report:#}");
        assert!(report.to_string().contains(&format!("process {}", holder.id())), "{report:#}");
    }
    assert!(lock.exists());
    holder.kill().expect("killed");
    holder.wait().expect("ended");
    // Closed, while a git is at work there, as `git commit` is while the user writes the message.
    let mut git = crate::support::isolated("git", &patient.repo.path());
    let stdin = std::process::Stdio::piped();
    git.args(["cat-file", "--batch"]).stdin(stdin);
    let mut git = git.stdout(std::process::Stdio::null()).spawn().expect("git starts");
    let (status, report) = patient.doctor(&["--fix"]);
    assert_eq!(status, 1, "{report:#}");
    assert!(lock.exists());
    git.kill().expect("killed");
    git.wait().expect("ended");
    comes_to(&patient.repo, &["--fix"], 0, &[]);
    assert!(!lock.exists());
}

/// Who another user's git is at work for cannot be seen, but whose the files are that it makes.
#[cfg(target_os = "linux")]
#[test]
fn a_git_of_another_user_holds_the_lock_files_of_its_own_user_alone() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    // No other process of this machine is theirs: a git of the same user would be named in the place of ours.
    let [own, other] = ["61453", "61454"];
    let as_user = |user: &str| {
        let mut command = crate::support::isolated("setpriv", Path::new("/"));
        command.args(["--reuid", user, "--regid", user, "--clear-groups"]);
        command
    };
    let piped = std::process::Stdio::piped;
    let mut git = as_user(other)
        .args(["git", "hash-object", "--stdin"])
        .stdin(piped())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("git starts");
    // The program has become git when git waits for its input.
    let comm = format!("/proc/{}/comm", git.id());
    while std::fs::read_to_string(&comm).expect("it lives") != "git\n" {
        crate::support::pause();
    }
    let patient = Patient::new();
    let all = patient.repo.path();
    let all = all.parent().expect("a directory of its own");
    let doctor = |owner: &str| {
        let lock = patient.git_dir().join("packed-refs.lock");
        std::fs::write(&lock, "").expect("written");
        make_old(&lock);
        let give = |words: &[&str], path: &Path| {
            let mut given = std::process::Command::new("chown");
            let given = given.args(words).arg(path).status();
            assert!(given.expect("chown starts").success());
        };
        give(&["-R", own], all);
        give(&[owner], &lock);
        let mut command = as_user(own);
        command.current_dir(patient.repo.path());
        command.args([env!("CARGO_BIN_EXE_git-agent"), "doctor", "--fix"]);
        let said = describe(&command.output().expect("setpriv starts"));
        (lock.exists(), said)
    };
    let (is_there, said) = doctor(own);
    assert!(!is_there, "{said}");
    let (is_there, said) = doctor(other);
    let named = format!("process {} may hold it", git.id());
    assert!(is_there && said.contains(&named), "{said}");
    git.kill().expect("killed");
    git.wait().expect("ended");
}

#[test]
fn the_ledger_and_the_keep_chain_are_made_whole() {
    heals(&["ledger.damaged"], |patient| {
        std::fs::write(patient.git_dir().join("refs/notes/agents"), "").expect("write");
    });
    heals(&["ledger.damaged"], |patient| {
        std::fs::remove_file(patient.git_dir().join("refs/notes/agents")).expect("removed");
    });
    heals(&["keep.damaged"], |patient| {
        std::fs::write(patient.git_dir().join("refs/agents/keep"), "").expect("write");
    });
    heals(&["keep.missing"], |patient| {
        patient.repo.git(["update-ref", "-d", "refs/agents/keep"]);
    });
    // Kept by a version that did not ask whether the commit is whole.
    heals(&["keep.incomplete"], |patient| {
        let git = |words: &[&str]| patient.repo.git(words);
        let parent = git(&["commit-tree", "-m", "gone", "main^{tree}"]);
        let commit = git(&["commit-tree", "-p", &parent, "-m", "kept", "main^{tree}"]);
        let message = "agent: keep worktree x\n\nGit-Agent: 1\n";
        let empty = git(&["hash-object", "-t", "tree", "-w", "/dev/null"]);
        let words = ["-p", "refs/agents/keep", "-p", &commit, "-m", message];
        let link = git(&[&["commit-tree"], &words[..], &[&empty]].concat());
        git(&["update-ref", "--create-reflog", "refs/agents/keep", &link]);
        let file = format!("objects/{}/{}", &parent[..2], &parent[2..]);
        std::fs::remove_file(patient.git_dir().join(file)).expect("a loose object");
    });
    let caused = ["ledger.lines-dropped", "worktrees.no-row", "branches.no-row"];
    heals(&caused, |patient| {
        let other = patient.repo.git(["rev-parse", "main"]);
        patient.repo.git(["notes", "--ref=agents", "add", "-m", "mine", &other]);
        let spawn = patient.repo.agent_json(&["show", &patient.id]);
        let commit = spawn["spawn_commit"].as_str().expect("a commit").to_owned();
        patient.repo.git(["notes", "--ref=agents", "remove", &commit]);
    });
}

#[test]
fn work_is_accepted_though_a_power_loss_left_the_newest_objects_of_the_ledger_empty() {
    for objects in [&["^{commit}"][..], &["^{tree}"], &["note"], &["^{commit}", "^{tree}", "note"]]
    {
        let patient = Patient::new();
        // The newest event is lost, and says nothing that the others need.
        patient.repo.agent_json(&["rename", &patient.id, "another"]);
        let notes = patient.repo.git(["ls-tree", "-r", "refs/notes/agents"]);
        let note = notes.split_whitespace().nth(2).expect("a blob");
        let named = objects.iter().map(|object| match *object {
            "note" => note.to_owned(),
            kind => patient.repo.git(["rev-parse", &format!("refs/notes/agents{kind}")]),
        });
        for name in named.collect::<Vec<_>>() {
            let file = format!("objects/{}/{}", &name[..2], &name[2..]);
            let file = patient.git_dir().join(file);
            std::fs::remove_file(&file).expect("a loose object");
            std::fs::write(&file, "").expect("written");
        }
        let (status, report) = patient.doctor(&["--fix"]);
        assert_eq!((status, problems(&report)), (0, vec![]), "{objects:?}: {report:#}");
        assert_eq!(report["fixed"][0]["code"], "ledger.damaged", "{objects:?}: {report:#}");
        let (status, report) = patient.doctor(&[]);
        assert_eq!((status, problems(&report)), (0, vec![]), "{objects:?}: {report:#}");
        let verdict = patient.repo.agent(&["verify", &patient.id, "--format=json"]);
        let verdict: serde_json::Value = serde_json::from_slice(&verdict.stdout).expect("JSON");
        let found = verdict["findings"].to_string();
        assert!(!found.contains("work.unreadable"), "{objects:?}: {verdict:#}");
    }
}

#[test]
fn a_first_spawn_that_was_killed_before_there_was_a_ledger_has_lost_none() {
    for (lines, expected) in [("\n19a691f784b2db65\n", None), ("\n1\n\n2\n", Some("ledger.lost"))] {
        let repo = TestRepo::with_commit();
        let agents = repo.path().join(".git/agents");
        std::fs::create_dir(&agents).expect("made");
        std::fs::write(agents.join("own-lines"), lines).expect("written");
        let report = repo.agent(&["doctor", "--format=json"]);
        let report: serde_json::Value = serde_json::from_slice(&report.stdout).expect("JSON");
        assert_eq!(problems(&report), Vec::from_iter(expected), "{report:#}");
    }
}

#[test]
fn a_kept_commit_survives_what_would_have_deleted_it() {
    let patient = Patient::new();
    let shown = patient.repo.agent_json(&["show", &patient.id]);
    let commit = shown["spawn_commit"].as_str().expect("a commit").to_owned();
    patient.repo.git(["update-ref", "-d", "refs/agents/keep"]);
    assert_eq!(patient.doctor(&["--fix"]).0, 0);
    patient.repo.git(["worktree", "unlock", patient.top.to_str().expect("UTF-8")]);
    patient.repo.git(["worktree", "remove", "--force", patient.top.to_str().expect("UTF-8")]);
    patient.repo.git(["branch", "--quiet", "-D", &patient.branch]);
    patient.repo.git(["gc", "--quiet", "--prune=now"]);
    patient.repo.git(["cat-file", "-e", &commit]);
    patient.repo.git(["notes", "--ref=agents", "prune"]);
    patient.repo.agent_json(&["show", &patient.id]);
}

fn collect_garbage(repo: &TestRepo) {
    repo.git(["reflog", "expire", "--expire=now", "--all"]);
    repo.git(["gc", "--quiet", "--prune=now"]);
}

#[test]
fn kept_work_is_kept_again_when_the_chain_was_lost() {
    let patient = Patient::new();
    // It is rejected; the bundle as it is now is kept with the verdict.
    patient.repo.agent(&["verify", &patient.id, "--record"]);
    patient.repo.agent_json(&["discard", &patient.id]);
    assert_eq!(patient.doctor(&[]).0, 0);
    patient.repo.git(["update-ref", "-d", "refs/agents/keep"]);
    let (status, report) = patient.doctor(&[]);
    let expected = strings(&["keep.missing", "keep.work-missing"]);
    assert_eq!((status, problems(&report)), (1, expected), "{report:#}");
    let what = report.to_string();
    // The tip, the uncommitted work, the bundle as it was judged and as it was left.
    assert!(what.contains("nothing keeps 4 commits"), "{report:#}");
    let (status, report) = patient.doctor(&["--fix"]);
    assert_eq!((status, problems(&report)), (0, vec![]), "{report:#}");
    collect_garbage(&patient.repo);
    assert_eq!(patient.doctor(&[]).0, 0);
    let to = patient.repo.path().with_file_name("back");
    let words = ["rescue", &patient.id, "--to", to.to_str().expect("UTF-8")];
    let rescued = patient.repo.agent_json(&words);
    assert_eq!(rescued["warnings"], serde_json::json!([]));
    for name in ["src/committed.rs", "src/staged.rs", "src/untracked.rs"] {
        assert!(to.join(name).is_file(), "{name}");
    }
    // A person can let go of it as before, and that is no damage.
    let expiry = ["gc", "--expire-salvage", "0d", "--yes"];
    assert_eq!(patient.repo.agent_json(&expiry)["salvage"][0]["action"], "expired");
    collect_garbage(&patient.repo);
    let (status, report) = patient.doctor(&[]);
    assert_eq!((status, problems(&report)), (0, vec![]), "{report:#}");
}

#[test]
fn kept_work_that_is_gone_is_named_as_long_as_it_is() {
    let patient = Patient::new();
    patient.repo.agent_json(&["discard", &patient.id]);
    let log = patient.repo.agent_json(&["log", &patient.id]);
    patient.repo.git(["update-ref", "-d", "refs/agents/keep"]);
    collect_garbage(&patient.repo);
    for arguments in [&[][..], &["--fix"], &[]] {
        let (status, report) = patient.doctor(arguments);
        let gone = problems(&report);
        let gone = gone.iter().filter(|code| *code == "keep.work-gone");
        // The tip, the uncommitted work and the bundle.
        assert_eq!((status, gone.count()), (1, 3), "{report:#}");
    }
    assert_eq!(patient.repo.agent_json(&["log", &patient.id]), log);
    let output = patient.repo.agent(&["rescue", &patient.id]);
    refused(&output, "history-incomplete", 4);
}

#[test]
fn a_commit_that_was_picked_by_hand_did_not_have_to_be_kept() {
    let agent = Agent::new();
    agent.write("src/two.rs", "");
    agent.repo.agent_json(&["commit", &agent.id, "-m", "two"]);
    agent.repo.write("README.md", "# Other\n");
    agent.repo.commit_all("meanwhile");
    agent.repo.git(["cherry-pick", &agent.branch]);
    agent.repo.agent_json(&["merge", &agent.id]);
    let (status, report) = examine(&agent.repo, &[]);
    assert_eq!((status, problems(&report)), (0, vec![]), "{report:#}");
}

#[test]
fn of_work_that_landed_only_a_squash_has_to_be_kept() {
    // The bundle that was judged, and the tip.
    for (method, count) in [("--squash", "2 commits"), ("--no-ff", "a commit")] {
        let agent = Agent::new();
        agent.write("src/two.rs", "");
        let tip = agent.commit("two");
        agent.repo.agent_json(&["merge", &agent.id, method]);
        assert_eq!(examine(&agent.repo, &[]).0, 0, "{method}");
        agent.repo.git(["update-ref", "-d", "refs/agents/keep"]);
        let (_, report) = examine(&agent.repo, &[]);
        let expected = strings(&["keep.missing", "keep.work-missing"]);
        assert_eq!(problems(&report), expected, "{report:#}");
        let said = report.to_string();
        let expected = format!("nothing keeps {count} that the row");
        assert!(said.contains(&expected), "{method}: {report:#}");
        assert_eq!(examine(&agent.repo, &["--fix"]).0, 0, "{method}");
        let kept = agent.repo.git(["rev-list", "refs/agents/keep"]);
        // The spawn commit is kept in either case, and what was done after it in one.
        assert_eq!(kept.contains(&tip), method == "--squash");
    }
}

#[test]
fn an_update_between_two_squashes_is_no_work_that_is_missing() {
    let agent = Agent::new();
    for name in ["src/two.rs", "src/three.rs"] {
        agent.write(name, "");
        agent.commit(name);
        agent.repo.agent_json(&["merge", &agent.id, "--squash"]);
        agent.repo.agent_json(&["update", &agent.id]);
    }
    assert_eq!(problems(&examine(&agent.repo, &[]).1), strings(&[]));
}

#[test]
fn what_another_clone_kept_may_be_missing() {
    let patient = Patient::new();
    patient.repo.agent_json(&["discard", &patient.id]);
    let here = patient.repo.path().with_file_name("here");
    let url = format!("file://{}", patient.repo.path().display());
    let to = here.to_str().expect("UTF-8");
    git_in(&patient.repo.path(), ["clone", "--quiet", &url, to]);
    let ledger = "refs/notes/agents:refs/notes/agents";
    git_in(&here, ["fetch", "--quiet", "origin", ledger]);
    let output = agent_command(&here).arg("doctor").output().expect("starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}");
}

#[test]
fn a_ledger_beyond_repair_hides_nothing_else() {
    is_left_alone(&["ledger.lost"], |patient| {
        std::fs::write(patient.git_dir().join("refs/notes/agents"), "").expect("write");
        std::fs::remove_file(patient.git_dir().join("logs/refs/notes/agents")).expect("removed");
    });
}

#[test]
fn a_setting_of_the_user_is_left_alone() {
    let patient = Patient::new();
    let global = patient.repo.path().with_file_name("gitconfig");
    std::fs::write(&global, "[gc]\n\tpruneExpire = now\n").expect("write");
    let output = agent_command(&patient.repo.path())
        .env("GIT_CONFIG_GLOBAL", &global)
        .args(["doctor", "--fix"])
        .output()
        .expect("starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("problem[settings.prunes-at-once]"), "{text}");
}

#[test]
fn a_row_whose_commit_is_gone_is_named() {
    let patient = Patient::new();
    let shown = patient.repo.agent_json(&["show", &patient.id]);
    let commit = shown["spawn_commit"].as_str().expect("a commit");
    let path = patient.git_dir().join("objects").join(&commit[..2]);
    std::fs::remove_file(path.join(&commit[2..])).expect("a loose object");
    for arguments in [&[][..], &["--fix"]] {
        let (status, report) = patient.doctor(arguments);
        assert_eq!(status, 1, "{report:#}");
        assert!(problems(&report).contains(&"ledger.commit-gone".to_owned()), "{report:#}");
    }
}

#[test]
fn a_ledger_that_was_deleted_is_missed() {
    let patient = Patient::new();
    patient.repo.git(["update-ref", "-d", "refs/notes/agents"]);
    let (_, report) = examine(&patient.repo, &[]);
    let findings = report["findings"].as_array().expect("a list");
    assert!(findings.iter().any(|finding| finding["code"] == "ledger.lost"), "{report:#}");
    // A spawn begins another one, and says so before.
    for is_told in [true, false] {
        let spawned = patient.repo.agent_json(&["spawn", "look at the library"]);
        let warnings = spawned["warnings"].to_string();
        assert_eq!(warnings.contains("no earlier agent has a row here"), is_told, "{warnings}");
    }
}

#[test]
fn a_lost_ledger_comes_back_as_its_finding_says() {
    let patient = Patient::new();
    let repo = &patient.repo;
    let remote = repo.path().with_file_name("remote");
    let remote = remote.to_str().expect("UTF-8");
    repo.git(["init", "--quiet", "--bare", remote]);
    repo.git(["remote", "add", "origin", remote]);
    repo.git(["push", "--quiet", "origin", "refs/notes/agents"]);
    // The commit is still here: git would take the tree below it for granted.
    let tree = repo.git(["rev-parse", "refs/notes/agents^{tree}"]);
    let (directory, file) = tree.split_at(2);
    let object = patient.git_dir().join("objects").join(directory);
    std::fs::remove_file(object.join(file)).expect("removed");
    std::fs::remove_file(patient.git_dir().join("logs/refs/notes/agents")).expect("removed");
    let (_, report) = examine(repo, &[]);
    let findings = report["findings"].as_array().expect("a list");
    let finding = findings.iter().find(|finding| finding["code"] == "ledger.lost");
    let command = finding.expect("a finding")["command"].as_str();
    assert_eq!(command, Some("git agent sync <remote>"));
    // What cannot be read is not what the remote has.
    let report = repo.agent_json(&["sync", "origin"]);
    assert_eq!(report["restored"], serde_json::json!(["refs/notes/agents"]));
    assert_eq!(problems(&examine(repo, &[]).1), strings(&[]));
    repo.agent_json(&["show", &patient.id]);
}
