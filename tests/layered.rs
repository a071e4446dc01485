//! Layered worktrees: the same life as in a copied one, and nothing of an agent in what agents share.

mod index;
mod life;
mod lost;

use crate::support::agent::{TASK, describe};
use crate::support::death::{self, Order, ctx};
use crate::support::{PAST_HOOKS, TestRepo, git_output, isolated};
use git_agent::ops::discard::{self, DiscardOptions};
use git_agent::ops::materialize;
use rustix::fs::{CWD, FileType, Mode, XattrFlags, lsetxattr, mknodat};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Settings with which a bundle is not asked for, so that a life is what the agent did.
const SETTINGS: &str = "[bundle]\nrequired = false\n";

/// A repository with directories, links, rules and ignored files.
fn repo(settings: &str) -> TestRepo {
    let repo = TestRepo::with_commit();
    repo.write(".config/git-agent.toml", format!("{SETTINGS}{settings}"));
    repo.write(".gitignore", "*.out\nbuilt/\n");
    repo.write("lib/.gitignore", "*.tmp\n");
    for name in ["a", "b", "c", "d"] {
        repo.write(&format!("lib/{name}.txt"), format!("{name}\n"));
        repo.write(&format!("lib/deep/{name}.txt"), format!("deep {name}\n"));
        repo.write(&format!("docs/{name}.md"), format!("# {name}\n"));
    }
    std::os::unix::fs::symlink("lib/a.txt", repo.path().join("link")).expect("linked");
    repo.commit_all("more");
    repo
}

