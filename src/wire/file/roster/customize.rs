//! `customize.toml` of a skill and the layers above it: `[agent]`.

use super::trimmed;
use crate::domain::Persona;
use serde::Deserialize;

/// What one layer says about an agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct CustomizeLayer {
    name: Option<String>,
    title: Option<String>,
    role: Option<String>,
    identity: Option<String>,
    communication_style: Option<String>,
    #[serde(default)]
    principles: Vec<String>,
    #[serde(default)]
    persistent_facts: Vec<String>,
}

#[derive(Deserialize)]
struct CustomizeFile {
    #[serde(default)]
    agent: CustomizeLayer,
}

/// Reads one layer; `path` is its name in messages.
///
/// # Errors
/// One sentence that begins with `path:line:column:`.
pub fn parse(path: &str, data: &[u8]) -> Result<CustomizeLayer, String> {
    super::toml::<CustomizeFile>(path, data).map(|file| file.agent)
}

impl CustomizeLayer {
    /// Puts the layer on top of a persona: texts are overridden, lists are added to. The roster decides
    /// on name and title where it has them.
    pub fn apply(&self, persona: &mut Persona) {
        for (own, of_persona) in
            [(&self.name, &mut persona.display_name), (&self.title, &mut persona.title)]
        {
            if of_persona.is_empty() {
                *of_persona = trimmed(own.as_ref());
            }
        }
        for (own, of_persona) in [
            (&self.role, &mut persona.role),
            (&self.identity, &mut persona.identity),
            (&self.communication_style, &mut persona.communication_style),
        ] {
            if own.is_some() {
                *of_persona = trimmed(own.as_ref());
            }
        }
        let filled = |texts: &[String]| -> Vec<String> {
            let texts = texts.iter().map(|text| text.trim().to_owned());
            texts.filter(|text| !text.is_empty()).collect()
        };
        persona.principles.extend(filled(&self.principles));
        let facts = filled(&self.persistent_facts).into_iter().map(fact);
        persona.facts.extend(facts);
    }
}

/// A fact as a sentence: some name files instead, whose text the agent reads for itself.
fn fact(text: String) -> String {
    match text.strip_prefix("file:") {
        Some(file) => {
            // The placeholder is that of the other tool; an agent is already at the root of its
            // worktree.
            let file = file.trim_start_matches("{project-root}/");
            format!("Read `{file}` and take what it says as given, where there is such a file.")
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_layers_override_texts_and_add_to_lists() {
        let mut persona =
            Persona { name: "pm".into(), title: "Senior PM".into(), ..Persona::default() };
        for text in [
            "[agent]\nname=\"John\"\ntitle=\"PM\"\nrole=\"a\"\nidentity=\"i\"\nprinciples=[\"p\"]\n\
             persistent_facts=[\"file:{project-root}/docs/**/context.md\"]\n[[agent.menu]]\ncode=\"X\"\n",
            "[agent]\nrole=\"b\"\nprinciples=[\"q\", \" \"]\npersistent_facts=[\"AWS only\"]\n",
            "[other]\nx=1\n",
        ] {
            parse("customize.toml", text.as_bytes()).expect("sound").apply(&mut persona);
        }
        assert_eq!(
            persona,
            Persona {
                name: "pm".into(),
                display_name: "John".into(),
                title: "Senior PM".into(),
                role: "b".into(),
                identity: "i".into(),
                principles: vec!["p".into(), "q".into()],
                facts: vec![
                    "Read `docs/**/context.md` and take what it says as given, where there is such a file."
                        .into(),
                    "AWS only".into()
                ],
                ..Persona::default()
            }
        );
    }
}
