//! Where a new worktree and its bundle go.

use crate::domain::id::{AgentId, Slug};
use crate::error::{Code, Error, IoContext, Result};
use crate::ops::Ctx;
use std::path::{Component, Path, PathBuf};

/// The default of `agent.worktreeDir`: inside the root, so that an agent host that confines itself to
/// the project can reach it.
pub(in crate::ops) const WORKTREE_DIR: &str = ".claude/worktrees";
/// The default of `agent.bundleDir`.
const BUNDLE_DIR: &str = ".agent";

/// The absolute path for a new worktree: `--path`, else the template `agent.worktreeDir`.
///
/// In the template `{root}`, `{repo}`, `{id}`, `{slug}` and `{branch}` are filled in; a relative path
/// starts from the root. A template that names neither id, slug nor branch is a directory, and
/// `agent-{id}` is added.
///
/// # Errors
/// `path-invalid` for a path in a git dir or one that cannot be resolved.
pub(super) fn worktree(
    ctx: &Ctx,
    chosen: Option<&Path>,
    id: AgentId,
    slug: &Slug,
    branch: &str,
) -> Result<PathBuf> {
    let root = ctx.repo.root()?;
    let path = match chosen {
        Some(path) => ctx.absolute(path),
        None => {
            let template = ctx.repo.config_string("agent.worktreeDir")?;
            let template = template.as_deref().unwrap_or(WORKTREE_DIR);
            let own = ["{id}", "{slug}", "{branch}"];
            let mut text = template.to_owned();
            if !own.iter().any(|field| template.contains(field)) {
                text.push_str("/agent-{id}");
            }
            let repo = root.file_name().unwrap_or_default().to_string_lossy();
            let filled = text
                .replace("{root}", &root.to_string_lossy())
                .replace("{repo}", &repo)
                .replace("{id}", &id.short())
                .replace("{slug}", slug.as_str())
                .replace("{branch}", &branch.replace('/', "-"));
            match filled.strip_prefix("~/") {
                Some(_) => ctx.absolute(Path::new(&filled)),
                None => root.join(filled),
            }
        }
    };
    let path = resolve(&path)?;
    if path.starts_with(ctx.repo.common_dir()) && !ctx.repo.is_bare()? {
        return Err(Error::new(
            Code::PathInvalid,
            format!("{} is inside the git dir", path.display()),
        )
        .hint("to choose another place, pass --path <directory>"));
    }
    Ok(path)
}

/// The bundle's directory relative to a worktree.
///
/// # Errors
/// `path-invalid` when `agent.bundleDir` leads out of the worktree or into `.git`.
pub(super) fn bundle_dir(ctx: &Ctx) -> Result<String> {
    let setting = ctx.repo.config_string("agent.bundleDir")?;
    let text = setting.as_deref().unwrap_or(BUNDLE_DIR);
    let clean: Option<Vec<&str>> = Path::new(text)
        .components()
        .filter(|part| !matches!(part, Component::CurDir))
        .map(|part| match part {
            Component::Normal(name) => name.to_str().filter(|name| *name != ".git"),
            _ => None,
        })
        .collect();
    match clean {
        Some(parts) if !parts.is_empty() => Ok(parts.join("/")),
        _ => Err(Error::new(
            Code::PathInvalid,
            format!("the setting agent.bundleDir, `{text}`, does not name a directory inside the worktree"),
        )
        .hint("to use the default, run git config --unset agent.bundleDir")),
    }
}

/// The path relative to the root when it is inside, else as it is; with `/`.
pub(in crate::ops) fn for_display(root: &Path, path: &Path) -> String {
    path.strip_prefix(root)
        .unwrap_or(path)
        .to_string_lossy()
        .into_owned()
}

/// Follows symlinks in the part of the path that exists, so that what we record is where it is.
fn resolve(path: &Path) -> Result<PathBuf> {
    let mut existing = path.to_owned();
    let mut rest = Vec::new();
    while std::fs::symlink_metadata(&existing).is_err() {
        match (existing.file_name(), existing.parent()) {
            (Some(name), Some(parent)) => {
                rest.push(name.to_owned());
                existing = parent.to_owned();
            }
            _ => {
                return Err(Error::new(
                    Code::PathInvalid,
                    format!("{} cannot hold a worktree", path.display()),
                ));
            }
        }
    }
    let mut resolved = std::fs::canonicalize(&existing).at("could not resolve", &existing)?;
    resolved.extend(rest.into_iter().rev());
    Ok(resolved)
}
