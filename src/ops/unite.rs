//! `unite`: keep chain, ledger, mailbox and receipts with the copies that were fetched from a remote.

use crate::agents::ctx::Ctx;
use crate::error::{Code, Error, Result};
use crate::store::chain::Chain;
use crate::store::ledger;
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
pub struct UniteReport {
    /// The format's name and version.
    pub schema: &'static str,
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
        return Err(Error::new(
            Code::Usage,
            format!("nothing of ours was fetched from `{remote}`"),
        )
        .hint(format!(
            "to fetch and unite it, run git agent sync {remote}"
        )));
    }
    Ok(UniteReport {
        schema: "git-agent.unite/1",
        remote: remote.to_owned(),
        refs,
    })
}
