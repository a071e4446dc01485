//! Nothing that is written to an accepted path ends up outside of the output directory.

use super::*;
use crate::domain::paths::output_file::OutputProblem;
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Barrier;

/// An output directory `out` in an agent's directory, and what is none of its business around it.
struct Scene {
    _dir: tempfile::TempDir,
    top: PathBuf,
}

impl Scene {
    fn new() -> Scene {
        let dir = tempfile::tempdir().expect("directory");
        let top = fs::canonicalize(dir.path()).expect("there");
        fs::create_dir_all(top.join("agent/out/dir")).expect("made");
        fs::create_dir(top.join("outside")).expect("made");
        for file in ["outside/file", "agent/file", "agent/out/file"] {
            fs::write(top.join(file), "old").expect("written");
        }
        for (link, target) in [
            ("up", ".."),
            ("far", "../../outside"),
            ("dir/absolute", "/"),
            ("dir/dangling", "../../../outside/new"),
            ("dir/in", "../dir"),
            ("link.md", "../../outside/file"),
        ] {
            symlink(target, top.join("agent/out").join(link)).expect("linked");
        }
        Scene { _dir: dir, top }
    }

    fn directory(&self) -> OutputDirectory {
        OutputDirectory {
            anchor: self.top.join("agent"),
            seen: None,
            is_of_setting: false,
            inside: vec!["out".into()],
        }
    }

    fn plan(&self, name: &str, allow_overwrite: bool) -> Result<Output> {
        let directory = self.directory();
        let taken = if allow_overwrite { IfTaken::Overwrite } else { IfTaken::Refuse };
        Output::below(directory, name, taken)
    }

    fn refusal(&self, name: &str, allow_overwrite: bool) -> (Code, String) {
        let error = self.plan(name, allow_overwrite).expect_err("refused");
        (error.code(), error.message().to_owned())
    }
}

#[test]
fn symbolic_links_are_refused_wherever_they_lead() {
    let scene = Scene::new();
    let outside = (Code::OutputOutside, OutputProblem::Outside.to_string());
    for name in [
        "up/file",
        "far/file",
        "far/new.md",
        "dir/absolute/tmp/x",
        "dir/dangling",
        "dir/in/x.md",
        "link.md",
    ] {
        assert_eq!(scene.refusal(name, true), outside, "{name}");
    }
}

#[test]
fn an_output_directory_that_an_agent_replaced_by_a_link_is_refused() {
    let scene = Scene::new();
    fs::rename(scene.top.join("agent/out"), scene.top.join("agent/old")).expect("moved");
    symlink("../outside", scene.top.join("agent/out")).expect("linked");
    assert_eq!(scene.refusal("x.md", true).0, Code::OutputOutside);
}

#[test]
fn a_link_put_in_the_way_after_planning_is_refused() {
    let scene = Scene::new();
    let mut output = scene.plan("new/x.md", false).expect("planned");
    symlink("../../outside", scene.top.join("agent/out/new")).expect("linked");
    let error = output.prepare().expect_err("refused");
    assert_eq!(error.code(), Code::OutputOutside);
    assert!(!output.is_written().is_ok_and(|written| written));
}

#[test]
fn an_existing_file_is_refused_unless_it_may_be_overwritten() {
    let scene = Scene::new();
    let exists = (Code::OutputExists, EXISTS.to_owned());
    assert_eq!(scene.refusal("file", false), exists);
    assert_eq!(scene.refusal("dir", false), exists);
    assert_eq!(scene.refusal("dir", true), exists);
    assert!(scene.plan("file", true).is_ok());
    let mut output = scene.plan("late.md", false).expect("planned");
    fs::write(output.path(), "x").expect("written");
    let error = output.prepare().expect_err("refused");
    assert_eq!(error.message(), EXISTS);
}

#[test]
fn parents_are_made_and_a_written_file_is_seen() {
    let scene = Scene::new();
    let mut output = scene.plan("temp/deep/x.md", false).expect("planned");
    assert!(!scene.top.join("agent/out/temp").exists(), "planning makes nothing");
    output.prepare().expect("prepared");
    assert_eq!(output.path(), scene.top.join("agent/out/temp/deep/x.md"));
    assert!(!output.is_written().expect("looked"));
    fs::write(output.path(), "answer").expect("written");
    assert!(output.is_written().expect("looked"));

    let mut old = scene.plan("file", true).expect("planned");
    old.prepare().expect("prepared");
    assert!(!old.is_written().expect("looked"), "it is as it was");
    fs::write(old.path(), "other").expect("written");
    assert!(old.is_written().expect("looked"));
}

