use super::{Fenced, beside, bounds, bounds_from, level, shared_agent};
use crate::support::TestRepo;
use crate::support::agent::{TASK, agent_command, describe};
use crate::verify::Agent;
use git_agent::domain::life::sandbox::Mode;
use git_agent::error::Code;
use std::fs;
use std::path::Path;

/// The places of a fence, with what differs from run to run replaced.
fn places(agent: &Agent, mode: Mode, allow: &[&Path]) -> String {
    let bounds = bounds(agent, mode, allow).expect("a fence");
    let top = agent.repo.path().with_file_name("");
    let lines = bounds.fence.writable.iter().map(|path| {
        let inside = path.strip_prefix(&top).expect("beside the repository");
        let text = inside.to_str().expect("UTF-8");
        text.replace(&agent.id[..8], "<id8>") + "\n"
    });
    lines.chain(bounds.warnings).collect()
}

#[test]
fn an_agent_writes_its_own_places_alone() {
    let agent = Agent::of_task(TASK);
    insta::assert_snapshot!(places(&agent, Mode::Auto, &[]), @r"
    repo/.claude/worktrees/agent-<id8>
    repo/.git/agents/<id8>/run-repo
    repo/.git/agents/spool/<id8>
    repo/.git/worktrees/agent-<id8>/modules
    tmp
    ");
    insta::assert_snapshot!(places(&agent, Mode::Strict, &[]), @r"
    repo/.claude/worktrees/agent-<id8>/.agent
    repo/.claude/worktrees/agent-<id8>/src
    repo/.git/agents/<id8>/run-repo
    repo/.git/agents/spool/<id8>
    repo/.git/worktrees/agent-<id8>/modules
    tmp
    ");
    insta::assert_snapshot!(places(&shared_agent(), Mode::Auto, &[]), @r"
    repo/.agent/<id8>
    repo/.git/agents/spool/<id8>
    tmp
    ");
}

#[test]
fn strict_goes_as_far_as_the_literal_directories() {
    let check = |whitelist: &str, expected: &[&str]| {
        let task = TASK.replace("src/**", whitelist);
        let agent = Agent::of_task(&task);
        let found = bounds(&agent, Mode::Strict, &[]).expect("a fence");
        let found: Vec<_> = found
            .fence
            .writable
            .iter()
            .filter_map(|path| path.strip_prefix(&agent.worktree).ok()?.to_str())
            .filter(|path| *path != ".agent")
            .collect();
        assert_eq!(found, expected, "{whitelist}");
    };
    check("src/**", &["src"]);
    check("src/*.rs", &["src"]);
    check("src/bin/tool.rs", &["src/bin/tool.rs"]);
    check("src/bin/new.rs", &["src/bin"]);
    check("src/bin", &["src/bin"]);
    check("new/deep/**", &["new/deep"]);
    check("README.md/**", &[]);
    check("**/*.md", &[""]);
    check("{src,docs}/**", &["docs", "src"]);
}

#[test]
fn strict_holds() {
    let Some(fenced) = Fenced::new(Mode::Strict) else {
        return;
    };
    let output = fenced.shell(
        "echo '// one' >> src/lib.rs; echo x > src/new; echo x > .agent/plan.md
         git add src; git commit -qm one",
    );
    assert!(output.status.success(), "{}", describe(&output));
    for script in ["echo x >> README.md", "echo x > new", "rm .git", "git mv src/lib.rs lib.rs"] {
        let output = fenced.shell(script);
        assert!(!output.status.success(), "{script}: {}", describe(&output));
    }
    assert_eq!(fenced.agent.codes(), [""; 0]);
}

#[test]
fn strict_follows_no_symlink() {
    let repo = TestRepo::with_commit();
    std::os::unix::fs::symlink("/", repo.path().join("out")).expect("linked");
    repo.commit_all("a link");
    let agent = Agent::spawned_in(repo, &TASK.replace("src/**", "out/etc/**"));
    let error = bounds(&agent, Mode::Strict, &[]).expect_err("refused");
    assert_eq!(error.code(), Code::SandboxUnavailable);
    assert!(error.message().ends_with("/out is a symlink"), "{error}");
    assert!(bounds(&agent, Mode::Require, &[]).is_ok());
}

#[test]
fn further_places_are_opened() {
    let agent = Agent::of_task(TASK);
    let home = beside(&agent, "home");
    let cache = home.join(".cache");
    fs::create_dir(&cache).expect("made");
    let allowed = |allow: &[&Path]| {
        let found = bounds(&agent, Mode::Auto, allow).expect("a fence");
        (found.fence.writable.contains(&cache), found.warnings)
    };
    assert_eq!(allowed(&[]), (false, vec![]));
    assert_eq!(allowed(&[Path::new("~/.cache")]), (true, vec![]));
    let (_, warnings) = allowed(&[Path::new("/")]);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    let error = bounds(&agent, Mode::Auto, &[&home.join("none")]).expect_err("refused");
    assert_eq!(error.code(), Code::Usage);

    agent.repo.git(["config", "agent.run.allowWrite", "~/.cache"]);
    assert_eq!(allowed(&[]), (true, vec![]));
    agent.repo.git(["config", "agent.run.allowWrite", ".cache"]);
    let error = bounds(&agent, Mode::Auto, &[]).expect_err("refused");
    assert_eq!(error.code(), Code::Usage);
}

#[test]
fn an_agent_cannot_open_a_place_for_its_next_run() {
    let Some(fenced) = Fenced::new(Mode::Require) else {
        return;
    };
    let agent = &fenced.agent;
    let before = &fenced.bounds.fence.writable;
    let script = "git config --worktree agent.run.allowWrite \"$HOME\"";
    assert!(fenced.shell(script).status.success());
    let script = "echo \"$HOME/.git\" > \"$(git rev-parse --git-dir)/gitdir\"";
    assert!(fenced.shell(script).status.success());
    fenced.finish();
    let after = bounds_from(&agent.worktree, agent, Mode::Require, &[]).expect("a fence");
    assert_eq!(&after.fence.writable, before);
    fs::write(agent.worktree.join(".git"), "gitdir: /nowhere\n").expect("written");
    let error = bounds(agent, Mode::Require, &[]).expect_err("refused");
    assert_eq!(error.code(), Code::WorktreeForeign);
}

#[test]
fn a_branch_beside_all_others_can_be_committed_on_and_no_other() {
    let Some(_) = level() else {
        return;
    };
    let repo = TestRepo::with_commit();
    let report = repo.spawn_task(TASK, &["--branch", "lonely"]);
    let agent = Agent::told_of(repo, &report);
    let fenced = Fenced::around(agent, Mode::Auto).expect("a fence");
    assert_eq!(fenced.bounds.warnings, [""; 0]);
    let main = fenced.agent.repo.git(["rev-parse", "main"]);
    let script =
        "git commit -q --allow-empty -m one; git -c core.hooksPath=/dev/null branch -f main";
    assert!(!fenced.shell(script).status.success(), "main is a link out of its reach");
    fenced.finish();
    assert_eq!(fenced.agent.repo.git(["rev-parse", "main"]), main);
    assert_eq!(fenced.agent.repo.git(["log", "-1", "--format=%s", "lonely"]), "one");
}

#[test]
fn a_command_finds_the_users_caches_and_changes_only_its_own() {
    let repo = TestRepo::with_commit();
    let probe = repo.agent(&["spawn", "probe it", "--layered=on", "--dry-run"]);
    if !probe.status.success() {
        // Nothing can be mounted over a cache here.
        return;
    }
    let home = repo.path().with_file_name("home");
    for name in [".npm/seed", ".cargo/registry/seed"] {
        let path = home.join(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(path, "seed\n").expect("written");
    }
    let run = |name: &str| {
        let script = "cd src; cat \"$npm_config_cache/seed\" ~/.cargo/registry/seed; \
             echo own | tee \"$npm_config_cache/seed\" ~/.cargo/registry/seed >~/.cargo/registry/new";
        let output = agent_command(&repo.path())
            .env("HOME", &home)
            .args(["run", name, "--sandbox=require", "--no-verify", "--", "sh", "-c", script])
            .output()
            .expect("starts");
        assert!(output.status.success(), "{}", describe(&output));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    for name in ["first", "second"] {
        repo.agent_json(&["spawn", "install it", "--name", name]);
        assert_eq!(run(name), "seed\nseed\n", "{name} begins with the user's");
        assert_eq!(run(name), "own\nown\n", "{name} goes on with its own");
    }
    for name in [".npm/seed", ".cargo/registry/seed"] {
        let text = fs::read_to_string(home.join(name)).expect("read");
        assert_eq!(text, "seed\n", "{name} of the user");
    }
    assert!(!home.join(".cargo/registry/new").exists());
    let first = repo.agent_json(&["show", "first"])["short_id"].clone();
    let first = first.as_str().expect("an id");
    let kept = repo.path().join(format!(".git/agents/{first}/caches"));
    for cache in ["npm_config_cache", "CARGO_HOME"] {
        // An ordinary user could not read what a mount leaves here, and a copy of the repository would end there.
        let left = fs::read_dir(kept.join(cache).join("work")).expect("read");
        assert_eq!(left.count(), 0, "{cache}");
    }
    repo.agent_json(&["discard", "first"]);
    assert!(!kept.exists());
}
