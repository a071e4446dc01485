use super::{beside, level};
use crate::support::agent::{TASK, agent_command, answer_of, describe};
use crate::support::{TestRepo, git_in, isolated};
use crate::verify::Agent;
use serde_json::{Value, json};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// A repository on this machine that takes pushes.
struct Server {
    directory: PathBuf,
    url: String,
    port: u16,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// A copy of `repo` beside it, served over git's own protocol.
    fn beside(repo: &TestRepo) -> Server {
        let mut daemon = isolated("git", &repo.path());
        daemon.args(["daemon", "--inetd", "--export-all", "--enable=receive-pack"]);
        Server::started(repo, "git://127.0.0.1", daemon)
    }

    /// The same over ssh, which a key beside the repository opens; `None`, after saying so, where there is no sshd that lets
    /// this user in.
    #[expect(clippy::print_stdout, reason = "a test that holds nothing here says so")]
    fn over_ssh(repo: &TestRepo) -> Option<Server> {
        const SSHD: &str = "/usr/sbin/sshd";
        let place = repo.path().with_file_name("ssh");
        // Where sshd wants to be as root; it is there on machines that run one.
        if !Path::new(SSHD).exists() || std::fs::create_dir_all("/run/sshd").is_err() {
            println!("skipped, since there is no sshd");
            return None;
        }
        std::fs::create_dir(&place).expect("made");
        for key in ["host", "key"] {
            let words = ["-q", "-t", "ed25519", "-N", "", "-f", key];
            let made = isolated("ssh-keygen", &place).args(words).status();
            assert!(made.expect("starts").success());
        }
        let at = |name: &str| place.join(name).display().to_string();
        let settings = format!(
            "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPermitRootLogin yes\nPidFile none\n",
            at("host"),
            at("key.pub")
        );
        std::fs::write(place.join("settings"), settings).expect("written");
        let mut sshd = isolated(SSHD, &place);
        sshd.args(["-i", "-f", &at("settings")]);
        let server = Server::started(repo, "ssh://127.0.0.1", sshd);
        let tried = isolated("sh", &repo.path())
            .args(["-c", "GIT_SSH_COMMAND=$SSH git push -q $URL main:sent && GIT_SSH_COMMAND=$SSH git push -q $URL :sent"])
            .env("SSH", ssh(repo))
            .env("URL", server.url())
            .output()
            .expect("starts");
        if !tried.status.success() {
            println!("skipped, since sshd does not let this user in: {}", describe(&tried));
        }
        tried.status.success().then_some(server)
    }

