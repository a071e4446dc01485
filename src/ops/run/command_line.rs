//! The words of a command: what stands in place of `{prompt}` and its like.

use crate::domain::Task;
use crate::domain::value::named::named;
use crate::error::{Code, Error, Result};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The longest word that Linux takes (`MAX_ARG_STRLEN` of execve(2)), in bytes, its end included.
const LONGEST: usize = 128 * 1024;

named! {
    /// What a placeholder stands for.
    pub(super) enum Placeholder {
        Prompt = "{prompt}",
        PromptFile = "{prompt_file}",
        Model = "{model}",
        MaxIterations = "{max_iterations}",
        Worktree = "{worktree}",
        Id = "{id}",
        Session = "{session}",
    }
}

impl Placeholder {
    /// The one that a text begins with.
    fn at_start(text: &[u8]) -> Option<Placeholder> {
        Placeholder::ALL
            .into_iter()
            .find(|placeholder| text.starts_with(placeholder.as_str().as_bytes()))
    }
}

/// Whether some word names the prompt; otherwise it is the command's standard input.
pub(super) fn name_prompt(command: &[OsString]) -> bool {
    mention(command, Placeholder::Prompt) || mention(command, Placeholder::PromptFile)
}

/// Whether some word holds the prompt itself, for everybody to read.
pub(super) fn shows_prompt(command: &[OsString]) -> bool {
    mention(command, Placeholder::Prompt)
}

/// Refuses a placeholder for which the task has nothing: an empty word in its place would be taken for
/// something else.
///
/// # Errors
/// `usage`.
pub(super) fn require_filled(command: &[OsString], task: &Task) -> Result<()> {
    let model = Placeholder::Model;
    // An empty word would be taken for the model's name, or for a missing one.
    if task.model.is_some() || !mention(command, model) {
        return Ok(());
    }
    let what = format!(
        "the command has {}, and neither the task nor the run names a model",
        model.as_str()
    );
    Err(Error::new(Code::Usage, what).hint("to name one, run git agent run --model <model> …"))
}

/// The command with every placeholder filled. What is filled in is not looked at again: a prompt may
/// speak of `{id}`. Other braces stay as they are.
///
/// # Errors
/// `usage` when a word becomes longer than the system takes.
pub(super) fn fill(
    command: &[OsString],
    value: impl Fn(Placeholder) -> OsString,
) -> Result<Vec<OsString>> {
    command.iter().map(|word| fill_word(word, &value)).collect()
}

fn fill_word(word: &OsStr, value: impl Fn(Placeholder) -> OsString) -> Result<OsString> {
    let mut filled = Vec::new();
    let mut rest = word.as_bytes();
    while let Some((&first, others)) = rest.split_first() {
        // Only the caller's words are looked through: a value that holds such a word is not filled
        // again.
        if let Some(placeholder) = Placeholder::at_start(rest) {
            filled.extend(value(placeholder).into_vec());
            let word = placeholder.as_str().as_bytes();
            rest = rest.strip_prefix(word).unwrap_or(others);
        } else {
            filled.push(first);
            rest = others;
        }
    }
    // The kernel would refuse it, and say only that the list of arguments is too long.
    if filled.len() >= LONGEST {
        let what = "the prompt is too long for a word of a command line";
        return Err(Error::new(Code::Usage, what)
            .hint("to hand it over in a file, write {prompt_file} in place of {prompt}"));
    }
    Ok(OsString::from_vec(filled))
}

fn mention(command: &[OsString], placeholder: Placeholder) -> bool {
    let text = placeholder.as_str().as_bytes();
    command.iter().any(|word| word.as_bytes().windows(text.len()).any(|part| part == text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_filled_once_and_other_braces_stay() {
        let value = |placeholder| match placeholder {
            Placeholder::Prompt => "say {id}".into(),
            other => format!("<{other:?}>").into(),
        };
        let check = |word: &str, expected: &str| {
            let filled = fill(&[word.into()], value).expect("short");
            assert_eq!(filled, [expected], "{word}");
        };
        check("-p={prompt}.", "-p=say {id}.");
        check("{prompt_file}{worktree}", "<PromptFile><Worktree>");
        check("{\"a\": {}} {prompts} {", "{\"a\": {}} {prompts} {");
        check("{{id}}", "{<Id>}");
        check("", "");
    }

    #[test]
    fn a_word_that_the_system_would_not_take_is_refused() {
        let long = |_| OsString::from("x".repeat(LONGEST));
        let error = fill(&["{prompt}".into()], long).expect_err("too long");
        assert_eq!(error.code(), Code::Usage);
    }
}
