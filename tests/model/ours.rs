use super::held::reached;
use super::world::{Agent, Deed, World, known_as};
use crate::support::agent::{SHARED_TASK, TASK, describe};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Output;

/// More at once than this only make a story slower.
const MOST_AGENTS: usize = 6;

fn any(world: &mut World) -> Option<(usize, String)> {
    let index = world.random.below(world.agents.len().max(1));
    let agent = world.agents.get(index)?;
    Some((index, agent.id.clone()))
}

/// One that somebody may still decide about, more often than not.
fn any_open(world: &mut World) -> Option<(usize, String)> {
    let open: Vec<_> = (0..world.agents.len())
        .filter(|&index| world.agents[index].is_open() && !world.agents[index].shared)
        .collect();
    match (world.random.one_in(5), world.random.pick(&open)) {
        (false, Some(index)) => Some((index, world.agents[index].id.clone())),
        _ => any(world),
    }
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

/// Every state that judging may lead to from this one.
fn judged(state: &str) -> Vec<&'static str> {
    match state {
        "idle" | "done" => vec!["idle", "done"],
        "failed" => vec!["failed"],
        "merged" => vec!["merged"],
        "rejected" => vec!["rejected"],
        _ => vec!["discarded"],
    }
}

/// The state as it is, for deeds that change none.
fn same(world: &World, agent: usize) -> &'static str {
    const STATES: [&str; 6] = ["idle", "done", "failed", "merged", "rejected", "discarded"];
    let state = world.agents[agent].state.as_str();
    STATES.into_iter().find(|one| *one == state).expect("known")
}

pub(super) fn spawn(world: &mut World) -> Option<Deed> {
    make(world, TASK)?;
    if world.random.one_in(3) {
        return Some(spawned(world));
    }
    let deed = spawned(world);
    world.check(&deed);
    super::agents::finish_bundle(world)
}

pub(super) fn spawn_shared(world: &mut World) -> Option<Deed> {
    make(world, SHARED_TASK)?;
    Some(spawned(world))
}

fn spawned(world: &World) -> Deed {
    Deed::leading(world.agents.len() - 1, &["idle"])
}

fn make(world: &mut World, task: &str) -> Option<()> {
    let open = world.agents.iter().filter(|agent| agent.is_open());
    if open.count() >= MOST_AGENTS {
        return None;
    }
    let file = world.repo.task_file(task);
    let output = world.run(&["spawn", &file]);
    let said = describe(&output);
    world.require(output.status.success(), || said);
    let report = json(&output);
    let text = |key: &str| report[key].as_str().unwrap_or_default().to_owned();
    world.agents.push(Agent {
        id: text("agent_id"),
        shared: text("isolation") == "shared",
        branch: text("branch"),
        home: PathBuf::from(text("worktree_abspath")),
        worktree: PathBuf::from(text("worktree_abspath")),
        state: "idle".to_owned(),
        deferred: false,
        taken: None,
    });
    Some(())
}

pub(super) fn commit(world: &mut World) -> Option<Deed> {
    let (agent, id) = any_open(world)?;
    let mut words = vec!["commit", &id, "-m", "by the orchestrator"];
    if world.random.one_in(2) {
        words.push("--in-scope-only");
    }
    let done = world.run(&words).status.success();
    let mut states = vec![same(world, agent)];
    // What was judged may be what is committed, and it may be something else. What comes after a landing re-opens the agent.
    if done {
        states.push("idle");
    }
    let mut deed = Deed::leading(agent, &states);
    deed.deferred.insert(agent, world.agents[agent].deferred);
    let now = state_of(world, &id);
    if now != world.agents[agent].state {
        deed.deferred.insert(agent, false);
    }
    Some(deed)
}

fn state_of(world: &World, id: &str) -> String {
    let list = world.repo.agent_json(&["list", "--all", "--fast"]);
    let mut rows = list["agents"].as_array().expect("agents").iter();
    let row = rows.find(|row| row["agent_id"] == id).expect("its row");
    known_as(row["state"].as_str().expect("a state")).to_owned()
}

