//! How a spawn and its plan look.

use crate::cli::style::{BOLD, DIM, paint};
use crate::cli::ui::Answer;
use crate::ops::spawn::SpawnPlan;
use crate::ops::spawn::SpawnReport;
use serde_json::{Value, json};

impl Answer for SpawnReport {
    fn text(&self) -> String {
        let absent = || "n/a".to_owned();
        let kind = format!("{} ({}, {})", self.role, self.subagent_type, self.isolation);
        let mut lines = vec![("Agent ID", self.agent_id.clone())];
        lines.extend(self.name.clone().map(|name| ("Name", name)));
        lines.extend([
            ("DNA", self.dna.clone()),
            ("Role", kind),
            ("Branch", self.branch.clone().unwrap_or_else(absent)),
            (
                "Worktree",
                self.worktree_path.clone().unwrap_or_else(absent),
            ),
            ("Base", base(self.base.refname.as_deref(), &self.base.oid)),
            ("Prompt", self.prompt_path.clone()),
            ("Verify", self.verify_command.clone()),
        ]);
        report_block(&lines)
    }

    fn to_see_it(&self) -> Option<String> {
        Some(format!("git agent show {}", self.agent_id))
    }

    fn json(&self) -> Value {
        json!(self)
    }
}

impl Answer for SpawnPlan {
    fn text(&self) -> String {
        let absent = || "n/a".to_owned();
        let role = &self.role;
        let kind = format!(
            "{} ({}, {})",
            role.name,
            role.subagent_type,
            role.isolation.as_str()
        );
        let would_be = format!("{} {}", self.id, paint(DIM, "(would be)"));
        let mut lines = vec![("Agent ID", would_be)];
        lines.extend(self.name.as_ref().map(|name| ("Name", name.to_string())));
        lines.extend([
            ("DNA", self.dna.to_string()),
            ("Role", kind),
            ("Branch", self.short_branch().unwrap_or_else(absent)),
            (
                "Worktree",
                self.worktree_path.clone().unwrap_or_else(absent),
            ),
            (
                "Base",
                base(self.base.refname.as_deref(), &self.base.oid.to_hex()),
            ),
        ]);
        let mut text = report_block(&lines);
        for warning in &self.warnings {
            text.push_str(&format!("warning: {warning}\n"));
        }
        text
    }

    fn json(&self) -> Value {
        let mut value = json!({
            "schema": "git-agent.spawn-plan/1",
            "agent_id": self.id.to_string(),
            "dna": self.dna.to_string(),
            "role": self.role.name,
            "subagent_type": self.role.subagent_type,
            "isolation": self.role.isolation.as_str(),
            "base": { "oid": self.base.oid.to_hex() },
            "description": self.description,
            "warnings": self.warnings,
        });
        let optional = [
            ("branch", self.short_branch()),
            (
                "worktree_abspath",
                self.worktree
                    .as_ref()
                    .map(|path| path.display().to_string()),
            ),
            ("name", self.name.as_ref().map(ToString::to_string)),
        ];
        for (key, field) in optional {
            if let Some(field) = field {
                value[key] = json!(field);
            }
        }
        if let Some(refname) = &self.base.refname {
            value["base"]["ref"] = json!(refname);
        }
        value
    }
}

/// Where an agent starts from.
fn base(refname: Option<&str>, oid: &str) -> String {
    match refname {
        Some(name) => format!("{name} {}", &oid[..7]),
        None => oid[..7].to_owned(),
    }
}

/// The report block that wizards look for: one `Key: value` per line between two fixed lines.
fn report_block(lines: &[(&str, String)]) -> String {
    let width = lines.iter().map(|(key, _)| key.len()).max().unwrap_or(0) + 1;
    let mut text = "=== SPAWN-AGENT REPORT ===\n".to_owned();
    for (key, value) in lines {
        let key = format!("{:width$}", format!("{key}:"));
        text.push_str(&format!("{} {value}\n", paint(BOLD, &key)));
    }
    text.push_str("=== /SPAWN-AGENT REPORT ===\n");
    text
}
