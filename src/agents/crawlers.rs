//! Tools that look through the whole root of a repository, the worktrees of agents in it included.

use serde_json::Value;

/// The template of `agent.worktreeDir` by which worktrees stand beside the root.
pub(crate) const BESIDE: &str = "../{repo}.agents/{id}";

/// Tools of npm that do so, by the names of their packages. What a test in `tests/crawling_tools.sh` runs and sees no agent, as
/// pytest, tsc and ruff, is not among them.
const CRAWLERS: [&str; 4] = ["vitest", "jest", "eslint", "prettier"];

/// Whether a package depends on a tool.
fn depends(package: &Value, tool: &str) -> bool {
    let kinds = ["dependencies", "devDependencies"];
    kinds.iter().any(|kind| package[*kind].get(tool).is_some())
}

/// The first such tool that a `package.json` names.
pub(crate) fn named_by(package: &Value) -> Option<&'static str> {
    { CRAWLERS.into_iter() }.find(|tool| depends(package, tool))
}
