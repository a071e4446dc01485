//! Before a tool runs.

use crate::agents::context::ctx::Env;
use crate::agents::context::real_path::real_path;
use crate::agents::life::host_session::SessionPhase;
use crate::agents::who::current::CurrentAgent;
use crate::agents::who::scope_guard::scope_of;
use crate::domain::boundary::scope::{Decision, Scope};
use crate::domain::boundary::tool_call::{
    FileTouch, HookAnswer, Intent, ToolCall, TouchedPath, locate,
};
use crate::domain::paths::path::{CaseIndex, RepoPath, is_case_variant};
use crate::error::{Code, Error, Result};
use crate::ops::error_report;
use crate::ops::host_hook::CallClaim;
use crate::ops::host_hook::session::note;
use crate::ops::host_hook::{directory_of, whereabouts, worktree};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// How many offending paths a reason lists.
const LISTED: usize = 20;

/// Judges a tool call by its intent, whatever event it came with. Inside an agent every file that it
/// would change must be in scope, an unreadable call is denied, and so is starting agents, unless the
/// policy allows that, and entering another worktree. Elsewhere only files in some agent's worktree
/// are judged: a write there is bound by that agent's scope.
///
/// # Errors
/// Whatever stood in the way of knowing the agent or its scope; see [`refusal`].
pub fn pre_tool(env: &Env, call: &ToolCall) -> Result<HookAnswer> {
    // Most calls only read. They are answered before anything is opened, because every one of them
    // waits.
    if is_harmless(&call.intent) {
        return Ok(HookAnswer::Allow);
    }
    let cwd = directory_of(env, call);
    match CurrentAgent::find(env, &whereabouts(env, &cwd))? {
        Some(home) => {
            let Some(_claim) = CallClaim::take(env, &home, call) else {
                return Ok(HookAnswer::Allow);
            };
            note(env, call, &home, SessionPhase::Working);
            worktree::learn_task(env, call, &home);
            inside(&mut CallGuard::new(home, env)?, &cwd, &call.intent)
        }
        None => {
            worktree::note_call(env, call);
            outside(env, &cwd, call)
        }
    }
}

/// What a host is told when [`pre_tool`] failed: no, if the call could have changed something.
pub fn refusal(call: &ToolCall, error: &Error) -> HookAnswer {
    // A failure of ours must not keep an agent from reading.
    if is_harmless(&call.intent) {
        return HookAnswer::Allow;
    }
    let mut reason = format!("git-agent cannot judge this call, so it is denied: {error}");
    for cause in error.causes() {
        reason.push_str(&format!("\ncaused by: {cause}"));
    }
    for hint in error.hints(error_report::remedy_command) {
        reason.push_str(&format!("\nhint: {hint}"));
    }
    HookAnswer::Deny { reason }
}

/// Whether nothing about a call needs judging.
fn is_harmless(intent: &Intent) -> bool {
    match intent {
        Intent::Reads | Intent::NoTool | Intent::Unknown { .. } => true,
        // What a shell does is judged by the sandbox and by git's hooks; its words cannot say it.
        Intent::Shell { patched, .. } => patched.is_empty(),
        Intent::Writes(_)
        | Intent::SpawnsAgent { .. }
        | Intent::EntersWorktree
        | Intent::Unreadable { .. } => false,
    }
}

/// The files that a call would change, as far as they are known.
fn touched(intent: &Intent) -> &[TouchedPath] {
    match intent {
        Intent::Writes(touched) => touched,
        Intent::Shell { patched, .. } => patched,
        _ => &[],
    }
}

fn inside(fence: &mut CallGuard, cwd: &Path, intent: &Intent) -> Result<HookAnswer> {
    let agent = fence.home.agent.id.short();
    let reason = match intent {
        Intent::SpawnsAgent { .. } if !fence.home.policy.may_spawn => format!(
            "agent {agent} may not start agents: its role, {}, does not allow it. Do the work yourself, or write \
             into handoffs.md what is left for others to do.",
            fence.home.policy.role
        ),
        Intent::EntersWorktree => format!(
            "agent {agent} works in {} and nowhere else. Stay there.",
            fence.home.root.display()
        ),
        Intent::Unreadable { tool, why } => format!(
            "this {} call cannot be judged, so agent {agent} may not make it: {why}. Name every file by a plain path.",
            tool.as_deref().unwrap_or("tool")
        ),
        _ => {
            let mut offences = Vec::new();
            for touched in touched(intent) {
                offences.extend(fence.objection(cwd, touched)?.map(|why| (touched, why)));
            }
            if offences.is_empty() {
                return Ok(HookAnswer::Allow);
            }
            out_of_scope(fence, &offences)
        }
    };
    Ok(HookAnswer::Deny { reason })
}

