use crate::support::TestRepo;
use crate::support::agent::{TASK, agent_command, describe};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An agent in whose worktree there are programs that leave a mark when they run.
struct Scene {
    repo: TestRepo,
    id: String,
    worktree: PathBuf,
    mark: PathBuf,
}

/// Where in a worktree the programs are.
const PLACES: [&str; 4] = ["", "node_modules/.bin", "bin", "scripts"];

/// What this program, git and the shell start by name.
const NAMES: [&str; 13] = [
    "git",
    "sh",
    "bash",
    "env",
    "ssh",
    "ssh-keygen",
    "gpg",
    "less",
    "cat",
    "sed",
    "true",
    "gh",
    "nice",
];

/// Every verb that looks at an agent, in the order of a life.
const VERBS: [&[&str]; 17] = [
    &["list"],
    &["show", "ID"],
    &["path", "ID"],
    &["diff", "ID"],
    &["check", "ID", "--worktree"],
    &["overlap"],
    &["doctor"],
    &["verify", "ID", "--no-commands"],
    &["commit", "ID", "-m", "work"],
    &["update", "ID"],
    &["merge", "ID", "--dry-run"],
    &["merge", "ID", "--no-ff"],
    &["retry", "ID"],
    &["gc"],
    &["discard", "ID"],
    &["rescue", "ID", "--to", "OUT"],
    &["doctor", "--fix"],
];

fn executable(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("made");
    fs::write(path, text).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("executable");
}

impl Scene {
    /// `prepare` makes what the base commit holds.
    fn new(prepare: impl FnOnce(&TestRepo)) -> Scene {
        let repo = TestRepo::with_commit();
        prepare(&repo);
        repo.commit_all("prepared");
        let task = format!("{TASK}\n[bundle]\nrequired = false\n");
        let agent = repo.spawn_task(&task, &[]);
        let text = |key: &str| agent[key].as_str().expect(key).to_owned();
        let scene = Scene {
            id: text("agent_id"),
            worktree: text("worktree_abspath").into(),
            mark: repo.path().with_file_name("mark"),
            repo,
        };
        fs::write(scene.worktree.join("src/lib.rs"), "pub fn three() {}\n").expect("written");
        scene
    }

    fn marking(&self, then: &str) -> String {
        format!("#!/bin/sh\necho \"$0 $*\" >>'{}'\n{then}\n", self.mark.display())
    }

    /// Tries every verb from the main worktree and, as far as it goes, from the agent's, with these variables.
    fn try_verbs(&self, variables: &[(&str, String)]) {
        let out = self.repo.path().with_file_name("out");
        for verb in VERBS {
            for directory in [self.repo.path(), self.worktree.clone()] {
                if !directory.exists() || (directory == self.worktree && verb[0] != "list") {
                    continue;
                }
                let mut command = agent_command(&directory);
                for word in verb {
                    match *word {
                        "ID" => command.arg(&self.id),
                        "OUT" => command.arg(&out),
                        word => command.arg(word),
                    };
                }
                for (name, value) in variables {
                    command.env(name, value);
                }
                let output = command.output().expect("git-agent starts");
                let said = describe(&output);
                let ran = fs::read_to_string(&self.mark).unwrap_or_default();
                assert_eq!(ran, "", "{verb:?} in {}: {said}", directory.display());
                assert_ne!(output.status.code(), Some(70), "{verb:?}: {said}");
            }
        }
    }
}

#[test]
fn no_program_is_found_by_an_entry_of_a_list_that_leads_into_a_worktree() {
    let path = std::env::var("PATH").expect("PATH");
    let lists = |worktree: &Path| {
        let worktree = worktree.display();
        [
            format!("./node_modules/.bin:{path}"),
            format!(":bin:{path}"),
            format!("{worktree}/bin:.:{path}"),
        ]
    };
    for number in 0..3 {
        let scene = Scene::new(|_| {});
        for place in PLACES {
            for name in NAMES {
                let file = scene.worktree.join(place).join(name);
                executable(&file, &scene.marking("exit 1"));
            }
        }
        let list = lists(&scene.worktree)[number].clone();
        // The attack works where nothing is done against it.
        let mut plain = Command::new("env");
        plain.env("PATH", &list).current_dir(&scene.worktree).args(["env", "git", "status"]);
        let _ = plain.output().expect("env starts");
        assert!(fs::read_to_string(&scene.mark).is_ok(), "{list}");
        fs::remove_file(&scene.mark).expect("removed");
        let exec_path = scene.worktree.join("bin").display().to_string();
        let variables = [("PATH", list), ("GIT_EXEC_PATH", exec_path)];
        scene.try_verbs(&variables);
    }
}

