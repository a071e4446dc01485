//! Forges: where a remote is, and where a pull request is opened there.

/// The repository that the URL of a remote names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forge {
    /// The host, without user and port.
    pub host: String,
    /// The path of the repository: owner and name, or more on GitLab.
    pub path: String,
    kind: ForgeKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ForgeKind {
    GitHub,
    GitLab,
    Bitbucket,
    Gitea,
}

/// What the name of a host holds, and what is there.
const KINDS: [(&str, ForgeKind); 6] = [
    ("github", ForgeKind::GitHub),
    ("gitlab", ForgeKind::GitLab),
    ("bitbucket", ForgeKind::Bitbucket),
    ("gitea", ForgeKind::Gitea),
    ("forgejo", ForgeKind::Gitea),
    ("codeberg", ForgeKind::Gitea),
];

impl Forge {
    /// The forge of a remote; `None` for a path, and for a host whose name tells nothing.
    pub fn of_url(url: &str) -> Option<Forge> {
        let (place, path) = match url.split_once("://") {
            Some(("https" | "http" | "ssh" | "git", rest)) => rest.split_once('/')?,
            Some(_) => return None,
            // As scp takes it: user@host:path
            None => url.split_once(':').filter(|(place, _)| !place.contains('/'))?,
        };
        // Behind the last `@`, before which a URL may hold a password, and without a port.
        let host = place.rsplit('@').next()?.split(':').next()?;
        let host = host.to_ascii_lowercase();
        let path = path.trim_matches('/');
        let path = path.strip_suffix(".git").unwrap_or(path);
        // The name becomes part of an address and of a command line.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        if !path.contains('/') || !format!("{host}{path}").chars().all(is_plain) {
            return None;
        }
        let (_, kind) = KINDS.iter().find(|(sign, _)| host.contains(sign))?;
        Some(Forge { kind: *kind, path: path.to_owned(), host })
    }

    /// Whether it is GitHub, by its host's name.
    pub fn is_github(&self) -> bool {
        self.kind == ForgeKind::GitHub
    }

    /// The program that speaks to it, where there is one that we know.
    pub fn program(&self) -> Option<&'static str> {
        match self.kind {
            ForgeKind::GitHub => Some("gh"),
            ForgeKind::GitLab => Some("glab"),
            ForgeKind::Bitbucket | ForgeKind::Gitea => None,
        }
    }

    /// The repository, whichever way it is reached: `github.com/a/b`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.host, self.path)
    }

    /// The repository as `--repo` of its program takes it.
    pub fn repository(&self) -> String {
        match self.kind {
            // Without a scheme, glab takes the host for a group.
            ForgeKind::GitLab => format!("https://{}", self.name()),
            _ => self.name(),
        }
    }

    /// Another repository of the same forge; `None` for a path that none has.
    pub fn with_path(&self, path: &str) -> Option<Forge> {
        Forge::of_url(&format!("https://{}/{path}", self.host))
    }

    /// Where that repository is reached, by the URL with which this one is.
    pub fn url_beside(&self, url: &str, other: &Forge) -> String {
        url.replacen(&self.path, &other.path, 1)
    }

    /// What it calls a request to land a branch, in the name of a branch.
    pub fn request_word(&self) -> &'static str {
        match self.kind {
            ForgeKind::GitLab => "mr",
            _ => "pr",
        }
    }

    /// What it calls such a request with this number.
    pub fn request_name(&self, number: u64) -> String {
        match self.kind {
            ForgeKind::GitLab => format!("merge request {number}"),
            _ => format!("pull request {number}"),
        }
    }

    /// The ref by which its commits can be fetched, wherever its branch is.
    pub fn request_ref(&self, number: u64) -> String {
        match self.kind {
            ForgeKind::GitLab => format!("refs/merge-requests/{number}/head"),
            _ => format!("refs/pull/{number}/head"),
        }
    }

    /// The page of the request with this number.
    pub fn request_page(&self, number: u64) -> String {
        let place = match self.kind {
            ForgeKind::GitLab => "-/merge_requests",
            _ => "pull",
        };
        format!("https://{}/{place}/{number}", self.name())
    }

    /// The page on which a pull request from a branch onto another one is opened.
    pub fn page(&self, branch: &str, target: &str) -> String {
        let Forge { host, path, kind } = self;
        let (branch, target) = (escaped(branch), escaped(target));
        let rest = match kind {
            ForgeKind::GitHub => format!("compare/{target}...{branch}?expand=1"),
            ForgeKind::Gitea => format!("compare/{target}...{branch}"),
            ForgeKind::GitLab => format!(
                "-/merge_requests/new?merge_request%5Bsource_branch%5D={branch}&merge_request%5Btarget_branch%5D={target}"
            ),
            ForgeKind::Bitbucket => format!("pull-requests/new?source={branch}&dest={target}"),
        };
        format!("https://{host}/{path}/{rest}")
    }
}

