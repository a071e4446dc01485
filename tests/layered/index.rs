//! What is read of a layer without a mount. What is tracked, the base tells as long as no git has written another index.

use super::{ORACLE, id, layer, oracle, repo, run, spawn};
use crate::support::agent::describe;
use crate::support::{TestRepo, isolated};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Output;

/// Everything that the upper directory can say of tracked files, without git.
const EDITS: &str = "echo more >> lib/b.txt; chmod +x lib/c.txt; touch lib/d.txt; rm docs/a.md; rm -r lib/deep; echo file > lib/deep; \
    rm lib/a.txt; mkdir lib/a.txt; echo inside > lib/a.txt/inside; rm -r docs; mkdir docs; echo again > docs/b.md; ln -sf lib/b.txt link; \
    echo new > new.txt; echo left > left.out; mkdir -p one/two; echo deep > one/two/three";

fn index_inode(repo: &TestRepo, spawned: &Value) -> u64 {
    let admin = format!(".git/worktrees/agent-{}", id(spawned));
    let index = repo.path().join(admin).join("index");
    fs::metadata(index).expect("an index").ino()
}

#[test]
fn the_base_tells_the_same_of_tracked_files_as_an_index_of_their_own() {
    let repo = repo("");
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    let base = fs::read_dir(repo.path().join(".git/agents/bases")).expect("bases");
    let base = base.map(|entry| entry.expect("read").path().join("index"));
    let of_base: Vec<u64> =
        base.map(|index| fs::metadata(index).expect("an index").ino()).collect();
    run(&repo, &spawned, EDITS);
    let look = || {
        let verdict = repo.agent(&["verify", id(&spawned), "--format", "json"]);
        let verdict: Value = serde_json::from_slice(&verdict.stdout).expect("a verdict");
        let diff = repo.agent_json(&["diff", id(&spawned)]);
        (verdict["tree"].clone(), diff["changes"].clone())
    };
    assert_eq!(of_base, [index_inode(&repo, &spawned)]);
    let by_base = look();
    // This git writes its own.
    let printed = run(&repo, &spawned, &format!("git status --short; {ORACLE}"));
    assert_ne!(of_base, [index_inode(&repo, &spawned)]);
    assert_eq!(look(), by_base);
    assert_eq!(by_base.0, oracle(&printed));
}

#[test]
fn an_agent_over_a_base_made_before_its_index_was_noted_is_read_by_its_own() {
    let repo = repo("");
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    run(&repo, &spawned, EDITS);
    let before = repo.agent_json(&["diff", id(&spawned)])["changes"].clone();
    let record = super::layer(&repo, &spawned).join("record");
    let text = fs::read_to_string(&record).expect("a record");
    let mut noted: Value = serde_json::from_str(&text).expect("JSON");
    let index = noted.as_object_mut().expect("an object").remove("index");
    assert!(index.is_some(), "{text}");
    fs::write(&record, noted.to_string()).expect("written");
    let after = repo.agent_json(&["diff", id(&spawned)])["changes"].clone();
    assert_eq!(after, before);
}

/// The copies of the base's files of rules are not looked into as long as they are just that.
#[test]
fn every_change_of_a_file_of_rules_is_seen() {
    let repo = repo("");
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    for script in [
        "true",
        "touch lib/.gitignore",
        "chmod +x lib/.gitignore",
        "chmod -x lib/.gitignore; echo more >> lib/.gitignore",
        "printf '*.tmp\\n' > lib/.gitignore",
        "touch -r lib/.gitignore old; printf '*.out\\n' > lib/.gitignore; touch -r old lib/.gitignore; rm old",
        "printf '*.tmp\\n' > lib/.gitignore",
        "rm lib/.gitignore",
        "printf '*.tmp\\n' > lib/.gitignore; echo x > lib/x.tmp",
        "echo none > lib/.gitignore; git add lib; printf '*.tmp\\n' > lib/.gitignore",
        "rm lib/.gitignore; ln -s a.txt lib/.gitignore",
        "rm lib/.gitignore; mkdir lib/.gitignore; echo x > lib/.gitignore/x",
        "rm -r lib; git checkout -q -- lib",
    ] {
        let printed = run(&repo, &spawned, &format!("{script}; {ORACLE}"));
        let verdict = repo.agent(&["verify", id(&spawned), "--format", "json"]);
        let verdict: Value = serde_json::from_slice(&verdict.stdout).expect("a verdict");
        assert_eq!(verdict["tree"], oracle(&printed), "{script}: {verdict:#}");
    }
}

