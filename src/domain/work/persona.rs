//! Who an agent is told to be: one entry of a roster, and the roster it is chosen from.
//!
//! An agent type is a name in a roster. Two modules of a project may use one name; then neither is
//! chosen by chance, and `module:name` says which is meant.

use crate::domain::value::diagnostic::nearest;
use crate::domain::value::named::named;
use crate::error::{Code, Error, Result};
use std::collections::BTreeSet;

/// One entry of a roster. Texts are trimmed; an absent one is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Persona {
    /// The agent type.
    pub name: String,
    /// Another name that it goes by.
    pub canonical: String,
    /// The module that brought it.
    pub module: String,
    /// What it calls itself.
    pub display_name: String,
    /// Its profession.
    pub title: String,
    /// One sentence about it.
    pub description: String,
    /// What it can do.
    pub capabilities: String,
    /// What it is there for.
    pub role: String,
    /// Where it comes from.
    pub identity: String,
    /// How it speaks.
    pub communication_style: String,
    /// What it holds to.
    pub principles: Vec<String>,
    /// What it always keeps in mind.
    pub facts: Vec<String>,
}

impl Persona {
    /// The persona as a part of a prompt. What is absent leaves no trace.
    pub fn text(&self) -> String {
        let mut text = match (self.display_name.as_str(), self.title.as_str()) {
            ("", "") => format!("You are {}.\n", self.name),
            ("", name) | (name, "") => format!("You are {name}.\n"),
            (name, title) => format!("You are {name}, {title}.\n"),
        };
        for (label, line) in [
            ("Role", &self.role),
            ("About you", &self.description),
            ("Capabilities", &self.capabilities),
            ("Identity", &self.identity),
            ("Communication style", &self.communication_style),
        ] {
            if !line.is_empty() {
                text.push_str(&format!("\n{label}: {line}\n"));
            }
        }
        for (label, lines) in [("Principles", &self.principles), ("Keep in mind", &self.facts)] {
            if !lines.is_empty() {
                text.push_str(&format!("\n{label}:\n\n"));
                lines.iter().for_each(|line| {
                    let line = line.replace('\n', "\n  ");
                    text.push_str(&format!("- {line}\n"));
                });
            }
        }
        text
    }

    fn answers_to(&self, agent_type: &str) -> bool {
        let qualified = agent_type
            .split_once(':')
            .is_some_and(|(module, name)| module == self.module && name == self.name);
        let canonical = !self.canonical.is_empty() && agent_type == self.canonical;
        agent_type == self.name || canonical || qualified
    }
}

/// The personas that a project offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roster {
    /// The personas, in the order of their files.
    pub personas: Vec<Persona>,
    /// The files that they come from, in the order in which they were read.
    pub files: Vec<String>,
}

impl Roster {
    /// The persona of an agent type, when the roster has exactly one.
    ///
    /// # Errors
    /// `agent-type-unknown` when two modules use the name.
    pub fn find(&self, agent_type: &str) -> Result<Option<&Persona>> {
        let mut found = self.personas.iter().filter(|persona| persona.answers_to(agent_type));
        let (Some(first), second) = (found.next(), found.next()) else {
            return Ok(None);
        };
        if second.is_none() {
            return Ok(Some(first));
        }
        let modules: Vec<String> = self
            .personas
            .iter()
            .filter(|persona| persona.answers_to(agent_type))
            .map(|persona| match persona.module.as_str() {
                "" => persona.name.clone(),
                module => format!("{module}:{}", persona.name),
            })
            .collect();
        // Two entries of one module may have one name, and then the hint would lead to the same
        // error again.
        let is_one = |name: &&String| {
            name.contains(':') && modules.iter().filter(|other| other == name).count() == 1
        };
        let error = Error::new(
            Code::AgentTypeUnknown,
            format!("more than one agent type goes by {agent_type}"),
        )
        .detail(format!("in {}: {}", self.files(), modules.join(", ")));
        Err(match modules.iter().find(is_one) {
            Some(name) => error.hint(format!("to choose one, pass --agent-type {name}")),
            None => error.hint("give each of them a name or a module of its own"),
        })
    }

