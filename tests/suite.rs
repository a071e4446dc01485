#![allow(
    unreachable_pub,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "a test binary exports nothing, and tests set up the environment and may panic"
)]
//! Every integration test, in one binary so that it links once. Each module says what it holds.

/// A worktree that exists already becomes an agent's.
mod adopt;
/// The commands that read the ledger, and those that move an agent.
mod agents;
/// Another policy for an agent, by its owner alone, and what an agent or another clone cannot make of it.
mod amend;
/// The layers, the doors and the ceilings of `src`.
mod architecture;
/// What an audit found, one test for each finding, named for its number.
mod audit;
/// Unusual repositories, impossible requests.
mod bad_days;
/// The board, on a terminal.
mod board;
/// Agents that start from what is uncommitted.
mod changes;
/// The scope fence: what changed, and what of it is out of scope.
mod check;
/// Agents whose worktree is a repository of its own.
mod clones;
/// Pages and links.
mod docs;
/// Damage, seen and put right.
mod doctor;
/// Every error code is documented.
mod errors;
/// The example scripts in Python and in bash.
mod examples;
/// What a newcomer meets: four kinds of repositories, names, widths.
mod first_hour;
/// A forge: what others wrote there as the beginning of an agent, and its work offered there.
mod forge;
/// The first minute: tasks without a file, settings of a repository, help.
mod front_door;
/// What the fuzz targets promise, without libFuzzer.
mod fuzz;
/// Hook managers from their registries.
mod hook_managers;
/// The git hooks of agents' worktrees.
mod hooks;
/// Agent hosts: what their hooks are answered.
mod host_hooks;
/// Agent hosts: their payloads read, their settings merged.
mod hosts;
/// Everything we write is listed.
mod inventory;
/// Death at every step.
mod kill;
/// Committing and landing an agent's work.
mod landing;
/// Agents that share a base and keep what they change alone.
mod layered;
/// Values that one live agent holds and no other.
mod leases;
/// The ledger as git notes: nothing lost, bytes equal to git's.
mod ledger;
/// What agents may take of a machine.
mod limits;
/// `list` and `show`: where agents' work stands.
mod list;
/// The debug log.
mod log;
/// The messenger: nothing lost, nothing twice.
mod mail;
/// A day with a repository that has hooks, a linter and tests.
mod maintainer;
/// Random lives, held against a simple map.
mod model;
/// Commands of the user that are told what happened.
mod notices;
/// Live agents in each other's way, and what each of them changed.
mod overlap;
/// What strangers install.
mod packages;
/// Who an agent is told to be.
mod personas;
/// Where worktrees and bundles go.
mod places;
/// Warm worktrees.
mod pool;
/// Populating a worktree: content, index and status equal to git's.
mod populate;
/// Programs that an agent put where others are looked for.
mod programs;
/// What a person sees who waits.
mod progress;
/// Repositories that hold several projects.
mod projects;
/// The README is true.
mod readme;
/// Removal: nothing that an agent wrote is lost.
mod removal;
/// `report`: the page, and what is gathered for it.
mod report;
/// Another try of a task.
mod retry;
/// Roles: built in, inherited, read from the base commit, refused.
mod roles;
/// Commands that work for agents.
mod run;
/// The kernel's fence around an agent's command.
mod sandbox;
/// JSON answers and their schemas.
mod schema;
/// Scope: globset's traps by name, agreement with a naive matcher and with git.
mod scope;
/// A clone that has the rows of another one.
mod second_clone;
/// What the repository has done for its agents.
mod setup;
/// Repositories of unusual shape.
mod shapes;
/// Man pages and completions.
mod shell;
/// Worktrees of some directories.
mod sparse;
/// The main job.
mod spawn;
/// Real repositories to test on.
mod support;
/// The exchange with remotes: nothing lost, refusals named.
mod sync;
/// Task files: what is accepted, and the whole report of what is not.
mod task_file;
/// What killed commands leave among the temporary files.
mod temporary;
/// What `log` tells other programs in their formats.
mod traces;
/// Trains: many agents land, and the target is green at every step.
mod train;
/// What a command did, taken back.
mod undo;
/// The judge: every rule against real repositories, tricks and bad input included.
mod verify;