/// An upper directory says by a device that a file is gone, and a device keeps git waiting anywhere else.
#[test]
fn removed_files_of_rules_do_not_keep_others_from_being_read() {
    let repo = repo("");
    repo.write(".gitattributes", "*.txt text\n");
    repo.write("lib/.gitattributes", "*.md text\n");
    repo.commit_all("attributes");
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    for script in [
        "git rm -q .gitattributes; echo new > new.txt",
        "rm lib/.gitattributes lib/.gitignore .gitignore; echo more >> lib/a.txt; echo new > lib/new.txt",
    ] {
        let printed = run(&repo, &spawned, &format!("{script}; {ORACLE}"));
        let verdict = repo.agent(&["verify", id(&spawned), "--format", "json"]);
        let verdict: Value = serde_json::from_slice(&verdict.stdout).expect("a verdict");
        assert_eq!(verdict["tree"], oracle(&printed), "{script}: {verdict:#}");
    }
}

/// What set-up makes in the base, where git ignores all of it: no tree holds it.
const SETUP: &str = "[setup]\nrun = [\"mkdir -p built/deep; echo made > built/tool; echo deep > built/deep/x; echo made > made.out; \
    echo made > lib/made.tmp; printf 'a\\\\r\\\\n' > crlf.out; ln -s built/tool link.out\"]\n";

#[test]
fn a_file_of_the_base_counts_whenever_git_does_not_ignore_it() {
    let repo = repo(SETUP);
    repo.write("docs/e.crlf", "e\r\n");
    repo.commit_all("a file with other line ends");
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    for script in [
        "git add -f made.out",
        "git commit -q -m forced; echo more >> lib/a.txt",
        "git rm -q --cached made.out",
        "git add -f built/deep/x; git reset -q",
        // Other rules: everything, a part of a directory, with other attributes.
        "echo '*.other' > .gitignore",
        "printf '*.out\nbuilt/*\n!built/tool\n' > .gitignore",
        "printf '*\n!tool\n' > built/.gitignore; echo none > .gitignore",
        "rm built/.gitignore; echo '*.out text' > .gitattributes",
        "git add -A; echo changed > built/tool; rm made.out; git rm -q --cached crlf.out",
        "rm -r built; mkdir built; echo only > built/one",
        "rm .gitignore lib/.gitignore",
        "git add -A; git commit -q -m all; git rm -q -r lib",
        "git reset -q --hard HEAD~; git clean -q -f -d",
        // Git looks into every file of which the index remembers nothing.
        "echo '*.crlf text' > .gitattributes; git read-tree HEAD",
        "git add --renormalize .; git checkout -q -- .gitattributes 2>&- || rm .gitattributes",
        "git reset -q --hard",
        "git update-index --split-index; echo more >> lib/b.txt; git rm -q --cached lib/c.txt",
        "git add -f crlf.out link.out; git update-index --no-split-index",
        "git rm -r -q --cached docs; echo docs > .gitignore",
    ] {
        let printed = run(&repo, &spawned, &format!("{script}; {ORACLE}"));
        let verdict = repo.agent(&["verify", id(&spawned), "--format", "json"]);
        let verdict: Value = serde_json::from_slice(&verdict.stdout).expect("a verdict");
        let told = oracle(&printed);
        let differs = crate::support::git_output(
            &repo.path(),
            ["diff", "--raw", told, verdict["tree"].as_str().unwrap_or("")],
        );
        let differs = String::from_utf8_lossy(&differs.stdout).into_owned();
        assert_eq!(verdict["tree"], told, "{script}: {differs}{verdict:#}");
    }
}

