use super::{ACTION, Fenced, actor};
use crate::support::agent::describe;
use git_agent::domain::life::sandbox::Mode;
use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;

/// Does something behind the fence that goes through.
fn goes_through(fenced: &Fenced, script: &str) {
    let output = fenced.shell(script);
    assert!(output.status.success(), "{script}: {}", describe(&output));
}

/// What a command does to its own repository stays there; the agent's is as it was but for its commits.
#[test]
fn its_own_repository_can_be_changed_and_nobody_sees_it() {
    for (what, script) in [
        (
            "hooks",
            "git config --worktree core.hooksPath /dev/null; git commit -q --allow-empty -m unseen",
        ),
        (
            "settings",
            "rm \"$(git rev-parse --git-dir)/config.worktree\"; git config core.fsmonitor 'touch x'",
        ),
        ("the common dir", "echo \"$TMPDIR\" > \"$(git rev-parse --git-dir)/commondir\""),
        ("the way to the worktree", "echo \"$MAIN/.git\" > \"$(git rev-parse --git-dir)/gitdir\""),
        (
            "a pipe in the place of the index",
            "cd \"$(git rev-parse --git-dir)\"; rm index; mkfifo index",
        ),
        ("a pipe in the place of HEAD", "cd \"$(git rev-parse --git-dir)\"; rm HEAD; mkfifo HEAD"),
        (
            "a link in the place of a log",
            "ln -sf \"$MAIN/README.md\" \"$(git rev-parse --git-dir)/logs/HEAD\"",
        ),
        ("refs in a circle", "ln -s . \"$(git rev-parse --git-common-dir)/refs/heads/loop\""),
        (
            "objects elsewhere",
            "echo \"$OUT\" >> \"$(git rev-parse --git-common-dir)/objects/info/alternates\"",
        ),
    ] {
        let Some(fenced) = Fenced::new(Mode::Require) else {
            return;
        };
        let agent = &fenced.agent;
        let config =
            agent.repo.path().join(".git/worktrees").join(format!("agent-{}", &agent.id[..8]));
        let before = fs::read(config.join("config.worktree")).expect("settings");
        goes_through(&fenced, script);
        let _ = fenced.finish();
        assert_eq!(fs::read(config.join("config.worktree")).expect("settings"), before, "{what}");
        assert_eq!(agent.git(&["status", "--porcelain"]), "", "{what}");
        assert_eq!(agent.codes(), [""; 0], "{what}");
        assert_eq!(agent.repo.git(["fsck", "--strict", "--no-dangling"]), "", "{what}");
    }
}

#[test]
fn reading_and_datagrams_go_through_and_permissions_without_namespaces() {
    let Some(fenced) = Fenced::new(Mode::Require).map(Fenced::without_namespaces) else {
        return;
    };
    let readme = fenced.agent.repo.path().join("README.md");
    goes_through(&fenced, "chmod 640 \"$MAIN/README.md\"; cat \"$MAIN/README.md\"");
    let mode = fs::metadata(&readme).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o640);

    let receiver = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let words = actor();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let address = receiver.local_addr().expect("an address").to_string();
    let mut command = fenced.command(&words);
    command.env(ACTION, "udp").env("ADDRESS", address);
    let output = command.output().expect("starts");
    assert!(output.status.success(), "{}", describe(&output));
    let mut buffer = [0; 8];
    assert_eq!(receiver.recv(&mut buffer).expect("arrived"), 3);
}

/// Each has something started by the git that looks while the command's settings are in force.
#[test]
fn what_leads_git_to_other_settings_ends_with_the_run() {
    let started = "touch \\\"$HOME/started\\\"";
    let settings = format!(
        "printf '[core]\\n\\tfsmonitor = \"{started}; false\"\\n[filter \"x\"]\\n\\tclean = \"{started}; cat\"\\n'"
    );
    let own = "* filter=x";
    for (what, script, altered) in [
        (
            "settings",
            format!("{settings} > \"$ADMIN/config.worktree\"; echo '{own}' > .gitattributes"),
            0,
        ),
        (
            "another common dir",
            format!(
                "git clone -q --bare \"$MAIN\" \"$TMPDIR/common\"; {settings} >> \"$TMPDIR/common/config\"
                 echo \"$TMPDIR/common\" > \"$ADMIN/commondir\""
            ),
            0,
        ),
        (
            "another repository",
            format!("rm .git; git init -q; {settings} >> .git/config; git add src"),
            1,
        ),
    ] {
        let Some(fenced) = Fenced::new(Mode::Require) else {
            return;
        };
        let agent = &fenced.agent;
        let script = format!("ADMIN=$(git rev-parse --git-dir); {script}; echo '// x' >> src/lib.rs");
        goes_through(&fenced, &script);
        let started = fenced.beside("home").join("started");
        let look = || {
            let status = fenced.unfenced(&["git", "status"]).output().expect("starts");
            (status.status.success(), fs::exists(&started).expect("known"))
        };
        assert!(look().1, "{what}: before the run ends something is started");
        fs::remove_file(&started).expect("removed");
        // Our own looks start nothing even then.
        for verb in ["list", "show", "diff", "verify", "check", "overlap"] {
            let mut words = vec![verb];
            words.extend((verb != "list" && verb != "overlap").then_some(agent.id.as_str()));
            agent.repo.agent(&words);
            assert!(!started.exists(), "{what}: {verb} started something");
        }
        let restored = fenced.finish().restored;
        assert_eq!(restored.len(), altered, "{what}: {restored:?}");
        assert_eq!(look(), (true, false), "{what}");
        agent.verify(&[]);
        assert!(!started.exists(), "{what}: verify started something");
    }
}