    /// Starts `program` for each connection, which is its standard input and output.
    fn started(repo: &TestRepo, scheme: &str, mut program: Command) -> Server {
        let directory = repo.path().with_file_name("served");
        let place = directory.to_str().expect("UTF-8");
        repo.git(["clone", "--quiet", "--bare", ".", place]);
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let url = format!("{scheme}:{port}{place}");
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            for connection in listener.incoming() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let connection = OwnedFd::from(connection.expect("a connection"));
                let output = connection.try_clone().expect("a descriptor");
                program.stdin(connection).stdout(output).stderr(Stdio::null());
                let mut serving = program.spawn().expect("starts");
                std::thread::spawn(move || serving.wait());
            }
        });
        Server { directory, url, port, is_over, thread: Some(thread) }
    }

    fn url(&self) -> String {
        self.url.clone()
    }

    fn refs(&self) -> String {
        git_in(&self.directory, ["for-each-ref"])
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// How ssh is called with the key.
fn ssh(repo: &TestRepo) -> String {
    let key = repo.path().with_file_name("ssh").join("key");
    let key = key.display();
    format!(
        "ssh -i {key} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o BatchMode=yes"
    )
}

/// An agent whose repository has the server as `origin`.
fn agent() -> (Agent, Server) {
    let agent = Agent::of_task(TASK);
    let server = Server::beside(&agent.repo);
    agent.repo.git(["remote", "add", "origin", &server.url()]);
    // The server takes what git outside of the fence sends.
    agent.repo.git(["push", "--quiet", "origin", "main:sent"]);
    agent.repo.git(["push", "--quiet", "origin", ":sent"]);
    (agent, server)
}

fn real_git() -> PathBuf {
    let found = isolated("sh", Path::new("/")).args(["-c", "command -v git"]).output();
    let path = String::from_utf8(found.expect("starts").stdout).expect("UTF-8");
    std::fs::canonicalize(path.trim()).expect("there")
}

fn run(agent: &Agent, server: &Server, options: &[&str], script: &str) -> Value {
    let output = agent_command(&agent.repo.path())
        .args(["run", "--no-verify", "--format=json"])
        .args(options)
        .args([&agent.id, "--", "sh", "-c", script])
        .env("TMPDIR", beside(agent, "temporary"))
        .env("URL", server.url())
        .env("KEY", ssh(&agent.repo))
        .env("SERVED", &server.directory)
        .env("GIT", real_git())
        .env("MAIN", agent.repo.path().join(".git"))
        .output()
        .expect("starts");
    answer_of(&output)
}

/// Pushes that the git which is first on `PATH` is told to make, or a git of the agent's worktree with its own remote.
const BY_NAME: [&str; 20] = [
    "git push",
    "git push --no-verify origin HEAD:refs/heads/x",
    "git push --no-verify --dry-run origin HEAD:refs/heads/x",
    "git push --no-verify $URL HEAD:refs/heads/x",
    "git push --no-verify file://$SERVED HEAD:refs/heads/x",
    "git push --no-verify $SERVED HEAD:refs/heads/x",
    "git -c remote.o.url=$URL -c remote.o.pushurl=$URL push --no-verify o HEAD:refs/heads/x",
    "git -c core.hooksPath=/dev/null push origin HEAD:refs/heads/x",
    "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0= git push origin HEAD:refs/heads/x",
    "GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 git push --no-verify origin HEAD:refs/heads/x",
    "git send-pack $URL HEAD:refs/heads/x",
    "git -C src --no-pager push --no-verify origin HEAD:refs/heads/x",
    "GIT_DIR=$MAIN git push --no-verify origin main:refs/heads/x",
    "git clone -q $URL $TMPDIR/clone && cd $TMPDIR/clone && git push origin HEAD:refs/heads/x",
    "git remote-https origin https://127.0.0.1:1/x",
    // Without the variables and the search path of the run there are still the settings of its repository.
    "env -i $GIT push --no-verify origin HEAD:refs/heads/x",
    "git -c alias.p=push p --no-verify origin HEAD:refs/heads/x",
    // What git takes for a misspelt subcommand it runs by itself.
    "git -c help.autocorrect=immediate puhs --no-verify origin HEAD:refs/heads/x",
    "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=help.autocorrect GIT_CONFIG_VALUE_0=1 git --no-pager -C src psuh origin HEAD:refs/heads/x",
    "printf '[help]\n\tautocorrect = 1\n' >$TMPDIR/c; env -i GIT_CONFIG_GLOBAL=$TMPDIR/c $GIT puhs --no-verify origin HEAD:refs/heads/x",
];

/// Pushes that only a fence with a mount namespace refuses.
const BY_OTHER_WAYS: [&str; 14] = [
    "git config remote.origin.pushurl $URL; $GIT push --no-verify origin HEAD:refs/heads/x",
    "env -i git push --no-verify $URL HEAD:refs/heads/x",
    "env -i /usr/bin/git push --no-verify $URL HEAD:refs/heads/x",
    "env -i git send-pack $URL HEAD:refs/heads/x",
    "$GIT send-pack $URL HEAD:refs/heads/x",
    "$(git --exec-path)/git-push --no-verify origin HEAD:refs/heads/x",
    "$(git --exec-path)/git-send-pack $URL HEAD:refs/heads/x",
    "git -c alias.p=push p --no-verify origin HEAD:refs/heads/x",
    "git -c alias.p='!'$GIT' push' p --no-verify origin HEAD:refs/heads/x",
    "git rebase -q --force-rebase --exec 'git push --no-verify origin HEAD:refs/heads/x' HEAD^",
    "env -i GIT_DIR=$MAIN git push --no-verify $URL main:refs/heads/x",
    "rm -rf $TMPDIR/other; git clone -q $URL $TMPDIR/other && cd $TMPDIR/other && env -i git push origin HEAD:refs/heads/x",
    "cp $GIT $TMPDIR/copy; $TMPDIR/copy push --no-verify origin HEAD:refs/heads/x",
    "$(git --exec-path)/git-remote-https origin https://127.0.0.1:1/x",
];

#[test]
fn nothing_is_pushed_out_of_the_fence_by_any_git() {
    let Some(_) = level() else {
        return;
    };
    let (agent, server) = agent();
    let before = server.refs();
    // Each says its number if it succeeded, and the whole whether git was replaced by its path.
    let script = |ways: &[&str]| -> String {
        let lines = ways.iter().enumerate().map(|(number, way)| {
            format!("( {way} ) </dev/null >/dev/null 2>&1 && echo {number}\n")
        });
        lines.collect::<String>() + "head -c 2 $GIT; true"
    };
    for mode in ["auto", "require", "strict"] {
        let report = run(&agent, &server, &["--sandbox", mode], &script(&BY_NAME));
        let summary = report["summary"].as_str().expect("a text");
        let is_replaced = summary.ends_with("#!");
        let pushed: Vec<&str> =
            summary.lines().filter(|line| line.parse::<usize>().is_ok()).collect();
        assert_eq!(pushed, [""; 0], "{mode}: {report}");
        let refused = report["push_refused"].as_array().expect("a list");
        assert!(refused.contains(&json!("git push")), "{mode}: {report}");
        assert!(refused.len() >= 10, "{mode}: {report}");
        let warnings = report["warnings"].to_string();
        assert!(warnings.contains("tried to push"), "{mode}: {warnings}");
        if is_replaced {
            let report = run(&agent, &server, &["--sandbox", mode], &script(&BY_OTHER_WAYS));
            let summary = report["summary"].as_str().expect("a text");
            assert_eq!(summary, "#!", "{mode}: {report}");
        }
        assert_eq!(server.refs(), before, "{mode}");
    }
}

#[test]
fn nothing_is_pushed_over_ssh_either() {
    let Some(_) = level() else {
        return;
    };
    let agent = Agent::of_task(TASK);
    let Some(server) = Server::over_ssh(&agent.repo) else {
        return;
    };
    let before = server.refs();
    // Fetching with a key that the command can read works, so the server is in reach.
    let script = "for git in git $GIT 'env -i '$GIT; do
            GIT_SSH_COMMAND=$KEY $git -c core.sshCommand=\"$KEY\" push --no-verify $URL HEAD:refs/heads/x && echo pushed
        done 2>/dev/null; GIT_SSH_COMMAND=$KEY git ls-remote $URL main | wc -l | tr -d ' '";
    let report = run(&agent, &server, &[], script);
    assert_eq!(report["summary"], "1", "{report}");
    assert_eq!(server.refs(), before);
}

#[test]
fn git_does_the_rest_and_the_model_hears_why_not() {
    let Some(_) = level() else {
        return;
    };
    let (agent, server) = agent();
    let script = "git push origin HEAD:refs/heads/x 2>&1 | head -1
        git fetch -q $URL main && git rev-parse FETCH_HEAD; git fetch -q origin && git rev-parse origin/main
        git clone -q $URL $TMPDIR/clone && git -C $TMPDIR/clone rev-parse HEAD; git ls-remote $URL refs/heads/main | cut -f1
        git --no-pager -c core.abbrev=7 log -1 --format=%s; $(git --exec-path)/git-rev-parse --is-inside-work-tree
        git stash list; git upload-pack --advertise-refs $SERVED | tr -d '\\0' | grep -c ' refs/heads/main$'";
    let report = run(&agent, &server, &[], script);
    let main = agent.repo.git(["rev-parse", "main"]);
    let spawned = agent.git(&["log", "-1", "--format=%s"]);
    let summary = report["summary"].as_str().expect("a text");
    let lines: Vec<&str> = summary.lines().collect();
    assert!(lines[0].contains("does not push"), "{summary}");
    let expected = [&main, &main, &main, &main, &spawned, "true", "1"];
    assert_eq!(lines[1..], expected, "{summary}");
    // What it fetched is its own.
    assert_eq!(agent.repo.git(["for-each-ref", "refs/remotes"]), "");
    assert_eq!(report["warnings"].as_array().map(Vec::len), Some(1), "{report}");
    assert_eq!(report["push_refused"], json!(["git push origin HEAD:refs/heads/x"]));
}

#[test]
fn a_push_that_is_allowed_arrives_and_runs_the_repositorys_hook() {
    let Some(_) = level() else {
        return;
    };
    let (agent, server) = agent();
    let hook = agent.repo.path().join(".git/hooks/pre-push");
    crate::hooks::script(&hook, "echo HOOK >&2");
    let push =
        |name: &str| format!("git push -q origin HEAD:refs/heads/{name} 2>&1 | grep -c HOOK");
    let report = run(&agent, &server, &["--allow-push"], &push("by-option"));
    assert_eq!(report["summary"], "1", "{report}");
    assert_eq!(report["push_refused"], Value::Null, "{report}");
    agent.repo.git(["config", "agent.push", "true"]);
    let report = run(&agent, &server, &[], &push("by-setting"));
    assert_eq!(report["summary"], "1", "{report}");
    let refs = server.refs();
    assert!(refs.contains("by-option") && refs.contains("by-setting"), "{refs}");
    // What the agent sets in its own repository counts for nothing.
    agent.repo.git(["config", "agent.push", "false"]);
    let report = run(
        &agent,
        &server,
        &[],
        "git config agent.push true; git push -q origin HEAD:refs/heads/own",
    );
    assert_eq!(report["exit_code"], 1, "{report}");
    assert_eq!(server.refs(), refs);
}

#[test]
fn credentials_are_out_of_reach_and_a_commit_that_should_be_signed_is_made() {
    let Some(_) = level() else {
        return;
    };
    let (agent, server) = agent();
    agent.repo.git(["config", "commit.gpgSign", "true"]);
    agent.repo.git(["config", "gpg.program", "false"]);
    agent.repo.git(["config", "credential.helper", "!echo password=secret; echo username=me;:"]);
    let script = "for name in SSH_AUTH_SOCK SSH_ASKPASS GIT_ASKPASS GIT_SSH_COMMAND; do eval echo \"\\${$name-none}\"; done
        printf 'protocol=https\\nhost=example.com\\n\\n' | git credential fill 2>/dev/null | grep -c secret
        printf 'protocol=https\\nhost=example.com\\n\\n' | env -i $GIT credential fill 2>/dev/null | grep -c secret
        echo '// two' >>src/lib.rs; git commit -qam second && env -i PATH=$PATH GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.com \
        GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@example.com HOME=$TMPDIR git commit -q --allow-empty -m third";
    let with_variables = |options: &[&str]| -> Value {
        let output = agent_command(&agent.repo.path())
            .args(["run", "--no-verify", "--format=json"])
            .args(options)
            .args([&agent.id, "--", "sh", "-c", script])
            .env("TMPDIR", beside(&agent, "temporary"))
            .env("GIT", real_git())
            .env("SSH_AUTH_SOCK", "/agent")
            .env("SSH_ASKPASS", "/ask")
            .env("GIT_ASKPASS", "/ask")
            .env("GIT_SSH_COMMAND", "ssh -i key")
            .output()
            .expect("starts");
        answer_of(&output)
    };
    let report = with_variables(&[]);
    assert_eq!(report["exit_code"], 0, "{report}");
    assert_eq!(report["summary"], "none\nnone\nnone\nnone\n0\n0", "{report}");
    assert!(report["warnings"].to_string().contains("not signed"), "{report}");
    assert_eq!(agent.git(&["log", "-2", "--format=%s"]), "third\nsecond");
    agent.repo.git(["config", "agent.fetchCredentials", "true"]);
    let report = with_variables(&[]);
    let summary = report["summary"].as_str().expect("a text");
    assert!(summary.starts_with("/agent\n/ask\n/ask\nssh -i key\n1\n"), "{summary}");
    drop(server);
}
