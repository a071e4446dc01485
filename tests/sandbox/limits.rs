use super::{ACTION, Fenced, actor, ctx};
use crate::support::agent::describe;
use git_agent::domain::sandbox::Mode;
use git_agent::ops::run::seal::Seal;
use git_agent::store::ledger::Ledger;
use serde_json::Value;
use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;

/// Does something behind the fence that goes through.
fn goes_through(fenced: &Fenced, script: &str) {
    let output = fenced.shell(script);
    assert!(output.status.success(), "{script}: {}", describe(&output));
}

fn sibling(fenced: &Fenced) -> (String, String) {
    let other = fenced.agent.repo.spawn();
    let text = |key: &str| other[key].as_str().expect(key).to_owned();
    (text("agent_id"), text("branch"))
}

fn codes(verdict: &Value) -> Vec<&str> {
    let findings = verdict["findings"].as_array().expect("findings").iter();
    findings
        .map(|finding| finding["code"].as_str().expect("a code"))
        .collect()
}

#[test]
fn a_siblings_branch_can_be_moved_and_verify_sees_it() {
    let Some(fenced) = Fenced::new(Mode::Require) else {
        return;
    };
    let (id, branch) = sibling(&fenced);
    goes_through(
        &fenced,
        &format!("git rev-parse main > \"$COMMON/refs/heads/{branch}\""),
    );
    let output = fenced.agent.repo.agent(&["verify", &id, "--format=json"]);
    let verdict: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(
        codes(&verdict).contains(&"provenance.spawn-commit"),
        "{verdict}"
    );
    goes_through(&fenced, &format!("rm \"$COMMON/refs/heads/{branch}\""));
    let output = fenced.agent.repo.agent(&["verify", &id]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("error[branch-gone]"), "{said}");
    let keep = fenced.agent.repo.git(["rev-list", "refs/agents/keep"]);
    let spawn = fenced.agent.repo.agent_json(&["show", &id]);
    assert!(keep.contains(spawn["spawn_commit"].as_str().expect("an oid")));
}

#[test]
fn objects_can_be_deleted_and_verify_misses_them() {
    let Some(fenced) = Fenced::new(Mode::Require) else {
        return;
    };
    let (id, branch) = sibling(&fenced);
    let delete = format!(
        "oid=$(git rev-parse {branch}); rest=${{oid#??}}
         rm -f \"$COMMON/objects/${{oid%\"$rest\"}}/$rest\""
    );
    goes_through(&fenced, &delete);
    let output = fenced.agent.repo.agent(&["verify", &id]);
    assert_eq!(output.status.code(), Some(4), "{}", describe(&output));
}

#[test]
fn its_own_hooks_can_be_switched_off_and_verify_and_doctor_see_it() {
    let check = |script: &str| {
        let Some(fenced) = Fenced::new(Mode::Require) else {
            return;
        };
        goes_through(&fenced, script);
        let verdict = fenced.agent.verify(&[]);
        assert_eq!(verdict["verdict"], "reject");
        assert!(codes(&verdict).contains(&"worktree.hooks"), "{verdict}");
        let doctor = fenced.agent.repo.agent(&["doctor"]);
        let said = String::from_utf8_lossy(&doctor.stdout);
        assert_eq!(doctor.status.code(), Some(1), "{said}");
        assert!(said.contains("hooks"), "{said}");
    };
    check("rm \"$(git rev-parse --git-dir)/config.worktree\"");
    check("git config --worktree core.hooksPath /dev/null");
}

#[test]
fn a_worktree_that_points_elsewhere_is_seen() {
    let check = |script: &str, expected: &str| {
        let Some(fenced) = Fenced::new(Mode::Require) else {
            return;
        };
        goes_through(&fenced, script);
        let output = fenced.agent.run(&["--format=json"]);
        let said = describe(&output);
        assert!(!output.status.success(), "{said}");
        assert!(said.contains(expected), "{script}: {said}");
    };
    let admin = "cd \"$(git rev-parse --git-dir)\"";
    check("echo gitdir: /nowhere > .git", "worktree.unlinked");
    check(
        &format!("{admin}; echo \"$MAIN/.git\" > gitdir"),
        "worktree.unlinked",
    );
    check(&format!("{admin}; echo \"$TMPDIR\" > commondir"), "");
}

#[test]
fn permissions_reading_and_datagrams_go_through() {
    let Some(fenced) = Fenced::new(Mode::Require) else {
        return;
    };
    let readme = fenced.agent.repo.path().join("README.md");
    goes_through(
        &fenced,
        "chmod 640 \"$MAIN/README.md\"; cat \"$MAIN/README.md\"",
    );
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

/// Each has something started by the next git that runs in the worktree.
#[test]
fn what_leads_git_to_other_settings_is_put_back() {
    let started = "touch \\\"$HOME/started\\\"";
    let settings = format!(
        "printf '[core]\\n\\tfsmonitor = \"{started}; false\"\\n[filter \"x\"]\\n\\tclean = \"{started}; cat\"\\n'"
    );
    let own = "* filter=x";
    for (what, script) in [
        (
            "settings",
            format!("{settings} > \"$ADMIN/config.worktree\"; echo '{own}' > .gitattributes"),
        ),
        (
            "a symlink to settings",
            format!("{settings} > src/s; ln -sf \"$PWD/src/s\" \"$ADMIN/config.worktree\""),
        ),
        (
            "another common dir",
            format!(
                "git clone -q --bare \"$MAIN\" \"$TMPDIR/common\"; {settings} >> \"$TMPDIR/common/config\"
                 echo \"$TMPDIR/common\" > \"$ADMIN/commondir\""
            ),
        ),
        (
            "another repository",
            format!("rm .git; git init -q; {settings} >> .git/config; git add src"),
        ),
    ] {
        let Some(fenced) = Fenced::new(Mode::Require) else {
            return;
        };
        let agent = &fenced.agent;
        let surroundings = ctx(agent);
        let row = Ledger::new(&surroundings.repo).find(&agent.id).expect("a row");
        let seal = Seal::of(&surroundings, &row, &agent.worktree).expect("read");
        assert_eq!(seal.restore().expect("restored"), [""; 0].map(std::path::PathBuf::from));
        let script = format!("ADMIN=$(git rev-parse --git-dir); {script}; echo '// x' >> src/lib.rs");
        goes_through(&fenced, &script);
        let started = fenced.beside("home").join("started");
        let look = || {
            let status = fenced.unfenced(&["git", "status"]).output().expect("starts");
            (status.status.success(), fs::exists(&started).expect("known"))
        };
        assert!(look().1, "{what}: without the seal something is started");
        fs::remove_file(&started).expect("removed");
        let restored = seal.restore().expect("restored");
        assert_eq!(restored.len(), 1, "{what}: {restored:?}");
        let aside = format!("{}.altered", restored[0].display());
        assert!(fs::symlink_metadata(aside).is_ok(), "{what}");
        assert_eq!(look(), (true, false), "{what}");
        agent.verify(&[]);
        assert!(!started.exists(), "{what}: verify started something");
    }
}
