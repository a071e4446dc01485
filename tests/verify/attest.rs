use super::{Agent, codes, refused, report};
use crate::support::agent::{agent_command, describe};
use crate::support::{isolated, signing};
use crate::traces::judged_by;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Output;

/// An agent whose work is accepted, and the keys of its user and of a stranger.
struct Scene {
    agent: Agent,
    place: PathBuf,
}

impl Scene {
    fn new() -> Scene {
        let agent = Agent::new();
        agent.write("src/two.rs", "pub fn two() {}\n");
        agent.commit("two");
        let place = signing::set_up(&agent.repo);
        Scene { agent, place }
    }

    fn set(&self, key: &str, value: &str) {
        self.agent.repo.git(["config", key, value]);
    }

    fn sign_as(&self, name: &str) {
        signing::sign_as(&self.agent.repo, name);
    }

    fn file(&self, name: &str) -> String {
        self.place.join(name).display().to_string()
    }

    /// Attests the work to a file of that name, and gives what the file holds.
    fn attest(&self, name: &str) -> Value {
        let file = self.file(name);
        let output = self.agent.run(&["--attest", &file]);
        assert!(output.status.success(), "{}", describe(&output));
        serde_json::from_slice(&fs::read(file).expect("the file")).expect("JSON")
    }

    fn attested(&self, name: &str, arguments: &[&str]) -> Output {
        let output = agent_command(&self.agent.repo.path())
            .args(["verify", "--attested", &self.file(name), "--format=json"])
            .args(arguments)
            .output();
        output.expect("git-agent starts")
    }
}

fn decoded(base64: &Value) -> Vec<u8> {
    use base64::Engine;
    let text = base64.as_str().expect("a text");
    let engine = base64::engine::general_purpose::STANDARD;
    engine.decode(text).expect("base64")
}

fn encoded(bytes: &[u8]) -> Value {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes).into()
}

#[test]
fn an_attestation_holds_for_what_lands_and_for_nothing_else() {
    let scene = Scene::new();
    let envelope = scene.attest("attestation");
    judged_by("dsse", &envelope);
    let statement: Value =
        serde_json::from_slice(&decoded(&envelope["payload"])).expect("a statement");
    judged_by("in-toto-svr", &statement);
    let tip = scene.agent.repo.git(["rev-parse", &scene.agent.branch]);
    assert_eq!(statement["subject"][0]["digest"]["gitCommit"], tip);
    let answer = report(&scene.attested("attestation", &[]));
    assert_eq!(answer["signer"], "ada@example.com");
    assert_eq!(answer["statement"]["agent_id"], scene.agent.id);
    let for_tip = report(&scene.attested("attestation", &["--tip", &scene.agent.branch]));
    assert_eq!(for_tip["verdict"], "accept", "{for_tip}");
    let other = report(&scene.attested("attestation", &["--tip=main"]));
    assert_eq!(codes(&other), ["attestation.subject"]);
    // What lands by a squash is another commit with the tree that was judged.
    scene.agent.repo.agent_json(&["merge", &scene.agent.id, "--squash"]);
    let landed = report(&scene.attested("attestation", &["--tip=main"]));
    assert_eq!(landed["verdict"], "accept", "{landed}");
    // The signature is one that OpenSSH itself checks.
    let payload = decoded(&envelope["payload"]);
    let head = format!("DSSEv1 28 application/vnd.in-toto+json {} ", payload.len());
    fs::write(scene.place.join("text"), [head.as_bytes(), &payload].concat()).expect("write");
    let signature = decoded(&envelope["signatures"][0]["sig"]);
    fs::write(scene.place.join("signature"), signature).expect("write");
    let mut oracle = isolated("ssh-keygen", &scene.place);
    oracle.args(["-Y", "verify", "-n", "git", "-f", "allowed"]);
    oracle.args(["-I", "ada@example.com", "-s", "signature"]);
    let oracle = oracle.stdin(fs::File::open(scene.place.join("text")).expect("open"));
    assert!(oracle.status().expect("ssh-keygen starts").success());
}

#[test]
fn what_was_altered_or_signed_by_a_stranger_does_not_hold() {
    let scene = Scene::new();
    let envelope = scene.attest("attestation");
    let check = |envelope: &Value, expected: &[&str]| {
        fs::write(scene.file("altered"), envelope.to_string()).expect("write");
        let answer = report(&scene.attested("altered", &[]));
        assert_eq!(codes(&answer), expected, "{answer}");
    };
    check(&envelope, &[]);
    let mut altered = envelope.clone();
    let payload = String::from_utf8(decoded(&envelope["payload"])).expect("UTF-8");
    altered["payload"] = encoded(payload.replace("refs/heads/main", "refs/heads/prod").as_bytes());
    check(&altered, &["attestation.signature"]);
    altered["payload"] = encoded(b"{}");
    check(&altered, &["attestation.signature", "attestation.statement"]);
    let mut altered = envelope.clone();
    altered["payloadType"] = "text/plain".into();
    check(&altered, &["attestation.signature", "attestation.statement"]);
    scene.sign_as("eve");
    let forged = scene.attest("forged");
    check(&forged, &["attestation.signature"]);
    // Another list may say otherwise.
    let eve = fs::read_to_string(scene.place.join("eve.pub")).expect("a key");
    fs::write(scene.file("others"), format!("eve@example.com {eve}")).expect("write");
    let answer = report(&scene.attested("forged", &["--signers", &scene.file("others")]));
    assert_eq!(answer["signer"], "eve@example.com");
    fs::write(scene.file("altered"), "no JSON").expect("write");
    let output = scene.attested("altered", &[]);
    super::refused_json(&output, "usage", 2);
}

