//! The projects of a repository that holds several: `[[project]]` in its settings.
//!
//! ```text
//! changed paths ─> projects that hold them ─> and those that depend on them ─> their checks run
//!                                                                           └> they and what they depend on are set up
//! ```
//!
//! A path that lies in no project, such as a lock file at the top, belongs to all of them: no setting says who reads it, and a check
//! that is left out by mistake lets broken work land. For the same reason one in a project inside of another belongs to both.

use crate::domain::boundary::scope::Beginnings;
use crate::domain::judge::evidence::RequiredChecks;
use crate::domain::paths::path::RepoPath;
use crate::domain::value::diagnostic::{Field, Located, Problem, nearest};
use crate::domain::value::shell;
use std::collections::BTreeSet;
use std::ops::Range;

/// A project, read as far as it could be.
#[derive(Clone, Debug)]
pub struct ProjectDraft {
    /// Its directory.
    pub path: Field<String>,
    /// The directories of the projects that it needs.
    pub depends: Field<Vec<Located<String>>>,
    /// Ignored files that a new worktree gets, from its directory.
    pub setup_copy: Field<Vec<Located<String>>>,
    /// Commands that set it up, in its directory.
    pub setup_run: Field<Vec<Located<String>>>,
    /// Commands that check it, in its directory.
    pub checks: Field<Vec<Located<String>>>,
    /// The bytes of the table.
    pub span: Range<usize>,
}

/// A project that can be set up and checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectSettings {
    /// Its directory, from the top of the tree.
    pub path: String,
    /// The directories of the projects that it needs.
    pub depends: Vec<String>,
    /// Command lines that set it up, for a shell at the top of a worktree.
    pub setup: Vec<String>,
    /// Command lines that check it, for a shell at the top of a worktree.
    pub checks: Vec<String>,
}

/// The projects of a repository, in the order of its settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Projects(Vec<ProjectSettings>);

impl ProjectDraft {
    /// Its directory, where it names one that can be.
    fn directory(&self, problems: &mut Vec<Problem>) -> Option<String> {
        match &self.path {
            Field::Given(Located { value, span }) => {
                let path = value.trim_end_matches('/');
                let is_part = |part: &str| !matches!(part, "" | "." | ".." | ".git");
                let is_plain = !path.contains('\\') && !path.chars().any(char::is_control);
                if is_plain && path.split('/').all(is_part) {
                    return Some(path.to_owned());
                }
                let problem = Problem::at(span.clone(), format!("no project can be in `{value}`"));
                problems.push(problem.help(
                    "write a directory from the top of the repository, such as \"packages/a\"",
                ));
            }
            Field::Absent { .. } => {
                let problem = Problem::at(self.span.clone(), "the project has no `path`");
                problems.push(problem.help("write its directory, such as path = \"packages/a\""));
            }
            Field::Unreadable => {}
        }
        None
    }

    /// The globs of its ignored files, from the top of the tree.
    pub(in crate::domain) fn copies(&self) -> Vec<Located<String>> {
        let Some(path) = self.path.given() else {
            return Vec::new();
        };
        let below = |glob: &Located<String>| Located {
            value: format!("{}/{}", path.value.trim_end_matches('/'), glob.value),
            span: glob.span.clone(),
        };
        let given = self.setup_copy.given().into_iter();
        given.flat_map(|list| &list.value).map(below).collect()
    }

    /// The commands, which obey the rules of those of a task.
    pub(in crate::domain) fn commands(&self) -> impl Iterator<Item = &Located<String>> {
        let lists = [&self.setup_run, &self.checks].into_iter();
        lists.filter_map(Field::given).flat_map(|list| &list.value)
    }
}

/// A command as a shell at the top of a worktree runs it in a directory. Its parts stand together, because `&&` binds tighter than
/// what a command may hold; `./` keeps `CDPATH` and a leading dash out of it.
fn in_directory(path: &str, command: &str) -> String {
    let directory = shell::word(format!("./{path}").as_bytes());
    if command.contains(['#', '\n']) || command.ends_with([';', '&']) {
        format!("cd {directory} && {{ {command}\n}}")
    } else if command.contains([';', '|', '&']) {
        format!("cd {directory} && {{ {command}; }}")
    } else {
        format!("cd {directory} && {command}")
    }
}

impl ProjectSettings {
    /// Its command lines, those that set it up first.
    pub fn commands(&self) -> impl Iterator<Item = &String> {
        self.setup.iter().chain(&self.checks)
    }
}

