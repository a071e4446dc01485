//! Two agents that overlap: how bad it is, and in what.

use crate::cli::style::{BAD, WARN, paint};
use crate::domain::path::Quoted;
use crate::ops::overlap::PairReport;
use crate::wire::path_text::PathText;
use anstyle::Style;

/// What two agents have in common, the worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cli) enum Kind {
    Conflict,
    Changes,
    Scopes,
}

impl Kind {
    pub(in crate::cli) fn of(pair: &PairReport) -> Kind {
        if pair.conflicts() {
            Kind::Conflict
        } else if pair.changes.is_some() {
            Kind::Changes
        } else {
            Kind::Scopes
        }
    }

    /// As it stands in a matrix.
    pub(in crate::cli) fn sign(self) -> &'static str {
        match self {
            Kind::Conflict => "x",
            Kind::Changes => "c",
            Kind::Scopes => "s",
        }
    }

    pub(super) fn letter(self) -> String {
        let style = match self {
            Kind::Conflict => BAD,
            Kind::Changes => WARN,
            Kind::Scopes => Style::new(),
        };
        paint(style, self.sign())
    }
}

/// What two agents did or may do to the same paths.
pub(in crate::cli) fn in_common(pair: &PairReport) -> String {
    let owners =
        { pair.owners.iter() }.map(|owners| format!(" (owned by @{})", owners.join(", @")));
    let owners: String = owners.collect();
    let what = match (&pair.merge, &pair.changes, &pair.scopes) {
        (Some(merge), _, _) if pair.conflicts() => {
            if merge.conflicts.is_empty() {
                "have no common history".to_owned()
            } else {
                format!("conflict in {}", conflict_list(&merge.conflicts))
            }
        }
        (merge, Some(changes), _) => {
            let count = changes.paths.len();
            let clean = if merge.is_some() {
                ", merge cleanly"
            } else {
                ""
            };
            format!("touched {}{clean}", path_list(&changes.paths, count))
        }
        (_, None, Some(scopes)) if scopes.tracked > 0 => {
            format!("may touch {}", path_list(&scopes.examples, scopes.tracked))
        }
        (_, None, Some(scopes)) => match &scopes.example {
            Some(path) => format!("may write new files such as {}", Quoted(&path.to_bytes())),
            None => "may write the same new files".to_owned(),
        },
        (_, None, None) => String::new(),
    };
    what + &owners
}

/// The first of some paths, and how many there are besides.
fn path_list(paths: &[PathText], count: usize) -> String {
    let first = paths.first().map(PathText::to_bytes).unwrap_or_default();
    match count {
        0 | 1 => Quoted(&first).to_string(),
        _ => format!("{} and {} more", Quoted(&first), count - 1),
    }
}

pub(super) fn conflict_list(conflicts: &[PathText]) -> String {
    path_list(conflicts, conflicts.len())
}
