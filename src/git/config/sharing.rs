//! `core.sharedRepository`: who else may write a repository, as git-config(1) and git's `setup.c` have it.
//!
//! Git loosens the modes of what it makes one by one. libgit2 and gitoxide follow the umask alone, so the umask
//! is what has to be loosened. The setgid bit, which keeps the group, is handed down by the directories.

use crate::error::Result;
use crate::git::Repo;
use rustix::fs::RawMode;

/// Bits of a mode for everybody's execution.
const SEARCH: RawMode = 0o111;

impl Repo {
    /// The umask with which everything that is made in the repository has the modes that git would give it, where
    /// that is another than `umask`.
    ///
    /// # Errors
    /// `git-failed` when the configuration cannot be read.
    pub fn shared_umask(&self, umask: RawMode) -> Result<Option<RawMode>> {
        let word = self.config_string("core.sharedRepository")?;
        let wanted = word.and_then(|word| loosened(&word, umask));
        Ok(wanted.filter(|wanted| *wanted != umask))
    }
}

/// The umask that the setting asks for; `None` where it asks for nothing, or is none that git knows.
fn loosened(word: &str, umask: RawMode) -> Option<RawMode> {
    let group = Some(umask & !0o070);
    let all = Some(umask & !0o075);
    match word.to_ascii_lowercase().as_str() {
        "umask" => None,
        "group" | "" => group,
        "all" | "world" | "everybody" => all,
        word => match RawMode::from_str_radix(word, 8) {
            Ok(0) => None,
            Ok(1) => group,
            Ok(2) => all,
            Ok(mode) if mode & 0o600 == 0o600 => {
                let files = mode & 0o666;
                // Who may read a directory may search it.
                Some(!(files | ((files >> 2) & SEARCH)) & 0o777)
            }
            Ok(_) => None,
            Err(_) => git2::Config::parse_bool(word).ok()?.then_some(group?),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::loosened;

    #[test]
    fn it_asks_for_what_git_would_do() {
        for (word, umask) in [
            ("umask", None),
            ("false", None),
            ("0", None),
            ("0444", None),
            ("nonsense", None),
            ("group", Some(0o002)),
            ("true", Some(0o002)),
            ("1", Some(0o002)),
            ("ALL", Some(0o002)),
            ("2", Some(0o002)),
            ("0640", Some(0o027)),
            ("0660", Some(0o007)),
        ] {
            assert_eq!(loosened(word, 0o022), umask, "{word}");
        }
        assert_eq!(loosened("all", 0o077), Some(0o002));
        assert_eq!(loosened("group", 0o077), Some(0o007));
    }
}
