use super::{Agent, codes, refused};
use crate::support::agent::{TASK, describe};
use crate::support::{TestRepo, git_output, isolated};
use std::fs;
use std::os::unix::fs::PermissionsExt;

const OUTSIDE: &str = "scope.not-in-whitelist";

#[test]
fn every_commit_counts_even_when_a_later_one_undoes_it() {
    let agent = Agent::new();
    agent.write("README.md", "mine now\n");
    let commit = agent.commit("out of scope");
    agent.git(&["revert", "--no-edit", "HEAD"]);
    let report = agent.verify(&[]);
    assert_eq!(codes(&report), [OUTSIDE]);
    assert_eq!(report["findings"][0]["commit"], commit);
    assert_eq!(report["findings"][0]["path"], "README.md");
}

#[test]
fn renames_modes_links_and_submodules_touch_their_paths() {
    let check = |work: &dyn Fn(&Agent), expected: &[&str]| {
        let agent = Agent::new();
        work(&agent);
        agent.git(&["commit", "--quiet", "--no-verify", "-m", "work"]);
        assert_eq!(agent.codes(), expected);
    };
    check(&|a| drop(a.git(&["mv", "README.md", "src/README.md"])), &[OUTSIDE]);
    check(&|a| drop(a.git(&["mv", "src/lib.rs", "lib.rs"])), &[OUTSIDE]);
    check(
        &|a| {
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(a.worktree.join("README.md"), mode).expect("chmod");
            a.git(&["add", "README.md"]);
        },
        &[OUTSIDE],
    );
    check(
        &|a| {
            let link = a.worktree.join("src/link");
            std::os::unix::fs::symlink("../../../../etc", link).expect("symlink");
            a.git(&["add", "src/link"]);
        },
        &["scope.symlink-target"],
    );
    check(
        &|a| {
            let entry = format!("160000,{},vendor", a.git(&["rev-parse", "HEAD"]));
            a.git(&["update-index", "--add", "--cacheinfo", &entry]);
            fs::create_dir(a.worktree.join("vendor")).expect("mkdir");
        },
        &[OUTSIDE, "worktree.nested-repository"],
    );
    check(
        &|a| {
            let entry = format!("160000,{},vendor", a.git(&["rev-parse", "HEAD"]));
            a.git(&["update-index", "--add", "--cacheinfo", &entry]);
            fs::create_dir(a.worktree.join("vendor")).expect("mkdir");
            a.write(".gitmodules", "[submodule \"v\"]\n\tpath = vendor\n\turl = ../v\n");
            a.git(&["add", ".gitmodules"]);
        },
        &[OUTSIDE, OUTSIDE],
    );
}

#[test]
fn what_is_staged_counts_though_the_files_say_otherwise() {
    let agent = Agent::new();
    agent.write("README.md", "staged\n");
    agent.git(&["add", "README.md"]);
    agent.write("README.md", "# Test\n");
    assert_eq!(agent.codes(), [OUTSIDE]);
}

#[test]
fn flags_of_the_index_hide_nothing() {
    for flag in ["--assume-unchanged", "--skip-worktree"] {
        let agent = Agent::new();
        agent.git(&["update-index", flag, "README.md"]);
        assert_eq!(agent.codes(), [""; 0], "{flag} alone is no change");
        agent.write("README.md", "hidden\n");
        assert_eq!(agent.git(&["status", "--porcelain"]), "");
        assert_eq!(agent.codes(), [OUTSIDE], "{flag}");
        fs::remove_file(agent.worktree.join("README.md")).expect("remove");
        assert_eq!(agent.codes(), [OUTSIDE], "{flag}, removed");
    }
}

#[test]
fn rules_of_the_base_still_hide_what_they_hid() {
    let repo = TestRepo::with_commit();
    repo.write(".gitignore", "*.log\n/build/\n");
    repo.write("src/.gitignore", "generated/\n!keep.log\n");
    repo.commit_all("ignore");
    let agent = Agent::spawned_in(repo, TASK);
    agent.write("a.log", "x");
    agent.write("build/out", "x");
    agent.write("src/bin/generated/x.rs", "x");
    assert_eq!(agent.codes(), [""; 0]);
    agent.write("src/keep.log", "x");
    let report = agent.verify(&[]);
    assert_eq!((codes(&report).len(), &report["uncommitted"]), (0, &1.into()));
}

