//! Where a new worktree and its bundle go.

use crate::agents::{Ctx, context::real_path};
use crate::domain::life::event::Base;
use crate::domain::{AgentId, Layering, Oid, Role, Slug, value::shell};
use crate::error::{Code, Error, IoContext, Result};
use crate::hosts::WORKTREE_DIR;
use crate::ops::spawn::SpawnOptions;
use crate::store::Ledger;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// The default of `agent.bundleDir`.
const BUNDLE_DIR: &str = ".agent";

/// What a worktree's own directory can be named after.
const OWN: [&str; 3] = ["{id}", "{slug}", "{branch}"];

/// The absolute path for a new worktree: `--path`, else the template `agent.worktreeDir`.
///
/// In the template `{root}`, `{repo}`, `{id}`, `{slug}` and `{branch}` are filled in; a relative path
/// starts from the root. A template that names neither id, slug nor branch is a directory, and
/// `agent-{id}` is added. An empty one is the default.
///
/// # Errors
/// `path-invalid` for a path in a git dir or one that cannot be resolved, and for a template with another
/// field; `path-exists` when something is there.
pub(super) fn worktree(
    ctx: &Ctx,
    chosen: Option<&Path>,
    id: AgentId,
    slug: &Slug,
    branch: &str,
) -> Result<PathBuf> {
    let root = ctx.repo.root()?;
    let mut is_default = false;
    let path = match chosen {
        Some(path) => ctx.absolute(path),
        None => {
            let template = ctx.repo.config_string("agent.worktreeDir")?;
            let template = template.filter(|template| !template.is_empty());
            is_default = template.is_none();
            let mut text = template.unwrap_or_else(|| WORKTREE_DIR.to_owned());
            // Two agents would get one place.
            if !OWN.iter().any(|field| text.contains(field)) {
                text.push_str("/agent-{id}");
            }
            let repo = root.file_name().unwrap_or_default().to_string_lossy();
            let filled = fill(&text, |field| {
                Some(match field {
                    "root" => root.to_string_lossy().into_owned(),
                    "repo" => repo.clone().into_owned(),
                    "id" => id.short(),
                    "slug" => slug.as_str().to_owned(),
                    "branch" => branch.replace('/', "-"),
                    _ => return None,
                })
            })?;
            match filled.strip_prefix("~/") {
                Some(_) => ctx.absolute(Path::new(&filled)),
                None => root.join(filled),
            }
        }
    };
    let path = resolve(&path)?;
    // Only the default has to stay inside: a place that a person chose may be anywhere.
    if chosen.is_none() && is_default && !path.starts_with(resolve(&root)?) {
        return Err(led_out(&root, &path));
    }
    // In a bare repository the git dir is all there is.
    if path.starts_with(ctx.repo.common_dir()) && !ctx.repo.is_bare()? {
        let what = format!("{} is inside the git dir", path.display());
        return Err(Error::new(Code::PathInvalid, what)
            .hint("to choose another place, pass --path <directory>"));
    }
    ctx.repo.require_place(&path)?;
    Ok(path)
}

/// The error for a default place that a symlink, which may have come with a commit, leads out of the repository.
fn led_out(root: &Path, path: &Path) -> Error {
    let default = root.join(WORKTREE_DIR);
    let (shown, path) = (default.display(), path.display());
    let what = format!("a symlink leads {shown} out of the repository, to {path}");
    let default = shell::path(&default);
    Error::new(Code::PathInvalid, what)
        .hint("to have worktrees there all the same, run git config agent.worktreeDir <directory>")
        .hint(format!("to see which one it is, run ls -ld {default}"))
}

