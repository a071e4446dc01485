//! A branch to land on, as every answer has it.

use crate::domain::oid::Oid;
use serde::Serialize;

/// A branch to land on, in JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TargetReport {
    /// The branch, full name; absent where it is a mere commit.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub refname: Option<String>,
    /// The commit it is at; absent where that was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oid: Option<String>,
}

impl TargetReport {
    /// A branch, and where it is.
    pub fn new(refname: Option<&str>, oid: Option<Oid>) -> TargetReport {
        TargetReport {
            refname: refname.map(str::to_owned),
            oid: oid.map(Oid::to_hex),
        }
    }

    /// The branch's short name; empty where it has none.
    pub fn short(&self) -> &str {
        let full = self.refname.as_deref().unwrap_or_default();
        full.strip_prefix("refs/heads/").unwrap_or(full)
    }
}