    /// The error for an agent type that no roster has: the nearest one, and all there are.
    pub fn unknown(&self, agent_type: &str) -> Error {
        let names: BTreeSet<&str> =
            self.personas.iter().map(|persona| persona.name.as_str()).collect();
        let error =
            Error::new(Code::AgentTypeUnknown, format!("no agent type goes by {agent_type}"));
        if names.is_empty() {
            return error.hint(
                "there is no roster in the base commit; to use one from elsewhere, pass --agent-manifest <file>",
            );
        }
        let all: Vec<&str> = names.iter().copied().collect();
        let error = error.detail(format!("there is {} (in {})", all.join(", "), self.files()));
        match nearest(agent_type, names.iter().copied()) {
            Some(near) => error.hint(format!("did you mean {near}?")),
            None => error,
        }
    }

    fn files(&self) -> String {
        self.files.join(" and ")
    }
}

/// What an agent is told about itself beyond its role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Character {
    /// The agent type that was asked for.
    pub agent_type: Option<String>,
    /// The persona as text: of the agent type, of the profile, or of both.
    pub persona: Option<String>,
    /// The project's own additions for the agent type: the name of a file and its text.
    pub customisations: Vec<(String, String)>,
    /// The project's instructions that are nearest to what it may touch, as paths from the top.
    pub instructions: Vec<String>,
}

// The built-in profiles: short personas for those who have no roster of their own.

named! {
    /// A built-in persona.
    pub enum Profile {
        /// Keeps records, plans and letters in order.
        Secretary = "secretary",
        /// Looks after machines.
        ServerAdmin = "server_admin",
        /// Writes software.
        Developer = "developer",
    }
}

impl Profile {
    /// What the agent is told.
    pub fn text(self) -> &'static str {
        match self {
            Profile::Secretary => {
                "You are a secretary: precise, discreet and brief. Collect what was asked for, keep names, dates \
                 and numbers exactly as you found them, and say where each of them comes from. Where something is \
                 missing or contradicts itself, say so instead of guessing. Before each tool call, write one \
                 sentence that says what it is for."
            }
            Profile::ServerAdmin => {
                "You are a server administrator: careful and sceptical. Look before you change anything, prefer \
                 the change that is easiest to take back, and write down every command that changed something \
                 together with the one that undoes it. Never print credentials. Before each tool call, write one \
                 sentence that says what it is for."
            }
            Profile::Developer => {
                "You are a software developer: read the code around a change first and follow its conventions. Make \
                 the smallest change that does the whole task, test it, and run the tests before you say that it \
                 works. Leave nothing unfinished without naming it. Before each tool call, write one sentence that \
                 says what it is for."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn persona(module: &str, name: &str) -> Persona {
        Persona { name: name.into(), module: module.into(), ..Persona::default() }
    }

    fn roster() -> Roster {
        Roster {
            personas: vec![persona("bmm", "analyst"), persona("bmm", "dev"), persona("gds", "dev")],
            files: vec!["a.csv".into()],
        }
    }

    #[test]
    fn an_agent_type_is_found_by_its_name_or_refused() {
        let roster = roster();
        let find = |name: &str| {
            roster
                .find(name)
                .map(|found| found.map(|persona| persona.module.clone()))
                .map_err(|error| error.details().join("\n"))
        };
        assert_eq!(find("analyst"), Ok(Some("bmm".into())));
        assert_eq!(find("gds:dev"), Ok(Some("gds".into())));
        assert_eq!(find("pm"), Ok(None));
        assert_eq!(find("dev"), Err("in a.csv: bmm:dev, gds:dev".into()));
        assert_eq!(find(""), Ok(None));
    }

    #[test]
    fn an_unknown_agent_type_is_told_the_nearest_and_all() {
        let error = roster().unknown("analist");
        assert_eq!(error.details(), ["there is analyst, dev (in a.csv)"]);
        assert_eq!(error.first_hint(), Some(("did you mean analyst?", None)));
    }

    #[test]
    fn absent_parts_of_a_persona_leave_no_trace() {
        assert_eq!(persona("", "dev").text(), "You are dev.\n");
        let full = Persona {
            display_name: "Mary".into(),
            title: "Analyst".into(),
            role: "Finds out".into(),
            principles: vec!["Evidence\nfirst".into()],
            ..persona("bmm", "analyst")
        };
        assert_eq!(
            full.text(),
            "You are Mary, Analyst.\n\nRole: Finds out\n\nPrinciples:\n\n- Evidence\n  first\n"
        );
    }
}
