//! One day in the life of a maintainer: a repository with a linter, a commit-message hook and tests of its own, and three agents of
//! whom none gets it right at first. What lands looks as a careful person had done it.

use crate::support::TestRepo;
use crate::support::agent::{agent_command, describe};
use crate::support::git_in;
use crate::verify::{codes, report};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Output;

/// A conventional header of at most 60 characters, as commitlint asks for it.
const COMMIT_MSG: &str = "#!/bin/sh\nhead -n 1 \"$1\" | grep -Eq '^(feat|fix|docs|test|chore)(\\([a-z]+\\))?: [a-z].{0,50}[^.]$' || {\n\
    echo 'commit-msg: write a conventional header' >&2; exit 1; }\n";
/// No trailing blanks and no tabs in what is staged, as a linter would say it.
const PRE_COMMIT: &str = "#!/bin/sh\nif git grep --cached -nE '[[:blank:]]+$' -- '*.sh'; then echo 'lint: trailing blanks' >&2; exit 1; fi\n";
const GREET: &str = "#!/bin/sh\n# Greets whoever is named.\ngreet() {\n    echo \"Hello, $1\"\n}\n";
const TESTS: &str = "#!/bin/sh\nset -eu\n. ./src/greet.sh\n[ \"$(greet Ada)\" = 'Hello, Ada' ]\necho 'test result: ok. 1 passed; 0 failed'\n";
const SETTINGS: &str = "[defaults]\nrole = \"edit-local\"\n\n[checks]\ncommands = [\"sh tests/run.sh\"]\n\n[merge]\nmethod = \"squash\"\n";

struct Day {
    repo: TestRepo,
}

impl Day {
    fn begin() -> Day {
        let repo = TestRepo::empty();
        for (name, text) in [
            ("src/greet.sh", GREET),
            ("tests/run.sh", TESTS),
            ("README.md", "# greet\n\nGreets whoever is named.\n"),
            (".config/git-agent.toml", SETTINGS),
            (".githooks/commit-msg", COMMIT_MSG),
            (".githooks/pre-commit", PRE_COMMIT),
        ] {
            repo.write(name, text);
        }
        for hook in ["commit-msg", "pre-commit"] {
            let path = repo.path().join(".githooks").join(hook);
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("a mode");
        }
        repo.commit_all("feat: greet whoever is named");
        repo.git(["config", "core.hooksPath", ".githooks"]);
        Day { repo }
    }

    /// An agent for a task as a maintainer types it.
    fn spawn(&self, name: &str, task: &str, scope: &str) -> PathBuf {
        let report = self.repo.agent_json(&["spawn", task, "--name", name, "--scope", scope]);
        report["worktree_abspath"].as_str().expect("a path").into()
    }

    fn agent(&self, words: &[&str]) -> Output {
        self.repo.agent(words)
    }

    fn codes(&self, name: &str) -> Vec<String> {
        codes(&report(&self.agent(&["verify", name, "--format=json"])))
    }

    fn land(&self, name: &str, message: &str) {
        let output = self.agent(&["merge", name, "-m", message]);
        assert!(output.status.success(), "{}", describe(&output));
    }
}