#[test]
fn no_file_of_a_base_that_has_changed_becomes_work() {
    let repo = repo(SETUP);
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    run(&repo, &spawned, "echo none > .gitignore");
    let pool = repo.agent_json(&["pool", "status"]);
    let base = pool["bases"][0]["worktree_abspath"].as_str().expect("a path");
    fs::write(format!("{base}/made.out"), "another\n").expect("written");
    let output = repo.agent(&["diff", id(&spawned)]);
    let said = describe(&output);
    assert!(said.contains("error[layer-invalid]"), "{said}");
    assert!(said.contains("git agent materialize "), "{said}");
}

/// A base, gone with its record, gone, or without a file.
const LOSSES: [&str; 3] = ["..", "", "made.out"];

#[test]
fn what_a_base_has_lost_counts_as_removed_by_no_agent() {
    for lost in LOSSES {
        let repo = repo(SETUP);
        repo.write("docs/e.crlf", "e\r\n");
        repo.commit_all("a file with other line ends");
        let Some(spawned) = spawn(&repo, true) else {
            return;
        };
        run(&repo, &spawned, "git add -f made.out; git commit -q -m forced");
        lose(&repo, lost);
        for words in [&["diff", id(&spawned)][..], &["verify", id(&spawned)]] {
            let said = describe(&repo.agent(words));
            assert!(said.contains("error[layer-invalid]"), "{lost}: {said}");
        }
        run(&repo, &spawned, "true");
        repo.agent_json(&["merge", id(&spawned)]);
        assert_eq!(repo.git(["show", "HEAD:made.out"]), "made", "{lost}");

        // No more does a file go back to what the base had.
        let spawned = spawn(&repo, true).expect("an agent");
        run(
            &repo,
            &spawned,
            "git -c core.autocrlf=input add --renormalize . 2>&1; git commit -q -m renormalized",
        );
        lose(&repo, if lost == "made.out" { "docs/e.crlf" } else { lost });
        let said = describe(&repo.agent(&["diff", id(&spawned)]));
        assert!(said.contains("error[layer-invalid]"), "{lost}: {said}");
    }
}

/// Removes something of each base that is not lost already.
fn lose(repo: &TestRepo, what: &str) {
    for base in fs::read_dir(repo.path().join(".git/agents/bases")).expect("bases") {
        let files = base.expect("read").path().join("files");
        if fs::set_permissions(&files, Permissions::from_mode(0o755)).is_err() {
            continue;
        }
        let lost = files.join(what);
        let is_directory = fs::symlink_metadata(&lost).expect("there").is_dir();
        let lost = fs::canonicalize(&lost).expect("there");
        let removed = if is_directory { fs::remove_dir_all(&lost) } else { fs::remove_file(&lost) };
        removed.expect("removed");
    }
}

#[test]
fn what_is_staged_over_a_base_that_has_changed_is_kept_as_over_a_whole_one() {
    let repo = repo(SETUP);
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    let agent = id(&spawned);
    let script = "echo precious > staged.txt; git add staged.txt; rm staged.txt; git rm -q --cached lib/b.txt; echo none > .gitignore";
    run(&repo, &spawned, script);
    lose(&repo, "made.out");
    let gone = repo.agent_json(&["discard", agent]);
    let warnings = gone["warnings"].to_string();
    assert!(warnings.contains("the base warm-"), "{gone}");
    repo.agent_json(&["rescue", agent, "--reopen"]);
    let seen = run(&repo, &spawned, "git status --porcelain");
    assert_eq!(seen, " M .gitignore\nD  lib/b.txt\nAD staged.txt\n?? lib/b.txt\n");
}

#[test]
fn a_staged_mode_counts_where_git_trusts_no_mode_of_a_file() {
    let repo = repo("");
    repo.git(["config", "core.fileMode", "false"]);
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    for script in [
        "git update-index --chmod=+x lib/a.txt",
        "git commit -q -m mode; git update-index --chmod=-x lib/a.txt --chmod=+x lib/b.txt",
        "git rm -q --cached lib/a.txt; git read-tree HEAD; chmod +x lib/c.txt",
    ] {
        let printed = run(&repo, &spawned, &format!("{script}; {ORACLE}"));
        let verdict = repo.agent(&["verify", id(&spawned), "--format", "json"]);
        let verdict: Value = serde_json::from_slice(&verdict.stdout).expect("a verdict");
        assert_eq!(verdict["tree"], oracle(&printed), "{script}: {verdict:#}");
    }
}