impl Projects {
    /// The projects that drafts describe; what is wrong with them is added to the problems.
    pub(in crate::domain) fn of(drafts: &[ProjectDraft], problems: &mut Vec<Problem>) -> Projects {
        let mut projects: Vec<ProjectSettings> = Vec::new();
        for draft in drafts {
            let Some(path) = draft.directory(problems) else {
                continue;
            };
            if projects.iter().any(|known| known.path == path) {
                let what = format!("`{path}` is a project already");
                problems.push(Problem::at(draft.span.clone(), what).help("write it once"));
                continue;
            }
            let texts = |field: &Field<Vec<Located<String>>>| -> Vec<String> {
                let given = field.given().into_iter().flat_map(|list| &list.value);
                given.map(|item| item.value.clone()).collect()
            };
            let commands = |field| -> Vec<String> {
                let texts = texts(field).into_iter();
                texts.map(|command| in_directory(&path, &command)).collect()
            };
            projects.push(ProjectSettings {
                depends: { texts(&draft.depends).into_iter() }
                    .map(|path| path.trim_end_matches('/').to_owned())
                    .collect(),
                setup: commands(&draft.setup_run),
                checks: commands(&draft.checks),
                path,
            });
        }
        let paths: Vec<&str> = projects.iter().map(|one| one.path.as_str()).collect();
        let depends = drafts.iter().filter_map(|draft| draft.depends.given());
        // A slip here would leave checks out, so it is refused.
        for Located { value, span } in depends.flat_map(|list| &list.value) {
            if !paths.contains(&value.trim_end_matches('/')) {
                let help = match nearest(value, paths.iter().copied()) {
                    Some(near) => format!("did you mean \"{near}\"?"),
                    None => "name the `path` of another [[project]]".to_owned(),
                };
                let problem = Problem::at(span.clone(), format!("`{value}` is no project"));
                problems.push(problem.help(help));
            }
        }
        Projects(projects)
    }

    /// All of them.
    pub fn all(&self) -> &[ProjectSettings] {
        &self.0
    }

    /// Whether the repository says nothing of projects.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether any of them has checks.
    pub fn have_checks(&self) -> bool {
        self.0.iter().any(|one| !one.checks.is_empty())
    }

    /// The project of that directory, or the only one whose directory has that name.
    pub fn find(&self, name: &str) -> Option<&ProjectSettings> {
        let name = name.trim_start_matches("./").trim_end_matches('/');
        let is_named = |one: &&ProjectSettings| one.path.rsplit('/').next() == Some(name);
        let mut named = self.0.iter().filter(is_named);
        let only = named.next().filter(|_| named.next().is_none());
        self.0.iter().find(|one| one.path == name).or(only)
    }

    /// The projects that a path belongs to.
    pub fn holding(&self, path: &[u8]) -> Vec<&ProjectSettings> {
        let holds = |one: &&ProjectSettings| {
            let below = path.strip_prefix(one.path.as_bytes());
            below.is_some_and(|below| matches!(below.first(), None | Some(b'/')))
        };
        let holding: Vec<_> = self.0.iter().filter(holds).collect();
        if holding.is_empty() { self.0.iter().collect() } else { holding }
    }

