//! Texts that leave the machine, without its absolute paths.
//!
//! A path below a directory that has a name of its own (the worktree, the root, the home directory) begins with
//! that name instead; of any other the last part stays. Programs and files of the system, such as `/usr/bin/env`,
//! are the same on every machine and stay as they are.

/// What the paths of a system begin with.
const SYSTEM: [&str; 9] = [
    "bin", "dev", "etc", "lib", "lib64", "nix", "opt", "sbin", "usr",
];

/// What ends a path in a command line, besides white space.
const ENDS: [char; 14] = [
    '"', '\'', '`', ':', ';', ',', '|', '&', '<', '>', '(', ')', '=', '\0',
];

/// Directories and the names that stand for them.
#[derive(Clone, Debug, Default)]
pub struct PlaceNames(Vec<(String, &'static str)>);

impl PlaceNames {
    /// Of absolute paths without a slash at the end. Where one is inside another, the inner one is looked for
    /// first.
    pub fn new(places: impl IntoIterator<Item = (String, &'static str)>) -> PlaceNames {
        let mut places: Vec<_> = places
            .into_iter()
            .filter(|(path, _)| path.len() > 1)
            .collect();
        places.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        PlaceNames(places)
    }

    /// The text without absolute paths.
    pub fn shorten(&self, text: &str) -> String {
        let mut shortened = String::with_capacity(text.len());
        let mut word = 0;
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let before = &shortened[word..];
            if first == '/' && may_precede_path(before) {
                let (name, length) = self.name(rest).unwrap_or_else(|| other(rest));
                shortened.push_str(&name);
                rest = &rest[length..];
                if rest.starts_with('/') && name == "//" {
                    // The URL of a file: its path begins here.
                    word = shortened.len();
                }
                continue;
            }
            shortened.push(first);
            rest = &rest[first.len_utf8()..];
            if first.is_whitespace() || ENDS.contains(&first) {
                word = shortened.len();
            }
        }
        shortened
    }

    /// The name of the directory that a text begins with, and the length of what it stands for.
    fn name(&self, text: &str) -> Option<(String, usize)> {
        let is_whole = |path: &str| {
            let next = text[path.len()..].chars().next();
            next.is_none_or(|c| c == '/' || c.is_whitespace() || ENDS.contains(&c))
        };
        let mut places = self.0.iter();
        let (path, name) = places.find(|(path, _)| text.starts_with(path) && is_whole(path))?;
        Some(((*name).to_owned(), path.len()))
    }
}

/// Whether a slash after this part of a word begins an absolute path: at the word's start, and after an option's
/// letter as in `-I/usr/include`.
fn may_precede_path(before: &str) -> bool {
    before.is_empty() || before.starts_with('-') && !before.contains('/')
}

/// What stays of a path outside of every named directory, and the length of what was looked at.
fn other(text: &str) -> (String, usize) {
    if text.starts_with("///") {
        return ("//".to_owned(), 2);
    }
    let end = text.find(|c: char| c.is_whitespace() || ENDS.contains(&c));
    let path = &text[..end.unwrap_or(text.len())];
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let first = parts.next().unwrap_or_default();
    let shown = match parts.next_back() {
        // An URL, and a name directly below `/`, say nothing of where a user's files are.
        Some(last) if !path.starts_with("//") && !is_system(path, first) => format!("…/{last}"),
        _ => path.to_owned(),
    };
    (shown, path.len())
}

/// Whether a path is the same on every machine. What `/dev/shm` holds is a user's.
fn is_system(path: &str, first: &str) -> bool {
    SYSTEM.contains(&first) && !path.starts_with("/dev/shm/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_paths_are_named_by_what_they_are_in() {
        let names = PlaceNames::new([
            ("/home/me".to_owned(), "~"),
            ("/home/me/my project".to_owned(), "{root}"),
            ("/home/me/my project/.w/agent-1".to_owned(), "{worktree}"),
        ]);
        for (text, expected) in [
            ("claude -p {prompt}", "claude -p {prompt}"),
            ("/home/me/bin/claude -p", "~/bin/claude -p"),
            ("/home/meg/bin/claude", "…/claude"),
            ("sh '/home/me/my project/run.sh' x", "sh '{root}/run.sh' x"),
            ("/home/me/my project/.w/agent-1/a", "{worktree}/a"),
            ("--config=/home/me", "--config=~"),
            ("-I/home/me/include -L/srv/x/lib", "-I~/include -L…/lib"),
            ("/usr/bin/env python3 /bin/x", "/usr/bin/env python3 /bin/x"),
            ("cat /data/jane/secret.txt>/tmp/a/b", "cat …/secret.txt>…/b"),
            ("cat /dev/null>/dev/shm/jane/x", "cat /dev/null>…/x"),
            ("file:///home/me/x", "file://~/x"),
            ("https://example.com/a/b", "https://example.com/a/b"),
            ("sed s/a/b/ src/lib.rs", "sed s/a/b/ src/lib.rs"),
            ("ls /", "ls /"),
            ("é /home/me/é", "é ~/é"),
        ] {
            assert_eq!(names.shorten(text), expected, "{text}");
        }
    }
}
