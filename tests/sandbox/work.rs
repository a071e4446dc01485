use super::Fenced;
use crate::support::TestRepo;
use crate::support::agent::{TASK, describe};
use crate::verify::{Agent, refused};
use git_agent::agents::upkeep::publish::Published;
use git_agent::domain::life::sandbox::{Landlock, Level, Mode, Namespaces};
use git_agent::proc::sandbox::FenceOutcome;
use std::fs;

/// Each with the repository's and the agent's own hooks in force.
const WORK: &[(&str, &str)] = &[
    (
        "add and commit",
        "echo '// one' >> src/lib.rs; git add src; git commit -qm one",
    ),
    (
        "a new file",
        "mkdir src/new; echo x > src/new/a.rs; git add src; git commit -qm two",
    ),
    (
        "amend",
        "echo '// more' >> src/new/a.rs; git commit -qa --amend -m 'two again'",
    ),
    (
        "remove and rename",
        "git mv src/new/a.rs src/new/b.rs; git commit -qm three; git rm -q src/new/b.rs; git commit -qm four",
    ),
    (
        "checkout of files",
        "echo broken > src/lib.rs; git checkout -q HEAD -- src/lib.rs; git diff --quiet",
    ),
    (
        "reset",
        "git commit -q --allow-empty -m five; git reset -q --hard HEAD~1; echo y > src/y.rs; git add src/y.rs; git reset -q; rm src/y.rs",
    ),
    ("merge", "git merge -q --no-edit main"),
    ("rebase", "git reset -q --hard HEAD^1; git rebase -q main"),
    (
        "amend after a rebase",
        "git commit -q --amend --allow-empty -m 'four again'",
    ),
    (
        "a rebase that stops",
        "! git rebase -q --exec false main; git rebase --abort",
    ),
    (
        "a rebase of everything",
        "git rebase -q --force-rebase main; git commit -q --amend --no-edit",
    ),
    (
        "a pick that conflicts",
        "tip=$(git symbolic-ref HEAD); echo 'one side' > src/c; git add src/c; git commit -qm c
         git checkout -q --detach HEAD~1; echo other > src/c; git add src/c; git commit -qm other
         ! git cherry-pick $tip; git cherry-pick --abort; git commit -q --amend --no-edit
         ! git cherry-pick $tip; echo both > src/c; git add src/c; git cherry-pick --continue
         git commit -q --amend --no-edit; git checkout -q ${tip#refs/heads/}; git reset -q --hard HEAD~1",
    ),
    (
        "a revert",
        "echo r > src/r; git add src/r; git commit -qm r; git revert --no-edit HEAD
         git commit -q --amend --no-edit; git reset -q --hard HEAD~2",
    ),
    (
        "status and log",
        "git status --porcelain; git log -1 --format=%s; git fsck --no-progress --connectivity-only || git fsck --no-progress --connectivity-only --no-references",
    ),
    (
        "a build",
        "printf '#!/bin/sh\\necho built > \"$1\"\\n' > \"$TMPDIR/tool\"; chmod +x \"$TMPDIR/tool\"; \"$TMPDIR/tool\" \"$TMPDIR/out\" > /dev/null; test -s \"$TMPDIR/out\"",
    ),
];

#[test]
fn git_and_builds_work_inside() {
    let Some(fenced) = Fenced::new(Mode::Require) else {
        return;
    };
    let agent = &fenced.agent;
    agent.repo.write("README.md", "# Moved on\n");
    agent.repo.git(["add", "README.md"]);
    agent.repo.git(["commit", "--quiet", "-m", "main moves on"]);
    for (what, script) in WORK {
        let output = fenced.shell(script);
        assert!(output.status.success(), "{what}: {}", describe(&output));
        assert_eq!(fenced.outcome(), Some(FenceOutcome::Fenced), "{what}");
        let status = agent.git(&["status"]);
        assert!(!status.contains("You are"), "{what}: {status}");
    }
    let inside = agent.git(&["rev-parse", "HEAD", "HEAD^{tree}"]);
    let published = fenced.finish();
    assert_eq!(published, Published::default());
    assert_eq!(agent.git(&["rev-parse", "HEAD", "HEAD^{tree}"]), inside);
    assert_eq!(agent.git(&["rev-parse", &agent.branch]), inside[..40]);
    assert_eq!(agent.repo.git(["fsck", "--strict", "--no-dangling"]), "");
    assert_eq!(agent.git(&["status", "--porcelain", "src"]), "");
    let subjects = agent.git(&["log", "--format=%s", "main..HEAD"]);
    assert!(subjects.starts_with("four again\nthree\ntwo again\none\n"), "{subjects}");
    let id = format!("Agent-Id: {}", agent.id);
    assert!(agent.git(&["log", "-1", "--format=%B"]).contains(&id));
    assert_eq!(agent.codes(), [""; 0]);
}

#[test]
fn a_command_keeps_its_status_and_its_words() {
    let Some(fenced) = Fenced::new(Mode::Auto) else {
        return;
    };
    let mut command = fenced.command(&["sh", "-c", "echo \"$1\"; exit 7", "sh", "--write"]);
    let output = command.output().expect("starts");
    assert_eq!(describe(&output), "--write\n------- stderr -------\n[exit status: 7]");
    assert_eq!(fenced.outcome(), Some(FenceOutcome::Fenced));
}

#[test]
fn a_command_that_cannot_start_ends_as_in_timeout() {
    let Some(fenced) = Fenced::new(Mode::Auto) else {
        return;
    };
    let check = |program: &str, status: u8, code: &str| {
        let mut command = fenced.command(&[program]);
        // A directory on it that may not be looked into would be a reason of its own.
        let output = command.env("PATH", "/usr/bin:/bin").output();
        let output = output.expect("starts");
        refused(&output, code, status.into());
        assert_eq!(fenced.outcome(), Some(FenceOutcome::Fenced));
    };
    check("no-such-program-here", 127, "command-not-found");
    fs::write(fenced.agent.worktree.join("plain"), "text").expect("written");
    check("./plain", 126, "command-not-runnable");
    check("/", 126, "command-not-runnable");
}

#[test]
fn older_kernels_fence_files_just_as_well() {
    let Some(fenced) = Fenced::new(Mode::Auto) else {
        return;
    };
    let combined = |landlock| Namespaces::ALL.map(|namespaces| (landlock, namespaces));
    let levels = Landlock::ALL.into_iter().flat_map(combined);
    let best = fenced.level;
    for (landlock, namespaces) in levels {
        if landlock > best.landlock || namespaces > best.namespaces {
            continue;
        }
        let level = Level { landlock, namespaces, why: None };
        let script =
            "echo '// x' >> src/lib.rs; git add src; git commit -qm x; ! touch \"$MAIN/new\"";
        let mut command = fenced.command_at(level, &["sh", "-ec", script]);
        let output = command.output().expect("starts");
        assert!(output.status.success(), "{level:?}: {}", describe(&output));
        assert!(!fenced.agent.repo.path().join("new").exists(), "{level:?}");
    }
}

#[test]
fn nothing_starts_when_a_place_is_not_what_it_was() {
    let Some(mut fenced) = Fenced::new(Mode::Auto) else {
        return;
    };
    let link = fenced.agent.worktree.join("link");
    std::os::unix::fs::symlink(fenced.beside("home"), &link).expect("linked");
    fenced.bounds.fence.writable.push(link);
    let output = fenced.shell("echo ran > started");
    assert_eq!(output.status.code(), Some(4), "{}", describe(&output));
    let Some(FenceOutcome::Refused(why)) = fenced.outcome() else {
        panic!("{:?}", fenced.outcome());
    };
    assert!(why.contains("/link: "), "{why}");
    assert!(!fenced.agent.worktree.join("started").exists());
}

/// The managers themselves, where their registries can be reached; `package_managers.sh` has the steps.
#[test]
#[ignore = "installs programs from their registries: .ci/tools"]
fn package_managers_work_without_an_option_and_share_nothing() {
    for manager in [
        "npm", "pnpm", "pnpm-12", "corepack", "yarn", "pip", "uv", "cargo", "go", "make", "pytest",
        "vitest", "sqlite",
    ] {
        crate::hook_managers::run_script("package_managers.sh", "package-managers", manager);
    }
}

/// An agent in a repository with loose refs of every kind.
fn agent_among_refs() -> Agent {
    let repo = TestRepo::with_commit();
    repo.git(["tag", "--annotate", "--message=v1", "whole"]);
    repo.git(["pack-refs", "--all"]);
    repo.write("more.md", "more\n");
    repo.commit_all("more");
    for branch in ["plain", "deep/er/one"] {
        repo.git(["branch", branch]);
    }
    repo.git(["tag", "light"]);
    repo.git(["tag", "--annotate", "--message=v2", "loose"]);
    repo.git(["update-ref", "refs/remotes/origin/main", "main"]);
    repo.git(["symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"]);
    repo.git(["symbolic-ref", "refs/heads/alias", "refs/heads/plain"]);
    Agent::spawned_in(repo, TASK)
}

#[test]
fn refs_of_others_stay_while_git_packs_them_outside() {
    let agent = agent_among_refs();
    // A lock that another process holds for a moment is none of the command's.
    let admin = agent.git(&["rev-parse", "--absolute-git-dir"]);
    let lock = std::path::Path::new(&admin).join("index.lock");
    fs::write(&lock, "").expect("written");
    let Some(fenced) = Fenced::around(agent, Mode::Require) else {
        return;
    };
    fs::remove_file(&lock).expect("there");
    let repo = &fenced.agent.repo;
    let list = ["for-each-ref", "--format=%(objectname)%(*objectname)%(symref)%(refname)"];
    let inside = || {
        let words = [&["git"], &list[..]].concat();
        let listed = fenced.command(&words).output().expect("git starts");
        String::from_utf8_lossy(&listed.stdout).trim_end().to_owned()
    };
    let before = inside();
    assert_eq!(before, repo.git(list));
    repo.git(["pack-refs", "--all", "--prune"]);
    assert_eq!(inside(), before);
    for script in [
        "test \"$(git describe main)\" = loose",
        "git rev-parse origin/HEAD main plain deep/er/one light 'whole^{commit}' alias",
        "echo '// one' >> src/lib.rs; git commit -qam one; git -c core.hooksPath= pack-refs --all; git log main..HEAD",
    ] {
        let output = fenced.shell(script);
        assert!(output.status.success(), "{script}: {}", describe(&output));
    }
    assert_eq!(fenced.outcome(), Some(FenceOutcome::Fenced));
    // What comes to a branch outside is seen, packed or not.
    for after in [&["rev-parse", "main"][..], &["pack-refs", "--all"]] {
        repo.git(["commit", "--quiet", "--allow-empty", "--message=on"]);
        repo.git(after);
        let seen = fenced.shell("git rev-parse main").stdout;
        assert_eq!(String::from_utf8_lossy(&seen).trim_end(), repo.git(["rev-parse", "main"]));
    }
    let tip = fenced.shell("git rev-parse HEAD").stdout;
    let known = fenced.run_repo().tip().map(|oid| oid.to_hex());
    assert_eq!(known.as_deref(), String::from_utf8_lossy(&tip).lines().next());
    assert_eq!(fenced.finish(), Published::default());
    let tip = String::from_utf8_lossy(&tip);
    assert_eq!(repo.git(["rev-parse", &fenced.agent.branch]), tip.trim_end());
}

#[test]
fn the_first_of_many_refs_that_a_command_made_are_named_and_the_others_counted() {
    if super::level().is_none() {
        return;
    }
    let agent = Agent::of_task(TASK);
    let script = "refs=$(git rev-parse --git-common-dir)/refs/heads/many; mkdir -p \"$refs\"\n\
                  for i in $(seq 30); do\n\
                    git commit-tree -p HEAD -m \"number $i\" \"HEAD^{tree}\" > \"$refs/$i\"\n\
                  done";
    let words = ["run", "--no-verify", "--sandbox=require", &agent.id, "--", "sh", "-ec", script];
    let said = describe(&agent.repo.agent(&words));
    assert_eq!(said.matches("the command made refs/heads/many/").count(), 10, "{said}");
    assert!(said.contains("the command made 20 more refs, which only its run had"), "{said}");
    let (_, list) = said.split_once("run git log ").expect("a command");
    let words = list.lines().next().expect("a line").split(' ');
    let listed = agent.repo.git(["log", "--format=%s"].into_iter().chain(words));
    assert_eq!(listed.matches("number ").count(), 30, "{listed}");
}

#[test]
fn what_only_a_log_of_the_run_names_is_kept_and_named() {
    if super::level().is_none() {
        return;
    }
    let agent = Agent::of_task(TASK);
    let script = "for name in first second; do echo $name > src/$name; git add -A; git stash push -q -m $name; done
                  for name in left tip; do
                    new=$(git commit-tree -p HEAD -m $name 'HEAD^{tree}')
                    git -c core.hooksPath=/dev/null update-ref --create-reflog refs/heads/side $new
                  done
                  git rev-parse stash stash@{1} side side@{1} > src/oids";
    let words = ["run", "--no-verify", "--sandbox=require", &agent.id, "--", "sh", "-ec", script];
    let said = describe(&agent.repo.agent(&words));
    let oids = std::fs::read_to_string(agent.worktree.join("src/oids")).expect("written");
    let names = ["refs/stash", "refs/stash@{1}", "refs/heads/side", "refs/heads/side@{1}"];
    assert_eq!(said.matches("the command made").count(), names.len(), "{said}");
    for (name, oid) in names.iter().zip(oids.lines()) {
        assert!(said.contains(&format!("made {name}, which only its run had")), "{name}: {said}");
        assert!(said.contains(&format!("git branch <name> {oid}")), "{name}: {said}");
    }
    agent.repo.agent(&["discard", &agent.id]);
    agent.repo.git(["gc", "--quiet", "--prune=now"]);
    for oid in oids.lines() {
        agent.repo.git(["log", "-1", oid]);
    }
}

#[test]
fn what_is_committed_in_a_second_worktree_of_the_run_is_kept_and_named() {
    if super::level().is_none() {
        return;
    }
    let agent = Agent::of_task(TASK);
    let script = "git worktree add -q --detach $TMPDIR/wt; cd $TMPDIR/wt
                  git -c core.hooksPath=/dev/null commit -q --allow-empty -m left; git rev-parse HEAD > $OLDPWD/src/oids
                  git reset -q --hard HEAD^
                  git -c core.hooksPath=/dev/null commit -q --allow-empty -m tip; git rev-parse HEAD >> $OLDPWD/src/oids";
    let words = ["run", "--no-verify", "--sandbox=require", &agent.id, "--", "sh", "-ec", script];
    let said = describe(&agent.repo.agent(&words));
    let oids = std::fs::read_to_string(agent.worktree.join("src/oids")).expect("written");
    for (name, oid) in ["worktrees/wt/HEAD@{2}", "worktrees/wt/HEAD"].iter().zip(oids.lines()) {
        assert!(said.contains(&format!("made {name}, which only its run had")), "{name}: {said}");
        assert!(said.contains(&format!("git branch <name> {oid}")), "{name}: {said}");
    }
    agent.repo.git(["gc", "--quiet", "--prune=now"]);
    for oid in oids.lines() {
        agent.repo.git(["log", "-1", oid]);
    }
}

/// Whenever the branch moves, what is there is published, long before there is a report.
#[test]
fn what_was_published_while_the_run_went_on_is_named_at_its_end() {
    if super::level().is_none() {
        return;
    }
    let agent = Agent::of_task(TASK);
    let script = format!(
        "echo '// one' >> src/lib.rs; git stash -q; git commit -q --allow-empty -m one; tip=$(git rev-parse HEAD)
         until test \"$(git --git-dir={}/.git rev-parse {})\" = $tip; do :; done",
        agent.repo.path().display(),
        agent.branch
    );
    let words = ["run", "--no-verify", "--sandbox=require", &agent.id, "--", "sh", "-ec", &script];
    let said = describe(&agent.repo.agent(&words));
    assert!(said.contains("the command made refs/stash, which only its run had"), "{said}");
}