/// A call from outside of every agent, which may still write into an agent's worktree: a host's
/// subagent often keeps the directory of the session that started it.
fn outside(env: &Env, cwd: &Path, call: &ToolCall) -> Result<HookAnswer> {
    let mut fences: Vec<CallGuard> = Vec::new();
    for touched in touched(&call.intent) {
        // A path that leads nowhere that can be told is refused inside of an agent alone: elsewhere
        // it is no business of ours.
        for place in places(cwd, touched).unwrap_or_default() {
            // Several files of one agent are judged by one guard.
            if fences.iter().any(|fence| place.starts_with(&fence.home.root)) {
                continue;
            }
            if let Some(home) = CurrentAgent::around(&place)? {
                fences.push(CallGuard::new(home, env)?);
            }
        }
    }
    for fence in &mut fences {
        let mut offences = Vec::new();
        for touched in touched(&call.intent) {
            let places = places(cwd, touched).unwrap_or_default();
            if places.iter().any(|place| place.starts_with(&fence.home.root)) {
                offences.extend(fence.objection(cwd, touched)?.map(|why| (touched, why)));
            }
        }
        if !offences.is_empty() {
            let reason = out_of_scope(fence, &offences);
            return Ok(HookAnswer::Deny { reason });
        }
    }
    Ok(HookAnswer::Allow)
}

fn out_of_scope(fence: &CallGuard, offences: &[(&TouchedPath, String)]) -> String {
    let agent = fence.home.agent.id.short();
    let mut reason = format!("agent {agent} may not change:\n");
    for (touched, why) in offences.iter().take(LISTED) {
        let path = touched.path.escape_debug();
        reason.push_str(&format!("  {path}: {why}\n"));
    }
    if offences.len() > LISTED {
        reason.push_str(&format!("  and {} more\n", offences.len() - LISTED));
    }
    reason.push_str(&format!(
        "{}If the task needs more, do not look for a way around: say so in {} and go on with the rest.",
        fence.rules(),
        fence.home.bundle().join("handoffs.md").display(),
    ));
    reason
}

// Whether an agent may write where a tool call would write.
//
// A path is judged by where it leads. Every symlink in it is followed and the result has to be in
// scope; a symlink at its very end counts as a file of its own as well, because a host may write
// through it or replace it. A host may clean `..` away as text while the kernel follows a symlink
// before it steps back, in the path or in the directory it starts from: both readings are judged.

/// An agent's home with its scope compiled.
struct CallGuard {
    pub(super) home: CurrentAgent,
    scope: Scope,
    temporary: Option<PathBuf>,
    /// Where its answer goes, if it was asked for one.
    answer: Option<PathBuf>,
    listings: Listings,
}

impl CallGuard {
    pub(super) fn new(home: CurrentAgent, env: &Env) -> Result<CallGuard> {
        let scope = scope_of(&home.repo, &home.policy).map_err(|rule| {
            Error::new(
                Code::RepoCorrupt,
                format!("the policy of agent {}: {rule}", home.agent.id.short()),
            )
        })?;
        // Hosts name it by a link on some systems, and places are compared as they really are.
        let temporary = env.temporary.as_deref().and_then(real_path);
        // Its own name, so that a symlink that the agent puts there leads nowhere else.
        let answer = env.output_file.as_deref().and_then(|answer| {
            let parent = real_path(answer.parent()?)?;
            Some(parent.join(answer.file_name()?))
        });
        Ok(CallGuard { listings: Listings::new(&home.root), home, scope, temporary, answer })
    }

    /// Why a path of a call may not be touched; `None` when it may. `cwd` is what a relative path
    /// starts from.
    pub(super) fn objection(
        &mut self,
        cwd: &Path,
        touched: &TouchedPath,
    ) -> Result<Option<String>> {
        let Some(places) = places(cwd, touched) else {
            return Ok(Some("it leads nowhere that can be told".to_owned()));
        };
        for place in places {
            if let Some(why) = self.objection_to(&place)? {
                return Ok(Some(why));
            }
        }
        Ok(None)
    }

    fn objection_to(&mut self, place: &Path) -> Result<Option<String>> {
        let root = &self.home.root;
        // The directory itself is not the agent's to replace.
        let below = |directory: &Path| place.starts_with(directory) && place != directory;
        // The bundle is the agent's in every role, and part of no commit.
        if below(&self.home.bundle()) {
            return Ok(None);
        }
        let Ok(inside) = place.strip_prefix(root) else {
            return Ok(if self.answer.as_deref() == Some(place) || self.is_scratch(place)? {
                None
            } else {
                Some(format!("{} is outside of {}", place.display(), root.display()))
            });
        };
        let path = match RepoPath::parse(inside.as_os_str().as_bytes()) {
            Ok(path) => path,
            // A path that cannot be compared with globs cannot be in scope.
            Err(problem) => return Ok(Some(format!("no scope allows it: {problem}"))),
        };
        if !self.home.policy.edits {
            let role = &self.home.policy.role;
            return Ok(Some(format!("the role {role} changes no files")));
        }
        let spellings = self.listings.spellings(&path);
        Ok(match self.scope.decide_with_case(&path, &spellings) {
            Decision::Allowed { .. } => None,
            Decision::Denied(denied) => Some(denied.to_string()),
        })
    }

