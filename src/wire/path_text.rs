//! A path in JSON: text, or `{"bytes": "<base64>"}` when it is not UTF-8.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// A path as the public formats write it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PathText {
    /// The path itself.
    Text(String),
    /// A path that is not UTF-8.
    Bytes {
        /// Its bytes in base64 (RFC 4648 §4).
        bytes: String,
    },
}

impl From<&[u8]> for PathText {
    fn from(path: &[u8]) -> PathText {
        // An object cannot be mistaken for a path, as a text with some mark in it could.
        match std::str::from_utf8(path) {
            Ok(text) => PathText::Text(text.to_owned()),
            Err(_) => PathText::Bytes {
                bytes: STANDARD.encode(path),
            },
        }
    }
}

impl PathText {
    /// Each of these paths.
    pub fn all(paths: &[Vec<u8>]) -> Vec<PathText> {
        paths.iter().map(|path| path.as_slice().into()).collect()
    }

    /// The path's bytes again.
    pub fn to_bytes(&self) -> Vec<u8> {
        match self {
            PathText::Text(text) => text.clone().into_bytes(),
            // Only our own encoding is ever in here.
            PathText::Bytes { bytes } => STANDARD.decode(bytes).unwrap_or_default(),
        }
    }
}
