//! The four chains there are, and what tells them apart.

use crate::store::layout;

/// A ref of ours that only moves forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chain {
    /// Commits that matter for their parents.
    Keep,
    /// The rows of the agents: commits whose trees are notes trees.
    Ledger,
    /// Commits that hold a message each.
    Mail,
    /// What the readers of messages have read: commits whose trees are notes trees.
    Receipts,
}

impl Chain {
    /// All of them. What rows name comes before the rows, and messages before the receipts that speak of them.
    pub const ALL: [Chain; 4] = [Chain::Keep, Chain::Ledger, Chain::Mail, Chain::Receipts];

    /// The full name of the ref.
    pub fn refname(self) -> &'static str {
        match self {
            Chain::Keep => layout::KEEP_REF,
            Chain::Ledger => layout::LEDGER_REF,
            Chain::Mail => layout::MAIL_REF,
            Chain::Receipts => layout::RECEIPTS_REF,
        }
    }

    /// The word for it in names of refs.
    pub fn word(self) -> &'static str {
        match self {
            Chain::Keep => "keep",
            Chain::Ledger => "ledger",
            Chain::Mail => "mail",
            Chain::Receipts => "receipts",
        }
    }

    /// The OS lock that its writers hold, a name of [`layout`].
    pub fn lock(self) -> &'static str {
        match self {
            Chain::Keep | Chain::Ledger => layout::LEDGER_LOCK,
            Chain::Mail | Chain::Receipts => layout::MAIL_LOCK,
        }
    }

    /// Whether the trees of its commits are notes trees; the commits of the others matter for their message and
    /// their parents.
    pub fn holds_notes(self) -> bool {
        matches!(self, Chain::Ledger | Chain::Receipts)
    }
}
