//! Repositories to measure in.

use super::{git, text};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};

/// Makes a clone of that name that borrows its objects; `option` is one of `git clone`.
pub(crate) fn clone(directory: &Path, name: &str, option: &str, origin: &Path) -> PathBuf {
    let clone = directory.join(name);
    let words = ["clone", "--quiet", "--shared", option];
    let places = [text(origin), text(&clone)];
    git(directory, &[&words[..], &places].concat());
    // No maintenance runs meanwhile.
    for key in ["gc.auto", "maintenance.auto"] {
        git(&clone, &["config", key, "0"]);
    }
    clone
}

/// How many files git tracks there.
pub(crate) fn count_files(directory: &Path) -> usize {
    let names = git(directory, &["ls-files", "-z"]).stdout;
    names.iter().filter(|&&byte| byte == 0).count()
}

/// Makes a repository of that many files of about two kilobytes, twenty to a directory, that none of them is
/// checked out of.
pub(crate) fn generate(path: &Path, files: usize) {
    std::fs::create_dir(path).expect("directory");
    git(path, &["init", "--quiet", "--initial-branch=main"]);
    import(path, |out| {
        let who = "committer A U Thor <author@example.com> 1700000000 +0000";
        writeln!(out, "commit refs/heads/main\n{who}\ndata 5\nmany\n")?;
        let mut random = 1_u64;
        for file in 0..files {
            let mut content = String::new();
            for _ in 0..256 {
                // A linear congruential generator (Knuth's MMIX): the same repository every time.
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                content.push_str(&format!("word{:04}", random >> 52));
                content.push(if random >> 48 & 7 == 0 { '\n' } else { ' ' });
            }
            let directory = file / 20;
            let package = directory / 50;
            writeln!(out, "M 100644 inline src/{package}/{directory}/{file}.txt")?;
            writeln!(out, "data {}\n{content}", content.len())?;
        }
        Ok(())
    });
}

/// Streams into `git fast-import`.
pub(crate) fn import(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<ChildStdin>) -> std::io::Result<()>,
) {
    let mut import = Command::new("git")
        .args(["fast-import", "--quiet", "--done", "--force"])
        .current_dir(path)
        .stdin(Stdio::piped())
        .spawn()
        .expect("git starts");
    let mut stream = BufWriter::new(import.stdin.take().expect("piped"));
    write(&mut stream)
        .and_then(|()| writeln!(stream, "done"))
        .and_then(|()| stream.flush())
        .expect("git reads");
    drop(stream);
    assert!(import.wait().expect("git ends").success());
}
