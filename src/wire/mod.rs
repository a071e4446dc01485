//! Durable and public formats, versioned: what is read from files and written to them, and nothing
//! else. No file is opened here. Values go to and come from `domain`, which knows the rules, so that a
//! change of one cannot silently change the other.

pub mod answer;
pub mod attestation;
pub mod dependencies;
pub mod event_line;
pub mod journal;
pub mod message;
pub mod messenger_config;
pub mod otlp;
pub mod path_text;
pub mod policy;
pub mod receipt_line;
pub mod request;
pub mod role_file;
pub mod roster;
pub mod sarif;
pub mod schema;
pub mod settings_file;
pub mod task_file;
mod toml_reader;

use serde_json::Value;

/// Sets a member of an object; of another value nothing becomes.
pub(crate) fn put(object: &mut Value, key: &str, member: impl Into<Value>) {
    if let Value::Object(members) = object {
        members.insert(key.to_owned(), member.into());
    }
}
