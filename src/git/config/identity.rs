//! Who git says we are.

use crate::error::{Code, Error, Result};
use crate::git::objects::Identity;
use crate::git::{Repo, command};

/// Author and committer for a commit of ours.
#[derive(Clone, Debug)]
pub struct Identities {
    /// The author.
    pub author: Identity,
    /// The committer.
    pub committer: Identity,
    /// Whether git has no identity configured and ours stands in.
    pub stand_in: bool,
}

impl Identity {
    /// This program itself, at a moment in seconds since the epoch: which signs where git has no identity,
    /// and, at moment 0, what is named by its content alone so that the same content is one object.
    pub fn stand_in(seconds: i64) -> Identity {
        Identity {
            name: "git-agent".to_owned(),
            email: "git-agent@localhost".to_owned(),
            seconds,
            offset_minutes: 0,
        }
    }
}

impl Repo {
    /// `user.name` and `user.email`, or the stand-in where one of them is missing; at the epoch
    /// and in UTC, for the caller to set.
    pub fn configured_identity(&self) -> Identity {
        let signature = self.inner.signature();
        let user = signature
            .as_ref()
            .ok()
            .and_then(|signature| Some((signature.name().ok()?, signature.email().ok()?)));
        match user {
            Some((name, email)) => Identity {
                name: name.to_owned(),
                email: email.to_owned(),
                ..Identity::stand_in(0)
            },
            None => Identity::stand_in(0),
        }
    }

    /// Author and committer as git would choose them from environment and configuration. Where there
    /// is no identity, as on a fresh machine, `git-agent <git-agent@localhost>` stands in: a spawn must
    /// not fail for want of a name, and the caller warns.
    ///
    /// `now` is in seconds since the epoch and used for the stand-in only; git's own choice honours
    /// `GIT_AUTHOR_DATE` and `GIT_COMMITTER_DATE`.
    ///
    /// # Errors
    /// `git-failed` when the configuration cannot be read or names an impossible identity.
    pub fn identities(&self, now: i64) -> Result<Identities> {
        match (
            self.inner.author_from_env(),
            self.inner.committer_from_env(),
        ) {
            (Ok(author), Ok(committer)) => Ok(Identities {
                author: plain(&author),
                committer: plain(&committer),
                stand_in: false,
            }),
            (Err(error), _) | (_, Err(error)) if error.code() == git2::ErrorCode::NotFound => {
                let stand_in = Identity::stand_in(now);
                Ok(Identities {
                    author: stand_in.clone(),
                    committer: stand_in,
                    stand_in: true,
                })
            }
            // Git reads more forms of a date than libgit2, and says what is wrong with the rest.
            _ => Ok(Identities {
                author: self.identity_by_git("GIT_AUTHOR_IDENT")?,
                committer: self.identity_by_git("GIT_COMMITTER_IDENT")?,
                stand_in: false,
            }),
        }
    }

    /// One of the identities of git-var(1).
    fn identity_by_git(&self, variable: &str) -> Result<Identity> {
        let mut command = self.plumbing();
        command.args(["var", variable]);
        let said = command::successful(command)?;
        let said = String::from_utf8_lossy(&said);
        parse(said.trim_end()).ok_or_else(|| {
            Error::new(Code::GitFailed, "could not find out who you are")
                .because(said.clone().into_owned())
        })
    }
}

/// Reads `<name> <<email>> <seconds> <zone>`.
fn parse(line: &str) -> Option<Identity> {
    let (who, when) = line.rsplit_once("> ")?;
    let (name, email) = who.split_once(" <")?;
    let (seconds, zone) = when.split_once(' ')?;
    let (sign, zone) = zone.split_at_checked(1)?;
    let (hours, minutes) = zone.split_at_checked(2)?;
    let minutes = hours.parse::<i32>().ok()? * 60 + minutes.parse::<i32>().ok()?;
    Some(Identity {
        name: name.to_owned(),
        email: email.to_owned(),
        seconds: seconds.parse().ok()?,
        offset_minutes: if sign == "-" { -minutes } else { minutes },
    })
}

fn plain(signature: &git2::Signature<'_>) -> Identity {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Identity {
        name: text(signature.name_bytes()),
        email: text(signature.email_bytes()),
        seconds: signature.when().seconds(),
        offset_minutes: signature.when().offset_minutes(),
    }
}
