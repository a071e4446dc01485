//! `spawn` on real repositories, with git as the witness.

use crate::support::agent::{SHARED_TASK, TASK, agent_command, describe};
use crate::support::terminal::OnTerminal;
use crate::support::{TestRepo, assert_unchanged, git_in, git_output, snapshot};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("{key} in {value}"))
}

fn worktree_of(report: &Value) -> PathBuf {
    PathBuf::from(text(report, "worktree_abspath"))
}

#[test]
fn an_agent_gets_a_worktree_a_branch_and_a_row() {
    let repo = TestRepo::with_commit();
    let head = repo.git(["rev-parse", "HEAD"]);
    let report = repo.spawn();
    let (id, branch, commit) =
        (text(&report, "agent_id"), text(&report, "branch"), text(&report, "spawn_commit"));
    let worktree = worktree_of(&report);

    assert_eq!(commit[..8], id[..8], "the id is made from the spawn commit");
    assert_eq!(text(&report, "worktree_path"), format!(".claude/worktrees/agent-{}", &id[..8]));
    assert!(branch.starts_with("agent/add-a-second-function-to-the-"), "{branch}");
    assert_eq!(text(&report, "status"), "ready");
    assert_eq!(report["base"]["ref"], "refs/heads/main");
    assert_eq!(report["base"]["oid"], head.as_str());

    let listed = repo.git(["worktree", "list", "--porcelain"]);
    let entry = format!(
        "worktree {}\nHEAD {commit}\nbranch refs/heads/{branch}\nlocked git-agent {}",
        worktree.display(),
        &id[..8]
    );
    assert!(listed.contains(&entry), "{listed}");
    assert_eq!(repo.git(["rev-parse", branch]), commit);
    assert_eq!(repo.git(["rev-parse", &format!("{commit}^")]), head);
    assert_eq!(
        repo.git(["rev-parse", &format!("{commit}^{{tree}}")]),
        repo.git(["rev-parse", "HEAD^{tree}"])
    );
    let note = repo.git(["log", "-1", "--notes=agents", "--format=%N", branch]);
    for kind in ["\"e\":\"spawning\"", "\"e\":\"spawned\""] {
        assert!(note.contains(kind), "{note}");
    }
    assert_eq!(git_in(&worktree, ["status", "--porcelain"]), "");
    assert_eq!(repo.git(["status", "--porcelain"]), "");
    assert_eq!(repo.git(["fsck", "--strict", "--no-progress"]), "");
    assert!(worktree.join("src/bin/tool.rs").is_file());
    assert!(worktree.join(".agent/spec.md").is_file());
}

#[test]
fn the_spawn_commit_carries_its_trailers() {
    let repo = TestRepo::with_commit();
    let report = repo.spawn();
    let trailers = repo.git([
        "log",
        "-1",
        "--format=%s%n%(trailers:only,unfold)",
        text(&report, "spawn_commit"),
    ]);
    let lines: Vec<&str> = trailers.lines().collect();
    assert_eq!(lines[0], "agent: spawn add-a-second-function-to-the");
    assert_eq!(lines[1], "Agent-Role: edit-local");
    assert_eq!(lines[2], format!("Agent-Dna: {}", text(&report, "dna")));
    assert_eq!(lines[3], format!("Agent-Base: {}", report["base"]["oid"].as_str().expect("oid")));
    assert!(lines[4].starts_with("Agent-Nonce: ") && lines[4].len() == 13 + 32);
    assert!(lines[5].starts_with("Agent-Policy: sha256:") && lines[5].len() == 21 + 64);
    assert_eq!(lines.len(), 6);
}

#[cfg(target_os = "linux")]
#[test]
fn worktrees_lie_apart_on_a_disk_that_knows_how() {
    use rustix::fs::{IFlags, ioctl_getflags, statfs};
    const EXT4: u64 = 0xEF53;
    let repo = TestRepo::with_commit();
    repo.spawn();
    let above = repo.path().join(".claude/worktrees");
    let directory = std::fs::File::open(&above).expect("made");
    // Other file systems do not know the mark, and a spawn in them goes on without it.
    if statfs(&above).expect("a file system").f_type as u64 == EXT4
        && let Ok(flags) = ioctl_getflags(&directory)
    {
        assert!(flags.contains(IFlags::TOPDIR), "{flags:?}");
    }
    assert_eq!(repo.git(["status", "--porcelain"]), "");
}

