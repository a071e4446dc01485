//! What our refs are called on a remote, and what leaves this clone.
//!
//! ```text
//! shared by all clones   refs/notes/agents, refs/agents/keep, …     <prefix>/ledger, <prefix>/keep, …
//! outbox of one clone    refs/agents/from/<clone>/ledger, …         <prefix>/from/<clone>/ledger, …
//! claim on a task        refs/agents/claim/<key>                    <prefix>/claim/<key>
//! ```
//!
//! The second form is for hosts that take branches only (`agent.refPrefix`).

use crate::domain::Oid;
use crate::domain::value::named::is_lower_hex;
use crate::error::{Code, Error, Result};
use crate::git::Repo;
use crate::git::refs::remote::RemoteRefs;
use crate::store::chain::Chain;
use crate::store::files::{fsx, layout, lock};
use std::collections::HashSet;
use std::path::Path;
use std::time::Instant;

/// The names on remotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteNames {
    /// Ends with a slash.
    prefix: Option<String>,
}

/// What to do about a prefix that will not do.
const ELSEWHERE: &str = "to have our refs on a remote below agent-sync/, run git config agent.refPrefix refs/heads/agent-sync";

impl RemoteNames {
    /// Names as `agent.refPrefix` wants them.
    ///
    /// # Errors
    /// `usage` for a prefix that is no name of a ref.
    pub fn configured(repo: &Repo) -> Result<RemoteNames> {
        let Some(value) = repo.config_string("agent.refPrefix")? else {
            return Ok(RemoteNames { prefix: None });
        };
        let short = value.trim_matches('/');
        // Hosts that take branches only are what this setting is for, so a short name means a
        // branch.
        let full = match short.strip_prefix("refs/") {
            Some(_) => short.to_owned(),
            None => format!("refs/heads/{short}"),
        };
        let is_below = full.split('/').count() > 2;
        // A prefix such as `refs/heads` would make every branch of the remote one of ours.
        if short.is_empty() || !is_below || !Repo::is_valid_ref(&full) {
            return Err(Error::new(
                Code::Usage,
                format!(
                    "agent.refPrefix is `{value}`, which cannot be the beginning of a ref's name"
                ),
            )
            .hint(ELSEWHERE));
        }
        Ok(RemoteNames { prefix: Some(format!("{full}/")) })
    }

    /// Whether these names are ours alone, so that what else is found there is damage. Below a configured prefix a user
    /// may have branches.
    pub fn are_reserved(&self) -> bool {
        self.prefix.is_none()
    }

    /// Whether a ref is below a configured prefix.
    pub fn has_prefix_of(&self, refname: &str) -> bool {
        let prefix = self.prefix.as_deref();
        prefix.is_some_and(|prefix| refname.starts_with(prefix))
    }

    /// The ref that all clones share.
    pub fn shared(&self, chain: Chain) -> String {
        match &self.prefix {
            Some(prefix) => format!("{prefix}{}", chain.as_str()),
            None => chain.refname().to_owned(),
        }
    }

    /// The ref that this clone alone writes.
    pub fn outbox(&self, clone: &str, chain: Chain) -> String {
        format!("{}{clone}/{}", self.outboxes(), chain.as_str())
    }

    /// What the names of all outboxes begin with.
    fn outboxes(&self) -> String {
        format!("{}from/", self.own())
    }

    /// The clone and the chain of an outbox; `None` for a ref that is none.
    pub fn outbox_of<'r>(&self, refname: &'r str) -> Option<(&'r str, Chain)> {
        let (clone, name) = refname.strip_prefix(&self.outboxes())?.split_once('/')?;
        let chain = Chain::parse(name)?;
        is_long_name(clone).then_some((clone, chain))
    }

    /// The claim on the task that goes by this key.
    pub fn claim(&self, key: &str) -> String {
        format!("{}claim/{key}", self.own())
    }

    /// Refuses a remote on which one of these names is a symbolic ref to a ref of the user's: what is pushed to the one moves the
    /// other. It is asked about only where both are at the same commit, for a listing of all refs does not tell.
    ///
    /// # Errors
    /// `remote-refused`, naming both; `usage` where the configured prefix lies below a ref of the remote's, so that no ref can be made;
    /// those of the network.
    pub fn require_distinct(
        &self,
        repo: &Repo,
        remote: &str,
        listed: &RemoteRefs,
        end: Instant,
    ) -> Result<()> {
        let reserved: &[&str] = match &self.prefix {
            Some(prefix) => &[prefix],
            None => &["refs/agents/", "refs/notes/agents"],
        };
        let in_the_way = |name: &&String| {
            let below =
                self.prefix.as_deref().and_then(|prefix| prefix.strip_prefix(name.as_str()));
            below.is_some_and(|below| below.starts_with('/'))
        };
        if let Some(name) = listed.keys().find(in_the_way) {
            let what = format!(
                "agent.refPrefix lies below {name} of the remote `{remote}`, where no ref can be made"
            );
            return Err(Error::new(Code::Usage, what).hint(ELSEWHERE));
        }
        let is_ours = |name: &str| reserved.iter().any(|prefix| name.starts_with(prefix));
        let users: HashSet<Oid> =
            listed.iter().filter(|(name, _)| !is_ours(name)).map(|(_, oid)| *oid).collect();
        let twins = listed.iter().filter(|(name, oid)| is_ours(name) && users.contains(oid));
        for (name, _) in twins {
            let Some(target) = repo.remote_symref(remote, name, end)? else {
                continue;
            };
            if is_ours(&target) {
                continue;
            }
            let what = format!(
                "{name} of the remote `{remote}` is a symbolic ref to {target}, which a push would move; nothing was pushed"
            );
            return Err(Error::new(Code::RemoteRefused, what)
                .hint(format!("to see what the remote has, run git ls-remote --symref {remote}")));
        }
        Ok(())
    }

    fn own(&self) -> &str {
        self.prefix.as_deref().unwrap_or("refs/agents/")
    }
}

