//! A note of the ledger: any lines make a row, and what is read is what would be written.

use git_agent::domain::life::agent::Agent;
use git_agent::domain::life::event::{Event, What};
use git_agent::domain::value::oid::Oid;
use git_agent::wire::row::event_line::{LIMIT, decode, encode};

/// One note, as of an agent whose spawn commit is all zeros and of every agent that it names.
pub fn run(data: &[u8]) {
    let lines = data.split(|&byte| byte == b'\n');
    let events: Vec<Event> = lines.filter_map(decode).collect();
    for event in &events {
        let known = !matches!(event.what, What::Unknown { .. });
        match encode(event) {
            // What had to be cut reads differently, once; what was read from a line of ours does not.
            Ok(line) => {
                assert!(line.len() < LIMIT && !line.contains('\n'));
                let again = decode(line.as_bytes()).expect("our own line is read");
                assert_eq!(encode(&again).expect("it fits as before"), line);
                assert_eq!((again.at, again.agent), (event.at, event.agent));
                let kinds = (again.what.kind(), event.what.kind());
                assert!(!known || kinds.0 == kinds.1, "{kinds:?}");
            }
            Err(error) => assert_eq!(error.code().name(), "event-too-long"),
        }
    }
    for event in &events {
        let hex = event.agent.hex() + "00000000";
        let commit = Oid::from_hex(&hex).expect("forty digits");
        if let Some(agent) = Agent::fold(commit, &events) {
            assert!(agent.started <= agent.updated || !agent.irregular.is_empty());
        }
    }
}
