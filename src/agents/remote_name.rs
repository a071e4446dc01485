//! The remote that a command means when the user names none.

use crate::agents::ctx::Ctx;
use crate::error::{Code, Error, Result};

/// The name of the remote that is meant.
///
/// # Errors
/// `usage` when there is none of that name, or when several could be meant.
pub fn remote_name(ctx: &Ctx, wanted: Option<&str>) -> Result<String> {
    let known = ctx.repo.remotes()?;
    let configured = ctx.repo.config_string("agent.remote")?;
    let named = wanted.map(str::to_owned).or(configured);
    // As git does it: the only remote, or else `origin`.
    let is_usual = |name: &&String| known.len() == 1 || *name == "origin";
    let (name, what) = match named {
        Some(name) if known.contains(&name) => return Ok(name),
        Some(name) => (name.clone(), format!("there is no remote `{name}`")),
        None => match known.iter().find(is_usual) {
            Some(name) => return Ok(name.clone()),
            None if known.is_empty() => ("origin".to_owned(), "there is no remote".to_owned()),
            None => {
                return Err(Error::new(
                    Code::Usage,
                    format!("which of the remotes {} is not said", known.join(", ")),
                )
                .hint(format!(
                    "to choose one for good, run git config agent.remote {}",
                    known[0]
                )));
            }
        },
    };
    // A path or URL has no name under which its refs could be remembered.
    Err(
        Error::new(Code::Usage, what).hint(if name.contains(['/', ':']) {
            format!("to give it a name, run git remote add hub {name}")
        } else {
            format!("to add it, run git remote add {name} <url>")
        }),
    )
}
