//! Remotes: listing, fetching and pushing refs that are named in full.
//!
//! The user's `git` does it, which knows URLs, keys and credential helpers. Configured refspecs, tags, pruning,
//! submodules and depth play no part: what is not named stays as it is, on both sides. Whether a push was successful is
//! decided by a caller who lists the remote again; the reasons that git gives only name what stands in the way.

use crate::domain::Oid;
use crate::error::{Code, Error, Result};
use crate::git::files::lock_file::{self, ChildLocks};
use crate::git::repo::failed;
use crate::git::{Repo, core::command};
use std::collections::BTreeMap;
use std::process::{Command, Output};
use std::time::Instant;

/// The refs of a remote by their full names.
pub type RemoteRefs = BTreeMap<String, Oid>;

/// What is to become of one ref of a remote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefPush {
    /// The full name of the ref.
    pub refname: String,
    /// What is to become of it.
    pub change: RefChange,
}

impl RefPush {
    /// What is to become of the ref of that full name.
    pub fn new(refname: impl Into<String>, change: RefChange) -> RefPush {
        RefPush { refname: refname.into(), change }
    }
}

/// A change of one ref of a remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefChange {
    /// Create it, or move it to a descendant of what it names.
    Forward(Oid),
    /// Move it to `to` if it is at `from`; `None` for a ref that must not exist.
    Swap {
        /// Where it is.
        from: Option<Oid>,
        /// Where it is to be.
        to: Oid,
    },
    /// Delete it if it is there.
    Delete(Oid),
}

/// A ref that was not pushed, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushRefusal {
    /// The full name of the ref.
    pub refname: String,
    /// What git or the remote says, such as `deny updating a hidden ref`.
    pub reason: String,
}

/// How a push ended. A ref that is not among the refusals was taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushOutcome {
    /// The refs that were not taken.
    pub refusals: Vec<PushRefusal>,
    /// What the remote printed, such as the text of its hook.
    pub remote_text: String,
}

/// How a fetch ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// All that was named is here.
    All,
    /// The remote has no such ref by now, or not what it names. git fetches nothing then, not even the other refs.
    Missing,
    /// The remote does not advertise the commit that was asked for by its id, so git did not ask for it. Only the protocol versions
    /// 0 and 1 end so.
    Unadvertised,
    /// Another process moves a ref of this clone, as git said; another attempt may succeed.
    Locked(String),
}

/// How refs are pushed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PushManner {
    /// All of them or none.
    pub atomic: bool,
    /// Whether the user's `pre-push` hook is asked, as for branches.
    pub with_hook: bool,
}

/// Says of a refusal's reason whether another attempt may succeed: a writer held a lock, or was faster.
pub fn is_passing(reason: &str) -> bool {
    const PASSING: [&str; 8] = [
        "cannot lock ref",
        // From git 2.54 on a server says so of a ref whose lock another writer holds, too.
        "reference already exists",
        "failed to update ref",
        "failed to lock",
        "incorrect old value",
        "fetch first",
        "stale info",
        "atomic",
    ];
    PASSING.iter().any(|words| reason.contains(words))
}

impl Repo {
    /// The URL that a remote is fetched from and those that it is pushed to, as git takes them by the whole configuration (`pushurl`,
    /// `pushInsteadOf`); `None` for a remote without a name.
    ///
    /// # Errors
    /// `git-failed`.
    pub fn urls_apart(&self, remote: &str) -> Result<Option<(String, Vec<String>)>> {
        if self.config_string(&format!("remote.{remote}.url"))?.is_none() {
            return Ok(None);
        }
        let ask = |words: &[&str]| {
            let mut git = self.networked();
            git.args(["remote", "get-url"]).args(words).args(["--", remote]);
            let answer = command::successful(git)?;
            let urls = String::from_utf8_lossy(&answer);
            Ok::<_, Error>(urls.lines().map(str::to_owned).collect::<Vec<_>>())
        };
        let fetched = ask(&[])?.into_iter().next().unwrap_or_default();
        Ok(Some((fetched, ask(&["--push", "--all"])?)))
    }