#[test]
fn what_a_discard_keeps_of_a_layer_without_a_readable_index_has_the_files_of_the_base() {
    let repo = repo("");
    // Git then keeps an index in two files.
    repo.git(["config", "core.splitIndex", "true"]);
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    let script = "git status --short; echo changed > lib/a.txt; rm -r docs; rm link; rm -r lib/deep; echo file > lib/deep; git add lib/a.txt";
    assert_eq!(run(&repo, &spawned, script), "");
    let changes = repo.agent_json(&["diff", id(&spawned)])["changes"].clone();
    let admin = format!(".git/worktrees/agent-{}/index", id(&spawned));
    repo.write(&admin, "no index");
    repo.agent_json(&["discard", id(&spawned)]);
    repo.agent_json(&["rescue", id(&spawned), "--branch", "rescued"]);
    let kept = repo.git(["diff", "--no-renames", "--name-only", "main", "rescued"]);
    let changed: Vec<&str> = changes
        .as_array()
        .expect("changes")
        .iter()
        .map(|change| change["path"].as_str().expect("a path"))
        .collect();
    assert_eq!(kept.lines().collect::<Vec<_>>(), changed);
}

/// The warnings of a run, which prints where managers of hooks may write.
fn run_with_hooks(repo: &TestRepo, spawned: &Value, script: &str) -> (String, String) {
    let script = format!("{script}\necho home=$PRE_COMMIT_HOME and $PREK_HOME");
    let output = repo.agent(&["run", id(spawned), "--no-verify", "--", "sh", "-c", &script]);
    assert!(output.status.success(), "{}", describe(&output));
    let [printed, said] = [output.stdout, output.stderr].map(String::from_utf8);
    (printed.expect("UTF-8"), said.expect("UTF-8"))
}

#[test]
fn managers_of_hooks_are_known_by_the_files_of_a_layer() {
    let repo = repo("");
    repo.write(".pre-commit-config.yaml", "repos: []\n");
    repo.commit_all("hooks");
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    let missing = "the hooks in .pre-commit-config.yaml will not run";
    assert!(spawned["warnings"].to_string().contains(missing), "{spawned}");
    let (printed, said) =
        run_with_hooks(&repo, &spawned, "rm .pre-commit-config.yaml; echo {} > lefthook.yml");
    assert!(said.contains(missing), "{said}");
    assert!(printed.contains("/pre-commit and ") && printed.contains("/prek\n"), "{printed}");
    // From then on the files are those of the agent.
    let (printed, said) = run_with_hooks(&repo, &spawned, "true");
    assert!(!said.contains(missing) && said.contains("the hooks in lefthook.yml"), "{said}");
    assert_eq!(printed, "home= and\n");
}

#[test]
fn a_submodule_in_a_layer_holds_work_only_where_its_files_do() {
    let repo = repo("");
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    let add = "git init -q $TMPDIR/module && echo one > $TMPDIR/module/lib && git -C $TMPDIR/module add lib \
        && git -C $TMPDIR/module commit -q -m lib \
        && git -c protocol.file.allow=always submodule --quiet add $TMPDIR/module sub && git commit -q -m sub";
    repo.agent_json(&["amend", id(&spawned), "--new=.gitmodules"]);
    run(&repo, &spawned, add);
    let uncommitted = || repo.agent_json(&["list"])["agents"][0]["uncommitted"].clone();
    assert_eq!(uncommitted(), 0);
    run(&repo, &spawned, "echo more >> sub/lib");
    assert_eq!(uncommitted(), 1);
    let refused = describe(&repo.agent(&["discard", id(&spawned)]));
    assert!(refused.contains("[discard-refused]") && refused.contains("sub/lib"), "{refused}");
    run(&repo, &spawned, "git -C sub checkout -q lib");
    assert_eq!(uncommitted(), 0);
    repo.agent_json(&["discard", id(&spawned)]);
}