/// Puts values in place of the fields of the template `agent.worktreeDir`.
fn fill(template: &str, value: impl Fn(&str) -> Option<String>) -> Result<String> {
    let mut filled = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        // A brace that is never closed is an ordinary character of the path.
        let Some((field, tail)) = after.split_once('}') else {
            break;
        };
        let value = value(field).ok_or_else(|| {
            Error::new(
                Code::PathInvalid,
                format!("the setting agent.worktreeDir, `{template}`, has a field `{{{field}}}`, which is none of {{root}}, {{repo}}, {{id}}, {{slug}} and {{branch}}"),
            )
            .hint("to use the default, run git config --unset agent.worktreeDir")
        })?;
        filled.extend([before, value.as_str()]);
        rest = tail;
    }
    Ok(filled + rest)
}

/// The bundle's directory relative to a worktree.
///
/// # Errors
/// `path-invalid` when `agent.bundleDir` leads out of the worktree or into `.git`, or has a line end in it.
pub(super) fn bundle_dir(ctx: &Ctx) -> Result<String> {
    let setting = ctx.repo.config_string("agent.bundleDir")?;
    let text = setting.as_deref().unwrap_or(BUNDLE_DIR);
    let clean: Option<Vec<&str>> = Path::new(text)
        .components()
        .filter(|part| !matches!(part, Component::CurDir))
        .map(|part| match part {
            Component::Normal(name) => name
                .to_str()
                // The name becomes a line of `info/exclude`, where a line end would begin a second
                // pattern. `.git` is compared without case, as some file systems do.
                .filter(|name| !name.eq_ignore_ascii_case(".git") && !name.contains(['\n', '\r'])),
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

/// Checks that a tree leaves the bundle's directory to the bundle: what spawn writes there would be a change
/// of the project's own files.
///
/// # Errors
/// `path-exists`.
pub(super) fn require_free_for_bundle(ctx: &Ctx, mut tree: Oid, bundle: &str) -> Result<()> {
    let mut end = 0;
    for part in bundle.split('/') {
        end += part.len();
        let entries = ctx.repo.read_tree(tree)?;
        let Some(entry) = entries.into_iter().find(|entry| entry.name == part.as_bytes()) else {
            return Ok(());
        };
        if end == bundle.len() || !entry.is_directory() {
            return Err(Error::new(
                Code::PathExists,
                format!("the base tracks {}, where an agent's bundle goes", &bundle[..end]),
            )
            .hint("to keep bundles elsewhere, run git config agent.bundleDir <directory>"));
        }
        tree = entry.oid;
        end += 1;
    }
    Ok(())
}

/// Checks that a shared agent's files stay below the root: no link and no file stands where they go.
///
/// # Errors
/// `path-exists`.
pub(super) fn require_real_bundle(ctx: &Ctx, bundle: &str) -> Result<()> {
    let place = ctx.repo.main_worktree()?.map(|root| root.join(bundle));
    let is_other = |place: &PathBuf| {
        let is_there = fs::symlink_metadata(place).is_ok();
        real_path::real_path(place).as_ref() != Some(place) || is_there && !place.is_dir()
    };
    let Some(place) = place.filter(is_other) else {
        return Ok(());
    };
    let what = format!("{} is no directory of the main worktree", place.display());
    Err(Error::new(Code::PathExists, what)
        .hint("to keep bundles elsewhere, run git config agent.bundleDir <directory>"))
}

/// What to say about a worktree inside the main one that no rule ignores. None is made for it: it would hide
/// what others have at that path once the worktree is gone.
pub(super) fn in_view(ctx: &Ctx, worktree: &Path) -> Result<Option<String>> {
    let Some(root) = ctx.repo.main_worktree()? else {
        return Ok(None);
    };
    let Ok(inside) = worktree.strip_prefix(&root) else {
        return Ok(None);
    };
    Ok(if ctx.repo.ignores_all_in(inside)? {
        None
    } else {
        Some(format!(
            "the worktree is inside the main one and not ignored, so git status and git add see {}",
            inside.display()
        ))
    })
}
/// Follows symlinks in the part of the path that exists, so that what we record is where it is.
fn resolve(path: &Path) -> Result<PathBuf> {
    let mut existing = path.to_owned();
    let mut rest = Vec::new();
    // Not `exists`: a symlink that leads nowhere is there, and `canonicalize` has to refuse it.
    while fs::symlink_metadata(&existing).is_err() {
        match (existing.file_name(), existing.parent()) {
            (Some(name), Some(parent)) => {
                rest.push(name.to_owned());
                existing = parent.to_owned();
            }
            _ => {
                let what = format!("{} cannot hold a worktree", path.display());
                return Err(Error::new(Code::PathInvalid, what));
            }
        }
    }
    let mut resolved = fs::canonicalize(&existing).at("could not resolve", &existing)?;
    if !rest.is_empty() && !resolved.is_dir() {
        let what = format!("{} is not a directory", resolved.display());
        return Err(Error::new(Code::PathInvalid, what)
            .hint("to choose another place, pass --path <directory>"));
    }
    resolved.extend(rest.into_iter().rev());
    Ok(resolved)
}

// What stands in the way of a worktree, or should be known of it.

/// What to know where no branch is checked out at the base, as nothing but a person can tell where the work is to land.
pub(super) fn without_branch(ctx: &Ctx, base: &Base, options: &SpawnOptions) -> Option<String> {
    let is_branch = |name: &String| name.starts_with("refs/heads/");
    if base.refname.as_ref().is_some_and(is_branch) {
        return None;
    }
    let why = match ctx.repo.branch_being_rebased() {
        Some(branch) if options.base.is_none() => format!("a rebase of {branch} is under way"),
        _ if options.base.is_none() => "HEAD is detached".to_owned(),
        _ => "the base is no branch".to_owned(),
    };
    Some(format!(
        "{why}, so the work has no branch to land on; to land it, run git agent merge <agent> --into <branch>, or \
         spawn it with --base <branch>"
    ))
}

/// A shared agent works where its starter does and has no branch.
pub(super) fn require_no_place(role: &Role, options: &SpawnOptions) -> Result<()> {
    let what = if options.clone {
        format!(
            "an agent with the role {} shares your directory, so it can get no clone",
            role.name
        )
    } else if options.branch.is_some() || options.path.is_some() || options.adopt.is_some() {
        format!("an agent with the role {} gets neither a worktree nor a branch", role.name)
    } else if options.layered.is_some_and(|layered| layered != Layering::Off) {
        format!(
            "an agent with the role {} shares your directory, so there is no worktree to layer",
            role.name
        )
    } else if options.sparse {
        format!(
            "an agent with the role {} shares your directory, so there is no worktree to make sparse",
            role.name
        )
    } else {
        return Ok(());
    };
    Err(Error::new(Code::Usage, what)
        .hint("to see which roles get a worktree, run git agent roles"))
}

/// That a tool of the repository looks into worktrees inside of the root. It is said once, with the first agent of a ledger, and only
/// where no place was chosen.
pub(super) fn in_the_way(
    ctx: &Ctx,
    ledger: &Ledger<'_>,
    tree: Oid,
    options: &SpawnOptions,
) -> Result<Option<String>> {
    let is_chosen =
        options.path.is_some() || ctx.repo.config_string("agent.worktreeDir")?.is_some();
    if is_chosen || ledger.is_begun()? {
        return Ok(None);
    }
    let Some(entry) = ctx.repo.entry_at(tree, "package.json")? else {
        return Ok(None);
    };
    // What cannot be read, as a directory of that name, names no tool.
    let package = ctx.repo.read_blob(entry.oid).unwrap_or_default();
    let package = serde_json::from_slice(&package).unwrap_or_default();
    Ok(real_path::named_by(&package).map(|tool| {
        format!(
            "{tool} looks through the whole root, agents' worktrees in it included; to have them beside it, run \
             git config agent.worktreeDir '{}', or see docs/trouble.md for the line that keeps {tool} out",
            real_path::BESIDE
        )
    }))
}
