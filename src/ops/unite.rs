//! `unite`: keep chain, ledger, mailbox and receipts with the copies that were fetched from a remote.

use crate::agents::Ctx;
use crate::error::{Code, Error, Result};
use crate::store::{Chain, ledger};
use serde::Serialize;

/// One ref.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UnitedReport {
    /// The full name of the ref.
    #[serde(rename = "ref")]
    pub refname: &'static str,
    /// Where it was; absent when there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Where it is.
    pub to: String,
}

/// The answer of `unite`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.unite/1")]
pub struct UniteReport {
    /// The remote.
    pub remote: String,
    /// Every ref of which there was a copy.
    pub refs: Vec<UnitedReport>,
}

/// Unites every chain of which a copy was fetched from `remote`. No network is used.
///
/// # Errors
/// `usage` when there is no copy; `lock-timeout`, `repo-corrupt`, `repo-read-only`, `disk-full`.
pub fn unite(ctx: &Ctx, remote: &str) -> Result<UniteReport> {
    let mut refs = Vec::new();
    for chain in Chain::ALL {
        let united = ledger::unite(&ctx.repo, chain, remote, ctx.now())?;
        refs.extend(united.map(|united| UnitedReport {
            refname: united.refname,
            from: united.from.map(|oid| oid.to_hex()),
            to: united.to.to_hex(),
        }));
    }
    if refs.is_empty() {
        let what = format!("nothing of ours was fetched from `{remote}`");
        return Err(Error::new(Code::Usage, what)
            .hint(format!("to fetch and unite it, run git agent sync {remote}")));
    }
    Ok(UniteReport { remote: remote.to_owned(), refs })
}
