//! Where a path leads when the kernel follows it, though its end may not exist yet.

use serde_json::Value;
use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// As many symlinks as Linux follows in one path (path_resolution(7)).
const MOST_LINKS: usize = 40;

/// The absolute path with every symlink in it followed, the last one too, even where it dangles: what
/// is written "through" such a link is made at its target. `..` steps back from where a symlink led,
/// as the kernel does it. What does not exist is kept as it is. `None` for a relative path and for
/// symlinks that go in circles.
pub(crate) fn real_path(path: &Path) -> Option<PathBuf> {
    if !path.is_absolute() {
        return None;
    }
    let mut real = PathBuf::from("/");
    let mut ahead = parts(path);
    let mut followed = 0;
    while let Some(part) = ahead.pop() {
        // What is above was followed already, so one step back is where the kernel goes.
        if part == ".." {
            real.pop();
            continue;
        }
        let next = real.join(part);
        match fs::read_link(&next) {
            Ok(target) => {
                followed += 1;
                if followed > MOST_LINKS {
                    return None;
                }
                if target.is_absolute() {
                    real = PathBuf::from("/");
                }
                ahead.extend(parts(&target));
            }
            // No symlink, or nothing at all, or nothing that we, and so the agent, may look at.
            Err(_) => real = next,
        }
    }
    Some(real)
}

/// The names and `..` of a path, last first.
fn parts(path: &Path) -> Vec<OsString> {
    let steps = path.components().filter_map(|part| match part {
        Component::Normal(_) | Component::ParentDir => Some(part.as_os_str().to_owned()),
        _ => None,
    });
    let mut parts: Vec<OsString> = steps.collect();
    parts.reverse();
    parts
}

/// The path relative to the root when it is inside, else as it is; with `/`.
pub(crate) fn for_display(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned()
}

// Tools that look through the whole root of a repository, the worktrees of agents in it included.

/// The template of `agent.worktreeDir` by which worktrees stand beside the root.
pub(crate) const BESIDE: &str = "../{repo}.agents/{id}";

/// Tools of npm that do so, by the names of their packages. What a test in `tests/crawling_tools.sh` runs and sees no agent, as
/// pytest, tsc and ruff, is not among them.
const CRAWLERS: [&str; 4] = ["vitest", "jest", "eslint", "prettier"];

/// Whether a package depends on a tool.
fn depends(package: &Value, tool: &str) -> bool {
    let kinds = ["dependencies", "devDependencies"];
    kinds.iter().any(|kind| package[*kind].get(tool).is_some())
}

/// The first such tool that a `package.json` names.
pub(crate) fn named_by(package: &Value) -> Option<&'static str> {
    CRAWLERS.into_iter().find(|tool| depends(package, tool))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn symlinks_are_followed_as_the_kernel_does() {
        let dir = tempfile::tempdir().expect("directory");
        let top = fs::canonicalize(dir.path()).expect("there");
        fs::create_dir_all(top.join("a/b")).expect("made");
        for (link, target) in [
            ("inward", "a/b"),
            ("outward", "/nowhere/x"),
            ("a/b/back", "../../inward"),
            ("circle", "circle"),
        ] {
            symlink(target, top.join(link)).expect("linked");
        }
        let check = |path: &str, expected: Option<&str>| {
            let found = real_path(&top.join(path));
            assert_eq!(found, expected.map(|path| top.join(path)), "{path}");
        };
        check("a/b/new/file", Some("a/b/new/file"));
        check("inward/file", Some("a/b/file"));
        check("inward/../file", Some("a/file"));
        check("a/b/back/back/x", Some("a/b/x"));
        check("outward", Some("/nowhere/x"));
        check("outward/../y", Some("/nowhere/y"));
        check("none/../x", Some("x"));
        check("circle/x", None);
        assert_eq!(real_path(Path::new("a/b")), None);
    }
}
