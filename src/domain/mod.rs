//! Pure values and rules. No file system, environment, clock, process or libgit2 in here: what this layer decides
//! is decided from its arguments alone, so every rule has a table of cases. Values may derive `Serialize`, so that
//! an answer holds one instead of a copy of it.

pub mod agent;
pub mod bundle;
pub mod change;
pub mod claim;
pub mod code_owners;
pub mod diagnosis;
pub mod diagnostic;
pub mod dna;
pub mod event;
pub mod evidence;
pub mod finding;
pub mod folded_paths;
pub mod forge;
pub mod glob;
pub mod guard;
pub mod id;
pub mod install_inputs;
pub mod judge;
pub mod landing_order;
pub mod limits;
pub mod message;
pub mod message_rules;
pub mod named;
pub mod oid;
pub mod operation;
pub mod output_file;
pub mod path;
pub mod persona;
pub mod project;
pub mod prompt;
pub mod quoted;
pub mod redaction;
pub mod ref_update;
pub mod removal;
pub mod report;
pub mod repository_settings;
pub mod role;
pub mod run;
pub mod sandbox;
pub mod scope;
pub mod shell;
pub mod stamp;
pub mod task;
pub mod test_count;
pub mod tool_call;
pub mod train;
pub mod violation;

// The values that most files of the layers above name. Within this layer they are named by their module, which is
// what shows that no two modules need each other.
pub use agent::{Agent, Move, State};
pub use change::{Change, ChangeKind};
pub use event::{Event, HostSession, Isolation, What};
pub use evidence::{CommandRun, Evidence, RequiredChecks};
pub use finding::{Finding, FindingCode, Verdict};
pub use glob::Glob;
pub use id::{AgentId, AgentName, OperationId, Slug};
pub use limits::{Limit, Limits};
pub use message::{Letter, Message, MessageId, Receivers};
pub use named::branch_name;
pub use oid::Oid;
pub use path::{Quoted, RepoPath};
pub use persona::Persona;
pub use report::ReportRules;
pub use repository_settings::RepositorySettings;
pub use role::{Role, RoleSet};
pub use run::{Ending, Run};
pub use sandbox::{Enforcement, Fence, LayerMount, Layering};
pub use scope::{Scope, ScopeLanguage};
pub use stamp::Stamp;
pub use task::{Task, TaskDraft};
pub use tool_call::ToolCall;
pub use violation::{BundleRule, Violation};