/// Whether two URLs may lead to one repository, as with another protocol or another name of the host: the path is the same.
pub fn may_be_one(url: &str, other: &str) -> bool {
    let path = |url: &str| {
        let path = match url.split_once("://") {
            Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
            // As scp takes it: user@host:path
            None => match url.split_once(':').filter(|(place, _)| !place.contains('/')) {
                Some((_, path)) => path,
                None => url,
            },
        };
        let path = path.trim_matches('/');
        path.strip_suffix(".git").unwrap_or(path).to_ascii_lowercase()
    };
    path(url) == path(other)
}

/// A branch in a URL: what may stand in a path and in a query, and the rest by its bytes.
fn escaped(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_repository_is_known_by_its_path() {
        let check = |one: &str, other: &str, expected: bool| {
            assert_eq!(may_be_one(one, other), expected, "{one} {other}");
        };
        check("https://github.com/a/b", "git@github.com:a/b.git", true);
        check("https://github.com/a/b.git", "ssh://git@work/A/B", true);
        check("https://github.com/a/b", "git@github.com:me/b.git", false);
        check("/srv/b.git", "file:///srv/b", true);
        check("../origin.git", "../mine.git", false);
    }

    #[test]
    fn every_form_of_a_url_names_the_repository() {
        for (url, page) in [
            (
                "https://github.com/a/b.git",
                "https://github.com/a/b/compare/main...agent/x%231?expand=1",
            ),
            (
                "https://user:word@GitHub.com/a/b",
                "https://github.com/a/b/compare/main...agent/x%231?expand=1",
            ),
            (
                "git@gitlab.example.com:group/below/b.git",
                "https://gitlab.example.com/group/below/b/-/merge_requests/new?merge_request%5Bsource_branch%5D=agent/x%231&merge_request%5Btarget_branch%5D=main",
            ),
            (
                "ssh://git@bitbucket.org:22/a/b.git/",
                "https://bitbucket.org/a/b/pull-requests/new?source=agent/x%231&dest=main",
            ),
            ("ssh://git@codeberg.org/a/b", "https://codeberg.org/a/b/compare/main...agent/x%231"),
        ] {
            let forge = Forge::of_url(url).expect(url);
            assert_eq!(forge.page("agent/x#1", "main"), page, "{url}");
        }
        let forge = Forge::of_url("git@github.com:a/b.git").expect("a forge");
        assert!(forge.is_github());
        assert_eq!(forge.repository(), "github.com/a/b");
    }

    #[test]
    fn what_is_no_forge_gives_none() {
        for url in [
            "/srv/github/b.git",
            "file:///srv/github.com/a/b.git",
            "../github/b",
            "https://example.com/a/b",
            "https://github.com/b",
            "git@github.com:a/b c",
            "https://github.com/a/b?x=$(y)",
            "",
        ] {
            assert_eq!(Forge::of_url(url), None, "{url}");
        }
    }
}
