//! The states that an agent can leave its worktree, its admin directory and its branch in.

use super::Scene;
use crate::support::{git_in, isolated};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

/// A state.
pub struct State {
    /// What is wrong.
    pub name: &'static str,
    /// Whether the work cannot be judged, so that it is rejected. Otherwise what is committed can land.
    pub is_rejected: bool,
    /// Brings the agent of a scene into it.
    pub bring_about: fn(&Scene),
}

const fn rejected(name: &'static str, bring_about: fn(&Scene)) -> State {
    State { name, is_rejected: true, bring_about }
}

const fn harmless(name: &'static str, bring_about: fn(&Scene)) -> State {
    State { name, is_rejected: false, bring_about }
}

/// States in which git, or libgit2, cannot read something.
pub const BROKEN: &[State] = &[
    rejected("unmerged index", |scene| {
        let blob = git_in(&scene.bad.worktree, ["rev-parse", "HEAD:src/lib.rs"]);
        let mut lines = format!("0 {}\tsrc/lib.rs\n", "0".repeat(40));
        for stage in 1..4 {
            lines.push_str(&format!("100644 {blob} {stage}\tsrc/lib.rs\n"));
        }
        feed(&scene.bad.worktree, &["update-index", "--index-info"], &lines);
    }),
    rejected("garbage index", |scene| overwrite(scene, "index", "garbage")),
    rejected("empty index", |scene| overwrite(scene, "index", "")),
    rejected("truncated index", |scene| {
        let index = File::options().write(true).open(scene.admin_dir.join("index"));
        index.and_then(|index| index.set_len(50)).expect("truncated");
    }),
    rejected("directory in the place of the index", |scene| {
        fs::remove_file(scene.admin_dir.join("index")).expect("removed");
        fs::create_dir(scene.admin_dir.join("index")).expect("made");
    }),
    rejected("impossible commit date", |scene| dated(scene, " 99999999999999999999 +0000")),
    rejected("negative commit date", |scene| dated(scene, " -1 +9999")),
    rejected("linked admin directory", |scene| {
        let place = scene.bad.repo.path().with_file_name("elsewhere");
        fs::rename(&scene.admin_dir, place).expect("moved");
        symlink("../../.git", &scene.admin_dir).expect("a link");
    }),
    rejected("HEAD that leads nowhere", |scene| leads_nowhere(scene, "HEAD")),
    rejected("commondir that leads nowhere", |scene| leads_nowhere(scene, "commondir")),
    rejected("directory in the place of commondir", |scene| {
        fs::remove_file(scene.admin_dir.join("commondir")).expect("removed");
        fs::create_dir(scene.admin_dir.join("commondir")).expect("made");
    }),
    rejected("FIFO in the place of a tracked file", |scene| {
        fifo(&scene.bad.worktree.join("src/lib.rs"));
    }),
    rejected("missing tree", |scene| remove(&scene.object_file("HEAD^{tree}"))),
    rejected("missing tip", |scene| remove(&scene.object_file("HEAD"))),
    rejected("garbage branch", |scene| {
        fs::write(scene.branch_file(), "garbage\n").expect("written");
    }),
    rejected("branch to a blob", |scene| {
        let blob = git_in(&scene.bad.worktree, ["rev-parse", "HEAD:src/lib.rs"]);
        fs::write(scene.branch_file(), blob + "\n").expect("written");
    }),
    rejected("garbage HEAD", |scene| overwrite(scene, "HEAD", "garbage\n")),
    rejected("garbage config.worktree", |scene| {
        overwrite(scene, "config.worktree", "[[[garbage\n")
    }),
    rejected("failing required filter", |scene| {
        // The repository's own setting: one in the worktree's settings does not count.
        for setting in [["filter.z.clean", "false"], ["filter.z.required", "true"]] {
            scene.bad.repo.git([&["config"][..], &setting].concat());
        }
        scene.bad.write("src/.gitattributes", "* filter=z\n");
        scene.bad.write("src/lib.rs", "pub fn other() {}\n");
    }),
    rejected("missing .git", |scene| remove(&scene.bad.worktree.join(".git"))),
    rejected("garbage .git", |scene| scene.bad.write(".git", "garbage\n")),
    rejected("garbage gitdir", |scene| overwrite(scene, "gitdir", "garbage\n")),
    rejected("garbage commondir", |scene| overwrite(scene, "commondir", "/nowhere\n")),
    rejected("missing gitdir", |scene| remove(&scene.admin_dir.join("gitdir"))),
    rejected("missing commondir", |scene| remove(&scene.admin_dir.join("commondir"))),
    rejected("empty HEAD", |scene| overwrite(scene, "HEAD", "")),
    // The files are there, and what is uncommitted among them would be passed over.
    rejected("missing admin directory", |scene| {
        fs::remove_dir_all(&scene.admin_dir).expect("removed");
    }),
    harmless("missing worktree", |scene| {
        fs::remove_dir_all(&scene.bad.worktree).expect("removed");
    }),
];

