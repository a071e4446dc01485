//! `CODEOWNERS`: who owns what work changes, as the branch says that it is for.

use globset::GlobBuilder;

/// Where a forge looks for the file, in its order.
pub const PLACES: [&str; 4] =
    [".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS"];

/// More reviewers than this are not asked: a rule for everything names whole departments.
const MOST: usize = 15;

/// The rules of a `CODEOWNERS` file, in its order: patterns, and who owns what they match.
#[derive(Clone, Debug)]
pub struct CodeOwners(Vec<(Vec<globset::GlobMatcher>, Vec<String>)>);

impl CodeOwners {
    /// Reads the file. What is no name of a forge, such as an address, is left out.
    pub fn parse(text: &str) -> CodeOwners {
        let mut rules = Vec::new();
        for line in text.lines() {
            let mut words = line.split_whitespace().take_while(|word| !word.starts_with('#'));
            // Sections of GitLab stand in brackets.
            let Some(pattern) = words.next().filter(|word| !word.starts_with(['[', '^'])) else {
                continue;
            };
            if let Some(globs) = globs(pattern) {
                rules.push((globs, words.filter_map(name).collect::<Vec<_>>()));
            }
        }
        CodeOwners(rules)
    }

    /// The people and teams who own any of the paths, in the order of the paths. Of the rules that match a path the last one holds, and
    /// one without owners takes them away.
    pub fn of(&self, paths: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Vec<String> {
        let mut owners: Vec<String> = Vec::new();
        for path in paths {
            let path = String::from_utf8_lossy(path.as_ref());
            let is_for = |(globs, _): &&(Vec<globset::GlobMatcher>, Vec<String>)| {
                globs.iter().any(|glob| glob.is_match(path.as_ref()))
            };
            let names = self.0.iter().rev().find(is_for).map(|(_, names)| names);
            for owner in names.into_iter().flatten() {
                if !owners.contains(owner) {
                    owners.push(owner.clone());
                }
            }
        }
        owners.truncate(MOST);
        owners
    }
}

/// A pattern as the forges read it: as in `.gitignore`, but that a last part with a star means no deeper files.
fn globs(pattern: &str) -> Option<Vec<globset::GlobMatcher>> {
    let body = pattern.trim_start_matches('/');
    let is_anchored = pattern.trim_end_matches('/').contains('/');
    let start = if is_anchored { String::new() } else { "**/".to_owned() };
    let last = body.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let mut texts = Vec::new();
    if !body.ends_with('/') {
        texts.push(format!("{start}{body}"));
    }
    // A name may be a file or a directory; a trailing slash says that it is a directory, and a star
    // in the last part that it is none.
    if body.ends_with('/') || !last.contains('*') {
        texts.push(format!("{start}{}/**", body.trim_end_matches('/')));
    }
    let build = |text: &String| GlobBuilder::new(text).literal_separator(true).build();
    let globs: Result<Vec<_>, _> =
        texts.iter().map(|text| build(text).map(|glob| glob.compile_matcher())).collect();
    globs.ok()
}

/// The name of a user or a team behind its sign.
fn name(word: &str) -> Option<String> {
    let name = word.strip_prefix('@')?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    let is_name =
        name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_plain);
    is_name.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::CodeOwners;

    #[test]
    fn the_last_rule_that_matches_a_path_names_its_owners() {
        let text = "\
# everybody
*        @all
*.js     @js  # scripts
/build/  @ops
docs/*   docs@example.com @docs
apps/    @org/apps
/apps/free
src/**/x.rs @-x @$(evil) @x;y
[Section][2]
lib @lib
";
        for (path, wanted) in [
            ("a.rs", &["all"][..]),
            ("deep/a.js", &["js"]),
            ("build/a", &["ops"]),
            ("deep/build/a", &["all"]),
            ("docs/a", &["docs"]),
            ("docs/deep/a", &["all"]),
            ("deep/apps/a/b", &["org/apps"]),
            ("apps/free/a", &[]),
            ("src/a/x.rs", &[]),
            ("lib/a", &["lib"]),
        ] {
            assert_eq!(CodeOwners::parse(text).of([path]), wanted, "{path}");
        }
        let both = ["a.js", "lib/b", "c.js"];
        assert_eq!(CodeOwners::parse(text).of(both), ["js", "lib"]);
        assert!(CodeOwners::parse("").of(both).is_empty());
    }
}