    /// The directories of the projects that changes of these paths matter to: those that they lie in, and those that need one of them.
    pub fn touched<'p>(&self, paths: impl IntoIterator<Item = &'p [u8]>) -> BTreeSet<&str> {
        let holding = paths.into_iter().flat_map(|path| self.holding(path));
        let mut touched: BTreeSet<&str> = holding.map(|one| one.path.as_str()).collect();
        // Each round adds one project at least, so a circle ends.
        loop {
            let next = self.0.iter().find(|one| {
                let needs = |path: &String| touched.contains(path.as_str());
                !touched.contains(one.path.as_str()) && one.depends.iter().any(needs)
            });
            match next {
                Some(project) => touched.insert(&project.path),
                None => return touched,
            };
        }
    }

    /// These projects and all that they need, each after what it needs.
    pub fn needed(&self, wanted: &BTreeSet<&str>) -> Vec<&ProjectSettings> {
        let mut needed = Vec::new();
        let mut seen = BTreeSet::new();
        for project in &self.0 {
            if wanted.contains(project.path.as_str()) {
                self.add_needed(project, &mut seen, &mut needed);
            }
        }
        needed
    }

    fn add_needed<'p>(
        &'p self,
        project: &'p ProjectSettings,
        seen: &mut BTreeSet<&'p str>,
        needed: &mut Vec<&'p ProjectSettings>,
    ) {
        if !seen.insert(&project.path) {
            return;
        }
        for other in &self.0 {
            if project.depends.contains(&other.path) {
                self.add_needed(other, seen, needed);
            }
        }
        needed.push(project);
    }

    /// The directories of the projects in which something may be in scope.
    pub fn within(&self, scope: &Beginnings) -> BTreeSet<&str> {
        let paths = self.0.iter().map(|one| one.path.as_str());
        let is_within = |path: &&str| {
            RepoPath::parse(path.as_bytes()).is_ok_and(|path| scope.may_allow_below(&path))
        };
        paths.filter(is_within).collect()
    }

    /// The check commands of these projects.
    pub fn checks_in(&self, directories: &BTreeSet<&str>) -> impl Iterator<Item = &String> {
        let chosen = self.0.iter().filter(|one| directories.contains(one.path.as_str()));
        chosen.flat_map(|one| &one.checks)
    }

    /// What has to hold where these projects are touched, as far as they are there.
    pub fn checks(
        &self,
        touched: &BTreeSet<&str>,
        is_there: impl Fn(&str) -> bool,
    ) -> RequiredChecks {
        // Work that removes a project leaves nothing of it to check; those that need it are checked all the same.
        let checked: BTreeSet<&str> = self
            .0
            .iter()
            .filter(|one| !one.checks.is_empty() && is_there(&one.path))
            .map(|one| one.path.as_str())
            .filter(|path| touched.contains(path))
            .collect();
        let needed = self.needed(&checked);
        let needed = needed.into_iter().filter(|one| is_there(&one.path));
        let checks = self.0.iter().filter(|one| checked.contains(one.path.as_str()));
        let mut required = RequiredChecks::default();
        for (project, list, is_setup) in needed
            .map(|one| (one, &one.setup, true))
            .chain(checks.map(|one| (one, &one.checks, false)))
        {
            let into = if is_setup { &mut required.setup } else { &mut required.commands };
            into.extend(list.iter().cloned());
            let owned = list.iter().map(|command| (command.clone(), project.path.clone()));
            required.projects.extend(owned);
        }
        required
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(path: &str, depends: &[&str]) -> ProjectSettings {
        ProjectSettings {
            path: path.to_owned(),
            depends: depends.iter().map(|path| (*path).to_owned()).collect(),
            setup: vec![in_directory(path, "make deps")],
            checks: vec![in_directory(path, "make test")],
        }
    }

    /// `app` needs `lib`, which needs `core`; `core` and `lib` need each other; `core/extra` lies inside and needs nothing.
    fn projects() -> Projects {
        Projects(vec![
            project("app", &["lib"]),
            project("lib", &["core"]),
            project("core", &["lib"]),
            project("core/extra", &[]),
            project("tools/app2", &[]),
        ])
    }

    fn touched(paths: &[&str]) -> Vec<String> {
        let projects = projects();
        let touched = projects.touched(paths.iter().map(|path| path.as_bytes()));
        touched.into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn a_change_touches_the_projects_that_it_lies_in_and_all_that_need_them() {
        assert_eq!(touched(&["app/x"]), ["app"]);
        assert_eq!(touched(&["app2/x"]).len(), 5, "it lies in none");
        assert_eq!(touched(&["core/a"]), ["app", "core", "lib"]);
        let both = ["app", "core", "core/extra", "lib"];
        assert_eq!(touched(&["core/extra/a"]), both);
        assert_eq!(touched(&["tools/app2"]), ["tools/app2"]);
        assert_eq!(touched(&["package-lock.json", "app/x"]).len(), 5);
        assert_eq!(touched(&[]), Vec::<String>::new());
    }

    #[test]
    fn what_is_needed_is_set_up_first_and_what_is_gone_not_at_all() {
        let projects = projects();
        let checks = projects.checks(&BTreeSet::from(["app"]), |_| true);
        let setup = ["core", "lib", "app"].map(|path| format!("cd ./{path} && make deps"));
        assert_eq!(checks.setup, setup);
        assert_eq!(checks.commands, ["cd ./app && make test"]);
        assert_eq!(checks.projects["cd ./app && make test"], "app");
        let gone = projects.checks(&BTreeSet::from(["app"]), |path| path != "app");
        assert_eq!(gone, RequiredChecks::default());
    }

    #[test]
    fn a_command_keeps_its_meaning_in_a_directory() {
        assert_eq!(in_directory("a b", "x"), "cd './a b' && x");
        assert_eq!(in_directory("a", "x || y"), "cd ./a && { x || y; }");
        assert_eq!(in_directory("a", "x || y # z"), "cd ./a && { x || y # z\n}");
    }

    #[test]
    fn a_project_is_found_by_its_directory_or_its_name() {
        let found = |name| projects().find(name).map(|one| one.path.clone());
        assert_eq!(found("core/extra/"), Some("core/extra".to_owned()));
        assert_eq!(found("extra"), Some("core/extra".to_owned()));
        assert_eq!(found("none"), None);
    }
}