#[test]
fn a_shared_agent_has_a_row_and_nothing_else() {
    let repo = TestRepo::with_commit();
    let report = repo.spawn_task(SHARED_TASK, &[]);
    for key in ["worktree_path", "worktree_abspath", "branch"] {
        assert_eq!(report.get(key), None);
    }
    assert_eq!(text(&report, "isolation"), "shared");
    assert_eq!(repo.git(["for-each-ref", "refs/heads/agent"]), "");
    assert_eq!(repo.git(["worktree", "list"]).lines().count(), 1);
    let kept = repo.git(["rev-list", "refs/agents/keep"]);
    assert!(kept.contains(text(&report, "spawn_commit")));
    assert_eq!(repo.git(["status", "--porcelain"]), "");
}

#[test]
fn the_prompt_forbids_git_and_names_scope_and_files() {
    let repo = TestRepo::with_commit();
    let report = repo.spawn();
    let prompt = std::fs::read_to_string(text(&report, "prompt_path")).expect("the prompt");
    for part in [
        "MUST NOT invoke git",
        "`src/**`",
        "`secrets/**`",
        text(&report, "worktree_abspath"),
        "spec.md",
        "plan.md",
        "progress.json",
        "chatlog.md",
        "handoffs.md",
        "review.md",
    ] {
        assert!(prompt.contains(part), "{part} in\n{prompt}");
    }
}

#[test]
fn a_dry_run_changes_nothing() {
    let repo = TestRepo::with_commit();
    let before = snapshot(&repo.path());
    let task = repo.task_file(TASK);
    let output = repo.agent(&["spawn", "--dry-run", "--name=fixer", &task]);
    assert!(output.status.success(), "{}", describe(&output));
    assert_unchanged(&before, &snapshot(&repo.path()), "a dry run");
    // It says what the spawn itself would, as far as that is known.
    let lines = |text: &[u8]| -> Vec<(String, String)> {
        let text = String::from_utf8_lossy(text).into_owned();
        let lines = text.lines().filter_map(|line| line.split_once(':'));
        lines.map(|(key, value)| (key.to_owned(), value.trim().to_owned())).collect()
    };
    let planned = lines(&output.stdout);
    let made = lines(&repo.agent(&["spawn", "--name=fixer", &task]).stdout);
    for key in ["Name", "DNA", "Role", "Base"] {
        let of = |all: &[(String, String)]| all.iter().find(|line| line.0 == key).cloned();
        assert!(of(&made).is_some(), "{key}");
        assert_eq!(of(&planned), of(&made));
    }
    for (key, begin) in [("Branch", "agent/fixer-"), ("Worktree", ".claude/")] {
        let value = planned.iter().find(|line| line.0 == key);
        assert!(value.is_some_and(|line| line.1.starts_with(begin)), "{planned:?}");
    }
}

#[test]
fn a_branch_name_that_git_refuses_is_refused() {
    let repo = TestRepo::with_commit();
    let task = repo.task_file(TASK);
    for name in ["HEAD", "head", "HEAD/x", "x/HEAD", "a..b", "x.lock", "x"] {
        let git = git_output(&repo.path(), ["check-ref-format", "--branch", name]);
        let output = repo.agent(&["spawn", "--dry-run", "--branch", name, &task]);
        assert_eq!(output.status.success(), git.status.success(), "{name}");
        if !git.status.success() {
            let said = describe(&output);
            assert!(said.contains("error[branch-invalid]"), "{said}");
        }
    }
    let output = repo.agent(&["spawn", "--branch=refs/heads/HEAD", &task]);
    assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
}

