//! `git agent schema`

use super::ui::Ui;
use crate::error::{Code, Error, Exit, Result};
use crate::wire::schema;

/// Print the JSON Schema of a command's answer; without a name, list the answers
#[derive(Debug, clap::Args)]
pub(super) struct SchemaArgs {
    /// Command, or an answer by its name or by what it has under `schema`
    #[arg(value_name = "COMMAND")]
    answer: Option<String>,
}

/// Needs no repository.
pub(super) fn run(ui: &mut Ui, args: &SchemaArgs) -> Result<Exit> {
    match &args.answer {
        None => ui.answer(&AllAnswers)?,
        Some(name) => ui.answer(&OneSchema(require(name)?))?,
    }
    Ok(Exit::Yes)
}

/// The list of what is answered.
pub(super) struct AllAnswers;

/// One schema.
pub(super) struct OneSchema(pub(super) serde_json::Value);

fn require(name: &str) -> Result<serde_json::Value> {
    schema::schema(name).ok_or_else(|| {
        let what = format!("there is no JSON answer called `{}`", name.escape_debug());
        Error::new(Code::Usage, what).hint("to list the answers, run git agent schema")
    })
}
