//! Attestations: an accepting verdict as a signed statement in a file, and what such a file is worth.
//!
//! The file goes where the commit goes, or to the system that deploys it. It is checked without the ledger, the agent or a
//! network: the signature against a list of allowed signers, the statement against the commit at hand.

use super::report::FindingReport;
use crate::agents::{Ctx, Scratch};
use crate::domain::judge::evidence::Commands;
use crate::domain::judge::finding::verdict_word;
use crate::domain::{Finding, FindingCode, Oid, Verdict};
use crate::error::{Code, Error, Result};
use crate::git::repo::program::Signer;
use crate::ops::agent_report::{TargetReport, rfc3339};
use crate::store::files::fsx;
use crate::wire::row::attestation::{self, About, Statement};
use serde::Serialize;
use serde_with_macros::skip_serializing_none;
use std::path::{Path, PathBuf};

/// What the caller asked for.
#[derive(Clone, Debug, Default)]
pub struct AttestedOptions {
    /// The attestation.
    pub file: PathBuf,
    /// The commit that it is to be about; any when absent.
    pub tip: Option<String>,
    /// The list of allowed signers; that of git's configuration when absent.
    pub signers: Option<PathBuf>,
}

/// The answer of `verify --attested`: `git-agent.attested/1`.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "schema", rename = "git-agent.attested/1")]
pub struct AttestedReport {
    /// `accept` where the attestation holds, else `reject`.
    pub verdict: &'static str,
    /// Who signed it, as the list of allowed signers says; absent where it does not.
    pub signer: Option<String>,
    /// What it says; absent where it is no statement of ours.
    pub statement: Option<StatementReport>,
    /// What is wrong with it.
    pub findings: Vec<FindingReport>,
}

/// What an attestation says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StatementReport {
    /// The agent's id.
    pub agent_id: String,
    /// The first eight hex digits of the id.
    pub short_id: String,
    /// The commit that was judged.
    pub tip: Option<String>,
    /// The tree that was to land.
    pub merged_tree: Option<String>,
    /// What it was to land on.
    pub target: TargetReport,
    /// When the work was judged.
    pub verified_at: String,
    /// What was checked and passed.
    pub properties: Vec<String>,
}

/// Signs a verdict and writes it to a file. A verdict that rejects the work is not attested, and no file is written.
///
/// # Errors
/// `not-accepted` for a verdict that leaves something out; `usage` where git is not set up to sign with ssh keys;
/// `git-failed`, `io`.
pub fn attest(ctx: &Ctx, verdict: &Verdict, file: &Path) -> Result<()> {
    // The answer says why; a file that is not written cannot be taken for an acceptance.
    if !verdict.is_accepted() {
        return Ok(());
    }
    let short = verdict.agent.short();
    let refused = |why: &str| {
        let what = format!("the verdict on agent {short} is not attested: {why}");
        Error::new(Code::NotAccepted, what)
    };
    // There is nothing that a reader of the statement could hold it against.
    let Some(tree) = verdict.merged_tree() else {
        return Err(refused("nothing would land"));
    };
    // What a reader trusts is that everything was asked.
    if verdict.is_partial() {
        return Err(refused("it leaves out the check commands or the bundle")
            .hint(format!("to judge everything, run git agent verify {short}")));
    }
    if verdict.has(FindingCode::ReportNotJudged) {
        return Err(refused("the agent's final answer is not in this clone, so its report was not judged")
            .hint(format!("to attest it, run git agent verify {short} --attest <file> in the clone where the agent ran")));
    }
    // A reader holds the statement against the commit, of which these files are no part.
    if verdict.uncommitted > 0 {
        return Err(refused("a part of the work is not committed")
            .hint(format!("to commit it first, run git agent commit {short} -m <message>")));
    }
    let about = About {
        agent_id: verdict.agent.to_string(),
        target: verdict.base_ref.clone(),
        base: verdict.base.to_hex(),
    };
    let objects = (verdict.tip, tree, verdict.policy);
    let time = rfc3339(ctx.now());
    let statement = Statement::accepted(objects, about, properties(verdict), time);
    let payload = statement.payload();
    let scratch = Scratch::make(ctx, "verify")?;
    let signature = ctx.repo.sign(&attestation::to_sign(&payload), scratch.path())?;
    let text = attestation::envelope(&payload, &signature);
    fsx::write_out(&ctx.absolute(file), text.as_bytes())
}