#[test]
fn the_options_choose_base_name_branch_path_and_parent() {
    let repo = TestRepo::with_commit();
    let first = repo.git(["rev-parse", "HEAD"]);
    repo.write("later.txt", "later\n");
    repo.commit_all("second commit");
    let parent = repo.spawn();
    let outside = repo.path().with_file_name("elsewhere");
    let report = repo.spawn_task(
        TASK,
        &[
            "--base=HEAD~1",
            "--name=fixer",
            "--branch=work/fixer",
            "--parent",
            text(&parent, "agent_id"),
            "--path",
            outside.to_str().expect("UTF-8"),
        ],
    );
    assert_eq!(report["base"]["oid"], first.as_str());
    assert_eq!(text(&report, "name"), "fixer");
    assert_eq!(text(&report, "branch"), "work/fixer");
    assert_eq!(report["parent_id"], parent["agent_id"]);
    assert_eq!(worktree_of(&report), outside);
    assert!(!outside.join("later.txt").exists());
    assert_eq!(git_in(&outside, ["status", "--porcelain"]), "");
}

#[test]
fn several_tasks_and_standard_input() {
    let repo = TestRepo::with_commit();
    let task = repo.task_file(TASK);
    let output = repo.agent(&["spawn", "--format=json", "--jobs=3", &task, &task, &task]);
    assert!(output.status.success(), "{}", describe(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert_eq!(answer["schema"], "git-agent.batch/2");
    let items = answer["items"].as_array().expect("items");
    assert_eq!(items.len(), 3);
    for item in items {
        assert_eq!(item["target"], task.as_str());
        assert_eq!(item["schema"], "git-agent.spawn/2");
    }
    assert_eq!(repo.git(["worktree", "list"]).lines().count(), 4);

    let mut child = agent_command(&repo.path())
        .args(["spawn", "-", "--format=json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut stdin = child.stdin.take().expect("piped");
    std::io::Write::write_all(&mut stdin, TASK.as_bytes()).expect("written");
    drop(stdin);
    assert!(child.wait_with_output().expect("ends").status.success());
    assert_eq!(repo.git(["worktree", "list"]).lines().count(), 5);
}

#[test]
fn a_script_with_a_task_file_reads_the_report_block() {
    let repo = TestRepo::with_commit();
    let task = repo.task_file(TASK);
    let output = repo.agent(&["spawn", &task]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("=== SPAWN-AGENT REPORT ===\nAgent ID: "), "{text}");
    // The two commands that come next follow the block.
    let (_, next) = text.split_once("=== /SPAWN-AGENT REPORT ===\n").expect("the end of the block");
    let commands: Vec<_> = next.lines().filter_map(|line| line.split_once(": ")).collect();
    assert!(commands[0].1.starts_with("git agent run "), "{next}");
    assert!(commands[1].1.starts_with("git agent show "), "{next}");
    assert_eq!(commands.len(), 2, "{next}");
    for key in ["DNA:", "Branch:", "Worktree:", "Verify:"] {
        assert!(text.contains(key), "{key} in\n{text}");
    }
}

#[test]
fn thirty_two_spawns_at_once_all_succeed() {
    let repo = TestRepo::with_commit();
    repo.spawn();
    let task = repo.task_file(TASK);
    // The start barrier: each process reads its task from a pipe that is closed for all at once.
    let mut children: Vec<_> = (0..32)
        .map(|_| {
            agent_command(&repo.path())
                .args(["spawn", "-", "--format=json"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("starts")
        })
        .collect();
    let task = std::fs::read(task).expect("the task");
    let mut pipes: Vec<_> = children
        .iter_mut()
        .map(|child| {
            let mut stdin = child.stdin.take().expect("piped");
            std::io::Write::write_all(&mut stdin, &task).expect("written");
            stdin
        })
        .collect();
    pipes.clear();
    for child in children {
        let output = child.wait_with_output().expect("ends");
        assert!(output.status.success(), "{}", describe(&output));
    }
    assert_eq!(repo.git(["notes", "--ref=agents", "list"]).lines().count(), 33);
    assert_eq!(repo.git(["worktree", "list"]).lines().count(), 34);
    assert_eq!(repo.git(["for-each-ref", "refs/heads/agent"]).lines().count(), 33);
    assert_eq!(repo.git(["fsck", "--strict", "--no-progress"]), "");
    let worktrees = repo.git(["worktree", "list", "--porcelain"]);
    for line in worktrees.lines().filter_map(|line| line.strip_prefix("worktree ")) {
        assert_eq!(git_in(Path::new(line), ["status", "--porcelain"]), "");
    }
}

#[test]
fn post_checkout_runs_as_git_would_run_it() {
    let repo = TestRepo::with_commit();
    let hook = repo.path().join(".git/hooks/post-checkout");
    std::fs::create_dir_all(hook.parent().expect("hooks")).expect("hooks");
    std::fs::write(&hook, "#!/bin/sh\necho \"$@\" > hook-ran\npwd >> hook-ran\n").expect("hook");
    make_executable(&hook);
    let report = repo.spawn();
    let ran = std::fs::read_to_string(worktree_of(&report).join("hook-ran")).expect("it ran");
    let expected = format!(
        "{} {} 1\n{}\n",
        "0".repeat(40),
        text(&report, "spawn_commit"),
        text(&report, "worktree_abspath")
    );
    assert_eq!(ran, expected);
    let quiet = repo.spawn_task(TASK, &["--no-hooks"]);
    assert!(!worktree_of(&quiet).join("hook-ran").exists());
}

#[test]
fn setup_brings_ignored_files_and_runs_commands() {
    let repo = TestRepo::with_commit();
    repo.write(".gitignore", "*.local\ncache/\n");
    repo.commit_all("ignore");
    repo.write("app.local", "settings\n");
    repo.write("cache/deep/data.bin", "data\n");
    repo.write("other.local", "not asked for\n");
    let task = format!(
        "{TASK}[setup]\ncopy = [\"app.local\", \"cache/**\"]\nrun = [\"cat app.local > made.local\"]\n"
    );
    let worktree = worktree_of(&repo.spawn_task(&task, &[]));
    let read = |name: &str| std::fs::read_to_string(worktree.join(name)).expect(name);
    assert_eq!(read("made.local"), "settings\n");
    assert_eq!(read("cache/deep/data.bin"), "data\n");
    assert!(!worktree.join("other.local").exists());
    assert_eq!(git_in(&worktree, ["status", "--porcelain"]), "");
}

#[test]
fn a_failed_setup_undoes_the_spawn() {
    let repo = TestRepo::with_commit();
    let task = repo.task_file(&format!("{TASK}[setup]\nrun = [\"echo no >&2; exit 7\"]\n"));
    let output = repo.agent(&["spawn", &task]);
    assert_eq!(output.status.code(), Some(4), "{}", describe(&output));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("error[setup-failed]") && said.contains("caused by: no"), "{said}");
    assert_eq!(repo.git(["worktree", "list"]).lines().count(), 1);
    assert_eq!(repo.git(["for-each-ref", "refs/heads/agent"]), "");
    assert_eq!(repo.agent_json(&["list"])["agents"], Value::Array(Vec::new()));
    assert!(!repo.path().join(".claude").exists());
    // What asks for its work is told why there is none, by a command that tells more.
    let all = repo.agent_json(&["list", "--all"]);
    let id = all["agents"][0]["agent_id"].as_str().expect("an id").to_owned();
    for verb in ["verify", "diff", "rescue", "path", "retry"] {
        let said = describe(&repo.agent(&[verb, &id]));
        let hint = format!("run git agent show --log {}", &id[..8]);
        assert!(said.contains(&hint) && !said.contains("run git agent rescue"), "{verb}: {said}");
    }
    let said = describe(&repo.agent(&["discard", &id]));
    assert!(said.contains("had already discarded") && !said.contains("rescue"), "{said}");
    let log = repo.agent_json(&["show", "--log", &id]).to_string();
    assert!(log.contains("exit 7` ended with status 7"), "{log}");
}

#[test]
fn the_same_task_has_the_same_dna() {
    let repo = TestRepo::with_commit();
    let (one, two) = (repo.spawn(), repo.spawn());
    assert_eq!(one["dna"], two["dna"]);
    assert_ne!(one["agent_id"], two["agent_id"]);
    assert_ne!(one["branch"], two["branch"]);
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("permissions");
}

/// libgit2 looks whether a name is free before it locks it, and overwrote one branch in fifteen runs of
/// thirty-two spawns.
#[test]
fn of_many_who_make_one_branch_exactly_one_succeeds() {
    use git_agent::domain::value::oid::Oid;
    use git_agent::git::Repo;
    let repo = TestRepo::with_commit();
    let head = Oid::from_hex(&repo.git(["rev-parse", "HEAD"])).expect("an oid");
    for round in 0..20 {
        let barrier = std::sync::Barrier::new(8);
        let name = format!("refs/heads/wanted-{round}");
        let made = std::thread::scope(|scope| {
            let racers: Vec<_> = (0..8)
                .map(|_| {
                    scope.spawn(|| {
                        let ours = Repo::open(&repo.path()).expect("opens");
                        let who = ours.configured_identity();
                        barrier.wait();
                        ours.create_branch(&name, head, &who, "race").expect("no error")
                    })
                })
                .collect();
            let made = racers.into_iter().map(|racer| racer.join().expect("no panic"));
            made.filter(|made| *made).count()
        });
        assert_eq!(made, 1, "{name}");
    }
}

/// What a spawn of this task says when it is refused.
fn refusal(repo: &TestRepo, task: &str, arguments: &[&str]) -> String {
    let path = repo.task_file(task);
    let words = [&["spawn", path.as_str()], arguments].concat();
    let output = repo.agent(&words);
    assert_ne!(output.status.code(), Some(0), "{}", describe(&output));
    assert!(output.stdout.is_empty(), "{}", describe(&output));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_the_repository_does_not_have_is_told_with_all_other_problems() {
    let repo = TestRepo::with_commit();
    let task = r#"role = "edit-local"
task = "Add a second function to the library and test it."
base = "nope"
parent = "nobody"
profile = "nurse"
[scope]
whitelist = [".git/**", "src/**", "  "]
[setup]
copy = [".git/**"]
"#;
    let said = refusal(&repo, task, &[]);
    for line in [
        "error[task-invalid]: ",
        "task.toml:3:8: `nope` names no commit",
        "task.toml:4:10: there is no agent `nobody`",
        "^^^^^^^^ to see the agents there are, run git agent list --all",
        "task.toml:5:11: ",
        "task.toml:7:14: glob `.git/**` allows nothing",
        "task.toml:7:35: glob `  ` is empty",
        "task.toml:9:9: glob `.git/**` allows nothing",
    ] {
        assert!(said.contains(line), "{line} is not in:\n{said}");
    }
    assert!(said.contains("has 6 problems"), "{said}");
    assert_eq!(repo.agent_json(&["list", "--all"])["agents"], Value::Array(Vec::new()));
}

#[test]
fn one_thing_that_is_not_there_keeps_its_code() {
    let repo = TestRepo::with_commit();
    for (line, code) in [
        ("base = 'nope'", "base-not-commit"),
        ("parent = 'nobody'", "agent-unknown"),
        ("base = ''", "task-invalid"),
    ] {
        let said = refusal(&repo, &format!("{line}\n{TASK}"), &[]);
        assert!(said.starts_with(&format!("error[{code}]")), "{said}");
        assert!(said.contains("has 1 problem"), "{said}");
    }
    let secret = format!("ghp_{}", "a1B2".repeat(9));
    let said = refusal(&repo, &format!("base = '{secret}'\n{TASK}"), &[]);
    assert!(said.starts_with("error[task-invalid]") && !said.contains(&secret), "{said}");
}

#[test]
fn a_task_that_never_ends_is_read_as_far_as_the_limit() {
    let repo = TestRepo::with_commit();
    let fifo = repo.path().with_file_name("fifo");
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.expect("mkfifo").success());
    let writer = std::thread::spawn({
        let fifo = fifo.clone();
        move || {
            let mut pipe = std::fs::OpenOptions::new().write(true).open(fifo).expect("a reader");
            // Until the reader has had enough.
            while std::io::Write::write_all(&mut pipe, &[b'#'; 4096]).is_ok() {}
        }
    });
    let output = repo.agent(&["spawn", fifo.to_str().expect("UTF-8")]);
    writer.join().expect("ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("the file is larger than 1 MiB"), "{said}");
}

#[test]
fn a_shared_role_gets_no_place_and_no_setup() {
    let repo = TestRepo::with_commit();
    for option in ["--branch=work/reader", "--path=../reader"] {
        let said = refusal(&repo, SHARED_TASK, &[option]);
        assert!(said.starts_with("error[usage]"), "{said}");
    }
    let task = format!("{SHARED_TASK}[setup]\nrun = ['touch made']\n");
    let report = repo.spawn_task(&task, &[]);
    assert!(report["warnings"].to_string().contains("[setup] does nothing"), "{report}");
    assert!(!repo.path().join("made").exists());
}

#[test]
fn setup_copies_links_that_stay_inside_and_tells_of_the_rest() {
    let repo = TestRepo::with_commit();
    repo.write(".gitignore", "node_modules/\n");
    repo.commit_all("ignore");
    repo.write("node_modules/tool/cli.js", "run()\n");
    let bin = repo.path().join("node_modules/.bin");
    std::fs::create_dir(&bin).expect(".bin");
    for (name, target) in
        [("tool", "../tool/cli.js"), ("out", "../../../elsewhere"), ("absolute", "/etc/hostname")]
    {
        std::os::unix::fs::symlink(target, bin.join(name)).expect("link");
    }
    let task = format!("{TASK}[setup]\ncopy = ['node_modules/**', 'vendor/**', 'src/**']\n");
    let report = repo.spawn_task(&task, &[]);
    let copied = worktree_of(&report).join("node_modules/.bin");
    let target = std::fs::read_link(copied.join("tool")).expect("a link");
    assert_eq!(target, PathBuf::from("../tool/cli.js"));
    assert!(copied.join("tool").is_file(), "its target came as well");
    for name in ["out", "absolute"] {
        assert!(copied.join(name).symlink_metadata().is_err(), "{name}");
    }
    let warnings = report["warnings"].to_string();
    for expected in [
        "stays inside: node_modules/.bin/absolute, node_modules/.bin/out",
        "the glob `vendor/**` to copy matches no ignored file",
        "the glob `src/**` to copy matches no ignored file",
    ] {
        assert!(warnings.contains(expected), "{warnings}");
    }
}

#[test]
fn a_name_never_reaches_another_agent() {
    let repo = TestRepo::with_commit();
    let id = text(&repo.spawn(), "agent_id").to_owned();
    for name in [&id[..4], &id[..8], &format!("agent-{}", &id[..8])] {
        let said = refusal(&repo, TASK, &["--name", name]);
        assert!(said.starts_with("error[agent-ambiguous]"), "{said}");
    }
}

#[test]
fn an_id_that_begins_as_a_name_reads_is_ambiguous() {
    use crate::support::death::ctx_with;
    use git_agent::agents::context::ctx::Seams;
    use git_agent::ops::spawn;
    let repo = TestRepo::with_commit();
    // Nonces, and so ids, that are known beforehand. Some ids are passed over, so each draw gives another one.
    let ctx = |first: u8| {
        let drawn = std::sync::atomic::AtomicU8::new(first);
        let draw = move || Ok([drawn.fetch_add(2, std::sync::atomic::Ordering::Relaxed); 16]);
        let nonce = std::sync::Arc::new(draw);
        let seams = Seams { nonce, ..Seams::real() };
        ctx_with(&repo.path(), seams)
    };
    let draft = || git_agent::wire::file::task_file::parse("task.toml", TASK.as_bytes());
    let options = spawn::SpawnOptions::default();
    let later = ctx(1);
    let plan = spawn::plan(&later, draft(), &options).expect("a plan");
    let (id, name) = (plan.id.to_string(), plan.id.to_string()[..4].to_owned());
    let named = spawn::SpawnOptions { name: Some(name.clone()), ..spawn::SpawnOptions::default() };
    let other = spawn::plan(&ctx(2), draft(), &named).expect("a plan");
    let other = spawn::execute(&ctx(2), other).expect("spawned").agent_id;
    spawn::execute(&later, plan).expect("spawned");
    let output = repo.agent(&["show", &name]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("error[agent-ambiguous]"), "{said}");
    assert!(said.contains(&id) && said.contains(&other), "{said}");
}

#[test]
fn the_command_line_is_held_to_the_rules_of_the_file() {
    let repo = TestRepo::with_commit();
    let secret = format!("ghp_{}", "a1B2".repeat(9));
    let said = refusal(&repo, TASK, &["--name", &secret]);
    assert!(said.starts_with("error[usage]") && !said.contains(&secret), "{said}");
    let long = repo.path().with_file_name("briefing");
    std::fs::write(&long, vec![b'x'; (1 << 20) + 1]).expect("written");
    let briefing = format!("--briefing=@{}", long.display());
    let task = repo.task_file(TASK);
    let output = repo.agent(&["run", &task, &briefing, "--", "true"]);
    assert!(describe(&output).contains("larger than 1 MiB"));
    let said = refusal(&repo, TASK, &["--jobs=0"]);
    assert!(said.contains("--jobs"), "{said}");
    let output = repo.agent(&["spawn", "/nonexist/tasks/x.toml"]);
    assert!(!describe(&output).contains("mkdir"), "{}", describe(&output));
    let output = repo.agent(&["spawn", "tasks/x.toml"]);
    assert!(
        describe(&output).contains("mkdir tasks && git add tasks/.gitkeep"),
        "{}",
        describe(&output)
    );
}

#[test]
fn of_several_tasks_the_failed_one_is_named() {
    let repo = TestRepo::with_commit();
    let good = repo.task_file(TASK);
    let bad = repo.path().with_file_name("silent.toml");
    std::fs::write(&bad, format!("{TASK}[setup]\nrun = ['exit 7']\n")).expect("written");
    let output = repo.agent(&["spawn", &good, bad.to_str().expect("UTF-8")]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("error[setup-failed]") && said.contains("silent.toml"), "{said}");
    assert!(!said.contains("caused by:"), "{said}");
}

#[test]
fn a_person_in_an_agents_worktree_runs_nothing_that_its_branch_says() {
    let repo = TestRepo::with_commit();
    repo.write(".config/git-agent.toml", "[bundle]\nrequired = false\n");
    repo.commit_all("settings");
    let first = repo.spawn();
    let (branch, path) = (text(&first, "branch"), worktree_of(&first));
    let planted = repo.path().with_file_name("planted");
    let settings = format!(
        "[setup]\nrun = [\"touch {0}\"]\n[hooks]\nafter_spawn = [\"touch {0}\"]\n[defaults]\ndeny = [\"src/lib.rs\"]\n",
        planted.display()
    );
    std::fs::write(path.join(".config/git-agent.toml"), settings).expect("written");
    git_in(&path, ["-c", "core.hooksPath=/dev/null", "commit", "-qam", "settings"]);
    let mut command = agent_command(&path);
    command.args(["spawn", "Go on with that work", "--name", "second"]);
    let mut screen = OnTerminal::of(command, 400, 30);
    let status = screen.child.wait().expect("ends");
    let said = screen.sent();
    assert!(status.success(), "{said}");
    assert!(said.contains(&format!("the new agent starts from {branch}")), "{said}");
    assert!(!planted.exists());
    let second = repo.agent_json(&["show", "second"]);
    assert_eq!(second["base"]["oid"], repo.git(["rev-parse", branch]), "{second}");
    assert!(!second["denylist"].to_string().contains("src/lib.rs"), "{second}");
    // Who names the branch trusts it.
    let task = repo.task_file(TASK);
    repo.agent_json(&["spawn", &task, "--base", branch]);
    assert!(planted.exists());
}