/// The chains and branches that leave this clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Travelling {
    /// The chains, what rows name before the rows.
    pub chains: Vec<Chain>,
    /// Whether the branches of live agents leave.
    pub branches: bool,
}

impl Travelling {
    /// What `agent.sync` names: `ledger`, `branches`, `keep`, `mail`, or `all`.
    ///
    /// # Errors
    /// `usage` for another word.
    pub fn configured(repo: &Repo) -> Result<Travelling> {
        let value = repo.config_string("agent.sync")?;
        let value = value.as_deref().unwrap_or("ledger branches");
        let separators = |c: char| c == ',' || c.is_whitespace();
        let words: Vec<&str> = value.split(separators).filter(|word| !word.is_empty()).collect();
        let known = ["ledger", "branches", "keep", "mail", "all"];
        if let Some(other) = words.iter().find(|word| !known.contains(word)) {
            return Err(Error::new(
                Code::Usage,
                format!("agent.sync names `{other}`, which is none of {}", known.join(", ")),
            )
            .hint("to send ledger and branches, run git config agent.sync 'ledger branches'"));
        }
        let has = |word: &str| words.contains(&"all") || words.contains(&word);
        let is_sent = |chain: &Chain| match chain.as_str() {
            "receipts" => has("mail"),
            word => has(word),
        };
        Ok(Travelling {
            chains: Chain::ALL.into_iter().filter(is_sent).collect(),
            branches: has("branches"),
        })
    }
}

// The number that tells this clone's stamps from those of every other clone, and its name on remotes.

/// The clone's number, drawn the first time it is asked for. Of processes that ask at the same moment
/// one draws, and all get its answer.
///
/// # Errors
/// `repo-read-only`, `disk-full`, `io`.
pub(in crate::store) fn load_or_make_clone_id(common_dir: &Path) -> Result<u16> {
    let path = layout::clone_id(common_dir);
    if let Some(number) = read(&path)? {
        return Ok(number);
    }
    fsx::create_dir(&layout::agents_dir(common_dir))?;
    let drawn = getrandom::u32()
        .map_err(|error| Error::bug("the system must have random numbers").because(error))?;
    let text = format!("{:04x}\n", drawn & 0xffff);
    // Created and not replaced: a number that another process has put into stamps already must
    // stay.
    if !fsx::create_atomic(&path, text.as_bytes())? && read(&path)?.is_none() {
        // A power loss emptied it. Any number will do again.
        fsx::write_atomic(&path, text.as_bytes())?;
    }
    read(&path)?.ok_or_else(|| Error::bug("a clone id must be readable once written"))
}

/// The name under which this clone writes on remotes: sixteen hex digits, of which the last four are its number. Made
/// the first time it is asked for, under the ledger's lock.
///
/// # Errors
/// `lock-timeout`, `repo-read-only`, `disk-full`, `io`.
pub fn long_name(common_dir: &Path) -> Result<String> {
    if let Some(name) = read_long_name(common_dir)? {
        return Ok(name);
    }
    let _guard = lock::hold(common_dir, layout::LEDGER_LOCK)?;
    // Asked again under the lock, because the process that held it may have made the name.
    if let Some(name) = read_long_name(common_dir)? {
        return Ok(name);
    }
    let number = load_or_make_clone_id(common_dir)?;
    let drawn = getrandom::u64()
        .map_err(|error| Error::bug("the system must have random numbers").because(error))?;
    // The number stays in it, so that stamps of before still count as this clone's.
    let name = format!("{:016x}", drawn & !0xffff | u64::from(number));
    fsx::write_atomic(&layout::clone_id(common_dir), format!("{name}\n").as_bytes())?;
    Ok(name)
}

fn read_long_name(common_dir: &Path) -> Result<Option<String>> {
    let content = fsx::load_if_there(&layout::clone_id(common_dir))?.unwrap_or_default();
    let text = String::from_utf8_lossy(&content).trim_end().to_owned();
    Ok(Some(text).filter(|text| is_long_name(text)))
}

/// How many digits the long name of a clone has.
const LONG: usize = 16;

/// Whether a text can be the long name of a clone.
pub fn is_long_name(text: &str) -> bool {
    text.len() == LONG && is_lower_hex(text)
}

/// The clone's number; `None` before it was drawn.
///
/// # Errors
/// `io`.
pub(in crate::store) fn load_clone_id(common_dir: &Path) -> Result<Option<u16>> {
    read(&layout::clone_id(common_dir))
}

fn read(path: &Path) -> Result<Option<u16>> {
    let content = fsx::load_if_there(path)?.unwrap_or_default();
    let text = std::str::from_utf8(&content).unwrap_or_default();
    let number = u64::from_str_radix(text.trim_end(), 16).ok();
    Ok(number.map(|number| (number & 0xffff) as u16))
}