#[test]
fn an_agent_is_active_when_it_writes_to_its_layer() {
    let repo = repo("");
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    run(&repo, &spawned, "echo more >> lib/a.txt; touch -d 2099-01-01T00:00:00Z lib/a.txt");
    let listed = repo.agent_json(&["list"]);
    let active = listed["agents"][0]["active_at"].as_str().expect("a time");
    assert!(active.starts_with("2099-01-01"), "{active}");
}

/// Runs `git-agent` without the right of root to read and write what modes forbid.
fn by_user(repo: &TestRepo, words: &[&str]) -> Output {
    let without = "-dac_override,-dac_read_search";
    let without = ["setpriv", "--inh-caps", without, "--bounding-set", without];
    let is_root = rustix::process::geteuid().is_root();
    let program = without.into_iter().filter(|_| is_root).chain([env!("CARGO_BIN_EXE_git-agent")]);
    let all: Vec<&str> = program.chain(words.iter().copied()).collect();
    isolated(all[0], &repo.path()).args(&all[1..]).output().expect("started")
}

#[test]
fn materializing_writes_into_directories_that_set_up_closed() {
    let repo = repo(
        "[setup]\nrun = [\"mkdir -p built/closed; echo made > built/closed/tool; chmod 555 built/closed\"]\n",
    );
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    run(
        &repo,
        &spawned,
        "chmod 755 built/closed; echo new > built/closed/new; rm built/closed/tool; chmod 555 built/closed",
    );
    let output = by_user(&repo, &["materialize", id(&spawned)]);
    assert!(output.status.success(), "{}", describe(&output));
    let place = spawned["worktree_abspath"].as_str().expect("a path");
    let closed = Path::new(place).join("built/closed");
    assert_eq!(fs::metadata(&closed).expect("there").permissions().mode() & 0o777, 0o555);
    let names =
        fs::read_dir(&closed).expect("listed").map(|entry| entry.expect("read").file_name());
    assert_eq!(names.collect::<Vec<_>>(), ["new"]);
}

#[test]
fn materializing_names_the_set_up_that_wrote_the_path_of_its_base() {
    for (write, holds_path) in [("pwd > built/tool", true), ("echo made > built/tool", false)] {
        let repo = repo(&format!("[setup]\nrun = [\"mkdir built\", \"{write}\"]\n"));
        let Some(spawned) = spawn(&repo, true) else {
            return;
        };
        let made = repo.agent_json(&["materialize", id(&spawned)]);
        let warnings = made["warnings"].to_string();
        let again = format!(
            "run git agent run {} --no-verify -- sh -c 'mkdir built && {write}'",
            id(&spawned)
        );
        assert_eq!(warnings.contains(&again), holds_path, "{made}");
    }
}

#[test]
fn a_discard_that_keeps_ignored_files_keeps_those_of_set_up() {
    let repo = repo(
        "[setup]\nrun = [\"mkdir built; echo made > built/tool; echo made > built/other; echo made > made.out\"]\n",
    );
    for (script, seen) in [
        ("true", "made\nmade\nmade\n"),
        ("echo mine > built/tool; rm made.out; echo more >> lib/a.txt", "mine\nmade\n"),
    ] {
        let Some(spawned) = spawn(&repo, true) else {
            return;
        };
        run(&repo, &spawned, script);
        repo.agent_json(&["discard", id(&spawned), "--with-ignored"]);
        repo.agent_json(&["rescue", id(&spawned), "--reopen"]);
        let look = "cat built/tool built/other; test ! -e made.out || cat made.out";
        assert_eq!(run(&repo, &spawned, look), seen, "{script}");
    }
}

/// The row of the only agent, as a user sees it who is not root.
fn row(repo: &TestRepo) -> Value {
    let output = by_user(repo, &["list", "--format", "json"]);
    let listed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    listed["agents"][0].clone()
}

