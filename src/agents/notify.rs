//! Commands of the user that run when something happened to an agent: `agent.onEnd`, `agent.onWaiting`, `agent.onLanded`.
//!
//! Only git's own configuration names them: no file of the repository does, and no configuration of a worktree, because an
//! agent can write those. What comes from an agent goes into variables of the command's environment and is never a part of
//! its command line, so that no name and no task is run.

use crate::domain::agent::Agent;
use crate::git::Repo;
use crate::proc::background;
use std::path::Path;

/// What happened to an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// A run has ended, and its work was judged where that was wanted.
    End,
    /// A session waits for an answer or a permission.
    Waiting,
    /// Its work has landed.
    Landed,
}

/// Runs the command that is set for this, and does not wait for it. Where none is set, or it cannot be started, nothing
/// happens: what it tells of is done all the same.
pub(crate) fn notify(repo: &Repo, notice: Notice, agent: &Agent, state: &str) {
    let (key, word) = match notice {
        Notice::End => ("agent.onend", "end"),
        Notice::Waiting => ("agent.onwaiting", "waiting"),
        Notice::Landed => ("agent.onlanded", "landed"),
    };
    let settings = repo.shared_settings(key).unwrap_or_default();
    // The last setting of a key counts, as in git.
    let Some(command) = settings.iter().rfind(|setting| setting.key == key) else {
        return;
    };
    // A notification has one line, and what it shows obeys no control character.
    let plain = |text: &str| text.replace(char::is_control, " ");
    let name = agent.name.as_ref().map(ToString::to_string);
    let task = agent.description.as_deref().unwrap_or_default();
    let variables = [
        ("GIT_AGENT_NOTICE", word.to_owned()),
        ("GIT_AGENT_NOTICE_ID", agent.id.to_string()),
        (
            "GIT_AGENT_NOTICE_NAME",
            plain(&name.unwrap_or_else(|| agent.id.short())),
        ),
        ("GIT_AGENT_NOTICE_STATE", plain(state)),
        ("GIT_AGENT_NOTICE_TASK", plain(task)),
    ];
    let words = ["-c", command.value.as_str()].into_iter();
    background::start(Path::new("/bin/sh"), words, repo.common_dir(), &variables);
}
