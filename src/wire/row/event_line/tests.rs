//! The written form, and that reading gives back what was written.

use super::*;
use chrono::DateTime;
use proptest::prelude::*;

const COMMIT: Oid = Oid::from_bytes([0xab; 20]);

fn event(what: What) -> Event {
    let now = DateTime::from_timestamp_micros(1_795_211_369_123_456).expect("in range");
    Event {
        at: Stamp::next(now, 0x7f3a, None),
        agent: AgentId::from_spawn_commit(COMMIT),
        by: "me".into(),
        operation: None,
        previous: Some("0123456789abcdef".into()),
        ahead: Vec::new(),
        what,
    }
}

#[test]
fn the_written_form_is_fixed() {
    let done = event(What::Done { summary: "a \"b\"".into(), whole: None });
    assert_eq!(
        encode(&done).expect("short"),
        r#"{"t":"20261120T214929.123456Z-000-7f3a","a":"abababab-abab-8bab-abab-abababababab","e":"done","by":"me","p":"0123456789abcdef","d":{"summary":"a \"b\""}}"#
    );
}

#[test]
fn a_text_is_cut_only_where_the_line_does_not_fit() {
    let empty = encode(&event(What::Noted { text: "".into() })).expect("short");
    let room = LIMIT - 2 - empty.len();
    for (length, kept) in [(room, room), (room + 1, room), (room + 9, room)] {
        let text = "a".repeat(length);
        let line = encode(&event(What::Noted { text })).expect("texts can be cut");
        assert_eq!(line.len(), empty.len() + kept, "{length}");
    }
}

#[test]
fn what_is_no_event_is_none() {
    for line in ["", "reviewed", "{}", "[]", r#"{"t":"x","a":"y","e":"z","by":"me"}"#] {
        assert_eq!(decode(line.as_bytes()), None, "{line}");
    }
    assert_eq!(decode(b"\xff\xfe"), None);
}

#[test]
fn unknown_kinds_facts_and_keys_are_tolerated() {
    let line = encode(&event(What::Noted { text: "x".into() })).expect("short");
    let kind = |line: String| decode(line.as_bytes()).expect("an event").what;
    let unknown = |kind: &str| What::Unknown { kind: kind.into(), needs: None };
    assert_eq!(kind(line.replace("noted", "levitated")), unknown("levitated"));
    assert_eq!(kind(line.replace("\"text\"", "\"words\"")), unknown("noted"));
    assert_eq!(
        kind(line.replace("\"d\":", "\"s\":\"signature\",\"d\":")),
        What::Noted { text: "x".into() }
    );
}

fn any_what() -> impl Strategy<Value = What> {
    let text = || any::<String>();
    let oid = || any::<[u8; 20]>().prop_map(Oid::from_bytes);
    let verified = (
        any::<bool>(),
        oid(),
        proptest::option::of(oid()),
        proptest::collection::vec("[a-z.]{1,30}", 0..40),
    );
    prop_oneof![
        (text(), prop::option::of(oid()))
            .prop_map(|(summary, whole)| What::Done { summary, whole }),
        (text(), prop::option::of(oid()))
            .prop_map(|(reason, whole)| What::Failed { reason, whole }),
        (text(), prop::option::of(oid()))
            .prop_map(|(reason, whole)| What::Rejected { reason, whole }),
        (text(), prop::option::of(oid()))
            .prop_map(|(reason, whole)| What::Deferred { reason, whole }),
        ".{0,3000}".prop_map(|text| What::Noted { text }),
        prop::option::of("[a-z][a-z0-9-]{0,20}").prop_map(|name| What::Renamed {
            name: name.map(|name| AgentName::parse(&name).expect("a name")),
            task: None,
        }),
        text().prop_map(|text| What::Renamed { name: None, task: Some(text) }),
        (text(), any::<u32>(), any::<Option<u64>>(), any::<bool>()).prop_map(
            |(command, pid, limit_ms, by_hand)| {
                What::Started(Started {
                    run: Some(pid),
                    command,
                    pid,
                    limit_ms,
                    sandbox: Some("off".into()),
                    model: Some("a/model-1".into()),
                    by_hand,
                })
            }
        ),
        (any::<u8>(), proptest::option::of(proptest::sample::select(&Ending::ALL[..]))).prop_map(
            |(code, ended)| {
                What::Exited(Exited {
                    run: None,
                    code,
                    ended,
                    log_bytes: Some(u64::from(code)),
                    asked: code % 2 == 0,
                    session: HostSession {
                        id: (code > 1).then(|| format!("session-{code}")),
                        cost_micro_usd: Some(u64::from(code)),
                        ..HostSession::default()
                    },
                })
            }
        ),
        (oid(), oid()).prop_map(|(commit, tree)| What::Committed { commit, tree }),
        (oid(), "[a-z/]{1,40}", proptest::option::of(oid()))
            .prop_map(|(commit, into, tip)| { What::Merged { commit, into, tip, from: tip } }),
        proptest::option::of(oid()).prop_map(|tip| What::Discarded { tip }),
        oid().prop_map(|commit| What::Salvaged { commit }),
        "[a-z/]{1,40}".prop_map(|to| What::Rescued { to }),
        (any::<u32>(), any::<bool>(), proptest::option::of("[a-z]{1,9}")).prop_map(
            |(place, accepted, host)| What::Competed(Competed {
                best: "1a2b3c4d".to_owned(),
                place,
                of: place,
                accepted,
                host,
            })
        ),
        verified.prop_map(|(accepted, tip, bundle, findings)| What::Verified(Verified {
            accepted,
            tip,
            tree: tip,
            base: tip,
            merged_tree: bundle,
            bundle,
            policy: tip,
            findings,
            fails_with: (!accepted).then(|| AgentId::from_spawn_commit(tip)),
            into: accepted.then(|| "refs/heads/main".to_owned()),
        })),
    ]
}

#[test]
fn a_line_that_could_fill_the_memory_is_no_event() {
    let written = encode(&event(What::Noted { text: "mark".into() })).expect("fits");
    let line = |length: usize| written.replace("mark", &"x".repeat(length));
    assert!(decode(line(10 * LIMIT).as_bytes()).is_some());
    assert!(decode(line(LONGEST).as_bytes()).is_none());
}

proptest! {
    #[test]
    fn lines_round_trip_and_fit(what in any_what()) {
        let event = event(what);
        let line = encode(&event).expect("texts can be cut");
        prop_assert!(line.len() < LIMIT && !line.contains('\n'));
        let read = decode(line.as_bytes()).expect("an event");
        prop_assert_eq!(read.what.kind(), event.what.kind());
        if render(&event, &event.what, &event.ahead).expect("json").len() + 1 < LIMIT {
            prop_assert_eq!(read, event);
        }
    }

    #[test]
    fn anything_can_be_read(line: Vec<u8>) {
        let _ = decode(&line);
    }
}
