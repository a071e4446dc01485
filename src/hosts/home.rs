//! What has to be there when `run` starts a host: a home that it can write behind our fence, and our hooks.
//!
//! A host keeps state beside its configuration. Its own directory stays closed to the agent: what an agent
//! writes there, the user's next session would load or run. So the host gets a directory of this run alone,
//! into which the user's configuration is linked. Our hooks are named by options or variables of the host,
//! so that nothing has to be registered in the project; their files lie where the agent cannot write.

use super::settings::Registration;
use crate::domain::value::shell;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// How the words begin that call a hook of ours in a template.
const CALL: &str = "git-agent hook ";

/// Where things are when a host is about to be started.
#[derive(Clone, Copy, Debug)]
pub struct Ground<'a> {
    /// A directory of this run alone that the agent can write; absolute.
    pub scratch: &'a Path,
    /// A directory for our hooks that the agent cannot write; absolute, not there yet.
    pub hooks: &'a Path,
    /// A directory of this agent for what hosts record of their sessions, so that a later run can go on with one; `None`
    /// where the host keeps its own home or no copy of the prompt may stay.
    pub records: Option<&'a Path>,
    /// The agent's spool, which it must be able to write.
    pub spool: &'a Path,
    /// The file that the agent was asked to write its answer to.
    pub answer: Option<&'a Path>,
    /// This program's own file.
    pub program: &'a str,
    /// Whether our own sandbox is on, so that the user's home cannot be written.
    pub fenced: bool,
    /// Whether the agent may change files.
    pub edits: bool,
    /// The user's home.
    pub home: Option<&'a Path>,
    /// The user's values of the variables that hosts name in [`super::Host::home_variables`].
    pub variables: &'a BTreeMap<&'static str, PathBuf>,
}

impl Ground<'_> {
    /// The user's directory of a host: the variable's value, else a path below the home.
    pub(super) fn own(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        let stated = self.variables.get(variable).cloned();
        stated.or_else(|| Some(self.home?.join(below_home)))
    }
}

/// What is to be made before a host starts, and how it is started then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preparation {
    /// Arguments in front of all others.
    pub options: Vec<OsString>,
    /// Variables that it gets.
    pub variables: Vec<(&'static str, OsString)>,
    /// Directories to make, parents first.
    pub directories: Vec<PathBuf>,
    /// Symbolic links to make, each with what it leads to; left out where that is not there.
    pub links: Vec<(PathBuf, PathBuf)>,
    /// Files to copy, from the first place to the second, where the first is there: what a host replaces
    /// as a whole, so that a link would be lost.
    pub copies: Vec<(PathBuf, PathBuf)>,
    /// The one of these that lists settings by project (an object `projects`): what it has for the main worktree counts for the
    /// agent's as well.
    pub projects: Option<PathBuf>,
    /// Symbolic links to directories that stay after the run and are made where they are missing.
    pub records: Vec<(PathBuf, PathBuf)>,
    /// Files to write, readable by their owner alone.
    pub files: Vec<(PathBuf, String)>,
}

impl Preparation {
    /// Adds a file with our hooks, and gives its place.
    pub(super) fn keep(&mut self, ground: &Ground<'_>, name: &str, text: String) -> PathBuf {
        let path = ground.hooks.join(name);
        if !self.directories.iter().any(|made| made == ground.hooks) {
            self.directories.push(ground.hooks.to_owned());
        }
        self.files.push((path.clone(), text));
        path
    }

    /// Keeps what the host records at a place in its home, under this name.
    pub(super) fn record(&mut self, ground: &Ground<'_>, place: &Path, name: &str) {
        if let Some(records) = ground.records {
            self.records.push((place.to_owned(), records.join(name)));
        }
    }

    /// Adds a directory of this run, and links to those entries of the user's that are there.
    pub(super) fn link_in(&mut self, directory: &Path, user: Option<&Path>, names: &[&str]) {
        self.directories.push(directory.to_owned());
        let links = names.iter().filter_map(|name| Some((directory.join(name), user?.join(name))));
        self.links.extend(links);
    }
}

/// Gives each of these directories what a file lists for the main worktree below `projects`: servers, permissions, trust. What is listed
/// for them already stays. `None` where the file is not as it is expected to be, or has nothing for the main worktree.
pub fn with_project(content: &[u8], main: &Path, others: &[&Path]) -> Option<String> {
    let mut file: Value = serde_json::from_slice(content).ok()?;
    let projects = file.get_mut("projects")?.as_object_mut()?;
    let of_main = projects.get(main.to_str()?)?.as_object()?.clone();
    for other in others {
        let own = projects.entry(other.to_str()?);
        let own = own.or_insert_with(|| json!({})).as_object_mut()?;
        for (name, value) in &of_main {
            // The host writes empty lists and objects of its own accord.
            let is_empty = |value: &Value| [json!([]), json!({}), Value::Null].contains(value);
            if own.get(name).is_none_or(is_empty) {
                own.insert(name.clone(), value.clone());
            }
        }
    }
    Some(file.to_string())
}

/// How the calls end that only tell what a session does: `git-agent hook prompt` and its like, as a line or as words.
const PHASE_HOOKS: [&str; 3] = ["prompt\"", "notification\"", "session-end\""];

