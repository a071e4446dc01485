//! The four chains there are, and what tells them apart.

use crate::domain::named::named;
use crate::store::layout;

named! {
    /// A ref of ours that only moves forward, with the word for it in names of refs. What rows name comes before the rows,
    /// and messages before the receipts that speak of them.
    pub enum Chain {
        /// Commits that matter for their parents.
        Keep = "keep",
        /// The rows of the agents: commits whose trees are notes trees.
        Ledger = "ledger",
        /// Commits that hold a message each.
        Mail = "mail",
        /// What the readers of messages have read: commits whose trees are notes trees.
        Receipts = "receipts",
    }
}

impl Chain {
    /// The full name of the ref.
    pub fn refname(self) -> &'static str {
        match self {
            Chain::Keep => layout::KEEP_REF,
            Chain::Ledger => layout::LEDGER_REF,
            Chain::Mail => layout::MAIL_REF,
            Chain::Receipts => layout::RECEIPTS_REF,
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
