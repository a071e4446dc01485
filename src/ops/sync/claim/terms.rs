//! What keys and times of claims can be.

use crate::domain::claim::TTLS;
use crate::domain::task::parse_duration;
use crate::error::{Code, Error, Result};
use crate::git::Repo;
use std::time::Duration;

/// How long a claim holds without a sign of life, unless configured.
const TTL: Duration = Duration::from_secs(60);

/// The longest key.
const LONGEST_KEY: usize = 100;

/// Checks that a key can be part of a ref's name, and of a file's.
pub(super) fn require_key(key: &str, refname: &str) -> Result<()> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_good = !key.is_empty() && key.len() <= LONGEST_KEY && key.bytes().all(is_plain);
    if is_good && Repo::is_valid_ref(refname) && !key.ends_with(".lock") {
        return Ok(());
    }
    let what = format!(
        "`{key}` cannot be the key of a claim: it has 1 to {LONGEST_KEY} letters, digits, `-`, `_` and `.`"
    );
    Err(Error::new(Code::Usage, what).hint("to see an example, run git agent run --help"))
}

/// How long claims of this clone hold without a sign of life.
pub(super) fn configured_ttl(repo: &Repo) -> Result<Duration> {
    let Some(value) = repo.config_string("agent.claimTtl")? else {
        return Ok(TTL);
    };
    let wrong = |why: String| {
        Error::new(Code::Usage, format!("agent.claimTtl: {why}"))
            .hint("to have the usual time, run git config --unset agent.claimTtl")
    };
    let ttl = parse_duration(&value).map_err(wrong)?;
    if ttl < TTLS[0] || ttl > TTLS[1] {
        return Err(wrong(format!("`{value}` is not between 1s and 1h")));
    }
    Ok(ttl)
}