#[test]
fn one_day_in_the_life_of_a_maintainer() {
    let day = Day::begin();
    let first = day.repo.git(["rev-parse", "HEAD"]);

    // Three agents work at the same time.
    let polite = day.spawn(
        "polite",
        "Greet by a polite form where the second word asks for it",
        "{src,tests}/**",
    );
    let docs = day.spawn("docs", "Say in the README how greet is called", "README.md");
    let loud = day.spawn("loud", "Greet loudly where LOUD is set", "src/**");

    // The first writes good work under a bad message: the repository's own hook refuses it, also from the agent's hand.
    let greet = "#!/bin/sh\n# Greets whoever is named, politely where the second word is `politely`.\ngreet() {\n    if [ \"${2-}\" = politely ]; then\n        echo \"Good day, $1\"\n    else\n        echo \"Hello, $1\"\n    fi\n}\n";
    fs::write(polite.join("src/greet.sh"), greet).expect("written");
    let tests =
        TESTS.replace("echo 'test", "[ \"$(greet Ada politely)\" = 'Good day, Ada' ]\necho 'test");
    fs::write(polite.join("tests/run.sh"), tests).expect("written");
    let commit = |message: &str| {
        let mut git = crate::support::isolated("git", &polite);
        git.args(["commit", "--quiet", "--all", "-m", message]).output().expect("git starts")
    };
    let bad = commit("Did the thing.");
    assert!(!bad.status.success());
    assert!(describe(&bad).contains("conventional header"), "{}", describe(&bad));
    let good = commit("feat: greet politely where that is asked for");
    assert!(good.status.success(), "{}", describe(&good));

    // The second leaves its scope on the way, and is told before anything lands.
    fs::write(docs.join("README.md"), "# greet\n\nGreets whoever is named: `greet Ada`.\n")
        .expect("written");
    fs::write(docs.join("src/greet.sh"), GREET.replace("Hello", "Hi")).expect("written");
    assert_eq!(day.codes("docs"), ["scope.not-in-whitelist"]);
    let refused = day.agent(&["merge", "docs", "-m", "docs: say how greet is called"]);
    assert_eq!(refused.status.code(), Some(3), "{}", describe(&refused));
    git_in(&docs, ["restore", "src/greet.sh"]);

    // The third breaks the build.
    let broken = GREET.replace("Hello, $1", "HELLO, $1");
    fs::write(loud.join("src/greet.sh"), &broken).expect("written");
    assert_eq!(day.codes("loud"), ["commands.failed"]);
    let refused = day.agent(&["merge", "loud", "-m", "feat: greet loudly"]);
    assert_eq!(refused.status.code(), Some(3), "{}", describe(&refused));
    assert_eq!(day.repo.git(["rev-parse", "HEAD"]), first, "nothing has landed so far");

    // What is right lands, under the message that the maintainer gives it.
    day.land("docs", "docs: say how greet is called");
    day.land("polite", "feat: greet politely where that is asked for");

    // The third is mended on top of what landed meanwhile, and lands as well.
    let loud_greet = greet.replace("greet() {\n", "greet() {\n    if [ -n \"${LOUD-}\" ]; then\n        echo \"HELLO, $1\"\n        return\n    fi\n");
    git_in(&loud, ["restore", "src/greet.sh"]);
    let updated =
        agent_command(&day.repo.path()).args(["update", "loud"]).output().expect("it starts");
    assert!(updated.status.success(), "{}", describe(&updated));
    fs::write(loud.join("src/greet.sh"), loud_greet).expect("written");
    day.land("loud", "feat: greet loudly where LOUD is set");

    // The history is the one that a careful person would have made: one commit for each change, in the repository's form, each of
    // which passes the tests, with nothing of the tool but a trailer.
    let subjects = day.repo.git(["log", "--format=%s", &format!("{first}..HEAD")]);
    assert_eq!(
        subjects,
        "feat: greet loudly where LOUD is set\nfeat: greet politely where that is asked for\ndocs: say how greet is called"
    );
    assert_eq!(day.repo.git(["rev-list", "--merges", "HEAD"]), "");
    let header = day.repo.path().join("header");
    for commit in day.repo.git(["rev-list", &format!("{first}..HEAD")]).lines() {
        fs::write(&header, day.repo.git(["log", "-1", "--format=%B", commit])).expect("written");
        let hook = crate::support::isolated("sh", &day.repo.path())
            .args([".githooks/commit-msg", "header"])
            .output()
            .expect("sh starts");
        assert!(hook.status.success(), "{}", describe(&hook));
        assert_eq!(day.repo.git(["diff", "--check", &format!("{commit}^"), commit]), "");
        let touched = day.repo.git(["diff", "--name-only", &format!("{commit}^"), commit]);
        assert!(touched.lines().all(|path| !path.starts_with(".agent")), "{touched}");
        day.repo.git(["checkout", "--quiet", commit]);
        let tests = crate::support::isolated("sh", &day.repo.path()).arg("tests/run.sh").output();
        let tests = tests.expect("sh starts");
        assert!(tests.status.success(), "{}", describe(&tests));
    }
    fs::remove_file(header).expect("removed");
    day.repo.git(["checkout", "--quiet", "main"]);
    assert_eq!(day.repo.git(["status", "--porcelain"]), "");

    // In the evening nothing of it is left but the history.
    for name in ["docs", "polite", "loud"] {
        let output = day.agent(&["discard", name]);
        assert!(output.status.success(), "{}", describe(&output));
    }
    assert_eq!(day.repo.git(["branch", "--format=%(refname:short)"]), "main");
    assert_eq!(day.repo.git(["worktree", "list"]).lines().count(), 1);
    assert_eq!(day.repo.git(["config", "core.hooksPath"]), ".githooks");
}

/// The same on a project as it is, with its own linters and tests, where it can be fetched; `maintainer.sh` has the steps.
#[test]
#[ignore = "installs programs from their registries: .ci/tools"]
fn one_day_in_a_real_project() {
    crate::hook_managers::run_script("maintainer.sh", "maintainer", "itsdangerous");
}