    /// Whether a place is below `TMPDIR` and no part of the repository, which may lie there as well.
    /// A private `TMPDIR` among the agent's own state is no part of it.
    fn is_scratch(&self, place: &Path) -> Result<bool> {
        let Some(temporary) = &self.temporary else {
            return Ok(false);
        };
        if !place.starts_with(temporary) {
            return Ok(false);
        }
        let repo = &self.home.repo;
        let private = temporary.starts_with(self.home.state());
        let mut parts = vec![repo.common_dir().to_owned(), repo.root()?];
        parts.extend(repo.worktrees()?.into_iter().map(|worktree| worktree.path));
        // A temporary directory may be set to a place inside of the repository.
        Ok(private || !parts.iter().any(|part| place.starts_with(part)))
    }

    /// What the agent may change, in lines, for when it was just told no.
    pub(super) fn rules(&self) -> String {
        let policy = &self.home.policy;
        let list = |globs: &[String]| {
            let quoted: Vec<_> = globs.iter().map(|glob| format!("`{glob}`")).collect();
            quoted.join(", ")
        };
        if !policy.edits {
            return format!("It may change {} alone.\n", self.home.bundle().display());
        }
        let mut lines =
            format!("In scope, below {}: {}\n", self.home.root.display(), list(&policy.whitelist));
        if !policy.denylist.is_empty() {
            let denied = policy.denied_in_words().join(", ");
            lines.push_str(&format!("Never: {denied}\n"));
        }
        lines
    }
}

/// Every place that a path may mean, each free of symlinks; `None` when one of them is none.
fn places(cwd: &Path, touched: &TouchedPath) -> Option<Vec<PathBuf>> {
    let clean = locate(cwd.as_os_str().as_bytes(), touched.path.as_bytes())?;
    let readings = [PathBuf::from(OsStr::from_bytes(&clean)), cwd.join(&touched.path)];
    let mut places = Vec::new();
    for reading in readings {
        // Deleting a symlink leaves what it leads to alone; a name may also be replaced.
        if let (Some(parent), Some(name)) = (reading.parent(), reading.file_name()) {
            places.push(real_path(parent)?.join(name));
        }
        if touched.touch == FileTouch::Write || reading.file_name().is_none() {
            places.push(real_path(&reading)?);
        }
    }
    places.sort_unstable();
    places.dedup();
    Some(places)
}

// What is on disk under the names of a path and their variants by case.

/// The names in those directories of a worktree that were asked about, each listed once. Only the
/// directories on the way to a path are, so that the size of the repository does not matter.
#[derive(Debug)]
struct Listings {
    root: PathBuf,
    known: HashMap<Vec<u8>, Vec<Vec<u8>>>,
}

impl Listings {
    pub(super) fn new(root: &Path) -> Listings {
        Listings { root: root.to_owned(), known: HashMap::new() }
    }

    /// Every spelling of a path, and of the directories above it, that is there.
    pub(super) fn spellings(&mut self, path: &RepoPath) -> CaseIndex {
        let mut found: Vec<Vec<u8>> = Vec::new();
        let mut level = vec![Vec::new()];
        for part in path.parts() {
            let mut next = Vec::new();
            // Every spelling of a directory leads to one of its own, as on a file system that tells
            // them apart.
            for directory in &level {
                let names = self.names(directory).iter();
                for name in names.filter(|name| *name == part || is_case_variant(name, part)) {
                    let slash: &[u8] = if directory.is_empty() { b"" } else { b"/" };
                    next.push([directory, slash, name].concat());
                }
            }
            found.extend(next.iter().cloned());
            level = next;
        }
        let paths = found.iter().filter_map(|path| RepoPath::parse(path).ok());
        CaseIndex::of(&paths.collect::<Vec<_>>())
    }

    fn names(&mut self, directory: &[u8]) -> &[Vec<u8>] {
        self.known.entry(directory.to_owned()).or_insert_with(|| {
            let entries = fs::read_dir(self.root.join(OsStr::from_bytes(directory)));
            let entries = entries.into_iter().flatten().flatten();
            entries.map(|entry| entry.file_name().as_bytes().to_owned()).collect()
        })
    }
}
