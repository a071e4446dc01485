//! What strangers install: the package for npm, the notices of what the program contains, the notes of a release.

use crate::support::agent::describe;
use crate::support::isolated;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The top of this repository.
fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs a script of the repository with the environment of the tests: cargo needs its own.
fn script(name: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(top().join(name));
    command.current_dir(top()).args(arguments);
    command.output().expect("the script starts")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", describe(output));
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

fn executable(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().expect("a directory")).expect("made");
    // Written by another process: what this one has open for writing, a child that another test starts at that moment has open too
    // for a while, and such a file cannot be executed.
    let mut tee = Command::new("tee")
        .arg(path)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("starts");
    tee.stdin.take().expect("piped").write_all(content.as_bytes()).expect("written");
    assert!(tee.wait().expect("ends").success());
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("set");
}

/// The name of the package with the program for this machine.
fn platform_package() -> String {
    let os = if cfg!(target_os = "macos") { "darwin" } else { "linux" };
    let cpu = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    format!("git-agent-worktree-{os}-{cpu}")
}

/// Two packages as npm lays them out, `program` that many directories above or beside; gives the file in `.bin`.
fn installed(place: &Path, program: &Path) -> PathBuf {
    let modules = place.join("node_modules");
    let launcher = fs::read_to_string(top().join(".github/npm/git-agent")).expect("a launcher");
    executable(&modules.join("git-agent-worktree/bin/git-agent"), &launcher);
    executable(
        &program.join("node_modules").join(platform_package()).join("bin/git-agent"),
        "#!/bin/sh\necho \"$$\"\nprintf '%s\\n' \"$@\"\nkill -TERM $$ & wait\nexit 7\n",
    );
    let bin = modules.join(".bin");
    fs::create_dir_all(&bin).expect("made");
    symlink("../git-agent-worktree/bin/git-agent", bin.join("git-agent")).expect("linked");
    bin.join("git-agent")
}

#[test]
fn the_package_for_npm_becomes_the_program() {
    use std::os::unix::process::ExitStatusExt;
    let place = tempfile::tempdir().expect("a directory");
    let beside = place.path().join("local dir");
    let nested = place.path().join("global");
    let within = nested.join("node_modules/git-agent-worktree");
    for (place, program) in [(&beside, &beside), (&nested, &within)] {
        let bin = installed(place, program);
        let mut command = isolated(&bin, place);
        command.args(["a b", "", "--x=*"]);
        command.stdout(std::process::Stdio::piped());
        let child = command.spawn().expect("starts");
        let pid = child.id();
        let output = child.wait_with_output().expect("ends");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let expected = format!("{pid}\na b\n\n--x=*\n");
        // The program has the number of the process that was started, so whatever is done to one is done to the other.
        assert_eq!(said, expected);
        assert_eq!(output.status.signal(), Some(15), "{}", describe(&output));
    }
    let program = beside.join("node_modules").join(platform_package());
    let bin = beside.join("node_modules/.bin/git-agent");
    executable(&program.join("bin/git-agent"), "#!/bin/sh\nexit 7\n");
    let status = || isolated(&bin, &beside).output().expect("starts").status;
    assert_eq!(status().code(), Some(7));
    fs::remove_dir_all(program).expect("removed");
    assert_eq!(status().code(), Some(4));
}

/// The program itself tells the way in which a stranger would start it.
#[test]
fn the_program_works_when_the_package_starts_it() {
    let place = tempfile::tempdir().expect("a directory");
    let bin = installed(place.path(), place.path());
    let program = place.path().join("node_modules").join(platform_package());
    let program = program.join("bin/git-agent");
    fs::remove_file(&program).expect("removed");
    symlink(env!("CARGO_BIN_EXE_git-agent"), &program).expect("linked");
    let output = isolated(&bin, place.path()).arg("--version").output();
    let said = text(&output.expect("starts"));
    assert_eq!(said, format!("git-agent {}\n", env!("CARGO_PKG_VERSION")));
}

