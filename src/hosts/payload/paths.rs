//! The files that a tool's input names.

use super::json::{Json, Keys};
use super::patch;
use crate::domain::boundary::tool_call::{FileTouch, TouchedPath};

/// Keys whose values are paths whatever the tool.
const PATHS: Keys = &[
    "filepath",
    "path",
    "notebookpath",
    "absolutepath",
    "relativepath",
    "targetfile",
    "targetnotebook",
    "targetpath",
    "filepaths",
    "paths",
];

/// Keys whose values are paths when the tool is known to write files.
const WRITER_PATHS: Keys = &["file", "files", "filename", "filenames"];

/// Keys at the top of a writer's input that name where something moves from.
const MOVED_FROM: Keys = &["source", "oldpath"];

/// Keys at the top of a writer's input that name where something moves to.
const MOVED_TO: Keys = &["destination", "newpath"];

/// Keys whose values go into a file. Nothing below them is a path of the call.
const CONTENT: Keys = &[
    "content",
    "contents",
    "filetext",
    "newstring",
    "newstr",
    "newtext",
    "newsource",
    "oldstring",
    "oldstr",
    "oldtext",
    "inserttext",
    "codeedit",
    "replacement",
];

/// Keys that also tell of a change, and below which paths may stand.
const CHANGES: Keys = &["edits", "patch", "patchtext", "diff"];

/// Keys that may hold a patch in the `apply_patch` form.
const PATCHES: Keys = &["command", "cmd", "input", "patch", "patchtext", "diff"];

/// Keys that name the directory in which a patch or a command is to be applied.
const DIRECTORIES: Keys = &["workdir", "dirpath", "directory", "workingdirectory", "cwd"];

/// More files than any call names on purpose. A bound, because a hook that takes too long is a hook
/// that most hosts ignore.
const MOST_PATHS: usize = 4096;

/// Every file that the input of a writing tool names, without repetition: path keys at any depth,
/// both sides of a move, and the headers of patches. All of them, because hosts differ in which one
/// they use.
///
/// # Errors
/// A sentence, when there is none, or when one of them is no path that hosts agree on.
pub(super) fn written(inputs: &[Json], touch: FileTouch) -> Result<Vec<TouchedPath>, String> {
    let directory = directory(inputs)?;
    let mut found = FoundPaths::default();
    for input in inputs {
        found.walk(input, touch)?;
        for (keys, touch) in [(MOVED_FROM, FileTouch::Delete), (MOVED_TO, FileTouch::Write)] {
            for value in input.all(keys) {
                found.value(value, touch)?;
            }
        }
        // Some tools take the patch as their whole input.
        let texts = input.all(PATCHES).filter_map(Json::joined);
        for text in texts.chain(input.joined()) {
            for patched in patch::touched(&text)? {
                found.add(patched.path, patched.touch)?;
            }
        }
    }
    if found.touched.is_empty() {
        Err("its input names no file".to_owned())
    } else {
        Ok(found.in_and_below(directory))
    }
}

/// The files of the patches in a command that is given with this input.
///
/// # Errors
/// A sentence, when the command applies a patch and its files cannot be told.
pub(super) fn patched(command: &str, inputs: &[Json]) -> Result<Vec<TouchedPath>, String> {
    let mut found = FoundPaths::default();
    for patched in patch::in_shell(command)? {
        found.add(patched.path, patched.touch)?;
    }
    if found.touched.is_empty() { Ok(Vec::new()) } else { Ok(found.below(directory(inputs)?)) }
}

/// Whether an input of an unknown tool looks like that of a writing one: some object in it has a
/// path and what is to go there.
pub(super) fn look_written(input: &Json) -> bool {
    let members = input.members();
    let has = |keys: &[Keys]| {
        let listed = |key: &str| keys.iter().any(|keys| keys.contains(&key));
        members.iter().any(|(key, _)| listed(key))
    };
    (has(&[PATHS]) && has(&[CONTENT, CHANGES]))
        || members.iter().any(|(_, value)| look_written(value))
        || matches!(input, Json::List(items) if items.iter().any(look_written))
}