#[test]
fn a_link_that_an_agent_left_is_no_answer() {
    let scene = Scene::new();
    let mut output = scene.plan("x.md", false).expect("planned");
    output.prepare().expect("prepared");
    fs::remove_file(output.path()).expect("removed");
    symlink("../../outside/file", output.path()).expect("linked");
    assert!(!output.is_written().expect("looked"));
}

/// What each of four gets who prepare the same name at once, in no order.
fn at_once(scene: &Scene, taken: IfTaken) -> Vec<Result<Output>> {
    let start = Barrier::new(4);
    std::thread::scope(|scope| {
        let one = || {
            let directory = scene.directory();
            let mut output = Output::below(directory, "temp/a.md", taken).expect("planned");
            start.wait();
            output.prepare().map(|()| output)
        };
        let all: Vec<_> = (0..4).map(|_| scope.spawn(one)).collect();
        let all = all.into_iter().map(|one| one.join().expect("no panic"));
        all.collect()
    })
}

#[test]
fn a_name_that_was_not_asked_for_is_given_to_one_answer_only() {
    let scene = Scene::new();
    let outputs = at_once(&scene, IfTaken::Number);
    let mut names: Vec<_> =
        outputs.iter().map(|output| output.as_ref().expect("prepared").path()).collect();
    names.sort_unstable();
    let expected = ["a-2.md", "a-3.md", "a-4.md", "a.md"];
    let temp = scene.top.join("agent/out/temp");
    assert_eq!(names, expected.map(|name| temp.join(name)));
    fs::write(temp.join("a-3.md"), "answer").expect("written");
    drop(outputs);
    let left: Vec<_> = fs::read_dir(&temp).expect("there").collect();
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(fs::read_to_string(temp.join("a-3.md")).expect("there"), "answer");
}

#[test]
fn of_several_who_ask_for_one_name_one_gets_it() {
    let scene = Scene::new();
    let (got, refused): (Vec<_>, Vec<_>) =
        at_once(&scene, IfTaken::Refuse).into_iter().partition(Result::is_ok);
    assert_eq!((got.len(), refused.len()), (1, 3));
    for error in refused.into_iter().map(|one| one.expect_err("refused")) {
        assert_eq!((error.code(), error.message()), (Code::OutputExists, EXISTS));
    }
}

#[test]
fn an_answer_that_is_empty_is_not_the_place_that_was_kept_for_it() {
    let scene = Scene::new();
    let mut output = scene.plan("x.md", false).expect("planned");
    output.prepare().expect("prepared");
    assert!(output.path().exists(), "the place is kept");
    let path = output.path();
    let other = path.with_extension("new");
    fs::write(&other, "").expect("written");
    fs::rename(&other, &path).expect("moved");
    assert!(output.is_written().expect("looked"));
    drop(output);
    assert!(path.exists(), "what an agent made is its own");
}

fn name() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "..",
        ".",
        "",
        "up",
        "far",
        "dir",
        "absolute",
        "dangling",
        "in",
        "link.md",
        "file",
        "new",
        "..\\",
        "%2e%2e",
        "%252e",
        "~",
        "C:",
        ".git",
        "\\",
        "x.md",
        "...",
        "\u{2024}\u{2024}",
    ]);
    prop::collection::vec(part, 1..6).prop_map(|parts| parts.join("/"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn nothing_escapes(name in name(), overwrite: bool) {
        let scene = Scene::new();
        let Ok(mut output) = scene.plan(&name, overwrite) else { return Ok(()) };
        if output.prepare().is_err() { return Ok(()) }
        fs::write(output.path(), "answer").expect("an accepted path can be written");
        let real = fs::canonicalize(output.path()).expect("there");
        prop_assert!(real.starts_with(scene.top.join("agent/out")), "{name} became {real:?}");
        for file in ["outside/file", "agent/file"] {
            prop_assert_eq!(fs::read_to_string(scene.top.join(file)).expect("there"), "old");
        }
        prop_assert!(!scene.top.join("outside/new").exists());
    }
}