    /// The URL that a remote is fetched from, as `url.<base>.insteadOf` makes it; `None` for a name that is no remote.
    ///
    /// # Errors
    /// `git-failed` where the configuration cannot be read.
    pub fn remote_url(&self, remote: &str) -> Result<Option<String>> {
        match self.inner.find_remote(remote) {
            Ok(found) => Ok(found.url().ok().map(str::to_owned)),
            Err(error) if error.code() == git2::ErrorCode::NotFound => Ok(None),
            Err(error) => Err(failed(&format!("could not read the remote {remote}"), error)),
        }
    }

    /// Whether a text can be the full name of a ref.
    pub fn is_valid_ref(refname: &str) -> bool {
        git2::Reference::is_valid_name(refname)
    }

    /// A git that talks to a remote from where git would: a URL may be relative, and a hook of the user's looks at files.
    fn networked(&self) -> Command {
        let mut command = self.plumbing();
        if let Ok(Some(top)) = self.main_worktree() {
            command.current_dir(top);
        }
        command
    }

    /// Every ref of a remote.
    ///
    /// # Errors
    /// `remote-unreachable`, `remote-refused`, `remote-busy` when it takes too long, `git-missing`.
    pub fn list_remote(&self, remote: &str, end: Instant) -> Result<RemoteRefs> {
        let mut command = self.networked();
        // Version 2 asks first what the remote can do, and lists no less for it.
        command.args(["-c", "protocol.version=0"]);
        command.args(["ls-remote", "--refs", "--quiet", "--", remote]);
        let output = finished(command::finish_by(command, end)?, remote)?;
        if !output.status.success() {
            return Err(not_reached(remote, &output));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let refs = text.lines().filter_map(|line| {
            let (oid, name) = line.split_once('\t')?;
            Some((name.to_owned(), Oid::from_hex(oid)?))
        });
        Ok(refs.collect())
    }

    /// The ref of a remote to which a symbolic ref there leads; `None` for one that is not symbolic, and where the remote speaks only
    /// the older protocol, which does not tell.
    ///
    /// # Errors
    /// As [`Repo::list_remote`].
    pub fn remote_symref(&self, remote: &str, name: &str, end: Instant) -> Result<Option<String>> {
        let mut command = self.networked();
        command.args(["-c", "protocol.version=2"]);
        command.args(["ls-remote", "--symref", "--quiet", "--", remote, name]);
        let output = finished(command::finish_by(command, end)?, remote)?;
        if !output.status.success() {
            return Err(not_reached(remote, &output));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let mut symbolic = text.lines().filter_map(|line| line.strip_prefix("ref: "));
        Ok(symbolic.find_map(|line| {
            let (target, found) = line.split_once('\t')?;
            (found == name).then(|| target.to_owned())
        }))
    }

    /// Fetches by refspecs.
    ///
    /// # Errors
    /// As [`Repo::list_remote`].
    pub fn fetch_refs(&self, remote: &str, refspecs: &[String], end: Instant) -> Result<Fetched> {
        self.fetch(self.networked(), remote, &[], refspecs, end)
    }

    /// Fetches a commit by its id, and moves `copy` there. By version 2 of the protocol, a server is asked for the commit whatever its
    /// refs are; one that speaks only an older version can be asked for what it advertises.
    ///
    /// # Errors
    /// As [`Repo::list_remote`].
    pub fn fetch_commit(
        &self,
        remote: &str,
        oid: Oid,
        copy: &str,
        end: Instant,
    ) -> Result<Fetched> {
        let mut command = self.networked();
        command.args(["-c", "protocol.version=2"]);
        self.fetch(command, remote, &[], &[format!("+{oid}:{copy}")], end)
    }

    /// As [`Repo::fetch_refs`], with all objects below, as if none of them were here.
    ///
    /// # Errors
    /// As [`Repo::list_remote`].
    pub fn fetch_refs_whole(
        &self,
        remote: &str,
        refspecs: &[String],
        end: Instant,
    ) -> Result<Fetched> {
        self.fetch(self.networked(), remote, &["--refetch"], refspecs, end)
    }

    /// Clears what killed processes of ours left, and notes which locks a git may leave that is about to be started. Where that
    /// cannot be written down the git is started all the same.
    fn note_locks(
        &self,
        command: &mut Command,
        refs: impl Iterator<Item = String>,
    ) -> Option<ChildLocks> {
        let _ = lock_file::clear_left(self.common_dir());
        let refs: Vec<String> = refs.filter(|name| Repo::is_valid_ref(name)).collect();
        let refs = refs.iter().map(String::as_str);
        let locks = ChildLocks::of_refs(self.common_dir(), refs).ok()?;
        command.stdin(locks.shared().ok()?);
        Some(locks)
    }

    fn fetch(
        &self,
        mut command: Command,
        remote: &str,
        options: &[&str],
        refspecs: &[String],
        end: Instant,
    ) -> Result<Fetched> {
        // A ref that is damaged, of ours or not, is no reason to bring nothing.
        command.env("GIT_REF_PARANOIA", "0");
        // The copies are moved by force and are no history of ours: a reflog of each would only
        // grow.
        command.args(["-c", "core.logAllRefUpdates=false"]).args([
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-prune",
            "--no-write-fetch-head",
            "--no-recurse-submodules",
            "--no-auto-maintenance",
            // A partial clone leaves out what it can ask for later; our chains are needed whole.
            "--no-filter",
            "--refmap=",
        ]);
        command.args(options).args(["--", remote]).args(refspecs);
        let copies = refspecs.iter().filter_map(|one| one.split_once(':'));
        let _locks = self.note_locks(&mut command, copies.map(|(_, copy)| copy.to_owned()));
        let output = finished(command::finish_by(command, end)?, remote)?;
        if output.status.success() {
            return Ok(Fetched::All);
        }
        // Advice about the settings that we give it is of no use to the user.
        let said = String::from_utf8_lossy(&output.stderr);
        let lines = said.lines().filter(|line| !line.starts_with("hint:"));
        let said = lines.collect::<Vec<_>>().join("\n");
        let has = |words: &[&str]| words.iter().any(|words| said.contains(words));
        if has(&["cannot lock ref", "unable to update local ref"]) {
            return Ok(Fetched::Locked(said.trim().to_owned()));
        }
        // It was reached, and sent what git reads no deeper: git ends such a fetch before a ref moves.
        if has(&["exceeded maximum allowed tree depth", "tree is too deep"]) {
            let what =
                format!("the remote `{remote}` has a tree that is nested deeper than git reads");
            return Err(Error::new(Code::RepoCorrupt, what).because(said.trim().to_owned()));
        }
        // Without any ref, there is nothing that could be asked for.
        if has(&["unadvertised object", "no matching remote head"]) {
            return Ok(Fetched::Unadvertised);
        }
        // What another clone deletes, or git prunes there, while this one fetches, looks like what was never there.
        if has(&[
            "couldn't find remote ref",
            "not our ref",
            // JGit says so of a commit that it does not have, or does not show.
            "not valid",
            "corruption on the remote side",
            "did not send all necessary objects",
            "bad object",
            "missing object",
            "unable to read",
            "could not parse",
        ]) {
            return Ok(Fetched::Missing);
        }
        Err(not_reached(remote, &output))
    }

    /// Pushes refs, each by itself unless all or none are wanted.
    ///
    /// # Errors
    /// As [`Repo::list_remote`]; a ref that is refused is no error.
    pub fn push_refs(
        &self,
        remote: &str,
        pushes: &[RefPush],
        manner: PushManner,
        end: Instant,
    ) -> Result<PushOutcome> {
        let mut command = self.networked();
        // `remote.<name>.mirror` cannot be combined with named refs.
        command.arg("-c").arg(format!("remote.{remote}.mirror=false")).args([
            "push",
            "--porcelain",
            "--no-follow-tags",
            "--recurse-submodules=no",
        ]);
        command.args(manner.atomic.then_some("--atomic"));
        command.args((!manner.with_hook).then_some("--no-verify"));
        let mut refspecs = Vec::new();
        for RefPush { refname, change } in pushes {
            let lease = |from: Option<Oid>| {
                // An empty value says that the ref must not exist.
                let from = from.map_or_else(String::new, |oid| oid.to_hex());
                format!("--force-with-lease={refname}:{from}")
            };
            match *change {
                RefChange::Forward(to) => refspecs.push(format!("{to}:{refname}")),
                RefChange::Swap { from, to } => {
                    command.arg(lease(from));
                    refspecs.push(format!("{to}:{refname}"));
                }
                RefChange::Delete(from) => {
                    command.arg(lease(Some(from)));
                    refspecs.push(format!(":{refname}"));
                }
            }
        }
        command.args(["--", remote]).args(refspecs);
        // Git brings its copies of the remote's branches up to date.
        let branches = pushes.iter().filter_map(|push| push.refname.strip_prefix("refs/heads/"));
        let copies = branches.map(|short| format!("refs/remotes/{remote}/{short}"));
        let _locks = self.note_locks(&mut command, copies);
        let output = finished(command::finish_by(command, end)?, remote)?;
        outcome(remote, pushes, &output)
    }
}

/// Reads what `git push --porcelain` prints: a line for each ref, with a flag, the refs and the reason.
fn outcome(remote: &str, pushes: &[RefPush], output: &Output) -> Result<PushOutcome> {
    let text = String::from_utf8_lossy(&output.stdout);
    let mut refusals = Vec::new();
    let mut is_answered = false;
    for line in text.lines() {
        let mut parts = line.splitn(3, '\t');
        let (Some(flag), Some(refs), Some(summary)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        is_answered = true;
        let refname = refs.rsplit_once(':').map_or(refs, |(_, to)| to);
        if flag == "!" {
            let reason = summary.split_once('(').map(|(_, rest)| rest);
            let reason = reason.map(|rest| rest.strip_suffix(')').unwrap_or(rest));
            refusals.push(PushRefusal {
                refname: refname.to_owned(),
                reason: reason.unwrap_or(summary).to_owned(),
            });
        }
    }
    // A push in which one ref was refused ends with a failure as well; the lines say which.
    if output.status.success() || is_answered {
        return Ok(PushOutcome { refusals, remote_text: remote_text(output) });
    }
    let said = String::from_utf8_lossy(&output.stderr);
    // The user's own hook ends a push before the remote is asked.
    if said.contains("failed to push some refs") {
        let all = pushes.iter().map(|push| PushRefusal {
            refname: push.refname.clone(),
            reason: "the pre-push hook refused".to_owned(),
        });
        return Ok(PushOutcome { refusals: all.collect(), remote_text: said.trim().to_owned() });
    }
    if said.contains("does not support --atomic") {
        let what = format!(
            "the remote `{remote}` cannot move several refs together, as work under a claim needs to land"
        );
        let claims = pushes.iter().map(|push| push.refname.as_str());
        let claims: Vec<_> = claims.filter(|name| !name.starts_with("refs/heads/")).collect();
        let hint = format!(
            "to give the claim up first, run git push {remote} --delete {}",
            claims.join(" ")
        );
        return Err(Error::new(Code::RemoteRefused, what).hint(hint));
    }
    Err(not_reached(remote, output))
}

/// The lines that the remote itself printed.
fn remote_text(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<_> = said
        .lines()
        .filter_map(|line| line.strip_prefix("remote:"))
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    lines.join("\n")
}

fn finished(output: Option<Output>, remote: &str) -> Result<Output> {
    output.ok_or_else(|| {
        Error::new(Code::RemoteBusy, format!("the remote `{remote}` did not answer in time"))
            .hint(format!("to see whether it answers, run git ls-remote {remote}"))
    })
}

/// The error for a `git` that got no answer to its question. Words that name missing rights tell a closed door from no
/// door.
fn not_reached(remote: &str, output: &Output) -> Error {
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    const RIGHTS: [&str; 7] = [
        "403",
        "401",
        "permission denied",
        "denied to",
        "authentication failed",
        "could not read username",
        "not allowed",
    ];
    // Servers and transports word this differently, and no status tells it apart.
    let lower = said.to_lowercase();
    let error = if RIGHTS.iter().any(|words| lower.contains(words)) {
        let what = format!("the remote `{remote}` refuses access: missing rights");
        Error::new(Code::RemoteRefused, what)
    } else {
        let what = format!("the remote `{remote}` cannot be reached");
        Error::new(Code::RemoteUnreachable, what)
    };
    error.because(said).hint(format!("to try by hand, run git ls-remote {remote}"))
}

const DAMAGED: &str = "the repository of the server is damaged (git fsck tells more there)";
const FULL: &str = "the storage of the server (quota or disk)";
const NOT_STORED: &str = "the server could not store the objects";

/// Whether what stands in the way may let a ref of another name pass.
pub fn depends_on_name(layer: &str) -> bool {
    ![DAMAGED, FULL, NOT_STORED].contains(&layer)
}

/// What stands in the way of a push, as far as the reason tells.
pub fn refusing_layer(reason: &str, remote_text: &str) -> &'static str {
    let said = format!("{reason}\n{remote_text}").to_lowercase();
    let has = |words: &[&str]| words.iter().any(|words| said.contains(words));
    // The order goes from the more precise words to the more general ones: a rule of a host is
    // refused by a hook as well.
    if has(&["hidden ref"]) {
        "the server hides such refs (receive.hideRefs)"
    } else if has(&["gh0", "protected branch", "ruleset", "rule violation", "repository rule"]) {
        "a rule of the host"
    } else if has(&["missing necessary objects", "bad object"]) {
        DAMAGED
    } else if has(&["quota", "disk", "no space", "exceeds", "too large"]) {
        FULL
    } else if has(&["unpacker error"]) {
        NOT_STORED
    } else if has(&["receive hook", "update hook", "hook dec"]) {
        "a hook of the server"
    } else if has(&["pre-push"]) {
        "the pre-push hook of this clone"
    } else if has(&["deletion prohibited", "denying"]) {
        "a setting of the server (receive.deny…)"
    } else if has(&["non-fast-forward"]) {
        "git, because the remote has commits on it that are not here"
    } else if has(&["permission", "not allowed", "denied", "403", "read-only"]) {
        "missing rights"
    } else {
        "the server"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_told_from_a_race_by_its_reason() {
        for reason in ["fetch first", "stale info", "failed to update ref"] {
            assert!(is_passing(reason), "{reason}");
        }
        assert!(!is_passing("deny updating a hidden ref"));
    }

    #[test]
    fn what_stands_in_the_way_is_named() {
        let layer = |reason| refusing_layer(reason, "");
        assert!(layer("deny updating a hidden ref").contains("hides"));
        assert_eq!(layer("update hook refused"), "a hook of the server");
        let host =
            refusing_layer("update hook refused", "error: GH013: Repository rule violations");
        assert_eq!(host, "a rule of the host");
        assert!(depends_on_name(host));
        let lost = "error: refs/agents/keep does not point to a valid object: bad object";
        for (said, expected) in [(lost, DAMAGED), ("No space left", FULL), ("", NOT_STORED)] {
            let layer = refusing_layer("unpacker error", said);
            assert_eq!((layer, depends_on_name(layer)), (expected, false));
        }
    }
}
