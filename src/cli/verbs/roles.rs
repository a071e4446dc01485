//! `git agent roles`

use crate::agents::Ctx;
use crate::cli::out::render::table::{Cell, Table};
use crate::cli::out::terminal::{BAD, BOLD, DIM, paint, width};
use crate::cli::out::ui::{Answer, Ui};
use crate::error::{Code, Exit, Result};
use crate::ops::roles::{self, RolesReport};
use serde_json::{Value, json};

/// List the roles a task can name: the built-in ones and those of the base commit
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct RolesArgs {
    /// Read custom roles from this revision
    #[arg(long, value_name = "REV", default_value = "HEAD")]
    base: String,
}

pub(in crate::cli) fn run(ctx: &Ctx, ui: &mut Ui, args: &RolesArgs) -> Result<Exit> {
    let base = match ctx.repo.resolve_commit(&args.base) {
        Ok(resolved) => Some(resolved.commit),
        // Without a commit there are no custom roles, and the built-in ones are still worth seeing.
        Err(error) if error.code() == Code::HeadUnborn => None,
        Err(error) => return Err(error),
    };
    ui.done(&roles::roles(&ctx.repo, base)?)
}

impl Answer for RolesReport {
    fn text(&self) -> String {
        let header = vec!["ROLE", "AGENT TYPE", "ISOLATION", "FROM", "WHAT IT IS FOR"];
        let mut table = Table::new(header, width());
        for role in &self.roles {
            let style = if role.spawnable { BOLD } else { DIM };
            table.push(vec![
                Cell::painted(style, role.name.clone()),
                Cell::plain(role.subagent_type.clone()),
                Cell::plain(role.isolation),
                Cell::painted(DIM, role.source.clone()),
                Cell::plain(role.description.clone()),
            ]);
        }
        let mut text = table.render();
        for role in &self.invalid {
            for problem in &role.problems {
                text.push_str(&format!(
                    "{} {}: {problem}\n",
                    paint(BAD, "invalid role"),
                    role.name
                ));
            }
        }
        text
    }

    fn rows(&self) -> Vec<Value> {
        self.roles.iter().map(|role| json!(role)).collect()
    }
}