#[test]
fn a_key_that_was_revoked_signs_nothing_any_more() {
    let scene = Scene::new();
    scene.attest("attestation");
    let repo = &scene.agent.repo;
    // Git resolves a relative file from the top of the worktree, wherever it is asked.
    fs::copy(scene.file("allowed"), repo.path().join("signers")).expect("copied");
    scene.set("gpg.ssh.allowedSignersFile", "signers");
    let from_below = || {
        let mut command = agent_command(&repo.path().join("src"));
        command.args(["verify", "--format=json", "--attested", &scene.file("attestation")]);
        report(&command.output().expect("git-agent starts"))
    };
    assert_eq!(from_below()["signer"], "ada@example.com");
    fs::copy(scene.file("ada.pub"), repo.path().join("revoked")).expect("copied");
    scene.set("gpg.ssh.revocationFile", "revoked");
    assert_eq!(codes(&from_below()), ["attestation.signature"]);
    // An empty value takes one back that another file sets.
    scene.set("gpg.ssh.revocationFile", "");
    assert_eq!(from_below()["signer"], "ada@example.com");
    // A list that is missing tells nothing.
    scene.set("gpg.ssh.revocationFile", "elsewhere");
    super::refused_json(&scene.attested("attestation", &[]), "io", 4);
}

#[test]
fn an_answer_goes_into_what_is_no_file_and_takes_the_place_of_a_link() {
    let scene = Scene::new();
    let place = |name: &str| scene.place.join(name);
    let status = isolated("mkfifo", &scene.place).arg("pipe").status();
    assert!(status.expect("mkfifo starts").success());
    let pipe = place("pipe");
    let reader = std::thread::spawn(move || fs::read_to_string(pipe).expect("readable"));
    let words = ["--attest", &scene.file("pipe")];
    let output = scene.agent.run(&words);
    assert!(output.status.success(), "{}", describe(&output));
    assert!(reader.join().expect("a reader").contains("payloadType"));
    // Into a stream that is led elsewhere.
    let log = place("log");
    fs::write(&log, "earlier\n").expect("written");
    let mut command = agent_command(&scene.agent.repo.path());
    command.args(["verify", &scene.agent.id, "--also=json=/dev/stdout"]);
    let file = fs::File::options().append(true).open(&log).expect("opened");
    assert!(command.stdout(file).status().expect("starts").success());
    let logged = fs::read_to_string(&log).expect("readable");
    assert!(logged.starts_with("earlier\n{") && logged.ends_with("\n"), "{logged}");
    assert!(logged.contains("git-agent.verify/") && logged.contains("accepted: "), "{logged}");
    let output = scene.agent.run(&["--also=json=/dev/full"]);
    super::refused(&output, "disk-full", 4);
    // An agent can have put a link there.
    fs::write(place("real"), "mine").expect("written");
    std::os::unix::fs::symlink("real", place("link")).expect("a link");
    scene.attest("link");
    assert_eq!(fs::read_to_string(place("real")).expect("readable"), "mine");
}

#[test]
fn only_a_whole_accepting_verdict_is_attested() {
    let scene = Scene::new();
    let file = scene.file("attestation");
    scene.agent.repo.git(["config", "--unset", "gpg.format"]);
    refused(&scene.agent.run(&["--attest", &file]), "usage", 2);
    scene.set("gpg.format", "ssh");
    scene.set("user.signingKey", &scene.file("nothing"));
    refused(&scene.agent.run(&["--attest", &file]), "git-failed", 4);
    scene.sign_as("ada");
    // The commit is not all that was judged.
    scene.agent.write("src/two.rs", "pub fn two() -> u8 { 2 }\n");
    refused(&scene.agent.run(&["--attest", &file]), "not-accepted", 3);
    scene.agent.write("notes.txt", "out of scope\n");
    let output = scene.agent.run(&["--attest", &file]);
    assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
    assert!(!fs::exists(&file).expect("readable"));
}

#[test]
fn an_attestation_is_checked_where_there_is_no_repository() {
    let scene = Scene::new();
    let envelope = scene.attest("attestation");
    let tip = scene.agent.repo.git(["rev-parse", &scene.agent.branch]);
    let empty = tempfile::tempdir().expect("a directory");
    let check = |arguments: &[&str]| {
        let output = agent_command(empty.path())
            .args(["verify", "--attested", &scene.file("attestation")])
            .args(["--signers", &scene.file("allowed"), "--format=json"])
            .args(arguments)
            .output();
        output.expect("git-agent starts")
    };
    let answer = report(&check(&[]));
    assert_eq!(answer["verdict"], "accept", "{answer}");
    assert_eq!(answer["signer"], "ada@example.com");
    let answer = report(&check(&["--tip", &tip]));
    assert_eq!(answer["verdict"], "accept", "{answer}");
    // Another commit has a tree that only a repository could tell.
    let other = scene.agent.repo.git(["rev-parse", "main"]);
    super::refused_json(&check(&["--tip", &other]), "base-not-commit", 2);
    super::refused_json(&check(&["--tip", "HEAD"]), "usage", 2);
    // A repository that cannot be opened says nothing about the file.
    fs::write(empty.path().join(".git"), "gitdir: /nowhere\n").expect("write");
    assert_eq!(report(&check(&[]))["verdict"], "accept");
    let mut altered = envelope;
    altered["payload"] = encoded(b"{}");
    fs::write(scene.file("attestation"), altered.to_string()).expect("write");
    let answer = report(&check(&[]));
    let expected = ["attestation.signature", "attestation.statement"];
    assert_eq!(codes(&answer), expected, "{answer}");
    let temporary = empty.path().join("tmpdir");
    assert_eq!(fs::read_dir(temporary).expect("readable").count(), 0);
}