/// The hooks of a registration's template, calling this program by its path. What is registered on request
/// only is left out.
pub(super) fn hooks(registration: Option<Registration>, program: &str) -> Value {
    let Some(registration) = registration else {
        return Value::Null;
    };
    let mut settings: Value = serde_json::from_str(registration.template).unwrap_or_default();
    if let Some(events) = settings.get_mut("hooks").and_then(Value::as_object_mut) {
        // A run of ours knows by itself whether it works, so what tells of a session's phases would be processes for nothing.
        let tells_phase = |entries: &Value| {
            let text = entries.to_string();
            PHASE_HOOKS.iter().any(|hook| text.contains(hook))
        };
        events.retain(|name, entries| {
            !registration.on_request.contains(&name.as_str()) && !tells_phase(entries)
        });
        // In a run of ours a message may come at any time, and the agent is told of it after any tool.
        let after = events.iter_mut().filter(|(name, _)| {
            let name = name.to_ascii_lowercase();
            name.starts_with("posttool") || name.starts_with("aftertool")
        });
        for entry in after.filter_map(|(_, entries)| entries.as_array_mut()).flatten() {
            if let Some(matcher) = entry.get_mut("matcher") {
                *matcher = ".*".into();
            }
        }
    }
    name_program(&mut settings, program);
    settings
}

fn name_program(value: &mut Value, program: &str) {
    match value {
        Value::String(text) => {
            if let Some(hook) = text.strip_prefix(CALL) {
                // The path of this program may hold what a shell has a meaning for.
                *text = format!("{} hook {hook}", shell::word(program.as_bytes()));
            }
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| name_program(item, program));
        }
        Value::Object(members) => {
            if let Some(Value::String(exec)) = members.get_mut("exec") {
                // Started without a shell, and so without quotes.
                *exec = program.to_owned();
            }
            members.iter_mut().for_each(|(_, member)| name_program(member, program));
        }
        _ => {}
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::hosts::HOSTS;

    /// A run behind our fence, by a user without variables.
    pub(in crate::hosts) fn prepared(host: &dyn crate::hosts::Host, fenced: bool) -> Preparation {
        host.prepare(&Ground {
            scratch: Path::new("/s"),
            hooks: Path::new("/kept"),
            records: fenced.then_some(Path::new("/records")),
            spool: Path::new("/spool"),
            answer: None,
            program: "/opt/my bin/git-agent",
            fenced,
            edits: true,
            home: Some(Path::new("/home/u")),
            variables: &BTreeMap::new(),
        })
    }

    #[test]
    fn a_run_has_the_hooks_that_judge_and_none_that_tells_of_phases() {
        for host in HOSTS {
            let Some(registration) = host.registration() else {
                continue;
            };
            let calls = |text: &str, hook: &str| {
                let forms = [format!("hook {hook}\""), format!("\"hook\",\"{hook}\"")];
                let text = text.replace("\", \"", "\",\"");
                forms.iter().any(|form| text.contains(form))
            };
            let template = registration.template;
            let is_json = registration.whole_file.is_none();
            if is_json {
                assert!(calls(template, "prompt"), "{host:?}");
                assert!(calls(template, "stop") || calls(template, "session-end"), "{host:?}");
                let run = hooks(Some(registration), "git-agent").to_string();
                assert!(calls(&run, "pre-tool"), "{host:?}: {run}");
                for hook in ["prompt", "notification", "session-end"] {
                    assert!(!calls(&run, hook), "{host:?}: {run}");
                }
            }
        }
    }

    #[test]
    fn nothing_is_made_outside_of_the_run_or_linked_from_within() {
        for host in HOSTS {
            let made = prepared(host, true);
            let links = made.links.iter().chain(&made.copies);
            let ours = (made.directories.iter()).chain(made.files.iter().map(|(path, _)| path));
            for path in ours {
                let kept = path.starts_with("/s") || path.starts_with("/kept");
                assert!(kept, "{host:?} {}", path.display());
            }
            for (link, record) in &made.records {
                assert!(link.starts_with("/s") && record.starts_with("/records"));
            }
            for (one, other) in links {
                let ends = [one, other].map(|path| path.starts_with("/s"));
                assert!(ends.contains(&true) && ends.contains(&false), "{host:?} {one:?}");
            }
        }
    }

    #[test]
    fn the_agents_worktree_has_what_the_project_has() {
        let merged = |text: &str| {
            let merged = with_project(text.as_bytes(), Path::new("/r"), &[Path::new("/r/w")]);
            merged.map(|text| serde_json::from_str::<Value>(&text).expect("JSON"))
        };
        let file = r#"{"a":1,"projects":{"/r":{"mcpServers":{"x":{}},"trusted":true,"tools":["a"]},
            "/r/w":{"mcpServers":{},"trusted":false,"own":7}}}"#;
        let projects = &merged(file).expect("a project")["projects"];
        let expected = json!({"mcpServers":{"x":{}},"trusted":false,"tools":["a"],"own":7});
        assert_eq!(projects["/r/w"], expected);
        assert_eq!(projects["/r"]["trusted"], true);
        let fresh = merged(r#"{"projects":{"/r":{"trusted":true}}}"#).expect("a project");
        assert_eq!(fresh["projects"]["/r/w"], json!({"trusted":true}));
        for other in ["", "[]", "{}", r#"{"projects":7}"#, r#"{"projects":{"/other":{}}}"#] {
            assert_eq!(merged(other), None, "{other}");
        }
    }

    #[test]
    fn without_a_fence_a_host_keeps_its_home() {
        for host in HOSTS {
            let made = prepared(host, false);
            let ours = |path: &PathBuf| path.starts_with("/kept");
            assert!(made.directories.iter().all(ours), "{host:?}");
            assert_eq!(made.links, [], "{host:?}");
        }
    }
}
