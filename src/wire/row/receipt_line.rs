//! A line of a reader's note in `refs/notes/agents-mail`:
//! `{"t":"20261120T214929.123456Z-000-7f3a","e":"archived","m":["MSG-…"]}`.
//!
//! `t` comes first and has a fixed width, so that byte order is time order. A `page` line names, instead of
//! messages, the commit whose note holds what was in this one before it grew too long.

use crate::domain::Stamp;
use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// What became of messages, told by their reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiptKind {
    /// They were handed out and are still to be acknowledged.
    Read,
    /// They are done with.
    Archived,
    /// Not messages: an older page.
    Page,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// When.
    pub at: Stamp,
    /// What was done.
    pub deed: ReceiptKind,
    /// Ids of messages, or the name of a page.
    pub of: Vec<String>,
}

#[derive(Serialize, Deserialize)]
struct ReceiptJson<'a> {
    t: String,
    e: &'a str,
    m: Vec<String>,
}

impl Receipt {
    /// The line, without its line feed.
    ///
    /// # Errors
    /// Never for a receipt.
    pub fn encode(&self) -> Result<String> {
        serde_json::to_string(&ReceiptJson {
            t: self.at.to_string(),
            e: match self.deed {
                ReceiptKind::Read => "read",
                ReceiptKind::Archived => "archived",
                ReceiptKind::Page => "page",
            },
            m: self.of.clone(),
        })
        .map_err(|error| Error::bug("a receipt must have a JSON form").because(error))
    }

    /// Reads a line; `None` for one that is no receipt, or of a kind that this version does not know.
    pub fn decode(line: &[u8]) -> Option<Receipt> {
        // A note may come from a remote and hold lines of later versions; one of them must not cost
        // the rest.
        let line: ReceiptJson<'_> = serde_json::from_slice(line).ok()?;
        Some(Receipt {
            at: Stamp::parse(&line.t)?,
            deed: match line.e {
                "read" => ReceiptKind::Read,
                "archived" => ReceiptKind::Archived,
                "page" => ReceiptKind::Page,
                _ => return None,
            },
            of: line.m,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_back_and_others_passed_over() {
        let line = br#"{"t":"20261120T214929.123456Z-000-7f3a","e":"archived","m":["MSG-1"]}"#;
        let receipt = Receipt::decode(line).expect("a receipt");
        assert_eq!(receipt.deed, ReceiptKind::Archived);
        assert_eq!(receipt.encode().expect("a line").as_bytes(), line);
        assert_eq!(Receipt::decode(b"hello"), None);
        let later = br#"{"t":"20261120T214929.123456Z-000-7f3a","e":"pinned","m":[]}"#;
        assert_eq!(Receipt::decode(later), None);
    }
}
