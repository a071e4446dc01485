//! Durable and public formats, versioned: what is read from files and written to them, and nothing
//! else. No file is opened here. Values go to and come from `domain`, which knows the rules, so that a
//! change of one cannot silently change the other.

/// Files that people write: tasks, roles, settings, rosters.
pub mod file {
    pub mod dependencies;
    pub mod messenger_config;
    pub mod role_file;
    pub mod roster;
    pub mod settings_file;
    pub mod task_file;
    mod toml_reader;
}

/// Lines and messages of the ledger and the mailbox, and what they name.
pub mod row {
    pub mod attestation;
    pub mod event_line;
    pub mod journal;
    pub mod message;
    pub mod policy;
    pub mod receipt_line;
    pub mod request;
}

/// What is answered, in JSON and the formats of others.
pub mod output {
    pub mod answer;
    pub mod otlp;
    pub mod path_text;
    pub mod sarif;
    pub mod schema;
}

use serde_json::Value;

/// Sets a member of an object; of another value nothing becomes.
pub(crate) fn put(object: &mut Value, key: &str, member: impl Into<Value>) {
    if let Value::Object(members) = object {
        members.insert(key.to_owned(), member.into());
    }
}