/// States in which opening a file waits for ever, or reading it takes for ever.
pub const BUSY: &[State] = &[
    rejected("FIFO index", |scene| fifo(&scene.admin_dir.join("index"))),
    rejected("FIFO HEAD", |scene| fifo(&scene.admin_dir.join("HEAD"))),
    harmless("FIFO gitdir", |scene| fifo(&scene.admin_dir.join("gitdir"))),
    rejected("FIFO commondir", |scene| fifo(&scene.admin_dir.join("commondir"))),
    rejected("FIFO config.worktree", |scene| fifo(&scene.admin_dir.join("config.worktree"))),
    rejected("FIFO MERGE_HEAD", |scene| fifo(&scene.admin_dir.join("MERGE_HEAD"))),
    harmless("FIFO locked", |scene| fifo(&scene.admin_dir.join("locked"))),
    rejected("FIFO logs/HEAD", |scene| fifo(&scene.admin_dir.join("logs/HEAD"))),
    rejected("FIFO .git", |scene| fifo(&scene.bad.worktree.join(".git"))),
    rejected("FIFO .gitignore", |scene| fifo(&scene.bad.worktree.join(".gitignore"))),
    rejected("FIFO .gitattributes", |scene| {
        fifo(&scene.bad.worktree.join("src/.gitattributes"));
        scene.bad.write("src/lib.rs", "pub fn other() {}\n");
    }),
    rejected("FIFO branch", |scene| fifo(&scene.branch_file())),
    harmless("FIFO reflog", |scene| {
        let logs = scene.git_dir().join("logs/refs/heads");
        fifo(&logs.join(&scene.bad.branch));
    }),
    rejected("link to a device as HEAD", |scene| device(scene, "HEAD")),
    rejected("link to a device as index", |scene| device(scene, "index")),
    rejected("link to a device as config.worktree", |scene| device(scene, "config.worktree")),
    rejected("socket as index", |scene| {
        let index = scene.admin_dir.join("index");
        remove(&index);
        // The path of a socket is short.
        let short = scene.git_dir().join("s");
        std::os::unix::net::UnixListener::bind(&short).expect("bound");
        fs::rename(short, index).expect("renamed");
    }),
    rejected("endless HEAD", |scene| stretch(&scene.admin_dir.join("HEAD"))),
    rejected("endless index", |scene| {
        let index = scene.admin_dir.join("index");
        // The checksum at the end of a whole index would be read as the name of an extension, and git copes with some names.
        fs::write(&index, b"DIRC\0\0\0\x02\0\0\0\0").expect("written");
        stretch(&index);
    }),
    rejected("endless branch", |scene| stretch(&scene.branch_file())),
    harmless("endless locked", |scene| stretch(&scene.admin_dir.join("locked"))),
    rejected("endless .git", |scene| stretch(&scene.bad.worktree.join(".git"))),
    rejected("endless file", |scene| stretch(&scene.bad.worktree.join("src/huge.bin"))),
];

/// Gives the tip another author's and committer's date.
fn dated(scene: &Scene, date: &str) {
    let commit = git_in(&scene.bad.worktree, ["cat-file", "commit", "HEAD"]);
    let lines = commit.lines().map(|line| match line.rsplit_once('>') {
        Some((who, _)) if line.starts_with("author ") || line.starts_with("committer ") => {
            format!("{who}>{date}")
        }
        _ => line.to_owned(),
    });
    let commit: Vec<String> = lines.collect();
    let hash = ["hash-object", "-t", "commit", "-w", "--literally", "--stdin"];
    let oid = feed(&scene.bad.worktree, &hash, &(commit.join("\n") + "\n"));
    fs::write(scene.branch_file(), oid).expect("written");
}

fn leads_nowhere(scene: &Scene, name: &str) {
    let file = scene.admin_dir.join(name);
    fs::remove_file(&file).expect("removed");
    symlink("/nonexistent", file).expect("a link");
}

fn overwrite(scene: &Scene, name: &str, content: &str) {
    fs::write(scene.admin_dir.join(name), content).expect("written");
}

fn remove(file: &Path) {
    fs::remove_file(file).expect("removed");
}

pub fn fifo(path: &Path) {
    let _ = fs::remove_file(path);
    let made = Command::new("mkfifo").arg(path).status();
    assert!(made.expect("mkfifo starts").success(), "{}", path.display());
}

fn device(scene: &Scene, name: &str) {
    let path = scene.admin_dir.join(name);
    let _ = fs::remove_file(&path);
    symlink("/dev/zero", path).expect("linked");
}

/// Makes a file as long as no disk is, without writing it.
fn stretch(path: &Path) {
    let file = File::options().create(true).append(true).open(path);
    file.and_then(|file| file.set_len(3 << 30)).expect("stretched");
}

/// Runs git with this on its standard input, and gives its trimmed output.
fn feed(directory: &Path, arguments: &[&str], input: &str) -> String {
    let mut command = isolated("git", directory);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("git starts");
    let mut pipe = child.stdin.take().expect("a pipe");
    pipe.write_all(input.as_bytes()).expect("written");
    drop(pipe);
    let output = child.wait_with_output().expect("ends");
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned() + "\n"
}
