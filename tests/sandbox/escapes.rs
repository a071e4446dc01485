use super::{ACTION, Fenced, actor};
use crate::support::agent::describe;
use crate::support::{assert_unchanged, snapshot};
use git_agent::domain::life::sandbox::{Landlock, Mode};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

/// Each way out, as a script that succeeds when it got out. Every one is tried without a fence afterwards,
/// where it has to succeed, so that none is refused for a reason of its own.
pub const WAYS_OUT: &[(&str, &str)] = &[
    ("another agent's file", "echo x > \"$OTHER/src/lib.rs\""),
    ("another agent's new file", ": > \"$OTHER/new\""),
    ("another agent's index", "rm \"$OTHER_ADMIN/index\""),
    ("another agent's HEAD", "echo x > \"$OTHER_ADMIN/HEAD\""),
    ("a file of the main worktree", "echo x >> \"$MAIN/README.md\""),
    ("a new file in the main worktree", ": > \"$MAIN/new\""),
    ("emptying a file", "truncate -s 0 \"$MAIN/README.md\""),
    ("removing a file", "rm -f \"$MAIN/README.md\""),
    ("a hook", "echo x > \"$COMMON/hooks/pre-commit\""),
    ("the repository's settings", "git config --file \"$COMMON/config\" user.name evil"),
    ("the settings as a file", "echo '[core]' >> \"$COMMON/config\""),
    ("the exclude file", "echo '*' >> \"$COMMON/info/exclude\""),
    ("main by update-ref", "$GIT update-ref refs/heads/main \"$(git rev-parse HEAD)\""),
    ("main as a file", "git rev-parse HEAD > \"$COMMON/refs/heads/main\""),
    ("a branch elsewhere", "$GIT branch elsewhere"),
    ("a tag", "$GIT tag v1"),
    ("a stash", "echo x >> src/lib.rs; $GIT stash -q"),
    ("the ledger", "$GIT notes --ref=agents add -f -m x HEAD"),
    ("the keep chain", "$GIT update-ref refs/agents/keep HEAD"),
    ("a remote's branch", "$GIT update-ref refs/remotes/origin/main HEAD"),
    ("a sibling's branch", "git rev-parse HEAD > \"$COMMON/refs/heads/$OTHER_BRANCH\""),
    ("its own branch outside", "rm \"$COMMON/refs/heads/$OWN_BRANCH\""),
    ("its reflog outside", "echo x >> \"$COMMON/logs/refs/heads/$OWN_BRANCH\""),
    ("its index outside", "rm \"$COMMON/worktrees/agent-$ID8/index\""),
    ("its settings outside", "echo '[core]' >> \"$COMMON/worktrees/agent-$ID8/config.worktree\""),
    (
        "an object",
        "oid=$(git rev-parse main); rest=${oid#??}; rm -f \"$COMMON/objects/${oid%\"$rest\"}/$rest\"",
    ),
    ("a new object", "mkdir -p \"$COMMON/objects/zz\""),
    ("packing refs", "$GIT pack-refs --all"),
    ("a worktree", "$GIT worktree add -q --detach \"$TMPDIR/more\""),
    ("our own files", "echo x >> \"$COMMON/agents/ledger.lock\""),
    ("its prompt", "echo x >> \"$COMMON/agents/$ID8/prompt.md\""),
    ("the report of its own fence", "echo fenced > \"$REPORT\""),
    ("the home directory", "echo x > \"$HOME/.profile\""),
    ("another temporary directory", "echo x > \"$OUT/x\""),
    ("a symlink out", "ln -s \"$OUT\" link; echo x > link/x"),
    ("a hard link out", "ln src/lib.rs \"$OUT/linked\""),
    ("a hard link in", "ln \"$MAIN/README.md\" src/linked; echo x >> src/linked"),
    ("a rename out", "mv src/lib.rs \"$OUT/moved\""),
    ("a rename in", "mv \"$MAIN/README.md\" src/moved"),
    ("a directory renamed out", "mv src \"$OUT/moved-too\""),
    ("through its own root", "echo x >> \"/proc/self/root$MAIN/README.md\""),
    ("through another's root", "echo x >> \"/proc/$VICTIM/root$MAIN/README.md\""),
    ("through another's directory", "echo x > \"/proc/$VICTIM/cwd/x\""),
    ("through a descriptor", "echo x > \"/proc/$VICTIM/fd/1\""),
    (
        "another's memory",
        "dd if=/dev/zero of=/proc/$VICTIM/mem bs=1 count=0 conv=notrunc 2> /dev/null",
    ),
    (
        "a helper that wants namespaces too",
        "\"$US\" fenced --landlock links --namespaces processes --report \"$TMPDIR/r\" --write / -- sh -c 'echo x >> \"$MAIN/README.md\"'",
    ),
    (
        "a helper that wants more",
        "\"$US\" fenced --landlock links --namespaces none --report \"$TMPDIR/r\" --write / -- sh -c 'echo x >> \"$MAIN/README.md\"'",
    ),
];

/// A process outside, killed with the test.
struct Victim(Child);

