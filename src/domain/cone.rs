//! The directories that a sparse worktree has to hold, as a cone of git's sparse checkouts: everything below each of them, and
//! the files beside each on the way to the top (git-sparse-checkout(1)).

use super::glob::Glob;
use std::collections::BTreeSet;

/// The directories below which everything is that the whitelist matches; what it matches at the top needs none.
///
/// # Errors
/// The first glob that matches in directories of any name.
pub fn directories(whitelist: &[Glob]) -> Result<BTreeSet<String>, &Glob> {
    let mut found = BTreeSet::new();
    for glob in whitelist {
        for pattern in glob.alternatives() {
            // The last part is the name of a file, or what stands for all that is below.
            let Some((parents, _)) = pattern.rsplit_once('/') else {
                if pattern == "**" {
                    return Err(glob);
                }
                continue;
            };
            let parts = parents.split('/');
            let literal: Vec<_> = parts
                .take_while(|part| !part.contains(['*', '?', '[']))
                .collect();
            if literal.is_empty() {
                return Err(glob);
            }
            found.insert(literal.join("/"));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_literal_directories_of_a_whitelist() {
        let of = |globs: &[&str]| {
            let globs = globs.iter().map(|glob| Glob::parse(glob).expect("valid"));
            let globs: Vec<Glob> = globs.collect();
            directories(&globs)
                .map(|found| found.into_iter().collect::<Vec<_>>().join(" "))
                .map_err(|glob| glob.as_str().to_owned())
        };
        let cases: [(&[&str], &str); 7] = [
            (&["src/**", "docs/"], "docs src"),
            (&["src/a/*.rs", "src/b/f[12]/g"], "src/a src/b"),
            (&["{one,two/three}/**", "two/x.md"], "one two two/three"),
            (&["README.md", "*.toml", "f?"], ""),
            (&["a b/c'd/**"], "a b/c'd"),
            (&["src/**/deep/x"], "src"),
            (&["./src//x"], "src"),
        ];
        for (globs, expected) in cases {
            assert_eq!(of(globs), Ok(expected.to_owned()), "{globs:?}");
        }
        for glob in ["**/*.rs", "*/lib.rs", "**", "{src,*}/x", "[s]rc/**"] {
            assert_eq!(of(&["docs/**", glob]), Err(glob.to_owned()));
        }
    }
}