pub(super) fn verify(world: &mut World) -> Option<Deed> {
    let (agent, id) = any_open(world)?;
    let output = world.run(&["verify", &id]);
    let before = same(world, agent);
    // Of work that nobody called finished, nothing is recorded.
    let states = match (output.status.code(), before) {
        (Some(0), "idle" | "done") => vec![before, "done"],
        (Some(1), "idle" | "done") => vec![before, "idle"],
        _ => vec![before],
    };
    Some(Deed::leading(agent, &states)).map(|deed| keep_mark(world, agent, deed))
}

/// A verdict that stands already is not written again, and leaves the mark that the decision was put off.
fn keep_mark(world: &World, agent: usize, mut deed: Deed) -> Deed {
    let shown = world.repo.agent_json(&["show", &world.agents[agent].id]);
    let marked = shown["deferred"].as_bool().expect("a mark");
    if !marked || world.agents[agent].deferred {
        deed.deferred.insert(agent, marked);
    }
    deed
}

pub(super) fn merge(world: &mut World) -> Option<Deed> {
    let (agent, id) = any_open(world)?;
    let method = world.random.pick(&["--no-ff", "--no-ff", "--squash", "--squash", "--ff-only"])?;
    let output = world.run(&["merge", &id, method]);
    let mut states = judged(same(world, agent));
    let legal = !["rejected", "discarded"].contains(&same(world, agent));
    if output.status.success() {
        world.require(legal, || "merged what may not be merged".to_owned());
        states = vec!["merged"];
    }
    let deed = keep_mark(world, agent, Deed::leading(agent, &states));
    Some(Deed { lands: output.status.success(), ..deed })
}

pub(super) fn merge_all(world: &mut World) -> Option<Deed> {
    let output = world.run(&["merge", "--all"]);
    let report = json(&output);
    let mut deed = Deed { ours: true, lands: true, ..Deed::default() };
    for decision in report["items"].as_array().into_iter().flatten() {
        let id = decision["agent_id"].as_str().expect("an id");
        let agent = world.agents.iter().position(|agent| agent.id == id)?;
        let outcome = decision["outcome"].as_str().expect("an outcome");
        let states = match outcome {
            "merged" | "already-merged" => vec!["merged"],
            "reject-bundle" | "not-merged" => judged(same(world, agent)),
            _ => vec![same(world, agent)],
        };
        deed.states.insert(agent, states);
        deed = keep_mark(world, agent, deed);
    }
    Some(deed)
}

/// A verb that says where an agent stands: legal or refused.
fn declare(world: &mut World, verb: &str, option: &str, to: Option<&'static str>) -> Option<Deed> {
    let (agent, id) = any_open(world)?;
    let output = world.run(&[verb, &id, option, "said"]);
    let said = describe(&output);
    let done = output.status.success();
    let legal = match (verb, same(world, agent)) {
        ("done" | "fail", "idle") | ("reject" | "defer", "done" | "failed") => true,
        // Whether the same was declared before, and whether anything was done in it, the map does not know.
        ("done" | "fail", "done" | "failed") | ("reject" | "defer", "idle") => done,
        // Nor whether there is work since it landed.
        (_, "merged") => done,
        _ => false,
    };
    world.require(done == legal, || said);
    let before = match same(world, agent) {
        "merged" if done => "idle",
        before => before,
    };
    let mut deed = Deed::leading(agent, &[if legal { to.unwrap_or(before) } else { before }]);
    let mark = match (legal, verb) {
        (true, verb) => verb == "defer",
        (false, _) => world.agents[agent].deferred,
    };
    deed.deferred.insert(agent, mark);
    Some(deed)
}

pub(super) fn done(world: &mut World) -> Option<Deed> {
    declare(world, "done", "--summary", Some("done"))
}

pub(super) fn fail(world: &mut World) -> Option<Deed> {
    declare(world, "fail", "--reason", Some("failed"))
}

pub(super) fn reject(world: &mut World) -> Option<Deed> {
    declare(world, "reject", "--reason", Some("rejected"))
}

pub(super) fn defer(world: &mut World) -> Option<Deed> {
    declare(world, "defer", "--reason", None)
}

pub(super) fn discard(world: &mut World) -> Option<Deed> {
    let (agent, _) = any(world)?;
    let with_ignored = world.random.one_in(2);
    Some(discard_one(world, agent, with_ignored))
}

