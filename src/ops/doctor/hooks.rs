//! The git hooks of the worktrees that agents may be at work in.

use crate::agents::ctx::Ctx;
use crate::agents::hooks::inspection;
use crate::domain::diagnosis::Sign;
use crate::error::Result;
use crate::ops::doctor::Finding;
use crate::ops::doctor::survey::Survey;
use crate::ops::hooks;

pub(super) fn look(ctx: &Ctx, survey: &Survey) -> Result<Vec<Finding>> {
    let mut found = Vec::new();
    for agent in survey.live() {
        let is_there = survey
            .worktree(agent)
            .is_some_and(|worktree| worktree.path.is_dir());
        if !is_there {
            continue;
        }
        let Some(seen) = inspection(ctx, agent, survey.git)? else {
            continue;
        };
        // Asked last, because the agent may have been discarded between the survey and the look.
        if seen.problems.is_empty() || !survey.is_at_rest(ctx, agent) {
            continue;
        }
        let problems: Vec<_> = seen.problems.iter().map(ToString::to_string).collect();
        let what = format!("agent {}: {}", agent.id.short(), problems.join("; "));
        let id = agent.id.to_string();
        found.push(Finding::curable(Sign::HooksInert, what, move |ctx| {
            hooks::repair(ctx, Some(&id))?;
            Ok("wrote the hooks anew".to_owned())
        }));
    }
    Ok(found)
}
