//! The crate's page lists everything we write; a real run writes exactly that.

use crate::support::TestRepo;
use crate::support::agent::{SHARED_TASK, TASK, describe};
use crate::support::terminal::OnTerminal;
use std::collections::BTreeSet;
use std::path::Path;
use walkdir::WalkDir;

/// Entries that a plain spawn does not leave behind.
const NOT_ALWAYS: &[&str] = &[
    "refs/heads/rescued/<slug>",
    "agents/tickets/<file>",
    "config.worktree",
    "agents/claims/<file>",
    "agents/pool.lock",
    "agents/pool/<file>",
    "worktrees/warm-<random>/<file>",
    "<root>/.claude/worktrees/warm-<random>/<file>",
    "agents/base.lock",
    "agents/base-taking.lock",
    "agents/bases/warm-<random>/<file>",
    "agents/<id8>/layer/<file>",
    "agents/<id8>/caches/<variable>/<file>",
    "agents/closed",
    "agents/own-lines",
    "agents/branches",
    "agents/clones/<file>",
    "agents/<id8>/run-repo.state",
    "agents/<id8>/clone.lock",
    "agents/<id8>/discarding",
    "agents/<id8>/landing",
    "agents/<id8>/large/",
    "agents/<id8>/modules/<n>/",
    "agents/<id8>/clone.git.<file>",
    "agents/landing.lock",
    "agents/landing-turn.lock",
    "agents/locks/<file>",
    "agents/spawning/<id8>",
    "agents/tmp/<file>",
    "agents/trash/<file>",
    "agents/cache/<file>",
    "agents/facts.key",
    "agents/<id8>/verify.lock",
    "agents/<id8>/agent-type",
    "agents/<id8>/called",
    "agents/<id8>/at-work/<file>",
    "agents/<id8>/run-prompt.md",
    "agents/<id8>/sessions/<file>",
    "agents/<id8>/handed-out",
    "agents/<id8>/host-made",
    "agents/<id8>/answers/<file>",
    "agents/spool/<id8>/<file>",
    "<tmp>/git-agent-tmp-<purpose>-<random>/<file>",
    "agents/<id8>/run-repo/<file>",
    "agents/<id8>/run-repo.pointer",
    "agents/<id8>/run-repo.git/<file>",
    "agents/<id8>/run-repo.tip",
    "agents/<id8>/behind",
    "agents/<id8>/posting/<file>",
    "agents/<id8>/posting.lock",
    "<root>/.claude/worktrees/.agent-<id8>.leaving/<file>",
    "worktrees/verify-<id8>/<file>",
    "<root>/.claude/worktrees/verify-<id8>/<file>",
];

/// The first column of the table "What we write".
fn listed() -> Vec<String> {
    let page = include_str!("../src/lib.rs");
    let table = page.split("# What we write").nth(1).expect("the section");
    let rows = table.lines().filter_map(|line| line.strip_prefix("//! | `")?.split('`').next());
    let listed: Vec<_> = rows.map(str::to_owned).collect();
    assert!(listed.len() > 10, "the table was found");
    listed
}

/// Whether a path is one that a listed pattern stands for.
fn matches(pattern: &str, path: &str) -> bool {
    let glob = pattern
        .replace("<slug>-<time>-<id8>", "*")
        .replace("<id8>", "[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f]")
        .replace("<variable>", "*")
        .replace("<remote>", "*")
        .replace("<file>", "**")
        .replace("<object>", "**")
        .replace("<root>", "root");
    globset::GlobBuilder::new(&glob)
        .literal_separator(true)
        .build()
        .expect("a glob")
        .compile_matcher()
        .is_match(path)
}

fn files(directory: &Path, prefix: &str) -> BTreeSet<String> {
    WalkDir::new(directory)
        .into_iter()
        // The kernel's own directory in a view of a cache is closed to all but root.
        .flatten()
        .filter(|entry| !entry.file_type().is_dir())
        .map(|entry| {
            let path = entry.path().strip_prefix(directory).expect("below");
            format!("{prefix}{}", path.display())
        })
        .collect()
}

