//! A git-native worktree manager for coding agents.
//!
//! A task becomes an agent: a linked worktree, a branch, a prompt and a row in a ledger that travels
//! with the repository. `README.md` says how to use it; this page says how it is built.
//!
//! # The rooms
//!
//! Arrows between layers point down, and a test holds that (`tests/architecture.rs`):
//!
//! | layer | what it is |
//! |---|---|
//! | [`cli`] | clap in, an operation, its answer out; one verb, one file |
//! | [`ops`] | what a verb does; readers give a report, writers `plan` and then `execute` |
//! | [`hosts`] | one file per agent host: how it is started, what it sends, reads and prints |
//! | [`agents`] | what verbs share about agents; every look into a place that an agent can write |
//! | [`store`] | durable state over git and files: ledger, keep chain, mailbox, roles, journals |
//! | [`proc`] | child processes that are not git |
//! | [`mod@git`] | the only layer that names libgit2 or gitoxide, or starts `git` |
//! | [`wire`] | durable and public formats, versioned |
//! | [`domain`] | pure values and rules |
//!
//! [`error`] stands beside them: one type, whose codes decide the exit status. Below them is `system`: what Linux has
//! and other systems have not, with what stands in its place there.
//!
//! ```text
//! spawn   task.toml -> TaskDraft -> Task (+ Role) -> SpawnPlan -> worktree + branch + row -> SpawnReport
//! run     task.toml | id -> RunPlan (AgentInputs: prompt, answer, command) -> Stage -> supervisor -> Outcome -> verify -> RunReport
//! wait    id -> live.lock -> events + <n>.json -> WaitReport
//! hook    payload of a host -> ToolCall -> CurrentAgent -> ScopeGuard -> HookAnswer
//! verify  id -> events -> Subject + Trees + Bundle -> Evidence -> judge() -> [Finding] -> Verdict -> event
//! train   [Agent] -> verify without commands -> [MergePlan] -> stacks in memory -> checks (domain::train) -> [MergePlan] -> one move of the target
//! doctor  Survey -> families of checks -> [Diagnosis] (-> cures, and again) -> DoctorReport
//! list    refs/notes/agents -> [Event] -> fold -> [Agent] -> survey (branch, worktree, bundle) -> [WorkStatus] -> table
//! report  the same, and each life -> FleetReport -> page
//! overlap [Agent] -> [Work] -> territories, changed paths, merges of near pairs (-> order) -> OverlapReport
//! discard id -> Site -> Salvage -> keep -> aside -> Salvage again -> trash -> event -> no branch
//! send    words -> Draft -> Letter -> commit on refs/agents/mail | file in a spool -> post_spool
//! receive cursor + new commits + receipts -> [Open] -> receipt -> ReceiveReport
//! update  id -> nothing uncommitted -> merge of tip and target, in memory -> [ref lock: worktree, ref] -> event
//! sync    refs of a remote -> copies -> union -> push of the shared refs, or of the outbox -> refs of the remote -> SyncReport
//! check   policy -> ScopeGuard; index | worktree | commits | paths -> [Change] -> [Violation] -> CheckReport
//! ```
//!
//! # What we write
//!
//! Everything, and nothing else (`tests/inventory.rs` compares this table with a real run). Paths start at
//! the common dir unless they say otherwise; `<id8>` is the first eight hex digits of an agent's id.
//!
//! | written | what it is |
//! |---|---|
//! | `refs/heads/agent/<slug>-<time>-<id8>` | an agent's branch; never reused, never overwritten |
//! | `refs/heads/rescued/<slug>` | what `rescue` gives back, unless another name was asked for |
//! | `refs/notes/agents` | the ledger: one note per spawn commit |
//! | `refs/agents/keep` | a chain of empty commits whose extra parents must stay reachable |
//! | `refs/agents/mail` | the mailbox: a chain with one commit for each message |
//! | `refs/notes/agents-mail` | who has read which message: one note per reader, and one per full page of it |
//! | `refs/agents/remote/<remote>/<file>` | what a remote was last seen to have, by `sync`; on the remote itself `refs/agents/from/<clone>/<name>`, outboxes, and `refs/agents/claim/<key>`, claims on tasks |
//! | `logs/refs/heads/agent/<slug>-<time>-<id8>` | the branch's reflog |
//! | `refs/remotes/<remote>/agent/<slug>-<time>-<id8>` | what git keeps of a branch that `sync` pushed |
//! | `logs/refs/remotes/<remote>/agent/<slug>-<time>-<id8>` | its reflog |
//! | `logs/refs/agents/remote/<remote>/<file>` | the reflogs of what a remote was last seen to have |
//! | `logs/refs/notes/agents` | the ledger's reflog, from which it is recovered |
//! | `logs/refs/agents/keep` | the keep chain's reflog |
//! | `logs/refs/agents/mail` | the mailbox's reflog, from which it is recovered |
//! | `logs/refs/notes/agents-mail` | the reflog of the receipts |
//! | `objects/<object>` | git objects |
//! | `worktrees/agent-<id8>/<file>` | the admin directory of a linked worktree, gitrepository-layout(5) |
//! | `info/exclude` | two lines: the default place of worktrees and the bundle, added once |
//! | `config` | `extensions.worktreeConfig`, switched on once as git does it |
//! | `config.worktree` | `core.bare` and `core.worktree` where `config` had them, moved as git does it |
//! | `agents/clone-id` | four hex digits that tell clones apart in time stamps; sixteen once `sync` has given the clone a name on remotes |
//! | `agents/added/<file>` | what `info/exclude`, `config` and hosts' settings got, and what they were before, for `uninstall` |
//! | `agents/<id8>/discarding` | there while everything of a discarded agent is kept and its places are being removed |
//! | `agents/<id8>/landing` | while `merge --now` lands: the commit, so that one that was killed is written into the row |
//! | `agents/<id8>/large/`, `.agent-<id8>.large/` beside a worktree | the files above 64 MiB of a discarded agent, and their list |
//! | `agents/<id8>/modules/<n>/` | repositories of the submodules of a discarded agent, with commits that no remote of theirs has |
//! | `agents/closed` | the agents that this clone has merged, rejected, discarded, amended or cleared of a failed audit itself, one a line |
//! | `agents/own-lines` | the digests of the lines that this clone wrote into rows, which `undo` takes back |
//! | `agents/branches` | the branches that this clone made under other names than its own (`spawn --branch`), each with its spawn commit |
//! | `agents/ledger.lock` | an OS lock, never removed |
//! | `agents/spawn.lock` | an OS lock, never removed |
//! | `agents/mail.lock` | an OS lock, never removed; its closing tells waiting receivers of mail |
//! | `agents/sync.lock` | an OS lock, never removed |
//! | `agents/claims/<file>` | what this clone knows of each claim that it holds on a task, and an OS lock for each |
//! | `agents/pool.lock` | an OS lock, never removed; held while the pool is filled |
//! | `agents/pool/<file>` | a file for each warm worktree: its lock, and what is in it; `failure`, why the pool could not be filled |
//! | `agents/base.lock` | an OS lock, never removed; held while a frozen base is made |
//! | `agents/base-taking.lock` | an OS lock, never removed; held while a frozen base is taken for an agent or removed |
//! | `agents/bases/warm-<random>/<file>` | a frozen base of layered worktrees: its `files/`, `record` (`damaged` once it was changed), `index`, and the names that are `ignored` there |
//! | `agents/<id8>/caches/<variable>/<file>` | what the commands of an agent wrote to their view of a cache of the user's: `upper/`; `work/`, the kernel's own while a command works there |
//! | `agents/<id8>/layer/<file>` | a layered worktree: `record`, over which base; `upper/`, what the agent changed; `work-<random>/`, the kernel's own while a command works there |
//! | `agents/landing.lock` | an OS lock, never removed |
//! | `agents/landing-turn.lock` | an OS lock, never removed; those that another landing was quicker than take turns by it |
//! | `agents/locks/<file>` | while a lock file of ours exists: whose it is, so that one that a killed process left is cleared; while a landing moves files: which, so that what a killed one left half written is cleared |
//! | `agents/spawning/<id8>` | the journal of a spawn under way |
//! | `agents/clones/<file>` | says that an agent's worktree has a repository of its own, and which packs that was made with |
//! | `agents/tickets.lock` | an OS lock, never removed |
//! | `agents/tickets/<file>` | a locked file for each command that works for an agent or waits for its turn, where `jobs` or `memory_total` is limited; in it the memory that it may take |
//! | `agents/leases/<file>` | a symlink to `<id8>:<VARIABLE>`: a value that an agent holds while it lives |
//! | `agents/tmp/<file>` | half-made admin directories and indexes |
//! | `agents/trash/<file>` | directories that are being deleted |
//! | `agents/cache/<file>` | disposable, keyed by content |
//! | `agents/facts.key` | 32 random bytes that seal the facts in the cache, readable by their owner alone |
//! | `agents/<id8>/prompt.md` | the prompt, readable by its owner alone; deleted when the agent is merged or discarded |
//! | `agents/<id8>/run-prompt.md` | while a run lasts that is told something else, as one that goes on with a session: its prompt, readable by its owner alone |
//! | `agents/<id8>/task.toml` | the task as it was given, readable by its owner alone; without briefing and system prompt once the agent is merged or discarded |
//! | `agents/<id8>/agent-type` | the agent type of the persona that the prompt was made for |
//! | `agents/<id8>/seen` | which events a person has seen, by `show` on a terminal |
//! | `agents/<id8>/called` | the session of a host that called its agent tool for the agent; until the host asks for a worktree |
//! | `agents/<id8>/handed-out` | what a host called itself when it was given the agent's worktree |
//! | `agents/<id8>/host-made` | there if the agent was made because a host asked for a worktree; empty until it is known what for |
//! | `agents/<id8>/answers/<file>` | what came of a request of an agent that leads others, until its next run |
//! | `agents/<id8>/sessions/<file>` | what hosts recorded of the agent's sessions behind our sandbox, by which a later run goes on with one |
//! | `agents/<id8>/at-work/<file>` | what a session of an agent host last told of itself: whether it works, and its process |
//! | `agents/<id8>/worktree` | the absolute path of a worktree outside the root, which no row holds |
//! | `agents/<id8>/hooks/<file>` | the git hooks of the agent's worktree |
//! | `agents/questions/<file>` | an empty file for each question (`clarify`) that no message answers yet |
//! | `agents/spool/<id8>/<file>` | what an agent leaves that may not write refs, messages and receipts, until it is posted |
//! | `agents/<id8>/posting/<file>` | the same while they are being posted |
//! | `agents/<id8>/posting.lock` | an OS lock, held meanwhile |
//! | `agents/<id8>/verify.lock` | an OS lock, held while check commands run |
//! | `agents/<id8>/live.lock` | an OS lock, held while a process of ours works for the agent or removes it; in it the outcome of its last run |
//! | `agents/<id8>/run/<file>` | what its runs wrote to their streams, `<n>.out` and `<n>.err`, and what they answered, `<n>.json`, readable by their owner alone; `answer.out`, the last answer, where the task asks for fields of it; `<n>.fence`, what the sandbox did; `<n>.hooks/`, our hooks for its host; while it works `<n>.git/`, what stands in the place of git, and `<n>.pushes`, what it tried to push; `stop-rounds`, how often a host sent the agent back to its work; `<n>.uncollected`, empty, until `wait` or `stop` has told how a run in the background ended |
//! | `agents/<id8>/run-repo/<file>` | the repository that a fenced command works in; its work, and what git-lfs stored below `lfs/`, is published and it is removed when the command is over |
//! | `agents/<id8>/run-repo.pointer` | the worktree's `.git` file as it was before |
//! | `agents/<id8>/run-repo.git/<file>`, `.agent-<id8>.git/` beside a worktree on another file system | what runs put in the place of that file, as a repository of their own |
//! | `agents/<id8>/run-repo.tip` | where the agent's branch was when it last agreed with that repository's |
//! | `agents/<id8>/behind` | the commit that the worktree is at while what came to its branch during a run could not be brought there |
//! | `<tmp>/git-agent-tmp-<purpose>-<random>/<file>` | temporary files of a command, below `TMPDIR` or `/tmp`: those of a run, where check commands run for `verify --ci` and in another clone and their `TMPDIR` in a `train`, objects that `overlap`, `guard` and dry runs ask git about, what git looks at a worktree through; removed afterwards, or by a later command once no process holds the lock on the directory. Where pnpm is installed, also the empty directory `/tmp/pnpm-store-operation-locks-<uid>`, in whose place an agent's pnpm sees one of its own |
//! | `<root>/.claude/worktrees/.agent-<id8>.leaving/<file>` | a worktree while it is being discarded |
//! | `worktrees/verify-<id8>/<file>` | the admin directory of the worktree they run in; for a train, a number in place of the id; removed afterwards |
//! | `<root>/.claude/worktrees/verify-<id8>/<file>` | that worktree; removed afterwards |
//! | `worktrees/warm-<random>/<file>` | the admin directory of a warm worktree (`[pool] size`), until an agent gets it |
//! | `<root>/.claude/worktrees/warm-<random>/<file>` | that worktree; where set-up wrote its path into a file, it stays there with the agent; empty where a frozen base was set up, as its commands see the files there; `.warm-<random>.leaving` while it is removed |
//! | `agents/<id8>/run-repo.state` | how the repository of an agent's clone was when all of it was last taken in |
//! | `agents/<id8>/clone.lock` | an OS lock, held while what a clone has is taken in |
//! | `agents/<id8>/clone.git.<file>` | the repository of a clone that could not be read when the agent was discarded |
//! | `<root>/.agent/<id8>/<file>` | the bundle of a shared agent (`agent.bundleDir`): its specification, and templates where the bundle is required; in a bare repository, or if a version before 0.3 spawned the agent, `agents/<id8>/bundle/` |
//! | `<root>/.agent/<id8>/output/<file>` | where a shared agent puts an answer that goes into a file (`agent.outputDir`) |
//! | `<root>/.claude/worktrees/agent-<id8>/<file>` | the worktree (`agent.worktreeDir`) with the bundle in `.agent/` (`agent.bundleDir`), and in that `output/` (`agent.outputDir`) |
//! | `<root>/.config/git-agent.toml` | the settings of the repository, by `init` once a person has agreed to them |
//!
//! On request, `install-shell` writes man pages, completions and a function, `git-agent*.1`, `git-agent`, `_git-agent`, `git-agent.fish` and
//! `agent-cd*`, below
//! the user's data directory (`XDG_DATA_HOME`) or the `share` of a prefix ([`ops::install_shell`] names the places).
//!
//! On request, `report --html` writes a page to the file that it is given, `init` registers with agent hosts in files of the current
//! worktree ([`hosts`] names them), and a host may be given plain worktrees, `.claude/worktrees/<name>`
//! on `refs/heads/worktree-<name>`.
//!
//! Settings read: `agent.worktreeDir`, `agent.bundleDir`, `agent.outputDir`, `agent.role.<name>.<key>`,
//! `agent.merge`, `agent.trailer`, `agent.run.allowWrite`, `agent.push`, `agent.fetchCredentials`, `agent.onEnd`, `agent.onWaiting`, `agent.onLanded`, `agent.remote`, `agent.sync`, `agent.refPrefix`, `agent.claimTtl`, `agent.limits.<limit>`, `agent.model.<model>.price`, `agent.host.<host>.price`, `agent.sign`, `core.hooksPath`. Settings written:
//! `extensions.worktreeConfig`, and in the `config.worktree` of an agent's admin directory `core.hooksPath` or
//! `hook.git-agent-<event>.*`, `gc.auto`, `maintenance.auto`; `notes.displayRef` and `alias.<name>`, by `init --notes` and
//! `init --log-alias` alone; `agent.worktreeDir`, by `init` once a person has agreed to it. `doctor --fix` alone takes
//! `core.bare`, `core.worktree`, `core.hooksPath` and `gc.pruneExpire` out of `config` or the main worktree's `config.worktree`, where they
//! cannot be meant.

pub mod agents;
pub mod cli;
pub mod domain;
pub mod error;
pub mod git;
pub mod hosts;
pub mod ops;
pub mod proc;
pub mod store;
mod system;
pub mod wire;