/// A program in the place of the server says what it was started with.
#[test]
fn the_server_of_mcp_is_found_beside_the_program_or_on_the_path() {
    // A hard link needs the file system of the program; what an agent can write to is not searched, and these tests also run in an
    // agent's worktree.
    let built = Path::new(env!("CARGO_BIN_EXE_git-agent"));
    let beside = tempfile::tempdir_in(built.parent().expect("a directory")).expect("a directory");
    let on_path = tempfile::tempdir().expect("a directory");
    let program = beside.path().join("git-agent");
    fs::hard_link(built, &program).expect("linked");
    let mcp = || {
        let mut command = isolated(&program, on_path.path());
        // A directory that this user may not search would make it a program that cannot be run.
        command.env("PATH", format!("{}:/usr/bin:/bin", on_path.path().display()));
        command.arg("mcp").output().expect("starts")
    };
    let missing = mcp();
    assert_eq!(missing.status.code(), Some(127), "{}", describe(&missing));
    let said = String::from_utf8_lossy(&missing.stderr);
    let is_clear = said.contains("`git-agent-mcp` was not found") && said.contains("cargo install");
    assert!(is_clear, "{said}");
    // The one beside the program goes first.
    for directory in [on_path.path(), beside.path()] {
        let server = directory.join("git-agent-mcp");
        executable(&server, "#!/bin/sh\necho \"$0\" \"$@\"\n");
        let started = format!("{} --git-agent {}\n", server.display(), program.display());
        assert_eq!(text(&mcp()), started);
    }
}

/// Its server calls the program whose version it was made for.
#[test]
fn every_way_to_install_brings_the_server_of_mcp_in_the_same_version() {
    let read = |name: &str| fs::read_to_string(top().join(name)).expect("a file");
    let manifest: toml::Table = read("mcp/Cargo.toml").parse().expect("TOML");
    let version = manifest["package"]["version"].as_str();
    assert_eq!(version, Some(env!("CARGO_PKG_VERSION")));
    for file in [".ci/release", ".ci/packages", "Cargo.toml"] {
        assert!(read(file).contains("git-agent-mcp"), "{file}");
    }
}

/// What cargo says is linked into the program is the oracle.
#[test]
fn the_notices_name_every_crate_with_a_text() {
    let notices = text(&script(".ci/notices", &[]));
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let tree = Command::new(cargo)
        .current_dir(top())
        .args(["tree", "--locked", "--offline", "--edges=normal"])
        .args(["--target=all", "--prefix=none", "--format={p}"])
        .output();
    let tree = text(&tree.expect("cargo starts"));
    let crates: BTreeSet<_> = tree
        .lines()
        .filter_map(|line| line.split_once(" v"))
        .map(|(name, rest)| format!("{name} {}", rest.split(' ').next().unwrap_or_default()))
        .filter(|one| !one.starts_with("git-agent-worktree "))
        .collect();
    assert!(crates.len() > 100, "{crates:?}");
    let lines: Vec<_> = notices.lines().collect();
    for one in &crates {
        let head = format!("{one} (");
        let at = lines
            .iter()
            .position(|line| line.starts_with(&head))
            .unwrap_or_else(|| panic!("the notices lack {one}"));
        let text = lines[at + 2].trim();
        let number = text.split(' ').next().expect("a number");
        let is_text = lines.contains(&number) && number.starts_with('[');
        assert!(is_text, "{one} has no text: {text}");
    }
    // libgit2 has a licence of its own, beside that of the crate around it.
    for words in ["GNU GENERAL PUBLIC LICENSE", "unlimited permission to link"] {
        assert!(notices.contains(words), "{words}");
    }
}

#[test]
fn the_notes_of_a_release_are_the_section_of_its_version() {
    let changelog = fs::read_to_string(top().join("CHANGELOG.md")).expect("a changelog");
    let mut sections = changelog.split("\n## ").skip(1);
    let (version, of_newest) =
        sections.next().and_then(|section| section.split_once('\n')).expect("a section");
    let version = version.split(' ').next().expect("a version");
    let notes = text(&script(".ci/notes", &[&format!("v{version}")]));
    assert_eq!(notes.trim(), of_newest.trim());
    let output = script(".ci/notes", &["0.0.99"]);
    assert_eq!(output.status.code(), Some(1), "{}", describe(&output));
    let debian = text(&script(".ci/notes", &["--debian", version]));
    assert!(debian.starts_with(&format!("git-agent ({version}) unstable; urgency=medium\n\n  ")));
    let last = debian.lines().last().expect("a line");
    assert!(last.starts_with(" -- ") && last.contains('@'), "{last}");
}

/// The table of the Debian package names what `.ci/release` puts into an archive.
#[test]
fn the_debian_package_has_a_maintainer_a_changelog_and_the_notices() {
    let manifest = fs::read_to_string(top().join("Cargo.toml")).expect("a manifest");
    let manifest: toml::Table = manifest.parse().expect("TOML");
    let deb = &manifest["package"]["metadata"]["deb"];
    let is_text = |key: &str| deb.get(key).and_then(toml::Value::as_str).is_some();
    assert!(is_text("maintainer") && is_text("changelog"), "{deb}");
    let assets = deb["assets"].to_string();
    assert!(assets.contains("THIRD-PARTY-NOTICES"), "{assets}");
    let release = fs::read_to_string(top().join(".ci/release")).expect("a script");
    for file in ["THIRD-PARTY-NOTICES", "share/doc/git-agent", "changelog.Debian"] {
        assert!(release.contains(file), "{file}");
    }
}