pub(super) fn discard_one(world: &mut World, agent: usize, with_ignored: bool) -> Deed {
    let id = world.agents[agent].id.clone();
    let mut words = vec!["discard", &id];
    if with_ignored {
        words.push("--with-ignored");
    }
    let output = world.run(&words);
    let said = describe(&output);
    let done = output.status.success();
    world.require(done || is_out_of_reach(world, agent), || said);
    let before = same(world, agent);
    let after = match before {
        "merged" => "merged",
        _ if done => "discarded",
        other => other,
    };
    let mut deed = Deed::leading(agent, &[after]);
    if !done {
        deed.deferred.insert(agent, world.agents[agent].deferred);
        return deed;
    }
    if before == after {
        deed.deferred.insert(agent, world.agents[agent].deferred);
    }
    deed.removes.push(agent);
    deed.with_ignored = with_ignored;
    deed
}

/// Whether a person has put a worktree where it may not be removed from.
fn is_out_of_reach(world: &World, agent: usize) -> bool {
    let agent = &world.agents[agent];
    let admin = world.repo.path().join(".git/worktrees").join(agent.name());
    let moved = agent.worktree != agent.home && admin.is_dir();
    moved || agent.home.is_dir() && !admin.is_dir()
}

/// What was put away comes back, file for file.
pub(super) fn rescue(world: &mut World) -> Option<Deed> {
    let (agent, id) = any(world)?;
    let back = format!("back-{}", world.random.below(1_000_000));
    let directory = world.repo.path().with_file_name(&back).join("files");
    let to = directory.to_str().expect("UTF-8").to_owned();
    let mut words = vec!["rescue", &id];
    match world.random.below(3) {
        0 => {}
        1 => words.extend(["--branch", &back]),
        _ => words.extend(["--to", &to]),
    }
    let to_files = words.contains(&"--to");
    let output = world.run(&words);
    let said = describe(&output);
    let deed = Deed { ours: true, ..Deed::default() };
    if let (Some(taken), true) = (world.agents[agent].taken.clone(), to_files) {
        world.require(output.status.success(), || said);
        world.check(&deed);
        let found = world.held.below(&directory);
        world.require(found == taken, || format!("rescued\n{found:?}\nof\n{taken:?}"));
        return None;
    }
    Some(deed)
}

pub(super) fn gc(world: &mut World) -> Option<Deed> {
    let mut words = vec!["gc", "--yes"];
    if world.random.one_in(2) {
        words.push("--older-than=0s");
    }
    let mut needed = None;
    if world.random.one_in(3) {
        words.push("--expire-salvage=0s");
        needed = Some(needed_for_good(world));
    }
    let output = world.run(&words);
    let said = describe(&output);
    world.require(output.status.success(), || said);
    let mut deed = Deed { ours: true, needed, ..Deed::default() };
    for item in json(&output)["agents"].as_array().expect("agents") {
        let id = item["agent_id"].as_str().expect("an id");
        let agent = world.agents.iter().position(|agent| agent.id == id).expect("known");
        if item["action"] == "removed" {
            let after = match same(world, agent) {
                "merged" => "merged",
                _ => "discarded",
            };
            deed.states.insert(agent, vec![after]);
            if after == "merged" {
                deed.deferred.insert(agent, world.agents[agent].deferred);
            }
            deed.removes.push(agent);
        }
    }
    Some(deed)
}

/// What nothing may let go of, however old it is: what any other ref reaches, the commits that rows live
/// on, and all that is kept of agents that are not over.
fn needed_for_good(world: &World) -> BTreeSet<String> {
    let repo = world.repo.path();
    let mut choice = vec!["--exclude=refs/agents/keep".to_owned(), "--all".to_owned()];
    for agent in &world.agents {
        let shown = world.repo.agent_json(&["show", &agent.id]);
        choice.push(shown["spawn_commit"].as_str().expect("a name").to_owned());
        if agent.is_open() {
            let kept = ["log", "--format=%P", &format!("--grep={}", agent.id)];
            let kept =
                world.repo.git([&kept[..], &["--first-parent", "refs/agents/keep"]].concat());
            // The first parent of a link is the link before it.
            let kept = kept.lines().flat_map(|line| line.split(' ').skip(1));
            choice.extend(kept.map(str::to_owned));
        }
    }
    reached(&repo, &choice.iter().map(String::as_str).collect::<Vec<_>>())
}

pub(super) fn doctor(world: &mut World) -> Option<Deed> {
    world.run(&["doctor", "--fix"]);
    Some(Deed { ours: true, ..Deed::default() })
}