#[test]
fn a_directory_that_cannot_be_read_hides_nothing_but_its_files() {
    let repo = repo("");
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    let upper = layer(&repo, &spawned).join("upper");
    let set_mode = |mode| {
        let mode = Permissions::from_mode(mode);
        fs::set_permissions(upper.join("lib/deep"), mode).expect("changed");
    };
    for script in [
        "echo more >> lib/a.txt; echo more >> lib/deep/a.txt; echo new > lib/deep/new",
        // Nothing of the base is seen below it.
        "rm -r lib/deep; mkdir lib/deep; echo new > lib/deep/new",
    ] {
        run(&repo, &spawned, script);
        for mode in [0o000, 0o400, 0o300] {
            set_mode(mode);
            assert_eq!(row(&repo)["uncommitted"], 1, "{mode:o} {script}");
            let verdict = by_user(&repo, &["verify", id(&spawned)]);
            let said = describe(&verdict);
            assert!(said.contains("worktree.unreadable lib/deep/"), "{mode:o} {said}");
        }
        set_mode(0o755);
    }
    set_mode(0o000);
    let discarded = by_user(&repo, &["discard", id(&spawned)]);
    assert!(discarded.status.success(), "{}", describe(&discarded));
    repo.agent_json(&["rescue", id(&spawned), "--reopen"]);
    let look = "cat lib/deep/new; ls lib/deep; tail -n 1 lib/a.txt";
    assert_eq!(run(&repo, &spawned, look), "new\nnew\nmore\n");
}

#[test]
fn a_file_that_is_too_long_hides_no_other_work() {
    let repo = repo("");
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    let long = "truncate -s 3G lib/long docs/a.md; echo more >> lib/a.txt; mkdir built; truncate -s 70M built/big";
    run(&repo, &spawned, long);
    assert_eq!(row(&repo)["uncommitted"], 3);
    // Nothing that git ignores is set aside with them.
    let discarded = repo.agent_json(&["discard", id(&spawned), "--dry-run"]);
    let aside = discarded["set_aside"].as_array().expect("files").iter();
    assert_eq!(aside.map(|file| &file["path"]).collect::<Vec<_>>(), ["docs/a.md", "lib/long"]);
}

#[test]
fn a_file_that_cannot_be_read_hides_no_other_work() {
    let repo = repo("");
    let Some(spawned) = spawn(&repo, true) else {
        return;
    };
    run(&repo, &spawned, "echo new > lib/new; chmod 000 lib/new docs/a.md; echo more >> lib/a.txt");
    let listed = by_user(&repo, &["list", "--format=json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    assert_eq!(listed["agents"][0]["uncommitted"], 3, "{listed:#}");
    // Its tree would not be that of everything.
    let said = describe(&by_user(&repo, &["verify", id(&spawned)]));
    assert!(said.contains("Permission denied"), "{said}");
}

#[test]
fn hooks_that_a_new_worktree_lacks_stand_against_no_layer() {
    let repo = repo("");
    let Some(spawned) = spawn(&repo, true) else { return };
    repo.agent_json(&["discard", id(&spawned)]);
    // As husky has it: a directory that git ignores, which its installation makes.
    let hooks = repo.path().join(".husky/_");
    std::fs::create_dir_all(&hooks).expect("made");
    std::fs::write(hooks.join("post-checkout"), "#!/bin/sh\n").expect("written");
    repo.git(["config", "core.hooksPath", ".husky/_"]);
    let spawned = spawn(&repo, true).expect("layered");
    repo.agent_json(&["discard", id(&spawned)]);
    repo.write("hooks/post-checkout", "#!/bin/sh\n");
    std::os::unix::fs::symlink("hooks", repo.path().join("linked")).expect("linked");
    repo.commit_all("a hook");
    let absolute = repo.path().join("hooks");
    for path in ["hooks", "linked", absolute.to_str().expect("UTF-8")] {
        repo.git(["config", "core.hooksPath", path]);
        let refused = repo.agent(&["spawn", "--layered", "change it", "--scope", "**"]);
        assert!(describe(&refused).contains("post-checkout hook"), "{}", describe(&refused));
    }
}