#[test]
fn children_get_no_relative_entry_either() {
    let scene = Scene::new(|_| {});
    let path = std::env::var("PATH").expect("PATH");
    let mut command = agent_command(&scene.repo.path());
    command.env("PATH", format!("./node_modules/.bin::{path}"));
    command.args(["run", &scene.id, "--", "sh", "-c", "echo \"$PATH\" >src/path"]);
    let output = command.output().expect("git-agent starts");
    let inside = fs::read_to_string(scene.worktree.join("src/path"));
    let inside = inside.unwrap_or_else(|_| panic!("no path: {}", describe(&output)));
    let is_absolute = |entry: &str| entry.starts_with('/');
    assert!(inside.trim_end().split(':').all(is_absolute), "{inside}");
}

/// A filter whose program lies in the tree, as the settings name it.
fn filtered(clean: &str, smudge: &str) {
    let scene = Scene::new(|repo| {
        executable(&repo.path().join("scripts/clean.sh"), "#!/bin/sh\nsed s/secret/hidden/\n");
        executable(&repo.path().join("scripts/smudge.sh"), "#!/bin/sh\nsed s/hidden/secret/\n");
        repo.write(".gitattributes", "*.txt filter=x\n");
        repo.write("src/a.txt", "hidden\n");
        for (key, value) in [("clean", clean), ("smudge", smudge)] {
            repo.git(["config", &format!("filter.x.{key}"), value]);
        }
    });
    let read = |name: &str| fs::read_to_string(scene.worktree.join(name)).expect("readable");
    assert_eq!(read("src/a.txt"), "secret\n", "the base's program ran at spawn");
    for name in ["clean.sh", "smudge.sh"] {
        executable(&scene.worktree.join("scripts").join(name), &scene.marking("cat"));
    }
    fs::write(scene.worktree.join("src/a.txt"), "secret secret\n").expect("written");
    let commit = ["commit", &scene.id, "-m", "work", "--in-scope-only"];
    let report = scene.repo.agent_json(&commit);
    let commit = report["commit"].as_str().expect("an oid");
    let stored = scene.repo.git(["show", &format!("{commit}:src/a.txt")]);
    assert_eq!(stored, "hidden secret", "the user's program has cleaned it");
    fs::write(scene.worktree.join("src/a.txt"), "secret, again\n").expect("written");
    scene.try_verbs(&[]);
}

#[test]
fn a_filter_in_the_tree_is_the_main_worktrees() {
    filtered("scripts/clean.sh", "scripts/smudge.sh");
}

#[test]
fn a_filter_that_a_shell_reads_from_the_tree_is_the_main_worktrees() {
    filtered("sh ./scripts/clean.sh %f", "sh scripts/smudge.sh %f");
}

#[test]
fn a_filter_that_the_main_worktree_lacks_fails_and_does_not_pass_content_on() {
    let scene = Scene::new(|repo| {
        repo.write(".gitattributes", "*.txt filter=x\n");
        repo.git(["config", "filter.x.clean", "scripts/clean.sh"]);
    });
    executable(&scene.worktree.join("scripts/clean.sh"), &scene.marking("cat"));
    fs::write(scene.worktree.join("src/a.txt"), "secret\n").expect("written");
    let output = scene.repo.agent(&["verify", &scene.id, "--no-commands"]);
    assert!(!scene.mark.exists(), "the agent's program ran");
    assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
    assert!(describe(&output).contains("scripts/clean.sh"), "{}", describe(&output));
    // Other agents are still listed, and this one can be discarded.
    let output = scene.repo.agent(&["list"]);
    assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
    let output = scene.repo.agent(&["discard", &scene.id]);
    assert_eq!(output.status.code(), Some(0), "{}", describe(&output));
    assert!(!scene.mark.exists(), "the agent's program ran");
}
