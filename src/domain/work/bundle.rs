//! The six artefact files that every agent with a worktree leaves behind.

/// The file that spawn writes and the agent must leave as it is.
pub const SPEC: &str = "spec.md";

/// The file that says whether the work is finished.
pub const PROGRESS: &str = "progress.json";

/// The six names and what each file must hold, as the prompt tells the agent.
pub const FILES: [(&str, &str); 6] = [
    (SPEC, "the specification; it is already written, do not change it"),
    ("plan.md", "the steps you chose and why"),
    (PROGRESS, "a JSON object; when all work is finished its `status` is \"done\""),
    ("chatlog.md", "what was asked, answered and decided, in order"),
    ("handoffs.md", "what the next agent must know; \"none\" when there is nothing"),
    ("review.md", "your own review of the change, findings tagged [HIGH], [MEDIUM] or [LOW]"),
];

/// What spawn writes in the place of a file that the agent has to write; `None` for the specification. A file that
/// still holds this was not written.
pub fn template(name: &str) -> Option<String> {
    let (_, content) = FILES.iter().find(|(known, _)| *known == name)?;
    match name {
        SPEC => None,
        PROGRESS => Some(format!(
            "{{\n  \"status\": \"running\",\n  \"template\": \"replace this file: {}\"\n}}\n",
            content.replace('"', "'")
        )),
        _ => Some(format!(
            "<!-- Template of git agent. Replace this file. What belongs here: {content}. -->\n"
        )),
    }
}

/// Whether an artefact is the template that spawn wrote, but for the blanks around it.
pub fn is_template(name: &str, text: &str) -> bool {
    template(name).is_some_and(|template| template.trim() == text.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_but_the_specification_has_a_template_that_is_known_again() {
        for (name, _) in FILES {
            match template(name) {
                None => assert_eq!(name, SPEC),
                Some(text) => {
                    assert!(is_template(name, &text));
                    assert!(!is_template(name, &format!("{text}done")));
                }
            }
        }
        let progress = template(PROGRESS).expect("a template");
        let value: serde_json::Value = serde_json::from_str(&progress).expect("JSON");
        assert_eq!(value["status"], "running");
    }
}
