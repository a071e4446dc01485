//! A verdict as an attestation: an in-toto statement (v1) with a Simple Verification Result (v0.2) in a DSSE envelope
//! (v1). Only what we write is read back: any other statement is none of ours.

use crate::domain::Oid;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";
const STATEMENT_TYPE: &str = "https://in-toto.io/Statement/v1";
const PREDICATE_TYPE: &str = "https://in-toto.io/attestation/svr/v0.2";

/// The program that judged, and the version of its rules.
const VERIFIER: &str = "https://github.com/git-agent-worktree/git-agent/verify/v1";

/// What an attestation says of the work as a whole.
pub const ACCEPTED: &str = "GIT_AGENT_ACCEPTED";

/// A statement about the commit that was judged and the tree that lands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    #[serde(rename = "_type")]
    kind: String,
    subject: Vec<Resource>,
    #[serde(rename = "predicateType")]
    predicate_type: String,
    predicate: Predicate,
}

/// Something that has a digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Resource {
    name: String,
    digest: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Predicate {
    verifier: Verifier,
    #[serde(rename = "timeCreated")]
    time_created: String,
    properties: Vec<String>,
    #[serde(rename = "gitAgent")]
    about: About,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Verifier {
    id: String,
    policies: Vec<Resource>,
}

/// What a statement says besides what its format has a place for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The agent's id.
    pub agent_id: String,
    /// The branch to land on, full name; absent where it was a mere commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The commit that it was at.
    pub base: String,
}

/// An envelope with its signatures.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct SignedEnvelope {
    #[serde(rename = "payloadType")]
    payload_type: String,
    payload: String,
    signatures: Vec<Signature>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Signature {
    sig: String,
}

/// A statement that was signed, as it was found.
#[derive(Clone, Debug)]
pub struct Signed {
    /// The bytes that are signed.
    pub signed: Vec<u8>,
    /// The first signature, as `ssh-keygen` writes it.
    pub signature: String,
    /// The statement; `None` where it is none of ours.
    pub statement: Option<Statement>,
}

impl Statement {
    /// A statement that work was accepted: `tip` is the commit that was judged, `tree` what lands.
    pub fn accepted(
        (tip, tree, policy): (Oid, Oid, Oid),
        about: About,
        properties: Vec<String>,
        time: String,
    ) -> Statement {
        let resource = |name: &str, kind: &str, oid: Oid| Resource {
            name: name.to_owned(),
            digest: BTreeMap::from([(kind.to_owned(), oid.to_hex())]),
        };
        Statement {
            kind: STATEMENT_TYPE.to_owned(),
            subject: vec![
                // The tip says whose work was judged, and the tree what it becomes: the commit of a
                // landing is not known yet.
                resource("tip", "gitCommit", tip),
                resource("merged tree", "gitTree", tree),
            ],
            predicate_type: PREDICATE_TYPE.to_owned(),
            predicate: Predicate {
                verifier: Verifier {
                    id: VERIFIER.to_owned(),
                    policies: vec![resource("policy", "gitBlob", policy)],
                },
                time_created: time,
                properties,
                about,
            },
        }
    }

    /// The bytes of the statement.
    pub fn payload(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// What is checked and passed.
    pub fn properties(&self) -> &[String] {
        &self.predicate.properties
    }

    /// What else it says.
    pub fn about(&self) -> &About {
        &self.predicate.about
    }

    /// When the work was judged.
    pub fn time(&self) -> &str {
        &self.predicate.time_created
    }

    /// The object of a kind, `gitCommit` or `gitTree`, that it is about.
    pub fn subject(&self, kind: &str) -> Option<Oid> {
        let mut digests = self.subject.iter().filter_map(|one| one.digest.get(kind));
        digests.next().and_then(|hex| Oid::from_hex(hex))
    }

    fn is_ours(&self) -> bool {
        self.kind == STATEMENT_TYPE
            && self.predicate_type == PREDICATE_TYPE
            && self.predicate.verifier.id == VERIFIER
            && self.properties().iter().any(|property| property == ACCEPTED)
    }
}

/// The bytes that are signed for a payload (DSSE v1: pre-authentication encoding).
pub fn to_sign(payload: &[u8]) -> Vec<u8> {
    encoded(PAYLOAD_TYPE, payload)
}

fn encoded(kind: &str, payload: &[u8]) -> Vec<u8> {
    // Kind and payload are each preceded by their length, so that no byte can move from one to the
    // other.
    let head = format!("DSSEv1 {} {kind} {} ", kind.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

/// The envelope of a payload as a text.
pub fn envelope(payload: &[u8], signature: &str) -> String {
    let envelope = SignedEnvelope {
        payload_type: PAYLOAD_TYPE.to_owned(),
        payload: STANDARD.encode(payload),
        signatures: vec![Signature { sig: STANDARD.encode(signature) }],
    };
    let text = serde_json::to_string_pretty(&envelope).unwrap_or_default();
    format!("{text}\n")
}

/// Reads an envelope; `None` for what is none.
pub fn read(bytes: &[u8]) -> Option<Signed> {
    let envelope: SignedEnvelope = serde_json::from_slice(bytes).ok()?;
    let payload = STANDARD.decode(&envelope.payload).ok()?;
    // We write one signature. One that another program adds behind it says nothing to us.
    let signature = STANDARD.decode(&envelope.signatures.first()?.sig).ok()?;
    let statement = serde_json::from_slice(&payload).ok();
    Some(Signed {
        // The type that the envelope claims is what was signed, whether or not it is ours.
        signed: encoded(&envelope.payload_type, &payload),
        signature: String::from_utf8(signature).ok()?,
        statement: statement
            // A payload of another type may read like a statement and mean something else.
            .filter(|_| envelope.payload_type == PAYLOAD_TYPE)
            .filter(Statement::is_ours),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_signed_is_what_dsse_says() {
        // The example of the protocol's own page.
        let signed = encoded("http://example.com/HelloWorld", b"hello world");
        let expected = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world";
        assert_eq!(signed, expected);
    }

    #[test]
    fn a_foreign_statement_is_none_of_ours() {
        let read = |payload: &str| {
            let envelope = envelope(payload.as_bytes(), "signature");
            read(envelope.as_bytes()).expect("an envelope").statement
        };
        let oid = Oid::EMPTY_TREE;
        let about = About { agent_id: "a".to_owned(), target: None, base: oid.to_hex() };
        let properties = vec![ACCEPTED.to_owned()];
        let time = "2026-01-01T00:00:00Z".to_owned();
        let statement = Statement::accepted((oid, oid, oid), about, properties, time);
        let text = String::from_utf8(statement.payload()).expect("UTF-8");
        assert_eq!(read(&text), Some(statement));
        assert_eq!(read(&text.replace("svr/v0.2", "svr/v0.3")), None);
        assert_eq!(read(&text.replace(ACCEPTED, "OTHER")), None);
        assert_eq!(read(&text.replace("git-agent/verify", "other/verify")), None);
        assert!(super::read(b"{}").is_none());
    }
}
