//! A row that was fetched names a branch and a place; neither is moved, made or deleted on its word alone.

use crate::support::agent::{TASK, agent_command, describe};
use crate::support::{TestRepo, git_in};
use std::path::{Path, PathBuf};

/// A repository with a ref of every kind, each above the spawn commit of an agent that was spawned in another clone.
struct Scene {
    repo: TestRepo,
    spawn: String,
    id: String,
    /// The row of that agent, as its clone wrote it.
    row: String,
    branch: String,
    worktree: String,
    /// The number of this clone.
    number: String,
}

const REFS: [&str; 9] = [
    "HEAD",
    "refs/heads/main",
    "refs/heads/mine",
    "refs/heads/deep/er/mine",
    "refs/heads/agent/my-notes",
    "refs/heads/agent/mine-20261123T101010Z-0badcafe",
    "refs/stash",
    "refs/tags/v1",
    "refs/remotes/origin/main",
];

impl Scene {
    fn new() -> Scene {
        let repo = TestRepo::with_commit();
        let other = repo.path().with_file_name("other");
        repo.git(["clone", "--quiet", ".", other.to_str().expect("UTF-8")]);
        let spawned = agent_command(&other)
            .args(["spawn", "--format=json", &repo.task_file(TASK)])
            .output()
            .expect("git-agent starts");
        assert!(spawned.status.success(), "{}", describe(&spawned));
        let spawned: serde_json::Value = serde_json::from_slice(&spawned.stdout).expect("JSON");
        let text = |key: &str| spawned[key].as_str().expect(key).to_owned();
        let (spawn, branch) = (text("spawn_commit"), text("branch"));
        let row = git_in(&other, ["notes", "--ref=agents", "show", &spawn]);
        repo.git(["fetch", "--quiet", other.to_str().expect("UTF-8"), &branch]);
        // An agent of this clone, so that it has a ledger and a number.
        let own = repo.spawn();
        repo.agent_json(&["done", own["agent_id"].as_str().expect("an id"), "-m", "done"]);
        let above = repo.git(["commit-tree", "-p", &spawn, "-m", "above", "main^{tree}"]);
        for name in &REFS[1..] {
            repo.git(["update-ref", "--create-reflog", name, &above]);
        }
        let number = std::fs::read_to_string(repo.path().join(".git/agents/clone-id"));
        Scene {
            number: number.expect("readable")[..4].to_owned(),
            id: text("agent_id"),
            worktree: text("worktree_path"),
            branch: format!("refs/heads/{branch}"),
            repo,
            spawn,
            row,
        }
    }

    /// Puts the row into the ledger with another branch, a place and, so that it seems to be of this clone, with its number.
    fn claim(&self, branch: &str, worktree: &str, is_local: bool, more: &str) {
        let mut row = self.row.replace(&self.branch, branch);
        let old = format!("\"worktree\":\"{}\"", self.worktree);
        assert!(row.contains(&old), "{row}");
        row = row.replace(&old, &format!("\"worktree\":\"{worktree}\""));
        if is_local {
            let theirs = row.split("-000-").nth(1).expect("a stamp")[..4].to_owned();
            row = row.replace(&format!("-{theirs}\""), &format!("-{}\"", self.number));
        }
        if !more.is_empty() {
            let stamp = "20261123T235959.000000Z-000-dead";
            let id = &self.id;
            row += &format!(
                "\n{{\"t\":\"{stamp}\",\"a\":\"{id}\",\"e\":\"{more}\",\"by\":\"x\",\"d\":{{\"tip\":\"{}\"}}}}",
                self.spawn
            );
        }
        let file = self.repo.path().with_file_name("row");
        std::fs::write(&file, row).expect("written");
        let file = file.to_str().expect("UTF-8");
        let notes = ["notes", "--ref=agents", "add", "--force", "-F", file];
        self.repo.git([notes.as_slice(), &[&self.spawn]].concat());
    }

    /// Every ref but those of the ledger, with HEAD and the reflogs.
    fn refs(&self) -> String {
        let repo = &self.repo;
        let refs = repo.git(["for-each-ref", "--format=%(refname) %(objectname)"]);
        let users = |line: &&str| {
            let ours = ["refs/notes/", "refs/agents/", "refs/remotes/hub/"];
            !ours.iter().any(|prefix| line.starts_with(prefix))
        };
        let refs: Vec<&str> = refs.lines().filter(users).collect();
        let stash = repo.git(["reflog", "show", "--format=%H", "refs/stash"]);
        let head = std::fs::read_to_string(repo.path().join(".git/HEAD")).expect("readable");
        format!("{}\n{stash}\n{head}", refs.join("\n"))
    }
}

const VERBS: [&[&str]; 10] = [
    &["discard", "ID", "--force"],
    &["discard", "ID"],
    &["rescue", "ID", "--reopen"],
    &["commit", "ID", "-m", "x"],
    &["update", "ID"],
    &["reject", "ID", "-m", "no"],
    &["gc", "--yes", "--older-than", "0s"],
    &["doctor", "--fix"],
    &["sync", "hub"],
    &["uninstall", "--yes", "--ledger"],
];

