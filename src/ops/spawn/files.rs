//! The files an agent starts with: its specification, its prompt, a private copy of its task.

use crate::agents::ctx::Ctx;
use crate::agents::layered;
use crate::agents::real_path::for_display;
use crate::domain::bundle as artefacts;
use crate::domain::event::{Base, Isolation};
use crate::domain::glob::Glob;
use crate::domain::named::hex;
use crate::domain::role::Role;
use crate::domain::task::Task;
use crate::error::{IoContext, Result};
use crate::ops::spawn::contract::SpawnPlan;
use crate::store::{briefing, fsx, layout};
use crate::wire::answer::ReportTable;
use crate::wire::policy::{self, Policy};
use crate::wire::task_file;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::PathBuf;

/// The texts, composed before anything is made so that the policy can name the specification.
pub(super) struct Texts {
    pub prompt: String,
    pub spec: String,
    pub spec_sha: String,
}

/// Where the private files went.
#[derive(Debug, Default)]
pub(super) struct AgentFiles {
    pub prompt: PathBuf,
    pub task: PathBuf,
}

pub(super) fn compose(ctx: &Ctx, plan: &SpawnPlan) -> Result<Texts> {
    let directory = plan.directory(ctx)?;
    let bundle = plan.bundle_path(ctx);
    let bundle = for_display(&directory, &bundle);
    let directory = directory.to_string_lossy();
    let brief = plan.brief(&directory, &bundle);
    let spec = brief.spec();
    let digest = Sha256::digest(spec.as_bytes());
    Ok(Texts {
        prompt: brief.prompt(),
        spec_sha: hex(&digest),
        spec,
    })
}

/// What binds the agent, as far as it does not depend on its id.
pub(super) fn terms(
    task: &Task,
    role: &Role,
    denylist: &[Glob],
    base: &Base,
    bundle_required: bool,
    bundle_dir: &str,
    task_source: &str,
) -> Policy {
    let text = |globs: &[Glob]| globs.iter().map(|glob| glob.as_str().to_owned()).collect();
    Policy {
        schema: policy::SCHEMA.to_owned(),
        role: role.name.clone(),
        subagent_type: role.subagent_type.clone(),
        isolation: role.isolation.as_str().to_owned(),
        edits: role.edits,
        may_spawn: role.may_spawn,
        whitelist: text(&task.whitelist),
        denylist: text(denylist),
        checks: task.checks.clone(),
        base_oid: base.oid.to_hex(),
        base_ref: base.refname.clone(),
        bundle_required,
        bundle_dir: (role.isolation == Isolation::Worktree).then(|| bundle_dir.to_owned()),
        spec_sha: String::new(),
        task_sha: Some(task_file::digest(task_source.as_bytes())),
        timeout_ms: None,
        min_tests: task.min_tests,
        no_dep_bump: task.no_dep_bump,
        report_fields: task.report_fields.clone(),
        report: (!role.report.is_empty()).then(|| ReportTable::of(&role.report)),
        settings_oid: None,
        projects_oid: None,
        lands_on: None,
    }
}

pub(super) fn policy(plan: &SpawnPlan, texts: &Texts) -> Policy {
    Policy {
        spec_sha: texts.spec_sha.clone(),
        ..plan.terms.clone()
    }
}

/// Writes the three files. Prompt and task may hold credentials, so only their owner may read them.
pub(super) fn write(ctx: &Ctx, plan: &SpawnPlan, texts: &Texts) -> Result<AgentFiles> {
    let directory = layout::agent_dir(ctx.repo.common_dir(), plan.id);
    fs::create_dir_all(&directory).at("could not make", &directory)?;
    let files = AgentFiles {
        prompt: directory.join(briefing::PROMPT),
        task: directory.join(briefing::TASK),
    };
    // Both may hold the briefing, which no other user of the machine is to read.
    fsx::write_private(&files.prompt, texts.prompt.as_bytes())?;
    fsx::write_private(&files.task, plan.task_source.as_bytes())?;
    // Nothing may be written to the worktree's own path of a layered agent; its upper directory is
    // what it will see.
    let bundle = match layered::of(&ctx.repo, plan.id) {
        Some(layer) => layer.upper.join(&plan.bundle_dir),
        None => plan.bundle_path(ctx),
    };
    fs::create_dir_all(&bundle).at("could not make", &bundle)?;
    fsx::write_atomic(&bundle.join(artefacts::SPEC), texts.spec.as_bytes())?;
    if plan.terms.bundle_required {
        for (name, _) in artefacts::FILES {
            if let Some(template) = artefacts::template(name) {
                fsx::write_atomic(&bundle.join(name), template.as_bytes())?;
            }
        }
    }
    Ok(files)
}