/// Spawns an agent for anything, layered or not; `None` where the kernel of this machine has no layered worktrees.
fn spawn(repo: &TestRepo, layered: bool) -> Option<Value> {
    let how = if layered { "--layered" } else { "--layered=off" };
    let words = ["spawn", how, "Change what there is", "--scope", "**", "--format", "json"];
    let output = repo.agent(&words);
    let said = describe(&output);
    if layered && said.contains("[sandbox-unavailable]") {
        assert!(said.contains("no layered worktree can be had here: "), "{said}");
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some(serde_json::from_slice(&output.stdout).expect("JSON"))
}

fn id(spawned: &Value) -> &str {
    spawned["short_id"].as_str().expect("an id")
}

fn layer(repo: &TestRepo, spawned: &Value) -> PathBuf {
    let agent = repo.path().join(".git/agents").join(id(spawned));
    agent.join("layer")
}

/// Runs a shell script as the agent's command; gives what it printed.
fn run(repo: &TestRepo, spawned: &Value, script: &str) -> String {
    let output = repo.agent(&["run", id(spawned), "--no-verify", "--", "sh", "-c", script]);
    assert!(output.status.success(), "{}\n{script}", describe(&output));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// What git in the worktree would commit, told by git itself inside of it.
const ORACLE: &str = "cp \"$(git rev-parse --git-dir)/index\" \"$TMPDIR/index\"; \
    GIT_INDEX_FILE=\"$TMPDIR/index\" git add -A . >&2 && echo tree=$(GIT_INDEX_FILE=\"$TMPDIR/index\" git write-tree)";

fn oracle(printed: &str) -> &str {
    let line = printed.lines().find_map(|line| line.strip_prefix("tree="));
    line.unwrap_or_else(|| panic!("no tree in {printed}"))
}

/// What commands say of an agent's work, without what differs between any two agents.
fn answers(repo: &TestRepo, spawned: &Value) -> Value {
    let verdict = repo.agent(&["verify", id(spawned), "--format", "json"]);
    let verdict: Value = serde_json::from_slice(&verdict.stdout).expect("a verdict");
    // Their texts name the agent.
    let findings = verdict["findings"].as_array().expect("findings").iter();
    let findings: Vec<Value> = findings.map(|one| json!([one["code"], one["paths"]])).collect();
    let diff = repo.agent_json(&["diff", id(spawned)]);
    let listed = repo.agent_json(&["list"]);
    let row = listed["agents"].as_array().expect("rows").iter();
    let row = row.clone().find(|row| row["short_id"] == spawned["short_id"]);
    let row = row.expect("its row");
    let facts = ["state", "scope", "ahead", "behind", "uncommitted", "bundle", "isolation"];
    let facts: Vec<&Value> = facts.iter().map(|fact| &row[*fact]).collect();
    json!({
        "changes": diff["changes"],
        "verdict": verdict["verdict"],
        "findings": findings,
        "facts": facts,
    })
}

#[test]
fn a_whole_life_in_a_layer_leaves_the_base_as_it_was() {
    let repo =
        repo("[setup]\nrun = [\"mkdir built; echo made > built/tool; echo made > made.out\"]\n");
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    assert_eq!((&spawned["layered"], &spawned["isolation"]), (&json!(true), &json!("worktree")));
    let place = PathBuf::from(spawned["worktree_abspath"].as_str().expect("a path"));
    let names: Vec<_> = fs::read_dir(&place)
        .expect("listed")
        .map(|entry| entry.expect("read").file_name())
        .collect();
    assert_eq!(names, [".git"]);
    let pool = repo.agent_json(&["pool", "status"]);
    let base = pool["bases"][0].clone();
    assert_eq!(base["agents"], json!([id(&spawned)]));
    // No index is copied for it, which would weigh more than its work: it has the base's own until git writes another one.
    let frozen = repo.path().join(".git/agents/bases");
    let frozen = frozen.join(base["name"].as_str().expect("a name")).join("index");
    let admin = repo.path().join(".git/worktrees").join(format!("agent-{}", id(&spawned)));
    let inode = |path: &Path| fs::metadata(path).expect("there").ino();
    assert_eq!(inode(&admin.join("index")), inode(&frozen));
    let index = fs::read(&frozen).expect("read");
    let seen = place.with_file_name(base["name"].as_str().expect("a name"));
    let base = PathBuf::from(base["worktree_abspath"].as_str().expect("a path"));
    let before = crate::support::snapshot(&base);

    // What set-up made is there, nothing was changed, and the path where the base was set up shows the agent's files.
    let script = format!(
        "test -z \"$(git status --porcelain)\" && cat built/tool made.out && echo changed > lib/a.txt && cat '{}/lib/a.txt' \
         && rm lib/b.txt && echo new > lib/new.txt && rm -r docs && echo gone > built/tool && git add -A",
        seen.display()
    );
    assert_eq!(run(&repo, &spawned, &script), "made\nmade\nchanged\n");
    assert_eq!(crate::support::snapshot(&base), before);
    assert_eq!(fs::read(&frozen).expect("read"), index);
    assert_ne!(inode(&admin.join("index")), inode(&frozen));
    let mounts = fs::read_to_string("/proc/self/mounts").expect("read");
    assert!(!mounts.contains(&place.display().to_string()), "{mounts}");

    // It lands as any work does.
    let merged = repo.agent_json(&["merge", id(&spawned)]);
    assert_eq!(merged["short_id"], spawned["short_id"]);
    assert_eq!(
        repo.git(["ls-tree", "-r", "--name-only", "HEAD", "lib"]),
        "lib/.gitignore\nlib/a.txt\nlib/c.txt\nlib/d.txt\nlib/deep/a.txt\nlib/deep/b.txt\nlib/deep/c.txt\nlib/deep/d.txt\nlib/new.txt"
    );
    assert_eq!(repo.git(["ls-tree", "-r", "HEAD", "docs"]), "");
    assert_eq!(repo.git(["status", "--porcelain"]), "");

    // A second agent shares the base, and what is uncommitted in it is kept when it goes.
    let first_tree = repo.git(["rev-parse", "HEAD~1"]);
    let second = repo.agent_json(&[
        "spawn",
        "--layered",
        "--base",
        &first_tree,
        "Change more of it",
        "--scope",
        "**",
    ]);
    run(&repo, &second, "echo kept > kept.txt; echo ignored > x.out");
    let gone = repo.agent_json(&["discard", id(&second)]);
    assert_eq!(gone["ignored"], json!(["x.out"]), "{gone}");
    repo.agent_json(&["rescue", id(&second), "--branch", "rescued"]);
    assert_eq!(repo.git(["show", "rescued:kept.txt"]), "kept");
    repo.agent_json(&["discard", id(&spawned)]);
    assert!(!layer(&repo, &spawned).exists() && !layer(&repo, &second).exists());

    // Without agents the bases go.
    let swept = repo.agent_json(&["gc", "--yes"]);
    assert!(!swept["bases"].as_array().expect("bases").is_empty(), "{swept}");
    assert!(!base.exists());
    assert_eq!(repo.agent_json(&["pool", "status"])["bases"], Value::Null);
    repo.git(["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn neither_base_nor_upper_directory_can_be_reached_but_through_the_mount() {
    let repo = repo("");
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    let pool = repo.agent_json(&["pool", "status"]);
    let base = pool["bases"][0]["worktree_abspath"].as_str().expect("a path").to_owned();
    let before = crate::support::snapshot(Path::new(&base));
    let modified =
        fs::metadata(format!("{base}/lib/c.txt")).expect("there").modified().expect("a time");
    let layer = layer(&repo, &spawned);
    let printed = run(
        &repo,
        &spawned,
        &format!(
            "chmod 777 {base}/lib/c.txt; touch -d 2001-01-01 {base}/lib/c.txt; echo x > {base}/lib/d.txt; \
             ls {layer} 2>/dev/null && echo reached; echo x 2>/dev/null > {layer}/upper/x && echo written; \
             umount {base} 2>/dev/null && echo unmounted; mknod {base}/null c 0 0 2>/dev/null && echo made; true",
            layer = layer.display()
        ),
    );
    assert_eq!(printed, "");
    assert_eq!(crate::support::snapshot(Path::new(&base)), before);
    let now = fs::metadata(format!("{base}/lib/c.txt")).expect("there");
    assert_eq!(now.modified().expect("a time"), modified);
}

#[test]
fn what_no_mount_leaves_is_refused_and_loses_nothing() {
    let repo = repo("");
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    run(&repo, &spawned, "echo changed > lib/a.txt; rm lib/b.txt");
    let upper = layer(&repo, &spawned).join("upper");
    let refused = |what: &str| {
        let output = repo.agent(&["diff", id(&spawned)]);
        let said = describe(&output);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("error[layer-invalid]") && said.contains(what), "{said}");
    };
    for name in ["user.overlay.redirect", "user.overlay.metacopy", "user.overlay.whiteout"] {
        let lib = upper.join("lib");
        lsetxattr(&lib, name, b"/docs", XattrFlags::empty()).expect("set");
        refused(name);
        rustix::fs::lremovexattr(&lib, name).expect("removed");
    }
    lsetxattr(upper.join("lib"), "user.overlay.opaque", b"x", XattrFlags::empty()).expect("set");
    refused("opaque");
    rustix::fs::lremovexattr(upper.join("lib"), "user.overlay.opaque").expect("removed");
    assert!(repo.agent(&["diff", id(&spawned)]).status.success());
    // Root can make a device.
    let device = rustix::fs::makedev(1, 3);
    if mknodat(CWD, upper.join("lib/null"), FileType::CharacterDevice, Mode::RWXU, device).is_ok() {
        refused("is a device");
        // A discard keeps what can be kept all the same.
        repo.agent_json(&["discard", id(&spawned)]);
        repo.agent_json(&["rescue", id(&spawned), "--branch", "rescued"]);
        assert_eq!(repo.git(["show", "rescued:lib/a.txt"]), "changed");
    }
}

#[test]
fn names_that_no_program_makes_by_accident_do_no_harm() {
    let repo = repo("");
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    let outside = repo.path().join("outside.txt");
    fs::write(&outside, "a person's\n").expect("written");
    let script = format!(
        "mkfifo pipe lib/pipe; ln -s {0} lib/link.txt; rm lib/a.txt && ln -s {0} lib/a.txt; rm -r docs && ln -s ../.. docs; \
         rm -rf lib/deep && mkfifo lib/deep; echo x > \"$(printf 'new\\nline')\"; echo x > .wh.b; mkdir -p sub/.git/objects; ln lib/b.txt hard; rm -f .git 2>&- || true",
        outside.display()
    );
    run(&repo, &spawned, &script);
    let upper = layer(&repo, &spawned).join("upper");
    // What a kill or another program could leave: a deletion of the way to git, and of what was never there.
    for name in [".git", "sub/gone"] {
        let place = upper.join(name);
        let _ = fs::remove_file(&place);
        mknodat(CWD, &place, FileType::CharacterDevice, Mode::empty(), 0).expect("made");
    }
    let changes = repo.agent_json(&["diff", id(&spawned)])["changes"].clone();
    let paths: Vec<&Value> =
        changes.as_array().expect("changes").iter().map(|one| &one["path"]).collect();
    for path in ["lib/a.txt", "lib/link.txt", "docs", "hard", ".wh.b", "new\nline"] {
        assert!(paths.contains(&&json!(path)), "{path} in {changes:#}");
    }
    // Links that lead out are out of scope, and that is the only thing to say of them.
    let verdict = repo.agent(&["verify", id(&spawned)]);
    assert_eq!(verdict.status.code(), Some(1), "{}", describe(&verdict));
    repo.agent_json(&["list"]);
    repo.agent_json(&["discard", id(&spawned)]);
    repo.agent_json(&["rescue", id(&spawned), "--branch", "rescued"]);
    // Links are kept as links, and nothing was read or written through one.
    let kept = repo.git(["ls-tree", "-r", "rescued", "lib/a.txt", "docs"]);
    assert_eq!(kept.matches("120000 blob").count(), 2, "{kept}");
    assert_eq!(fs::read_to_string(&outside).expect("there"), "a person's\n");
    repo.git(["fsck", "--strict", "--no-dangling"]);
}

#[test]
fn what_appears_outside_of_the_mount_is_no_work_and_is_kept() {
    let repo = repo("");
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    let place = spawned["worktree_abspath"].as_str().expect("a path");
    let unfenced = repo.agent(&["run", id(&spawned), "--sandbox=off", "--", "true"]);
    let said = describe(&unfenced);
    assert!(said.contains("error[sandbox-unavailable]"), "{said}");
    assert!(said.contains("git agent materialize "), "{said}");
    assert!(describe(&repo.agent(&["path", id(&spawned)])).contains("layered"));
    // It is not removed unread.
    let stray = Path::new(place).join("stray");
    fs::set_permissions(place, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("changed");
    fs::write(&stray, "a person's").expect("written");
    assert!(describe(&repo.agent(&["doctor"])).contains("worktrees.outside-mount"));
    let output = repo.agent(&["discard", id(&spawned)]);
    assert!(describe(&output).contains("error[discard-refused]"));
    assert_eq!(fs::read_to_string(&stray).expect("there"), "a person's");
}

#[test]
fn what_is_out_of_scope_is_taken_back_inside_the_mount() {
    let repo = repo("");
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    run(&repo, &spawned, "echo '* text' > .gitattributes; echo more >> lib/a.txt");
    let checked = repo.agent(&["check", id(&spawned), "--worktree", "--format=json"]);
    let checked: Value = serde_json::from_slice(&checked.stdout).expect("JSON");
    let fix = checked["violations"][0]["fix"].as_str().expect("advice").to_owned();
    let words = fix.strip_prefix("git agent ").expect("a command of ours");
    let script = format!("exec {} {words}", env!("CARGO_BIN_EXE_git-agent"));
    let output = isolated("sh", &repo.path()).args(["-c", &script]).output().expect("starts");
    assert!(output.status.success(), "{fix}: {}", describe(&output));
    let changed = &repo.agent_json(&["diff", id(&spawned)])["changes"];
    assert_eq!(changed.as_array().expect("a list").len(), 1, "{changed:#}");
}

#[test]
fn a_run_makes_its_agent_layered_where_that_is_asked_for() {
    let repo = repo("");
    if spawn(&repo, true).is_none() {
        return;
    }
    let script = "echo new > lib/new.txt";
    for (option, layered) in [("--layered", true), ("--layered=off", false)] {
        let name = if layered { "shared" } else { "copied" };
        let words = ["run", "add a file", option, "--name", name, "--", "sh", "-c", script];
        let output = repo.agent(&words);
        assert!(output.status.success(), "{}", describe(&output));
        let shown = repo.agent_json(&["show", name]);
        assert_eq!(shown.get("layered"), layered.then_some(&json!(true)));
        assert_eq!(shown["diff"]["files"], 1, "{shown:#}");
    }
}

#[test]
fn several_runs_at_once_are_layered_unless_something_else_is_said() {
    if spawn(&repo(""), true).is_none() {
        return;
    }
    let tasks = ["Change one thing", "Change another thing"];
    let several = [&["--jobs=2"], &tasks[..]].concat();
    let off = "[worktree]\nlayered = \"off\"\n";
    for (settings, options, layered) in [
        ("", several.clone(), true),
        ("", vec!["--best-of=2", tasks[0]], true),
        ("", vec!["--jobs=2", tasks[0]], false),
        (off, several.clone(), false),
        ("", [&["--layered=off"], &several[..]].concat(), false),
        // No other sandbox can mount them.
        ("", [&["--sandbox=off"], &several[..]].concat(), false),
    ] {
        let repo = repo(settings);
        let command = "echo new > new.txt";
        let command = ["--scope=**", "--format=json", "--", "sh", "-c", command];
        let words = [&["run"], &options[..], &command].concat();
        let output = repo.agent(&words);
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(report["failed"], 0, "{}", describe(&output));
        let listed = repo.agent_json(&["list"]);
        let rows = listed["agents"].as_array().expect("rows");
        assert_eq!(rows.len(), report["items"].as_array().expect("items").len());
        for row in rows {
            assert_eq!(row["layered"] == true, layered, "{words:?} {row:#}");
        }
        let first = rows[0]["short_id"].as_str().expect("an id");
        repo.agent_json(&["merge", first]);
        assert_eq!(repo.git(["show", "HEAD:new.txt"]), "new");
    }
}

#[test]
fn directories_that_nest_very_deep_are_judged_alike() {
    let repo = repo("");
    let Some(layered) = spawn(&repo, true) else { return };
    let copied = spawn(&repo, false).expect("an agent");
    // Deeper than our own writer of trees goes.
    let deep = "i=0; while test $i -lt 300; do mkdir d && cd d; i=$((i+1)); done; echo deep >f; cd \"$OLDPWD\"";
    let script = format!("top=$PWD; {deep}; cd \"$top\"; git add -A; git commit -qm deep");
    for spawned in [&layered, &copied] {
        run(&repo, spawned, &script);
    }
    let judged = answers(&repo, &layered);
    assert_eq!(judged["verdict"], "accept", "{judged}");
    assert_eq!(judged, answers(&repo, &copied));
}

#[test]
fn materializing_gives_the_same_files_in_their_place() {
    let repo = repo("[setup]\nrun = [\"mkdir built; echo made > built/tool\"]\n");
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    let script = "echo changed > lib/a.txt; rm -r docs; mkdir docs; echo new > docs/new.md; rm -r lib/deep; echo file > lib/deep; \
                  rm link; echo no > built/tool; echo y > y.out; git add lib/a.txt";
    run(&repo, &spawned, script);
    // Modes and contents of everything, as the agent sees it.
    const LIST: &str =
        "find . -path ./.git -prune -o -type f -printf '%P %m ' -exec sha256sum {} ';' | sort";
    let inside = run(&repo, &spawned, LIST);
    let before = answers(&repo, &spawned);
    repo.agent_json(&["materialize", id(&spawned)]);
    let place = spawned["worktree_abspath"].as_str().expect("a path");
    let outside = std::process::Command::new("sh")
        .args(["-c", LIST])
        .current_dir(place)
        .output()
        .expect("run");
    assert_eq!(String::from_utf8(outside.stdout).expect("UTF-8"), inside);
    assert_eq!(answers(&repo, &spawned), before);
    assert!(!layer(&repo, &spawned).exists());
    let again = repo.agent(&["materialize", id(&spawned)]);
    assert!(describe(&again).contains("error[agent-state]"));
    // An ordinary worktree in all that follows.
    let staged = git_output(
        Path::new(place),
        [&PAST_HOOKS[..], &["diff", "--cached", "--name-only"]].concat(),
    );
    assert_eq!(String::from_utf8_lossy(&staged.stdout), "lib/a.txt\n");
    run(&repo, &spawned, "cat lib/a.txt docs/new.md");
}

#[test]
fn materializing_leaves_unchanged_what_git_took_for_that_under_other_attributes() {
    let repo = repo("");
    repo.write("docs/e.crlf", "e\r\n");
    repo.commit_all("a file with other line ends");
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    run(&repo, &spawned, "echo '*.crlf text' > .gitattributes; git add .gitattributes");
    // Git looks into a file that was written in the same second as the index.
    let admin = repo.path().join(format!(".git/worktrees/agent-{}", id(&spawned)));
    let index = fs::File::options().write(true).open(admin.join("index")).expect("an index");
    index.set_modified(SystemTime::now() + Duration::from_secs(60)).expect("dated");
    let before = answers(&repo, &spawned);
    assert_eq!(before["changes"].as_array().map(Vec::len), Some(1), "{before:#}");
    repo.agent_json(&["materialize", id(&spawned)]);
    assert_eq!(answers(&repo, &spawned), before);
    let place = spawned["worktree_abspath"].as_str().expect("a path");
    let status = git_output(Path::new(place), [&PAST_HOOKS[..], &["status", "--short"]].concat());
    assert_eq!(String::from_utf8_lossy(&status.stdout), "A  .gitattributes\n");
}

/// Not a test: the process that dies while it makes an ordinary worktree. It does nothing unless a step is named.
#[test]
fn child() {
    if let Some(order) = Order::received() {
        let ctx = ctx(&order.directory, order.dying());
        materialize::materialize(&ctx, &order.words[0]).expect("materialized");
    }
}

#[test]
fn whatever_a_kill_leaves_of_a_spawn_is_swept_and_the_next_one_succeeds() {
    let settings = "[worktree]\nlayered = \"on\"\n[setup]\nrun = [\"echo made > made.out\"]\n";
    if spawn(&repo(""), true).is_none() {
        return;
    }
    let steps = [
        "slot-ready",
        "base-begun",
        "base-recorded",
        "base-unlinked",
        "base-frozen",
        "slot-emptied",
        "journal",
        "metadata",
        "layer-filled",
        "layered",
        "files",
        "locked",
    ];
    for step in steps {
        let repo = repo(settings);
        death::die_at("kill::child", &repo.path(), step, &[TASK]);
        let spawned = spawn(&repo, true).expect("an agent");
        assert_eq!(
            run(&repo, &spawned, "cat made.out lib/a.txt; git status --porcelain"),
            "made\na\n",
            "after {step}"
        );
        repo.agent_json(&["discard", id(&spawned)]);
        repo.agent_json(&["gc", "--yes"]);
        let left: Vec<PathBuf> = ["worktrees", "agents/bases", "agents/tmp", "agents/pool"]
            .iter()
            .map(|name| repo.path().join(".git").join(name))
            .chain([repo.path().join(".claude/worktrees")])
            .flat_map(|place| fs::read_dir(place).into_iter().flatten())
            .map(|entry| entry.expect("readable").path())
            .collect();
        assert_eq!(left, [] as [PathBuf; 0], "after {step}");
        assert_eq!(repo.git(["branch", "--list", "agent/*"]), "", "after {step}");
        repo.git(["fsck", "--strict", "--no-dangling"]);
    }
}

#[test]
fn a_kill_while_a_worktree_becomes_an_ordinary_one_loses_nothing() {
    for step in ["gathered", "noted", "exchanged", "ordinary"] {
        let repo = repo("");
        let Some(spawned) = spawn(&repo, true) else {
            return;
        };
        run(&repo, &spawned, "echo changed > lib/a.txt; rm lib/b.txt; echo new > new.txt");
        let before = answers(&repo, &spawned);
        death::die_at("layered::child", &repo.path(), step, &[id(&spawned)]);
        assert_eq!(answers(&repo, &spawned), before, "after {step}");
        // A run in between ends it first: what it writes does not go with the layer.
        run(&repo, &spawned, "echo later > lib/c.txt");
        let before = answers(&repo, &spawned);
        let again = repo.agent(&["materialize", id(&spawned)]);
        let is_over = matches!(step, "exchanged" | "ordinary");
        assert_eq!(again.status.success(), !is_over, "after {step}: {}", describe(&again));
        assert_eq!(answers(&repo, &spawned), before, "after {step}");
        let place = Path::new(spawned["worktree_abspath"].as_str().expect("a path"));
        assert_eq!(fs::read_to_string(place.join("lib/a.txt")).expect("there"), "changed\n");
        assert_eq!(fs::read_to_string(place.join("lib/c.txt")).expect("there"), "later\n");
        assert!(!place.join("lib/b.txt").exists());
        assert_eq!(places(&repo, '.'), [""; 0], "after {step}");
    }
}

/// The names that begin so where worktrees are made.
fn places(repo: &TestRepo, begin: char) -> Vec<String> {
    let places = fs::read_dir(repo.path().join(".claude/worktrees")).expect("listed");
    let names = places.map(|entry| entry.expect("read").file_name().into_string().expect("UTF-8"));
    names.filter(|name| name.starts_with(begin)).collect()
}

#[test]
fn an_agent_whose_materialize_was_killed_can_be_discarded_and_rescued() {
    for step in ["gathered", "noted", "exchanged", "ordinary"] {
        let repo = repo("");
        let Some(spawned) = spawn(&repo, true) else {
            return;
        };
        run(&repo, &spawned, "echo changed > lib/a.txt");
        death::die_at("layered::child", &repo.path(), step, &[id(&spawned)]);
        let doctor = describe(&repo.agent(&["doctor"]));
        assert!(!doctor.contains("worktrees."), "after {step}: {doctor}");
        repo.agent_json(&["discard", id(&spawned)]);
        repo.agent_json(&["rescue", id(&spawned), "--branch", "rescued"]);
        assert_eq!(repo.git(["show", "rescued:lib/a.txt"]), "changed");
        assert_eq!([places(&repo, '.'), places(&repo, 'a')].concat(), [""; 0], "after {step}");
    }
}

#[test]
fn what_a_killed_materialize_left_is_removed_by_doctor() {
    for step in ["gathered", "noted", "exchanged", "ordinary"] {
        let repo = repo("");
        let Some(spawned) = spawn(&repo, true) else {
            return;
        };
        run(&repo, &spawned, "echo changed > lib/a.txt");
        death::die_at("layered::child", &repo.path(), step, &[id(&spawned)]);
        let before = answers(&repo, &spawned);
        let doctor = describe(&repo.agent(&["doctor", "--fix"]));
        assert!(doctor.contains("debris.old"), "after {step}: {doctor}");
        assert_eq!(places(&repo, '.'), [""; 0], "after {step}");
        let is_over = matches!(step, "exchanged" | "ordinary");
        assert_eq!(layer(&repo, &spawned).exists(), !is_over, "after {step}");
        assert_eq!(answers(&repo, &spawned), before, "after {step}");
    }
}

/// What stands still is read once; what a process in the upper directory writes meanwhile is kept as it is in the end.
#[test]
fn what_is_written_while_a_layered_agent_is_discarded_is_kept() {
    for step in ["aside", "kept", "salvaged", ""] {
        let repo = repo("");
        let Some(spawned) = spawn(&repo, true) else {
            return;
        };
        run(&repo, &spawned, "echo changed > lib/a.txt; rm lib/b.txt");
        let late = layer(&repo, &spawned).join("upper/lib/a.txt");
        let writes = step.to_owned();
        let reached = move |name: &str| {
            if name == writes {
                // Of the same length.
                fs::write(&late, "CHANGED\n").expect("written");
            }
        };
        let ctx = ctx(&repo.path(), Arc::new(reached));
        let plan = discard::plan(&ctx, id(&spawned), DiscardOptions::default()).expect("a plan");
        discard::execute(&ctx, plan).expect("discarded");
        repo.agent_json(&["rescue", id(&spawned), "--branch", "rescued"]);
        let kept = repo.git(["show", "rescued:lib/a.txt"]);
        let expected = if step.is_empty() { "changed" } else { "CHANGED" };
        assert_eq!(kept, expected, "after {step}");
        assert_eq!(repo.git(["ls-tree", "rescued", "lib/b.txt"]), "");
    }
}

#[test]
fn auto_copies_where_none_can_be_had_and_says_why() {
    let repo =
        repo("[worktree]\nlayered = \"auto\"\n[setup]\nrun = [\"echo made > not-ignored\"]\n");
    let spawned = repo.spawn_task(TASK, &[]);
    assert_eq!(spawned["layered"], Value::Null);
    let warnings = spawned["warnings"].to_string();
    assert!(warnings.contains("the worktree is not layered: "), "{warnings}");
    let place = spawned["worktree_abspath"].as_str().expect("a path");
    assert!(Path::new(place).join("src/lib.rs").is_file());
    let output = repo.agent(&["spawn", "--layered=on", "Change it", "--scope", "src/**"]);
    assert!(describe(&output).contains("error[sandbox-unavailable]"), "{}", describe(&output));
}