#[test]
fn replace_refs_and_grafts_show_another_history_in_vain() {
    let agent = Agent::new();
    let spawn = agent.git(&["rev-parse", "HEAD"]);
    agent.write("README.md", "out\n");
    agent.commit("out of scope");
    agent.git(&["revert", "--no-edit", "HEAD"]);
    agent.write("src/two.rs", "");
    let good = agent.commit("fine");
    agent.git(&["replace", "--graft", &good, &spawn]);
    assert_eq!(agent.codes(), [OUTSIDE]);
    agent.git(&["replace", "-d", &good]);
    let grafts = agent.repo.path().join(".git/info/grafts");
    fs::write(grafts, format!("{good} {spawn}\n")).expect("write");
    assert_eq!(agent.codes(), [OUTSIDE]);
}

#[test]
fn names_that_differ_by_case_are_judged_as_the_tracked_ones() {
    let repo = TestRepo::with_commit();
    repo.write("src/secret/key", "x");
    repo.commit_all("a secret");
    let task = TASK.replace(
        "whitelist = [\"src/**\"]",
        "whitelist = [\"src/**\"]\ndenylist = [\"src/secret/**\"]",
    );
    let agent = Agent::spawned_in(repo, &task);
    agent.write("src/Secret/key", "y");
    assert_eq!(agent.codes(), ["scope.denylist"]);
}

