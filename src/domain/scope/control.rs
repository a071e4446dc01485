//! Files of a repository that decide what other people's programs run: settings of agent hosts, hooks, workflows, filters.
//!
//! A task that a person types without a scope means the whole repository, but hardly these: the person who lands the work would run
//! what the agent wrote into them. So such a task denies them unless its scope names them. A task file says its whitelist itself
//! and gets no such rule.

use super::{Intersection, ScopeLanguage};
use crate::domain::glob::Glob;

/// The control files that have fixed names. Those of agent hosts and the repository's own hook directory are added to them.
const CONTROL_FILES: &[&str] = &[
    // What binds the agents of this repository.
    ".config/git-agent.toml",
    "roles/*.toml",
    ".worktreeinclude",
    // What git acts on.
    "**/.gitattributes",
    ".gitmodules",
    // Hook managers.
    "**/.husky/**",
    "**/{,.}lefthook{,-local}.{yml,yaml,toml,json}",
    "**/.pre-commit-config.yaml",
    "**/prek.toml",
    ".githooks/**",
    // Workflows of forges.
    ".github/{workflows,actions}/**",
    ".gitlab-ci.yml",
    ".gitea/workflows/**",
    ".forgejo/workflows/**",
    ".circleci/**",
    ".buildkite/**",
    ".woodpecker*/**",
    ".woodpecker.y*ml",
    ".travis.yml",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    "Jenkinsfile",
];

/// The globs of control files that a whitelist does not name. `others` are further control files: those of agent hosts, and
/// the directory of the repository's hooks.
///
/// Only a whitelist that reaches everything is narrowed, as any other one names what it means. What it has besides
/// `**` names a control file by matching a path of it or, where the control file may lie in any directory, by matching nothing else: `.github/**`
/// does not mean the `.gitattributes` that could be there.
pub fn unnamed_control_files(
    whitelist: &[Glob],
    others: impl IntoIterator<Item = String>,
) -> Vec<Glob> {
    if !whitelist.iter().any(Glob::is_bare) {
        return Vec::new();
    }
    let named: Vec<&Glob> = whitelist.iter().filter(|glob| !glob.is_bare()).collect();
    let texts = { CONTROL_FILES.iter() }.map(|text| (*text).to_owned());
    let texts = texts.chain(others);
    let globs = texts.filter_map(|text| Glob::parse(&text).ok());
    let is_named_by = |control: &Glob, named: &Glob| {
        let [control_glob, named] = [control, named].map(std::slice::from_ref);
        let beyond = ScopeLanguage::new(named, control_glob);
        let [all, named] = [control_glob, named].map(|globs| ScopeLanguage::new(globs, &[]));
        let is_anywhere = control.as_str().starts_with("**/");
        named.intersection(&all) != Intersection::Empty
            && (!is_anywhere || named.intersection(&beyond) == Intersection::Empty)
    };
    let is_unnamed = |control: &Glob| !named.iter().any(|named| is_named_by(control, named));
    globs.filter(is_unnamed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unnamed(whitelist: &[&str]) -> Vec<String> {
        let globs = whitelist.iter().map(|text| Glob::parse(text).expect(text));
        let left = unnamed_control_files(
            &globs.collect::<Vec<_>>(),
            ["**/.host/settings*".to_owned()],
        );
        left.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_control_glob_is_a_glob_and_binds_a_whitelist_of_everything() {
        let all = unnamed(&["**"]);
        assert_eq!(all.len(), CONTROL_FILES.len() + 1, "{all:?}");
        assert!(all.contains(&"**/.host/settings*".to_owned()), "{all:?}");
    }

    #[test]
    fn a_scope_that_names_a_control_file_may_touch_it() {
        let left = unnamed(&["**", ".github/**", "packages/app/.host/settings.json"]);
        assert!(
            !left.iter().any(|glob| glob.starts_with(".github/")),
            "{left:?}"
        );
        assert!(
            !left.iter().any(|glob| glob == "**/.host/settings*"),
            "{left:?}"
        );
        assert!(left.iter().any(|glob| glob == "**/.husky/**"), "{left:?}");
        let left = unnamed(&["**", ".husky/**", "lib/.gitattributes"]);
        let is_left = |control: &str| left.iter().any(|glob| glob == control);
        assert!(
            !is_left("**/.husky/**") && !is_left("**/.gitattributes"),
            "{left:?}"
        );
    }

    #[test]
    fn a_scope_of_some_directories_is_taken_as_it_is() {
        assert!(unnamed(&["src/**"]).is_empty());
    }
}