/// A path that every host takes for the same file.
///
/// # Errors
/// A sentence that names the path and the rule.
pub(super) fn checked(path: &str) -> Result<String, String> {
    let lower = path.get(..5).map(str::to_ascii_lowercase);
    if path.is_empty() {
        Err("a path is empty".to_owned())
    } else if path.contains('\0') {
        Err(format!("the path {} contains a NUL", quoted(path)))
    } else if path.trim() != path {
        Err(format!(
            "the path {} begins or ends with white space, which hosts read differently",
            quoted(path)
        ))
    } else if path.starts_with('~') {
        Err(format!(
            "the path {} begins with `~`, which hosts read differently; give the absolute path",
            quoted(path)
        ))
    } else if lower.as_deref() == Some("file:") {
        Err(format!("{} is a URI; give a path", quoted(path)))
    } else {
        Ok(path.to_owned())
    }
}

/// `path` as seen from where `directory` is seen from.
pub(super) fn join(directory: Option<&str>, path: String) -> String {
    match directory {
        Some(directory) if !path.starts_with('/') => format!("{directory}/{path}"),
        _ => path,
    }
}

/// The directory that the inputs name for relative paths.
fn directory(inputs: &[Json]) -> Result<Option<&str>, String> {
    let mut found = None;
    for input in inputs {
        let Some(directory) = input.single(DIRECTORIES)? else {
            continue;
        };
        checked(directory)?;
        if found.is_some_and(|earlier| earlier != directory) {
            return Err("its input names two directories".to_owned());
        }
        found = Some(directory);
    }
    Ok(found)
}

/// A text as it may stand in a message, whatever its length.
pub(super) fn quoted(text: &str) -> String {
    let mut start: String = text.chars().take(200).collect();
    if start.len() < text.len() {
        start.push('…');
    }
    format!("{start:?}")
}

/// The paths found so far.
#[derive(Default)]
struct FoundPaths {
    touched: Vec<TouchedPath>,
}

impl FoundPaths {
    /// Takes every path below `input`.
    fn walk(&mut self, input: &Json, touch: FileTouch) -> Result<(), String> {
        if let Json::List(items) = input {
            return items.iter().try_for_each(|item| self.walk(item, touch));
        }
        for (key, value) in input.members() {
            let key = key.as_str();
            if PATHS.contains(&key) || WRITER_PATHS.contains(&key) {
                self.value(value, touch)?;
            } else if !CONTENT.contains(&key) {
                self.walk(value, touch)?;
            }
        }
        Ok(())
    }

    /// Takes what stands under a path key: a path, a list, or an object that holds paths.
    fn value(&mut self, value: &Json, touch: FileTouch) -> Result<(), String> {
        match value {
            Json::Null => Ok(()),
            Json::Text(path) => self.add(checked(path)?, touch),
            Json::List(items) => items.iter().try_for_each(|item| self.value(item, touch)),
            Json::Object(_) => self.walk(value, touch),
            Json::Bool(_) | Json::Number(_) => Err("a path is not a text".to_owned()),
        }
    }

    fn add(&mut self, path: String, touch: FileTouch) -> Result<(), String> {
        let touched = TouchedPath { path, touch };
        if !self.touched.contains(&touched) {
            self.touched.push(touched);
        }
        if self.touched.len() > MOST_PATHS {
            Err(format!("it names more than {MOST_PATHS} files in one call"))
        } else {
            Ok(())
        }
    }

    /// What was found, and again below `directory`: hosts may or may not heed a directory among the
    /// arguments of a writing tool, so both readings are judged.
    fn in_and_below(self, directory: Option<&str>) -> Vec<TouchedPath> {
        let mut both = self.touched;
        if directory.is_some() {
            let mut relative = both.clone();
            relative.retain(|touched| !touched.path.starts_with('/'));
            both.extend(FoundPaths { touched: relative }.below(directory));
        }
        both
    }

    /// What was found, with relative paths put below `directory`.
    fn below(mut self, directory: Option<&str>) -> Vec<TouchedPath> {
        for touched in &mut self.touched {
            touched.path = join(directory, std::mem::take(&mut touched.path));
        }
        self.touched
    }
}
