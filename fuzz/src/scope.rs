//! A scope and paths, one per line: `+glob`, `-glob`, anything else a path. The denylist wins, and a path
//! that could leave the worktree or reach a git directory is never allowed.

use git_agent::domain::boundary::scope::{Decision, Denied, Scope};
use git_agent::domain::paths::glob::Glob;
use git_agent::domain::paths::path::RepoPath;

/// One scope and the paths that it decides.
pub fn run(data: &[u8]) {
    let (mut whitelist, mut denylist, mut paths) = (Vec::new(), Vec::new(), Vec::new());
    for line in data.split(|&byte| byte == b'\n') {
        match (line.split_first(), std::str::from_utf8(line)) {
            (Some((b'+', _)), Ok(line)) => whitelist.extend(glob(&line[1..])),
            (Some((b'-', _)), Ok(line)) => denylist.extend(glob(&line[1..])),
            _ => paths.push(line),
        }
    }
    // No task has more.
    whitelist.truncate(20);
    denylist.truncate(20);
    let Ok(scope) = Scope::new(&whitelist, &denylist) else {
        return;
    };
    let each = |list: &[Glob]| list.iter().map(only).collect::<Vec<_>>();
    let (allowing, denying) = (each(&whitelist), each(&denylist));
    for path in paths {
        let decision = scope.decide_bytes(path);
        let Ok(parsed) = RepoPath::parse(path) else {
            assert!(!decision.is_allowed(), "{path:?} is no path");
            continue;
        };
        safe(&parsed);
        assert_eq!(decision, scope.decide(&parsed));
        // What a decision says of itself holds for its lists one by one.
        let matches = |scope: &Scope| scope.decide(&parsed).is_allowed();
        match decision {
            Decision::Allowed { by } => {
                assert!(whitelist.contains(&by) && matches(&only(&by)), "{by}");
                assert!(!denying.iter().any(matches), "{parsed}");
            }
            Decision::Denied(Denied::ByDenylist(by)) => assert!(denylist.contains(&by)),
            Decision::Denied(Denied::NotInWhitelist) => assert!(!allowing.iter().any(matches)),
            Decision::Denied(Denied::Never(problem)) => panic!("{parsed} was a path: {problem}"),
        }
    }
}

/// A glob is read the same way the second time.
fn glob(text: &str) -> Option<Glob> {
    let glob = Glob::parse(text).ok()?;
    assert_eq!(Glob::parse(glob.as_str()).as_ref(), Ok(&glob));
    (!glob.needs_git_dir()).then_some(glob)
}

fn only(glob: &Glob) -> Scope {
    Scope::new(std::slice::from_ref(glob), &[]).expect("one of those that compiled")
}

/// A path has been read once and for all.
fn safe(path: &RepoPath) {
    assert_eq!(RepoPath::parse(path.as_bytes()).as_ref(), Ok(path));
    for part in path.parts() {
        assert!(!part.is_empty() && part != b"." && part != b"..");
        assert!(!part.eq_ignore_ascii_case(b".git"));
    }
    assert!(!path.to_string().contains(char::is_control), "{path}");
}