#[test]
fn a_ledger_that_names_another_policy_gives_no_other_scope() {
    let agent = Agent::new();
    agent.write("README.md", "# Mine\n");
    let repo = &agent.repo;
    let spawn_commit = repo.agent_json(&["show", &agent.id])["spawn_commit"].clone();
    let spawn_commit = spawn_commit.as_str().expect("an oid");
    let row = repo.git(["notes", "--ref=agents", "show", spawn_commit]);
    let policy = row.split(r#""policy":""#).nth(1).expect("a policy")[..40].to_owned();
    let wider = repo.git(["cat-file", "-p", &policy]).replace("src/**", "**/*");
    assert_ne!(wider, repo.git(["cat-file", "-p", &policy]));
    repo.write("wider", format!("{wider}\n"));
    let forged = repo.git(["hash-object", "-w", "wider"]);
    repo.write("row", row.replace(&policy, &forged) + "\n");
    repo.git(["notes", "--ref=agents", "add", "-f", "-F", "row", spawn_commit]);
    // The policy in the spawn commit binds.
    assert_eq!(agent.codes(), [OUTSIDE, "ledger.policy"]);
    refused(&repo.agent(&["merge", &agent.id]), "not-accepted", 3);
    let checked = repo.agent(&["check", &agent.id, "--worktree"]);
    assert_eq!(checked.status.code(), Some(1));
    let committed = git_output(&agent.worktree, ["commit", "--quiet", "-am", "mine"]);
    assert!(!committed.status.success());
}

#[test]
fn a_merge_of_the_base_is_judged_by_what_it_adds() {
    let agent = Agent::new();
    agent.write("src/two.rs", "pub fn two() {}\n");
    agent.commit("two");
    agent.repo.write("README.md", "# Changed on main\n");
    agent.repo.commit_all("main moves");
    agent.git(&["merge", "--quiet", "--no-edit", "main"]);
    assert_eq!(agent.codes(), [""; 0]);
    // Taking back what the base did is a change of the agent's, though the file is as it was.
    agent.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    agent.git(&["merge", "--quiet", "--no-edit", "--strategy=ours", "main"]);
    assert_eq!(agent.codes(), [OUTSIDE]);
}

#[test]
fn foreign_commits_and_lost_spawn_commits_are_found() {
    let agent = Agent::new();
    agent.repo.git(["switch", "--quiet", "--create", "feature"]);
    agent.repo.write("src/feature.rs", "");
    let foreign = agent.repo.commit_all("somebody's feature");
    agent.repo.git(["switch", "--quiet", "main"]);
    agent.write("src/two.rs", "");
    agent.commit("two");
    agent.git(&["merge", "--quiet", "--no-edit", "feature"]);
    let report = agent.verify(&[]);
    assert_eq!(codes(&report), ["provenance.foreign-commit"]);
    assert_eq!(report["findings"][0]["commit"], foreign);

    let agent = Agent::new();
    agent.git(&["reset", "--quiet", "--hard", "main"]);
    agent.write("src/two.rs", "");
    agent.commit("without the spawn commit");
    assert_eq!(agent.codes(), ["provenance.spawn-commit"]);
    // The advice is a command that keeps the work.
    let verdict = agent.verify(&[]);
    let fix = verdict["findings"][0]["fix"].as_str().expect("advice");
    let (_, command) = fix.split_once("run ").expect("a command");
    let command = format!("{command} --message='the same work'");
    let sh = isolated("sh", &agent.worktree).args(["-c", &command]).status();
    assert!(sh.expect("starts").success());
    assert_eq!(agent.codes(), [""; 0]);
    assert!(agent.worktree.join("src/two.rs").is_file());
}

#[test]
fn what_does_not_go_on_from_what_landed_is_foreign() {
    let agent = Agent::new();
    let base = agent.git(&["rev-parse", "HEAD~1"]);
    agent.write("src/two.rs", "");
    let landed = agent.commit("two");
    agent.repo.agent_json(&["merge", &agent.id, "--ff-only"]);
    assert_eq!(agent.repo.git(["rev-parse", "main"]), landed);
    agent.write("src/three.rs", "");
    agent.git(&["add", "--all"]);
    let tree = agent.git(&["write-tree"]);
    let words = ["commit-tree", "-m", "three", "-p", &base, "-p", &landed, &tree];
    let beside = agent.git(&words);
    agent.git(&["update-ref", "HEAD", &beside]);
    let report = agent.verify(&[]);
    assert_eq!(codes(&report), ["provenance.foreign-commit"]);
    assert_eq!(report["findings"][0]["commit"], beside);
}

#[test]
fn a_rebase_is_followed_and_a_rewritten_base_is_not() {
    let agent = Agent::new();
    agent.write("src/two.rs", "");
    agent.commit("two");
    agent.repo.write("README.md", "# Changed on main\n");
    agent.repo.commit_all("main moves");
    agent.git(&["rebase", "--quiet", "main"]);
    assert_eq!(agent.codes(), [""; 0]);
    // What the rebase made of the spawn commit is none of the agent's commits.
    let listed = agent.repo.agent_json(&["list"]);
    assert_eq!(listed["agents"][0]["ahead"], 1, "{listed:#}");
    // A base that is only behind what was fetched, onto which the branch was rebased, is to follow.
    agent.repo.git(["remote", "add", "origin", "elsewhere"]);
    agent.repo.git(["update-ref", "refs/remotes/origin/main", "main"]);
    agent.repo.git(["reset", "--quiet", "--keep", "main~1"]);
    let report = agent.verify(&[]);
    let findings = report["findings"].as_array().expect("a list").iter();
    let fixes: Vec<_> =
        findings.filter(|one| one["code"] != OUTSIDE).map(|one| &one["fix"]).collect();
    assert_eq!(fixes, ["bring the base branch up to date with origin/main, as git pull does"; 2]);
    agent.repo.git(["reset", "--quiet", "--keep", "origin/main"]);
    agent.repo.git(["commit", "--quiet", "--amend", "-m", "rewritten"]);
    // The base's old commit is nobody's now, and landing would bring it back.
    assert_eq!(agent.codes(), [OUTSIDE, "provenance.base-rewritten", "provenance.foreign-commit"]);
}

/// Two commits that main got before the agent was spawned, and that its branch no longer has.
#[test]
fn a_branch_that_was_moved_to_an_older_commit_takes_nothing_back() {
    let spawned = || {
        let repo = TestRepo::with_commit();
        for name in ["src/a.rs", "src/b.rs"] {
            repo.write(name, "");
            repo.commit_all(name);
        }
        let agent = Agent::spawned_in(repo, TASK);
        agent.write("src/two.rs", "");
        agent.commit("two");
        agent
    };
    let lands = |agent: &Agent| {
        assert_eq!(agent.codes(), [""; 0]);
        agent.repo.agent_json(&["merge", &agent.id]);
        let names = agent.repo.git(["ls-tree", "--name-only", "main", "src/"]);
        assert_eq!(names, "src/a.rs\nsrc/b.rs\nsrc/bin\nsrc/lib.rs\nsrc/two.rs");
    };
    let agent = spawned();
    agent.git(&["rebase", "--quiet", "--onto", "main~2", "main"]);
    let landing = &agent.verify(&[])["merge"];
    assert_eq!((&landing["behind"], &landing["fast_forward"]), (&2.into(), &false.into()));
    let listed = agent.repo.agent_json(&["list"]);
    assert_eq!(listed["agents"][0]["behind"], 2, "{listed:#}");
    let refused = agent.repo.agent(&["merge", &agent.id, "--ff-only"]);
    assert_eq!(refused.status.code(), Some(3), "{}", describe(&refused));
    lands(&agent);

    // Without its spawn commit, the advice is to put it on that, and not what lies between the two.
    let agent = spawned();
    let work = agent.git(&["rev-parse", "HEAD"]);
    agent.git(&["reset", "--quiet", "--hard", "main~2"]);
    agent.git(&["cherry-pick", &work]);
    let verdict = agent.verify(&[]);
    assert_eq!(codes(&verdict), ["provenance.spawn-commit"]);
    let fix = verdict["findings"][0]["fix"].as_str().expect("advice");
    let (_, command) = fix.split_once("run ").expect("a command");
    let sh = isolated("sh", &agent.worktree).args(["-c", command]).status();
    assert!(sh.expect("starts").success(), "{command}");
    lands(&agent);
}

#[test]
fn the_worktree_must_be_in_order() {
    let agent = Agent::new();
    agent.git(&["switch", "--quiet", "--create", "elsewhere"]);
    assert_eq!(agent.codes(), ["worktree.head"]);
    // The way back takes along what was committed beside the branch, whether that has grown as well or not.
    let tip = agent.git(&["rev-parse", "HEAD"]);
    for also_there in [false, true] {
        agent.git(&["switch", "--quiet", "--detach", &tip]);
        agent.write("src/two.rs", "");
        let beside = agent.commit("two");
        if also_there {
            agent.git(&["switch", "--quiet", &agent.branch]);
            agent.write("src/three.rs", "");
            agent.commit("three");
            agent.git(&["switch", "--quiet", "--detach", &beside]);
        }
        let report = agent.verify(&[]);
        let fix = report["findings"][0]["fix"].as_str().expect("advice");
        let (_, command) = fix.split_once("run ").expect("a command");
        let mut shell = crate::support::isolated("sh", &agent.worktree);
        let output = shell.args(["-c", command]).output().expect("sh starts");
        assert!(output.status.success(), "{fix}: {}", describe(&output));
        assert_eq!(agent.codes(), [""; 0], "{fix}");
        agent.git(&["cat-file", "-e", &format!("{}:src/two.rs", agent.branch)]);
        agent.git(&["reset", "--quiet", "--hard", &tip]);
    }

    // Only what the agent made itself is taken along.
    let agent = Agent::new();
    agent.repo.git(["switch", "--quiet", "--create", "topic"]);
    agent.repo.write("docs/topic.md", "");
    agent.repo.commit_all("of another");
    agent.repo.git(["switch", "--quiet", "main"]);
    agent.git(&["switch", "--quiet", "--detach", "topic"]);
    agent.write("src/two.rs", "");
    let own = agent.commit("two");
    let report = agent.verify(&[]);
    let fix = report["findings"][0]["fix"].as_str().expect("advice");
    assert!(fix.ends_with(&format!(" && git cherry-pick {}", &own[..7])), "{fix}");
    agent.git(&["switch", "--quiet", "topic"]);
    let report = agent.verify(&[]);
    let fix = report["findings"][0]["fix"].as_str().expect("advice");
    assert!(!fix.contains("cherry-pick"), "{fix}");

    let agent = Agent::new();
    agent.write("src/lib.rs", "pub fn mine() {}\n");
    agent.commit("mine");
    agent.repo.write("src/lib.rs", "pub fn theirs() {}\n");
    agent.repo.commit_all("theirs");
    let merge = crate::support::git_output(&agent.worktree, ["merge", "main"]);
    assert!(!merge.status.success(), "it conflicts");
    assert_eq!(agent.codes(), ["worktree.in-progress", "worktree.unmerged", "merge.conflict"]);

    let agent = Agent::new();
    crate::support::git_in(&agent.worktree, ["init", "--quiet", "src/nested"]);
    agent.write("src/nested/file", "x");
    assert_eq!(agent.codes(), ["worktree.nested-repository"]);
}

#[test]
fn hooks_that_were_taken_away_or_altered_are_found() {
    let agent = Agent::new();
    let admin = agent.git(&["rev-parse", "--absolute-git-dir"]);
    let config = std::path::Path::new(&admin).join("config.worktree");
    let settings = std::fs::read(&config).expect("spawn wrote it");
    std::fs::write(&config, "").expect("written");
    assert_eq!(agent.codes(), ["worktree.hooks"]);
    std::fs::write(&config, settings).expect("written");
    assert_eq!(agent.codes(), [""; 0]);
}

#[test]
fn of_many_findings_a_person_reads_the_first_and_a_program_all() {
    let agent = Agent::new();
    for number in 0..25 {
        agent.write(&format!("outside/{number}"), "");
    }
    let text = String::from_utf8(agent.run(&[]).stdout).expect("UTF-8");
    assert_eq!(text.matches("    fix: ").count(), 1, "{text}");
    let rest =
        format!("  24 more {OUTSIDE}; to see them all: the same command with --format json\n");
    assert!(text.contains(&rest), "{text}");
    assert!(text.lines().count() < 16, "{text}");
    assert_eq!(agent.codes(), [OUTSIDE; 25]);
}
