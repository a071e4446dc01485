use super::{fsck, open, post, receive};
use crate::support::TestRepo;
use crate::support::agent::describe;
use git_agent::store::chain::Chain;
use git_agent::store::chain::recovery::{Condition, condition};

#[test]
fn everything_wrong_with_a_message_is_said_at_once() {
    let repo = TestRepo::with_commit();
    let output =
        repo.agent(&["send", "--type=handof", "--priority=urgnt", "--to=a,,b", "--payload=[1]"]);
    insta::assert_snapshot!(describe(&output), @r"
    ------- stderr -------
    error[message-invalid]: the message breaks 4 rules

    the payload must be an object, and this is a list
    there is no type `handof`; did you mean `handoff`?
    there is no priority `urgnt`; there are critical, high, medium, low
    a receiver or sender must not be empty

    hint: to see what each type needs, run git agent help send; `all` as receiver reaches everybody
    [exit status: 2]
    ");
    let output = repo.agent(&["send", "--type=collaborate", "--payload", "key=sk-abc123"]);
    insta::assert_snapshot!(describe(&output), @r"
    ------- stderr -------
    error[message-invalid]: the message breaks 2 rules

    a message of type collaborate needs to_agents, topic, deadline
    the payload holds what looks like an API key; messages are kept and pushed like commits

    hint: to see what each type needs, run git agent help send; `all` as receiver reaches everybody
    [exit status: 2]
    ");
    let output = repo.agent(&["send", "--type=notify", "--to=a\nb", "--payload=message=x"]);
    insta::assert_snapshot!(describe(&output), @r"
    ------- stderr -------
    error[message-invalid]: the name `a\nb` holds a control character
    hint: to see what each type needs, run git agent help send; `all` as receiver reaches everybody
    [exit status: 2]
    ");
    assert_eq!(repo.git(["for-each-ref", "refs/agents"]), "");
}

/// What is said of a message in JSON, and its hints.
fn refused(repo: &TestRepo, arguments: &[&str]) -> String {
    let output = repo.agent(&[&["send", "--format=json"], arguments].concat());
    assert_eq!(output.status.code(), Some(2), "{}", describe(&output));
    let error: serde_json::Value = serde_json::from_slice(&output.stderr).expect("one JSON object");
    let error = &error["error"];
    let list = |key: &str| {
        let texts = error[key].as_array().expect("a list").iter();
        let texts = texts.map(|text| format!("\n- {}", text.as_str().expect("a text")));
        texts.collect::<String>()
    };
    let message = error["message"].as_str().expect("a text");
    format!("{message}{}\n{}", list("causes"), list("hints"))
}

#[test]
fn broken_rules_are_causes_of_their_own() {
    let repo = TestRepo::with_commit();
    let said = refused(
        &repo,
        &[
            "--type=notify",
            "--payload",
            r#"{"to_agents": [1], "n": 1.00000000000000000001, "n": 2}"#,
        ],
    );
    insta::assert_snapshot!(said, @r#"
    the message breaks 3 rules
    - the number 1.00000000000000000001 would lose digits on its way; it can be sent as a text
    - the payload gives `n` more than once
    - `to_agents` must be a name, a list of names, or "all"

    - to see what each type needs, run git agent help send; `all` as receiver reaches everybody
    "#);
}

#[test]
fn a_parameter_that_the_payload_contradicts_is_refused() {
    let repo = TestRepo::with_commit();
    let payload = r#"{"message": "m", "to_agents": ["b", "c"], "from_agent": "a"}"#;
    let send = ["--type=notify", "--payload", payload];
    let said = refused(&repo, &[&send[..], &["--to=b", "--from=x"]].concat());
    insta::assert_snapshot!(said, @r"
    the message breaks 2 rules
    - `from_agent` is given by --from and, differently, by the payload
    - `to_agent` is given by --to and, differently, by the payload

    - to see what each type needs, run git agent help send; `all` as receiver reaches everybody
    ");
    let agreed = [&["send"], &send[..], &["--to=c,b", "--from=a"]].concat();
    assert_eq!(repo.agent_json(&agreed)["from"], "a");
}

#[test]
fn hints_are_about_what_is_wrong() {
    let repo = TestRepo::with_commit();
    let send = ["--type=notify", "--to=b", "--payload"];
    let secret = refused(&repo, &[&send[..], &["message=sk-0123456789"]].concat());
    insta::assert_snapshot!(secret, @r"
    the payload holds what looks like an API key; messages are kept and pushed like commits

    - say where it is kept in place of what it is; to hand one to an agent, run git agent run --briefing @<file>
    ");
    let answer = refused(&repo, &[&send[..], &["message=m", "--reply-to=first"]].concat());
    insta::assert_snapshot!(answer, @r"
    `first` is no message id

    - to see the ids of messages, run git agent inbox
    ");
}

#[test]
fn a_payload_is_one_mebibyte_at_most() {
    let repo = TestRepo::with_commit();
    let send = |size: usize| {
        let json = serde_json::json!({ "message": "x".repeat(size) }).to_string();
        std::fs::write(repo.path().join("payload.json"), &json).expect("write");
        let output = repo.agent(&["send", "--type=notify", "--to=a", "--payload=@payload.json"]);
        (json.len(), output.status.code())
    };
    let frame = send(1).0 - 1;
    assert_eq!(send((1 << 20) - frame), (1 << 20, Some(0)));
    assert_eq!(send((1 << 20) - frame + 1), ((1 << 20) + 1, Some(2)));
    let received = repo.agent_json(&["receive", "--agent=a"]);
    assert_eq!(received["count"], 2);
    fsck(&repo);
}

#[test]
fn a_mailbox_without_a_readable_tip_is_read_from_its_reflog_and_repaired() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    post(&repo, &["b"], "one", 0);
    assert_eq!(receive(&repo, "b", 1), ["one"]);
    post(&repo, &["b"], "two", 2);
    for chain in [Chain::Mail, Chain::Receipts] {
        std::fs::write(test.path().join(".git").join(chain.refname()), "").expect("damage");
        assert_eq!(condition(&repo, chain).expect("looked"), Condition::Damaged);
    }
    let doctor = test.agent(&["doctor", "--format=json"]);
    assert!(String::from_utf8_lossy(&doctor.stdout).contains("mail.damaged"));
    assert_eq!(receive(&open(&test), "b", 3), ["two"], "nothing lost, nothing twice");
    test.agent(&["doctor", "--fix"]);
    for chain in [Chain::Mail, Chain::Receipts] {
        assert_eq!(condition(&repo, chain).expect("looked"), Condition::Sound);
    }
    post(&repo, &["b"], "three", 4);
    assert_eq!(receive(&repo, "b", 5), ["three"]);
}

#[test]
fn a_lost_cursor_or_a_garbled_one_changes_nothing() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    let cache = test.path().join(".git/agents/cache");
    let mut expected = Vec::new();
    for number in 0..6 {
        post(&repo, &["b", "c"], &number.to_string(), number);
        expected.push(number.to_string());
        if number == 1 {
            assert_eq!(receive(&repo, "b", number), expected);
            expected.clear();
        }
        let peeked = test.agent_json(&["inbox", "--agent=b"]);
        assert_eq!(peeked["count"], expected.len());
        for file in std::fs::read_dir(&cache).expect("a cache") {
            let path = file.expect("readable").path();
            match number % 3 {
                0 => std::fs::remove_file(path).expect("removed"),
                1 => std::fs::write(path, "git-agent mail cursor 1 x").expect("written"),
                _ => {}
            }
        }
    }
    assert_eq!(receive(&repo, "b", 9), expected);
}

#[test]
fn a_long_note_is_turned_into_pages() {
    let test = TestRepo::with_commit();
    let repo = open(&test);
    // Each receipt takes about 110 bytes of the 16 KiB of a page.
    for number in 0..400 {
        let text = number.to_string();
        post(&repo, &["b"], &text, number);
        assert_eq!(receive(&repo, "b", number), [text.as_str()]);
    }
    let notes = test.git(["ls-tree", "-r", "--format=%(objectsize)", Chain::Receipts.refname()]);
    let sizes: Vec<usize> = notes.lines().map(|size| size.parse().expect("a size")).collect();
    assert!(sizes.len() > 2 && sizes.iter().all(|size| *size <= 16 * 1024), "{sizes:?}");
    std::fs::remove_dir_all(test.path().join(".git/agents/cache")).expect("removed");
    assert_eq!(receive(&repo, "b", 500), Vec::<String>::new(), "pages are read");
    test.git(["gc", "--quiet", "--prune=now"]);
    test.git(["notes", "--ref=agents-mail", "prune"]);
    std::fs::remove_dir_all(test.path().join(".git/agents/cache")).expect("removed");
    assert_eq!(receive(&repo, "b", 501), Vec::<String>::new(), "pages are kept");
    assert_eq!(test.agent_json(&["archive", "--agent=b", "--limit=1000"])["count"], 400);
}
