//! What to do about a violation, as a command to run.

use crate::agents::ctx::Ctx;
use crate::domain::agent::Agent;
use crate::domain::change::ChangeKind;
use crate::domain::oid::Oid;
use crate::domain::shell;
use crate::domain::violation::Violation;
use crate::git::Repo;
use crate::ops::check::Subject;
use std::os::unix::ffi::OsStrExt;

/// Knows where the caller stands and what was judged.
pub(super) struct Fixer<'a> {
    subject: &'a Subject,
    agent: String,
    /// ` -C <worktree>` for a caller who stands elsewhere.
    elsewhere: String,
    /// The top of the worktree with a final slash, for the same caller.
    prefix: Vec<u8>,
    unborn: bool,
    /// The commit that is being judged.
    pub(super) commit: Option<Oid>,
}

impl<'a> Fixer<'a> {
    pub(super) fn new(ctx: &Ctx, repo: &Repo, agent: &Agent, subject: &'a Subject) -> Fixer<'a> {
        let mut prefix = Vec::new();
        let mut elsewhere = String::new();
        if let Some(top) = repo.workdir()
            && top != ctx.env.directory
        {
            prefix = top.as_os_str().as_bytes().to_owned();
            elsewhere = format!(
                " -C {}",
                shell::word(prefix.strip_suffix(b"/").unwrap_or(&prefix))
            );
        }
        Fixer {
            subject,
            agent: agent.id.short(),
            elsewhere,
            prefix,
            unborn: repo.resolve_commit("HEAD").is_err(),
            commit: None,
        }
    }

    /// The command that takes the change back, or shows what the agent may touch instead.
    pub(super) fn fix(&self, violation: &Violation) -> String {
        let elsewhere = &self.elsewhere;
        let path = pathspec(&violation.path);
        match (self.subject, violation.kind) {
            (Subject::Staged, _) if self.unborn => {
                format!("git{elsewhere} rm --cached -- {path}")
            }
            (Subject::Staged, _) => format!("git{elsewhere} restore --staged -- {path}"),
            (Subject::Worktree, ChangeKind::Untracked) => {
                let file = [self.prefix.as_slice(), &violation.path].concat();
                format!("rm -r -- {}", shell::word(&file))
            }
            (Subject::Worktree, ChangeKind::Added) => {
                format!("git{elsewhere} rm --force -- {path}")
            }
            (Subject::Worktree, _) => {
                format!("git{elsewhere} restore --source=HEAD --staged --worktree -- {path}")
            }
            (Subject::Range(_), _) => {
                let commit = self.commit.map(Oid::short).unwrap_or_default();
                format!("git{elsewhere} rebase --interactive {commit}^")
            }
            (Subject::Paths(_), _) => format!("git agent show {}", self.agent),
        }
    }
}

/// A path as an argument that git takes for exactly this path.
fn pathspec(path: &[u8]) -> String {
    let magic = path.first() == Some(&b':') || path.iter().any(|byte| b"*?[\\".contains(byte));
    if magic {
        shell::word(&[b":(literal)", path].concat())
    } else {
        shell::word(path)
    }
}