impl Victim {
    fn new(setting: &Setting) -> Victim {
        let out = File::create(setting.fenced.beside("out").join("stdout"));
        let child = Command::new("sleep")
            .arg("1000")
            .current_dir(setting.fenced.beside("out"))
            .stdout(out.expect("made"))
            .spawn();
        Victim(child.expect("starts"))
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// An agent in its fence, beside another one.
struct Setting {
    fenced: Fenced,
    other: PathBuf,
    other_branch: String,
}

impl Setting {
    fn new() -> Option<Setting> {
        let fenced = Fenced::new(Mode::Require)?;
        let other = fenced.agent.repo.spawn();
        let text = |key: &str| other[key].as_str().expect(key).to_owned();
        let setting = Setting {
            other: text("worktree_abspath").into(),
            other_branch: text("branch"),
            fenced,
        };
        setting.fenced.beside("home");
        setting.fenced.beside("out");
        Some(setting)
    }

    /// An action of [`super::child`].
    fn act(&self, action: &str, victim: &Victim, behind_fence: bool) -> Output {
        let words = actor();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut command =
            if behind_fence { self.fenced.command(&words) } else { self.fenced.unfenced(&words) };
        self.run(command.env(ACTION, action), victim)
    }

    fn attempt(&self, script: &str, victim: &Victim, behind_fence: bool) -> Output {
        let words = ["sh", "-ec", script];
        let mut command =
            if behind_fence { self.fenced.command(&words) } else { self.fenced.unfenced(&words) };
        self.run(&mut command, victim)
    }

    fn run(&self, command: &mut Command, victim: &Victim) -> Output {
        let common = self.fenced.agent.repo.path().join(".git");
        let common = common.display();
        let name = self.other.file_name().expect("named");
        let admin = self.fenced.agent.repo.path().join(".git/worktrees").join(name);
        command
            .env("OTHER", &self.other)
            .env("OTHER_ADMIN", admin)
            .env("ID8", &self.fenced.agent.id[..8])
            .env("REPORT", self.fenced.report())
            .env("VICTIM", victim.0.id().to_string())
            .env("SOCKET", format!("git-agent-{}", self.fenced.agent.id))
            // Past the hooks, which would refuse some of it before the kernel can.
            .env("GIT", format!("git -c core.hooksPath=/dev/null --git-dir={common}"))
            .env("OWN_BRANCH", &self.fenced.agent.branch)
            .env("OTHER_BRANCH", &self.other_branch)
            .stdin(Stdio::null())
            .output()
            .expect("starts")
    }

    /// What the agent must not change: everything but its own places.
    fn outside(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = snapshot(&self.fenced.beside(""));
        let own = &self.fenced.bounds.fence.writable;
        let report = self.fenced.report();
        files.retain(|path, _| !own.iter().any(|own| path.starts_with(own)) && *path != report);
        files
    }
}

#[test]
fn every_way_out_is_closed() {
    for (what, script) in WAYS_OUT {
        let Some(setting) = Setting::new() else {
            return;
        };
        let victim = Victim::new(&setting);
        let before = setting.outside();
        let output = setting.attempt(script, &victim, true);
        assert!(!output.status.success(), "{what}: {}", describe(&output));
        assert_unchanged(&before, &setting.outside(), what);
        let output = setting.attempt("git reset -q --hard; git clean -fdxq src", &victim, false);
        assert!(output.status.success(), "{what}: {}", describe(&output));
        let output = setting.attempt(script, &victim, false);
        assert!(output.status.success(), "{what}, without a fence: {}", describe(&output));
    }
}

/// Signals, sockets and the like of processes outside: as [`WAYS_OUT`].
#[test]
fn processes_outside_are_out_of_reach() {
    let Some(setting) = Setting::new() else {
        return;
    };
    let victim = Victim::new(&setting);
    let name = format!("git-agent-{}", setting.fenced.agent.id);
    let address = SocketAddr::from_abstract_name(name).expect("a name");
    let _listener = UnixListener::bind_addr(&address).expect("listens");
    let mut actions = vec!["descriptor"];
    let mut scripts = vec!["readlink /proc/$VICTIM/cwd"];
    if setting.fenced.level.landlock == Landlock::Processes {
        actions.push("abstract-socket");
        scripts.extend(["kill -STOP $VICTIM", "kill $VICTIM"]);
    }
    for action in actions {
        let output = setting.act(action, &victim, true);
        assert!(!output.status.success(), "{action}: {}", describe(&output));
        let output = setting.act(action, &victim, false);
        assert!(output.status.success(), "{action}: {}", describe(&output));
    }
    for script in scripts {
        let output = setting.attempt(script, &victim, true);
        assert!(!output.status.success(), "{script}: {}", describe(&output));
        let output = setting.attempt(script, &victim, false);
        assert!(output.status.success(), "{script}: {}", describe(&output));
    }
}

/// Without a fence these take privileges that not everybody who runs the tests has.
#[test]
fn privileges_do_not_help() {
    let Some(setting) = Setting::new() else {
        return;
    };
    let victim = Victim::new(&setting);
    let before = setting.outside();
    for script in [
        "unshare -m mount --bind \"$OUT\" \"$MAIN/src\"",
        "unshare -rm mount --bind \"$OUT\" \"$MAIN/src\"",
        "unshare -rm mount -t tmpfs none \"$MAIN/src\"",
        "unshare -rm chroot \"$MAIN\" /bin/true",
        "mknod src/disk b 7 0",
        "mknod \"$TMPDIR/disk\" c 1 1",
        "nsenter -t $VICTIM -m true",
        "echo 1 > /proc/sys/kernel/panic",
        "echo x > /dev/shm/git-agent-escaped",
    ] {
        let output = setting.attempt(script, &victim, true);
        assert!(!output.status.success(), "{script}: {}", describe(&output));
    }
    assert_unchanged(&before, &setting.outside(), "a privilege");
}