/// Every file below the root; those of the common dir without their prefix.
fn everything(repo: &TestRepo) -> BTreeSet<String> {
    files(&repo.path(), "root/")
        .into_iter()
        .map(|path| match path.strip_prefix("root/.git/") {
            Some(inside) => inside.to_owned(),
            None => path,
        })
        .collect()
}

#[test]
fn a_real_run_writes_what_the_crate_page_lists() {
    let repo = TestRepo::with_commit();
    repo.write(".config/git-agent.toml", "[lease]\nSLOT = \"number\"\n[limits]\njobs = 1\n");
    repo.write("package.json", r#"{"devDependencies": {"jest": "29"}}"#);
    repo.write("Cargo.toml", "[workspace]\n");
    repo.commit_all("settings");
    let before = everything(&repo);
    let agent = repo.spawn();
    let id = agent["agent_id"].as_str().expect("an id");
    let run = repo.agent(&["run", id, "--no-verify", "--", "true"]);
    assert!(run.status.success(), "{}", describe(&run));
    let beside = repo.path().with_file_name("beside");
    repo.spawn_task(TASK, &["--path", beside.to_str().expect("UTF-8")]);
    let shared = repo.spawn_task(SHARED_TASK, &[]);
    let id = shared["agent_id"].as_str().expect("an id");
    let answers = format!("echo x > .agent/{}/output/x.md", &id[..8]);
    let run = repo.agent(&["run", id, "--output=x.md", "--", "sh", "-c", &answers]);
    assert!(run.status.success(), "{}", describe(&run));
    repo.agent_json(&["send", "--type=notify", "--to=bob", "--payload=message=hello"]);
    repo.agent_json(&["receive", "--agent=bob"]);
    repo.agent_json(&[
        "send",
        "--type=clarify",
        "--from",
        id,
        "--to=bob",
        "--payload=question=which one?",
        "--payload=context=two files",
    ]);
    // A person looks, who has init write what it proposes, and exchanges with a remote.
    let mut looks = OnTerminal::start(&repo, &["show", id], 100, 40);
    assert!(looks.child.wait().expect("ends").success());
    let before_init = repo.git(["config", "--list"]);
    repo.git(["rm", "--quiet", ".config/git-agent.toml"]);
    repo.agent_json(&["init", "--yes"]);
    let added = repo.git(["config", "--list"]);
    let added: Vec<_> = added
        .lines()
        .filter(|line| !before_init.lines().any(|old| old == *line))
        .filter_map(|line| line.split('=').next())
        .collect();
    assert_eq!(added, ["agent.worktreedir"], "settings that init writes");
    let server = repo.path().with_file_name("server.git");
    repo.git(["init", "--quiet", "--bare", server.to_str().expect("UTF-8")]);
    repo.git(["remote", "add", "origin", server.to_str().expect("UTF-8")]);
    repo.agent_json(&["sync"]);
    let written: Vec<_> = everything(&repo).difference(&before).cloned().collect();
    let listed = listed();
    for path in &written {
        assert!(
            listed.iter().any(|pattern| matches(pattern, path)),
            "{path} is written and not listed"
        );
    }
    for pattern in &listed {
        let settings = "<root>/.config/git-agent.toml";
        let was_there = ["info/exclude", "config", settings].contains(&pattern.as_str());
        let seen = was_there || written.iter().any(|path| matches(pattern, path));
        assert!(
            seen || NOT_ALWAYS.contains(&pattern.as_str()),
            "{pattern} is listed and was not written"
        );
    }
}

#[test]
fn the_crate_page_names_every_setting_of_git() {
    let page = include_str!("../src/lib.rs");
    let table = include_str!("../src/wire/file/settings.txt");
    let settings: Vec<_> = table
        .lines()
        .filter_map(|line| line.split(" | ").next())
        .filter(|name| name.starts_with("agent."))
        .collect();
    assert!(settings.len() > 10, "the table was found");
    let read = page.split("//! Settings read:").nth(1).expect("the list");
    let read = read.split("Settings written:").next().unwrap_or_default();
    for name in settings {
        assert!(read.contains(&format!("`{name}`")), "{name} is read and not listed");
    }
}
