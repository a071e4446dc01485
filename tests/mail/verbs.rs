use super::fsck;
use crate::support::TestRepo;
use crate::support::agent::{TASK, agent_command, answer_of, describe, json_of};
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

/// What a command says, with ids and times by their shape.
fn said(repo: &TestRepo, arguments: &[&str]) -> String {
    let text = describe(&repo.agent(arguments));
    let mut shaped = String::new();
    for (index, word) in text.split("MSG-").enumerate() {
        if index > 0 {
            shaped.push_str("MSG-<id>");
            shaped.push_str(&word[27..]);
        } else {
            shaped.push_str(word);
        }
    }
    let is_time = |word: &str| word.len() == 20 && word.starts_with("20") && word.ends_with('Z');
    let shape = |word| if is_time(word) { "<time>" } else { word };
    let lines = shaped.lines().map(|line| {
        let words: Vec<_> = line.split(' ').map(shape).collect();
        words.join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn send(repo: &TestRepo, arguments: &[&str]) -> Value {
    repo.agent_json(&[&["send"], arguments].concat())
}

fn notify(repo: &TestRepo, to: &str, text: &str) -> String {
    let payload = format!("message={text}");
    let sent = send(repo, &["--type=notify", "--to", to, "--payload", &payload]);
    sent["message_id"].as_str().expect("an id").to_owned()
}

fn texts(report: &Value) -> Vec<&str> {
    let messages = report["messages"].as_array().expect("messages");
    let summary = |message: &'_ Value| message["summary"].as_str().map(str::to_owned);
    assert_eq!(report["count"], messages.len());
    assert!(messages.iter().all(|message| summary(message).is_some()));
    messages.iter().filter_map(|message| message["summary"].as_str()).collect()
}

/// What a command that may say no answers in JSON.
fn answer(directory: &Path, arguments: &[&str]) -> Value {
    let output =
        agent_command(directory).args(arguments).arg("--format=json").output().expect("starts");
    answer_of(&output)
}

#[test]
fn the_inbox_takes_over_acknowledging_and_the_archive() {
    let repo = TestRepo::with_commit();
    let send = ["send", "--from=a", "--to=b", "--type=notify", "--payload", "message=hello"];
    let sent = repo.agent_json(&send);
    let id = sent["message_id"].as_str().expect("an id").to_owned();
    repo.agent_json(&["receive", "--agent=b", "--ack=later"]);
    let acked = repo.agent_json(&["inbox", "--agent=b", "--ack", &id]);
    assert_eq!(acked["acknowledged"][0], id.as_str());
    let archived = repo.agent_json(&["inbox", "--agent=b", "--archived"]);
    assert_eq!(archived["messages"][0]["message_id"], id.as_str());
    // The earlier verbs go on without being shown.
    assert_eq!(archived, repo.agent_json(&["archive", "--agent=b"]));
    let expired = repo.agent_json(&["inbox", "--expire", "--dry-run"]);
    assert_eq!(expired["kept"], 1);
    let help = repo.agent(&["help", "--all"]);
    let help = String::from_utf8(help.stdout).expect("UTF-8");
    let has = |verb: &str| help.lines().any(|line| line.starts_with(&format!("  {verb} ")));
    assert!(has("inbox") && !has("ack") && !has("archive"), "{help}");
}

#[test]
fn a_message_is_sent_and_received() {
    let repo = TestRepo::with_commit();
    insta::assert_snapshot!(said(&repo, &["receive", "--agent=pm"]), @r"
    No messages in queue
    ------- stderr -------
    [exit status: 1]
    ");
    insta::assert_snapshot!(said(&repo, &[
        "send", "--type=handoff", "--from=analyst", "--to=pm",
        "--payload", "artifact_path=brief.md",
        "--payload", r#"{"context_summary": "The brief is done.\nRead it.", "next_actions": ["plan"]}"#,
    ]), @r"
    Message sent successfully.
    ID: MSG-<id>
    Type: handoff
    From: analyst
    To: pm
    Priority: high
    ------- stderr -------
    warning: no agent goes by `pm`; a reader that receives by that name will find the message
    [exit status: 0]
    ");
    // What a person types has no type and no keys.
    repo.agent_json(&["send", "--to=ux", "the brief = done"]);
    repo.agent_json(&["send", "--to=ux", "--type=clarify", "which?", "--payload=context=c"]);
    let read = repo.agent_json(&["receive", "--agent=ux"]);
    let payload = |at: usize| read["messages"][at]["payload"].clone();
    assert_eq!(payload(0)["question"], "which?", "{read:#}");
    assert_eq!(payload(1)["message"], "the brief = done", "{read:#}");
    let refused = repo.agent(&["send", "--to=ux", "--type=review", "look"]);
    assert_eq!(refused.status.code(), Some(2), "{}", describe(&refused));
    insta::assert_snapshot!(said(&repo, &["receive", "--agent=pm"]), @r#"
    Messages for pm: 1
    ---
    [high] handoff from analyst
    ID: MSG-<id>
    Received: <time>
    The brief is done.
    Read it.
      artifact_path: brief.md
      next_actions: ["plan"]
    ---
    ------- stderr -------
    [exit status: 0]
    "#);
    insta::assert_snapshot!(said(&repo, &["receive", "--agent=pm"]), @r"
    No pending messages for pm
    ------- stderr -------
    [exit status: 1]
    ");
    let archive = repo.agent_json(&["archive", "--agent=pm"]);
    assert_eq!(texts(&archive), ["The brief is done.\nRead it."]);
    assert_eq!(archive["messages"][0]["status"], "archived");
    fsck(&repo);
}

#[test]
fn every_path_answers_messages_count_and_status() {
    let repo = TestRepo::with_commit();
    let receive = |arguments: &[&str]| {
        let report = answer(&repo.path(), &[&["receive", "--agent=b"], arguments].concat());
        let status = report["status_message"].as_str().expect("a text").to_owned();
        (texts(&report).join(" "), status)
    };
    let both = |texts: &str, status: &str| (texts.to_owned(), status.to_owned());
    assert_eq!(receive(&[]), both("", "No messages in queue"));
    notify(&repo, "b", "one");
    assert_eq!(receive(&["--type=review"]), both("", "No pending messages for b"));
    assert_eq!(receive(&["--peek"]), both("one", "Messages for b: 1"));
    assert_eq!(receive(&["--type=notify"]), both("one", "Messages for b: 1"));
    assert_eq!(receive(&[]), both("", "No pending messages for b"));
}

#[test]
fn the_most_urgent_comes_first_then_the_oldest() {
    let repo = TestRepo::with_commit();
    for (text, priority) in [("1", "low"), ("2", "critical"), ("3", "low"), ("4", "high")] {
        let payload = format!("message={text}");
        let arguments = ["--type=notify", "--to=b", "--priority", priority, "--payload", &payload];
        send(&repo, &arguments);
    }
    let two = repo.agent_json(&["receive", "--agent=b", "--limit=2"]);
    assert_eq!(texts(&two), ["2", "4"]);
    assert_eq!(texts(&repo.agent_json(&["receive", "--agent=b"])), ["1", "3"]);
}

#[test]
fn an_agent_is_found_by_every_name_and_writes_as_itself() {
    let repo = TestRepo::with_commit();
    notify(&repo, "worker", "before it was there");
    let agent = repo.spawn_task(TASK, &["--name=worker"]);
    let id = agent["agent_id"].as_str().expect("an id");
    let branch = agent["branch"].as_str().expect("a branch");
    for name in [id, &id[..8], "worker", branch] {
        notify(&repo, name, name);
    }
    let inside = Path::new(agent["worktree_abspath"].as_str().expect("a path"));
    let received = answer(inside, &["receive"]);
    assert_eq!(texts(&received), ["before it was there", id, &id[..8], "worker", branch]);
    assert_eq!(received["agent"], id);
    let mut command = agent_command(inside);
    command.args(["send", "--type=escalate", "--format=json"]);
    command.args(["--payload", "issue=i", "--payload", "severity=high"]);
    command.args(["--payload", "recommendation=r"]);
    let sent = json_of(command);
    assert_eq!((&sent["from"], &sent["to"]), (&Value::from(id), &Value::from("user")));
    assert_eq!(texts(&repo.agent_json(&["receive"])), ["i"]);
}

#[test]
fn a_broadcast_is_read_once_by_each_who_was_there() {
    let repo = TestRepo::with_commit();
    repo.spawn_task(TASK, &["--name=early"]);
    notify(&repo, "all", "hello");
    repo.spawn_task(TASK, &["--name=late"]);
    let inbox = |name: &str| texts(&repo.agent_json(&["inbox", "--agent", name])).join(" ");
    assert_eq!(
        (inbox("early"), inbox("late"), inbox("ada")),
        ("hello".into(), "".into(), "hello".into())
    );
    assert_eq!(texts(&repo.agent_json(&["receive", "--agent=early"])), ["hello"]);
    assert_eq!((inbox("early"), inbox("ada")), (String::new(), "hello".into()));
    assert_eq!(inbox("user"), "", "nobody hears from himself");
}

#[test]
fn what_is_not_acknowledged_is_not_done_with() {
    let repo = TestRepo::with_commit();
    let id = notify(&repo, "b", "one");
    let report = repo.agent_json(&["receive", "--agent=b", "--ack=later"]);
    assert_eq!(texts(&report), ["one"]);
    let again = answer(&repo.path(), &["receive", "--agent=b"]);
    assert_eq!(again["count"], 0, "it is in somebody's hands");
    let inbox = repo.agent_json(&["inbox", "--agent=b"]);
    assert_eq!(inbox["messages"][0]["status"], "read");
    let ack = |expected: &str| {
        let report = repo.agent_json(&["ack", &id, "--agent=b"]);
        assert_eq!(report[expected][0], id.as_str(), "{report}");
    };
    ack("acknowledged");
    ack("already");
    assert_eq!(repo.agent_json(&["inbox", "--agent=b"])["count"], 0);
    insta::assert_snapshot!(said(&repo, &["ack", &id, "--agent=c"]), @r"
    ------- stderr -------
    error[message-unknown]: c has no message MSG-<id>
    hint: to see what there is for it, run git agent inbox --agent 'c'
    [exit status: 2]
    ");
}

#[test]
fn an_answer_goes_to_who_asked_unless_another_receiver_is_named() {
    let repo = TestRepo::with_commit();
    let question = send(&repo, &["--from=a", "--to=b", "Keep it?"]);
    let question = question["message_id"].as_str().expect("an id");
    let to = |words: &[&str]| {
        let answer = [&["--from=b", "--reply-to", question, "yes"], words].concat();
        send(&repo, &answer)["to"].clone()
    };
    assert_eq!(to(&[]), "a");
    assert_eq!(to(&["--to=c"]), "c");
    // One's own question has no other sender.
    let output = repo.agent(&["send", "--from=a", "--reply-to", question, "well?"]);
    assert!(describe(&output).contains("needs to_agents"), "{}", describe(&output));
}

#[test]
fn a_conversation_is_shown_from_any_of_its_messages() {
    let repo = TestRepo::with_commit();
    let first = notify(&repo, "b", "first");
    notify(&repo, "b", "unrelated");
    let reply = |to: &str, text: &str| {
        let payload = format!("message={text}");
        let arguments = ["--type=notify", "--from=b", "--to=a", "--reply-to", to, "--payload"];
        let sent = send(&repo, &[&arguments[..], &[&payload]].concat());
        sent["message_id"].as_str().expect("an id").to_owned()
    };
    let second = reply(&first, "second");
    let third = reply(&second, "third");
    for id in [&first, &second, &third] {
        let shown = repo.agent_json(&["show", id]);
        assert_eq!(shown["message"]["message_id"], id.as_str());
        let thread = shown["thread"].as_array().expect("a thread");
        let texts: Vec<_> = thread.iter().map(|message| &message["summary"]).collect();
        assert_eq!(texts, ["first", "second", "third"]);
    }
    insta::assert_snapshot!(said(&repo, &["show", &second]), @r"
    [low] notify from b
    ID: MSG-<id>
    To: a
    Sent: <time>
    In reply to: MSG-<id>
    second

    Conversation:
      <time> MSG-<id> user -> b: first
    > <time> MSG-<id> b -> a: second
      <time> MSG-<id> b -> a: third
    ------- stderr -------
    [exit status: 0]
    ");
}

#[test]
fn a_session_is_told_of_its_mail_and_the_prompt_of_the_messenger() {
    let repo = TestRepo::with_commit();
    let agent = repo.spawn();
    let id = agent["agent_id"].as_str().expect("an id");
    let prompt = std::fs::read_to_string(agent["prompt_path"].as_str().expect("a path"));
    assert!(prompt.expect("a prompt").contains("`git-agent send`"));
    let inside = Path::new(agent["worktree_abspath"].as_str().expect("a path"));
    let told = || {
        let mut command = agent_command(inside);
        let output = command.args(["hook", "session-start"]).output();
        String::from_utf8(output.expect("starts").stdout).expect("UTF-8")
    };
    assert!(!told().contains("unread"));
    notify(&repo, id, "later");
    let urgent = ["--type=notify", "-pcritical", "--from=a", "--to", id];
    send(&repo, &[&urgent[..], &["--payload", r#"{"message": "stop \u001b[2J now"}"#]].concat());
    for _ in 0..2 {
        let told = told();
        let (_, mail) = told.split_once("\nYou have ").expect("mail");
        let (head, rest) = mail.split_once(" (MSG-").expect("an id");
        assert_eq!(head, "2 unread messages. Next: [critical] notify from a");
        assert!(rest.contains("\nstop \\u{1b}[2J now\n"), "{rest}");
    }
}

#[test]
fn plain_git_reads_the_mailbox() {
    let repo = TestRepo::with_commit();
    notify(&repo, "bob", "hello");
    let log =
        ["log", "--format=%s|%(trailers:key=Type,valueonly,separator=%x2C)", "refs/agents/mail"];
    assert_eq!(repo.git(log), "[notify/low] user -> bob: hello|notify");
    assert_eq!(
        repo.git(["log", "--format=%s", "--grep=^To: bob$", "refs/agents/mail"]).lines().count(),
        1
    );
}

#[test]
fn what_was_handed_out_and_not_acknowledged_is_marked_in_the_inbox() {
    let repo = TestRepo::with_commit();
    notify(&repo, "b", &format!("{}\nmore", "long ".repeat(40)));
    let table = |repo: &TestRepo| {
        let text = said(repo, &["inbox", "--agent=b"]);
        let rows = text.lines().skip(1).take(2).map(str::to_owned);
        rows.collect::<Vec<_>>()
    };
    let fresh = table(&repo);
    assert!(!fresh[0].contains("STATE"), "{fresh:?}");
    assert!(fresh[1].ends_with("long…"), "{fresh:?}");
    repo.agent_json(&["receive", "--agent=b", "--ack=later"]);
    let handed_out = table(&repo);
    assert!(handed_out[0].contains("  STATE  "), "{handed_out:?}");
    assert!(handed_out[1].contains("  handed out  "), "{handed_out:?}");
    let report = answer(&repo.path(), &["inbox", "--agent=b"]);
    assert_eq!(report["messages"][0]["status"], "read");
}

#[test]
fn a_name_that_looks_like_everybody_is_doubted() {
    let repo = TestRepo::with_commit();
    let sent = send(&repo, &["--type=notify", "--to=ALL", "--payload=message=hello"]);
    assert_eq!(sent["to"], "ALL");
    assert_eq!(sent["warnings"][0], "`ALL` is taken for a name; did you mean `all`?");
}

#[test]
fn a_payload_may_come_on_standard_input() {
    let repo = TestRepo::with_commit();
    let send = |payload: &[&str]| {
        let mut child = agent_command(&repo.path())
            .args(["send", "--type=notify", "--to=b", "--payload"])
            .args(payload)
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("starts");
        let mut input = child.stdin.take().expect("a pipe");
        // Who refuses does not read.
        let _ = input.write_all(b"\xef\xbb\xbf{\"message\": \"from a pipe\"}");
        drop(input);
        child.wait_with_output().expect("ends")
    };
    assert!(send(&["@-"]).status.success());
    assert_eq!(texts(&repo.agent_json(&["receive", "--agent=b"])), ["from a pipe"]);
    let twice = describe(&send(&["@-", "@-"]));
    assert!(twice.contains("standard input can be read once"), "{twice}");
}

#[test]
fn none_at_all_is_no_number_of_messages() {
    let repo = TestRepo::with_commit();
    notify(&repo, "b", "one");
    for verb in ["receive", "archive"] {
        let output = repo.agent(&[verb, "--agent=b", "--limit=0"]);
        let said = describe(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("it takes one at least"), "{said}");
    }
}

#[test]
fn what_is_done_is_not_to_be_done_again_because_nobody_could_be_told() {
    let repo = TestRepo::with_commit();
    let untold = |arguments: &[&str]| {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let output = agent_command(&repo.path())
            .args(arguments)
            .stdout(full.expect("a device that is always full"))
            .output()
            .expect("starts");
        describe(&output)
    };
    let sent =
        untold(&["send", "--type=notify", "--to=b", "--payload=message=hello", "--format=json"]);
    let error: Value =
        serde_json::from_str(sent.lines().find(|line| line.starts_with('{')).expect("an error"))
            .expect("JSON");
    let hints = error["error"]["hints"].as_array().expect("a list");
    assert_eq!(error["error"]["code"], "disk-full");
    assert_eq!(hints.len(), 1, "{hints:?}");
    let (done, id) = hints[0].as_str().and_then(|hint| hint.rsplit_once(' ')).expect("words");
    assert_eq!(done, "it is done all the same; to see it, run git agent show");
    assert!(repo.agent(&["show", id]).status.success());
    let read = untold(&["receive", "--agent=b"]);
    assert!(read.contains("to see it, run git agent inbox --archived --agent b"), "{read}");
    let looked = untold(&["archive", "--agent=b"]);
    assert!(looked.contains("try again"), "{looked}");
}

#[test]
fn an_agent_that_is_renamed_gets_what_went_to_its_new_name() {
    let repo = TestRepo::with_commit();
    let spawned = repo.spawn_task(TASK, &["--name", "one"]);
    let id = spawned["agent_id"].as_str().expect("an id");
    notify(&repo, "two", "for two");
    let receive = |name: &str| answer(&repo.path(), &["receive", "--agent", name]);
    assert_eq!(texts(&receive("one")), [""; 0]);
    repo.agent_json(&["rename", id, "two"]);
    assert_eq!(texts(&receive("two")), ["for two"]);
}