#[test]
fn no_verb_moves_or_deletes_a_ref_because_a_row_names_it() {
    let scene = Scene::new();
    let hub = scene.repo.path().with_file_name("hub.git");
    let hub = hub.to_str().expect("UTF-8");
    scene.repo.git(["init", "--quiet", "--bare", hub]);
    scene.repo.git(["remote", "add", "hub", hub]);
    let before = scene.refs();
    for branch in REFS {
        for verb in VERBS {
            let said = if verb[0] == "rescue" { "discarded" } else { "" };
            let is_local = !verb.contains(&"--force");
            scene.claim(branch, &scene.worktree, is_local, said);
            let verb: Vec<&str> = verb
                .iter()
                .map(|word| if *word == "ID" { scene.id.as_str() } else { word })
                .collect();
            let output = scene.repo.agent(&verb);
            assert_ne!(output.status.code(), Some(70), "{}", describe(&output));
            let how = format!("{branch} {verb:?}: {}", describe(&output));
            assert_eq!(scene.refs(), before, "{how}");
        }
    }
    // None of the user's branches was pushed either.
    let there = git_in(Path::new(hub), ["for-each-ref", "--format=%(refname)", "refs/heads/"]);
    assert!(!there.contains("mine") && !there.contains("my-notes"), "{there}");
}

#[test]
fn no_directory_is_removed_or_made_because_a_row_names_it() {
    let scene = Scene::new();
    let root = scene.repo.path();
    let outside = root.with_file_name("outside");
    std::fs::create_dir(&outside).expect("made");
    std::fs::write(outside.join("file"), "kept").expect("written");
    std::os::unix::fs::symlink(&outside, root.join("link")).expect("made");
    let absolute = |name: &str| outside.join(name).to_string_lossy().into_owned();
    let places = [
        String::new(),
        ".".to_owned(),
        "..".to_owned(),
        "src".to_owned(),
        ".git".to_owned(),
        ".GIT/new".to_owned(),
        ".git/refs/heads/new".to_owned(),
        "link".to_owned(),
        "link/new".to_owned(),
        "../outside/new".to_owned(),
        absolute(""),
        absolute("new"),
        root.to_string_lossy().into_owned(),
    ];
    let before = (tree(&outside), tree(&root));
    for place in &places {
        for (verb, said) in [(0, ""), (1, ""), (1, "discarded"), (2, "discarded"), (6, ""), (7, "")]
        {
            scene.claim(&scene.branch, place, true, said);
            let verb: Vec<&str> = VERBS[verb]
                .iter()
                .map(|word| if *word == "ID" { scene.id.as_str() } else { word })
                .collect();
            let output = scene.repo.agent(&verb);
            assert_ne!(output.status.code(), Some(70), "{}", describe(&output));
            let how = format!("`{place}` {verb:?}: {}", describe(&output));
            assert_eq!((tree(&outside), tree(&root)), before, "{how}");
        }
    }
}

/// The files below a directory, without what is below `.git` but its names at the top and below `refs/heads`.
fn tree(top: &Path) -> Vec<PathBuf> {
    let walk = walkdir::WalkDir::new(top).sort_by_file_name().into_iter();
    let entries = walk.filter_map(Result::ok).map(|entry| entry.into_path());
    let is_users = |path: &PathBuf| {
        let inside = path.strip_prefix(top).expect("below").to_string_lossy().into_owned();
        !inside.starts_with(".git/") || inside.starts_with(".git/refs/heads")
    };
    entries.filter(is_users).collect()
}

#[test]
fn a_branch_of_a_chosen_name_is_the_agents_in_the_clone_that_made_it() {
    let repo = TestRepo::with_commit();
    let spawned = repo.spawn_task(TASK, &["--branch", "feature/x"]);
    let id = spawned["agent_id"].as_str().expect("an id");
    let noted = std::fs::read_to_string(repo.path().join(".git/agents/branches"));
    let spawn = spawned["spawn_commit"].as_str().expect("an oid");
    assert!(noted.expect("noted").contains(&format!("{spawn} refs/heads/feature/x")));
    // Without the note, as earlier versions left it, the reflog tells who made it.
    std::fs::remove_file(repo.path().join(".git/agents/branches")).expect("removed");
    let report = repo.agent_json(&["discard", id]);
    assert_eq!(report["deletes_branch"], true, "{report}");
    assert_eq!(repo.git(["branch", "--list", "feature/x"]), "");
    // It comes back under its name, and a branch that the user makes anew is not taken for it.
    repo.agent_json(&["rescue", id, "--reopen"]);
    assert_eq!(repo.git(["rev-parse", "feature/x"]), spawn);
    repo.agent_json(&["discard", id]);
    repo.git(["branch", "feature/x", "main"]);
    let report = repo.agent_json(&["discard", id]);
    assert_eq!(report["deletes_branch"], false, "{report}");
    assert_eq!(repo.git(["rev-parse", "feature/x"]), repo.git(["rev-parse", "main"]));
}