/// What was checked and passed.
fn properties(verdict: &Verdict) -> Vec<String> {
    let lacks = |code| !verdict.has(code);
    let checks = [
        (attestation::ACCEPTED, true),
        ("GIT_AGENT_SCOPE", true),
        ("GIT_AGENT_PROVENANCE", true),
        ("GIT_AGENT_MERGE", lacks(FindingCode::MergeNotJudged)),
        ("GIT_AGENT_COMMANDS", matches!(verdict.commands, Commands::Ran(_))),
        ("GIT_AGENT_BUNDLE", verdict.bundle_required),
        ("GIT_AGENT_LEDGER", lacks(FindingCode::LedgerNotJudged)),
    ];
    let passed = checks.into_iter().filter(|(_, passed)| *passed);
    passed.map(|(name, _)| name.to_owned()).collect()
}

/// Checks an attestation, by itself or for a commit. Without a repository a commit is known by its whole name alone.
///
/// # Errors
/// `usage` for a file that is no attestation, and where there is no list of allowed signers; `base-not-commit`, `io`.
pub fn attested(
    ctx: &Ctx,
    options: &AttestedOptions,
    has_repository: bool,
) -> Result<AttestedReport> {
    let file = ctx.absolute(&options.file);
    let gone = || Error::new(Code::Usage, format!("there is no file {}", file.display()));
    let bytes = fsx::load_if_there(&file)?.ok_or_else(gone)?;
    let signed = attestation::read(&bytes).ok_or_else(|| {
        let what = format!("{} is no attestation", options.file.display());
        Error::new(Code::Usage, what)
            .hint("to write one, run git agent verify <agent> --attest <file>")
    })?;
    // ssh-keygen reads what it checks from files.
    let scratch = Scratch::make(ctx, "verify")?;
    let signers = options.signers.as_ref().map(|file| ctx.absolute(file));
    let signer =
        ctx.repo.signer(&signed.signed, &signed.signature, signers.as_deref(), scratch.path())?;
    let mut findings = Vec::new();
    let signer = match signer {
        Signer::Known(principal) => Some(principal),
        Signer::Unknown(why) => {
            let why = why.lines().next().unwrap_or("no principal was found");
            findings.push(Finding::new(
                FindingCode::AttestationSignature,
                format!("no allowed signer signed it: {why}"),
                "ask for an attestation by someone on the list, or add the key to the list of allowed signers",
            ));
            None
        }
    };
    match (&signed.statement, &options.tip) {
        (None, _) => findings.push(Finding::new(
            FindingCode::AttestationStatement,
            "what was signed is no accepting verdict of this program",
            "use a file that git agent verify --attest wrote",
        )),
        (Some(statement), Some(revision)) => {
            findings.extend(mismatch(ctx, statement, revision, has_repository)?);
        }
        (Some(_), None) => {}
    }
    Ok(AttestedReport {
        verdict: verdict_word(findings.is_empty()),
        signer,
        statement: signed.statement.as_ref().map(told),
        findings: findings.iter().map(FindingReport::from).collect(),
    })
}

/// What is wrong where a statement is not about a commit.
fn mismatch(
    ctx: &Ctx,
    statement: &Statement,
    revision: &str,
    has_repository: bool,
) -> Result<Option<Finding>> {
    let subject = statement.subject("gitCommit");
    let (commit, is_about) = match ctx.repo.resolve_commit(revision) {
        Ok(resolved) => {
            let tree = ctx.repo.tree_of(resolved.commit)?;
            // A squash or a rebase makes another commit of the same tree.
            let has_tree = statement.subject("gitTree") == Some(tree);
            let is_about = subject == Some(resolved.commit) || has_tree;
            (resolved.commit, is_about)
        }
        // The name of the judged commit says as much where the commit itself is not at hand. What a squash made of it is
        // known by its tree alone.
        Err(error) => match Oid::from_hex(revision) {
            Some(commit) if subject == Some(commit) => (commit, true),
            None if !has_repository => {
                let what = format!("there is no repository here that could say what {revision} is");
                return Err(Error::new(Code::Usage, what)
                    .hint("to say which commit it is to be about, pass its whole id"));
            }
            _ => return Err(error),
        },
    };
    let finding = || {
        Finding::new(
            FindingCode::AttestationSubject,
            format!(
                "commit {} is not the one that was judged, and its tree is not the one that was to land",
                commit.short()
            ),
            "use the attestation of that commit",
        )
        .at(Some(commit))
    };
    Ok((!is_about).then(finding))
}

fn told(statement: &Statement) -> StatementReport {
    let about = statement.about();
    StatementReport {
        agent_id: about.agent_id.clone(),
        short_id: about.agent_id.chars().take(8).collect(),
        tip: statement.subject("gitCommit").map(Oid::to_hex),
        merged_tree: statement.subject("gitTree").map(Oid::to_hex),
        target: TargetReport { refname: about.target.clone(), oid: Some(about.base.clone()) },
        verified_at: statement.time().to_owned(),
        properties: statement.properties().to_vec(),
    }
}
