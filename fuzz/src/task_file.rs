//! A task file: read whatever the bytes are, and nothing that breaks a rule becomes a task.

use git_agent::domain::boundary::scope::Scope;
use git_agent::domain::value::redaction;
use git_agent::domain::work::role::RoleSet;
use git_agent::domain::work::task::TaskOptions;
use git_agent::wire::file::task_file;
use std::sync::LazyLock;

static ROLES: LazyLock<RoleSet> = LazyLock::new(RoleSet::built_in);

/// One task file.
pub fn run(data: &[u8]) {
    match task_file::parse("task.toml", data).check(&ROLES, TaskOptions::default()) {
        Ok((task, warnings)) => {
            let role = ROLES.get(&task.role).expect("a task's role is known");
            assert!(role.spawnable);
            assert!((20..=4_000).contains(&task.text.chars().count()));
            assert_eq!(task.text, task.text.trim());
            assert_eq!(redaction::find_secret(&task.text), None);
            assert!((1..=20).contains(&task.whitelist.len()));
            assert!(!role.edits || !task.whitelist.iter().any(|glob| glob.is_bare()));
            let denylist = task.denylist.unwrap_or_default();
            Scope::new(&task.whitelist, &denylist).expect("a task's scope compiles");
            warnings.iter().for_each(|warning| harmless(&warning.message));
        }
        Err(refused) => {
            assert!(!refused.problems.is_empty(), "refused without a reason");
            for problem in &refused.problems {
                harmless(&refused.source.render(problem));
            }
        }
    }
}

/// What is shown of a file must not act on a terminal.
fn harmless(shown: &str) {
    let acts = |c: char| c.is_control() && c != '\n';
    assert!(!shown.contains(acts), "{shown:?}");
}
