//! Pure values and rules. No file system, environment, clock, process or libgit2 in here: what this layer decides
//! is decided from its arguments alone, so every rule has a table of cases. Values may derive `Serialize`, so that
//! an answer holds one instead of a copy of it.

/// Names, texts, times and objects that all others are made of.
pub mod value {
    pub mod diagnostic;
    pub mod named;
    pub mod oid;
    pub mod quoted;
    pub mod redaction;
    pub mod ref_update;
    pub mod shell;
    pub mod stamp;
}

/// Messages, and the rules that they keep.
pub mod mail {
    pub mod message;
    pub mod message_rules;
}

/// Paths, globs and changes of files.
pub mod paths {
    pub mod change;
    pub mod code_owners;
    pub mod glob;
    pub mod install_inputs;
    pub mod output_file;
    pub mod path;
    pub mod removal;
}

/// An agent: its events, the fold of them, and what may bound it.
pub mod life {
    pub mod agent;
    pub mod claim;
    pub mod event;
    pub mod id;
    pub mod limits;
    pub mod operation;
    pub mod report;
    pub mod run;
    pub mod sandbox;
}

/// What an agent is to do: its task, its role, its persona and its prompt.
pub mod work {
    pub mod bundle;
    pub mod dna;
    pub mod persona;
    pub mod prompt;
    pub mod role;
    pub mod task;
}

/// What an agent may touch.
pub mod boundary {
    pub mod guard;
    pub mod scope;
    pub mod tool_call;
    pub mod violation;
}

/// What lands, in which order, and where a forge has it.
pub mod landing {
    pub mod forge;
    pub mod landing_order;
    pub mod train;
}

/// What the settings of a repository say.
pub mod settings {
    pub mod project;
    pub mod repository_settings;
}

pub mod judge;

// The values that most files of the layers above name. Within this layer they are named by their module, which is
// what shows that no two modules need each other.
pub use boundary::scope::{Scope, ScopeLanguage};
pub use boundary::tool_call::ToolCall;
pub use boundary::violation::{BundleRule, Violation};
pub use judge::evidence::{CommandRun, Evidence, RequiredChecks};
pub use judge::finding::{Finding, FindingCode, Verdict};
pub use life::agent::{Agent, Move, State};
pub use life::event::{Event, HostSession, Isolation, What};
pub use life::id::{AgentId, AgentName, OperationId, Slug};
pub use life::limits::{Limit, Limits};
pub use life::report::ReportRules;
pub use life::run::{Ending, Run};
pub use life::sandbox::{Enforcement, Fence, LayerMount, Layering};
pub use mail::message::{Letter, Message, MessageId, Receivers};
pub use paths::change::{Change, ChangeKind};
pub use paths::glob::Glob;
pub use paths::path::{Quoted, RepoPath};
pub use settings::repository_settings::RepositorySettings;
pub use value::named::branch_name;
pub use value::oid::Oid;
pub use value::stamp::Stamp;
pub use work::persona::Persona;
pub use work::role::{Role, RoleSet};
pub use work::task::{Task, TaskDraft};