/// A tag can be moved by who owns the action, a commit cannot.
#[test]
fn workflows_name_actions_by_commit_and_ask_for_few_rights() {
    let files = fs::read_dir(top().join(".github/workflows")).expect("a directory");
    for file in files.map(|file| file.expect("an entry").path()) {
        let text = fs::read_to_string(&file).expect("a workflow");
        let used = text.lines().filter_map(|line| line.split_once("uses: "));
        for (_, action) in used {
            let (_, commit) = action.split_once('@').expect("a version");
            let (commit, version) = commit.split_once(" # v").expect("a commit and its tag");
            let is_hex = commit.bytes().all(|byte| byte.is_ascii_hexdigit());
            assert!(commit.len() == 40 && is_hex, "{}: {action}", file.display());
            assert!(!version.is_empty(), "{action}");
        }
        let rights = "\npermissions:\n  contents: read\n";
        assert!(text.contains(rights), "{}", file.display());
    }
}

#[test]
fn the_formula_and_the_pkgbuild_have_the_version_and_the_checksums() {
    let out = tempfile::tempdir().expect("temporary directory");
    let version = env!("CARGO_PKG_VERSION");
    let targets =
        ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl", "aarch64-apple-darwin"];
    let sum = |at: usize| ["a", "b", "c"][at].repeat(64);
    for (at, target) in targets.iter().enumerate() {
        let name = format!("git-agent-{version}-{target}.tar.gz");
        let line = format!("{}  {name}\n", sum(at));
        fs::write(out.path().join(format!("{name}.sha256")), line).expect("written");
    }
    text(&script(".ci/packages", &[out.path().to_str().expect("UTF-8")]));
    let read = |name: &str| fs::read_to_string(out.path().join(name)).expect("written");
    let (formula, pkgbuild) = (read("git-agent.rb"), read("PKGBUILD"));
    for (at, target) in targets.iter().enumerate() {
        let archive = format!("v{version}/git-agent-{version}-{target}.tar.gz\"");
        assert!(formula.contains(&archive), "{formula}");
        assert!(formula.contains(&sum(at)), "{formula}");
    }
    // An archive that is not there has no part.
    assert!(!formula.contains("x86_64-apple-darwin"), "{formula}");
    // What makepkg reads: a shell says what it makes of it.
    let shown = "source \"$1\"; echo \"$pkgver ${sha256sums_x86_64[0]} ${sha256sums_aarch64[0]} ${source_aarch64[0]}\"";
    fs::write(out.path().join("show"), shown).expect("written");
    let place = out.path().join("PKGBUILD");
    let output = isolated("bash", out.path())
        .args(["show", place.to_str().expect("UTF-8")])
        .output()
        .expect("bash starts");
    let expected = format!(
        "{version} {} {} https://github.com/git-agent-worktree/git-agent/releases/download/v{version}/git-agent-{version}-aarch64-unknown-linux-musl.tar.gz\n",
        sum(0),
        sum(1)
    );
    assert_eq!(text(&output), expected, "{pkgbuild}");
}

/// What a lock file says that this package needs, without versions.
fn needed(lock: &str) -> BTreeSet<String> {
    let lock = fs::read_to_string(top().join(lock)).expect("a lock file");
    let start = lock.find("name = \"git-agent-worktree\"\n").expect("this package");
    lock[start..]
        .lines()
        .skip_while(|line| *line != "dependencies = [")
        .skip(1)
        .take_while(|line| *line != "]")
        .map(|line| line.trim_matches([' ', '"', ',']))
        .map(|line| line.split(' ').next().unwrap_or(line).to_owned())
        .collect()
}

/// `proof` depends on this package and has a lock file of its own, which nothing else of a normal run of the tests reads: after a
/// change of our dependencies, the command of its README would end with an error of cargo.
#[test]
fn the_lock_file_of_the_models_follows_our_dependencies() {
    let manifest = fs::read_to_string(top().join("Cargo.toml")).expect("the manifest");
    let manifest: toml::Table = manifest.parse().expect("TOML");
    let for_tests = manifest["dev-dependencies"].as_table().expect("a table");
    let mut ours = needed("Cargo.lock");
    ours.retain(|name| !for_tests.contains_key(name));
    assert_eq!(needed("proof/Cargo.lock"), ours);
}
