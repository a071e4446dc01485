//! `git agent config`

use super::render::table::{Cell, Table};
use super::style::{BOLD, DIM, HINT, paint};
use super::terminal::width;
use super::ui::{Answer, Ui};
use crate::agents::ctx::Ctx;
use crate::domain::repository_settings::PATH;
use crate::error::{Exit, Result};
use crate::ops::config::{self, ConfigReport};
use crate::wire::settings_file::SettingValue;
use serde_json::{Value, json};

/// List every setting with its value, its default and where it comes from
#[derive(Debug, clap::Args)]
pub(super) struct ConfigArgs {
    /// Read the repository's settings from this revision
    #[arg(long, value_name = "REV", default_value = "HEAD")]
    base: String,
}

pub(super) fn run(ctx: &Ctx, ui: &mut Ui, args: &ConfigArgs) -> Result<Exit> {
    ui.done(&config::config(ctx, &args.base)?)
}

impl Answer for ConfigReport {
    fn text(&self) -> String {
        let mut table = Table::new(vec!["SETTING", "VALUE", "FROM", "DEFAULT"], width());
        for setting in &self.settings {
            let (style, value) = match &setting.value {
                Some(value) => (BOLD, shown(value)),
                None => (DIM, "-".to_owned()),
            };
            let source = match &setting.overruled_by {
                Some(other) => format!("{}; {other} is stricter", setting.source),
                None => setting.source.clone(),
            };
            table.push(vec![
                Cell::painted(style, setting.key.clone()),
                Cell::plain(value),
                Cell::painted(DIM, source),
                Cell::painted(DIM, setting.default.replace('`', "")),
            ]);
        }
        let mut text = table.render();
        if self.has_uncommitted {
            text.push_str(&format!(
                "{} {PATH} in the worktree differs from the one that counts; to make it count, run git commit\n",
                paint(HINT, "hint:")
            ));
        }
        text
    }

    fn rows(&self) -> Vec<Value> {
        self.settings.iter().map(|setting| json!(setting)).collect()
    }
}

fn shown(value: &SettingValue) -> String {
    match value {
        SettingValue::Flag(flag) => flag.to_string(),
        SettingValue::Text(text) => text.clone(),
        SettingValue::List(items) => items.join(", "),
    }
}
