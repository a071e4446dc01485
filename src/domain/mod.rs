//! Pure values and rules. No file system, environment, clock, process, libgit2 or serde in here: what
//! this layer decides is decided from its arguments alone, so every rule has a table of cases.

pub mod agent;
pub mod baseline;
pub mod bundle;
pub mod change;
pub mod diagnosis;
pub mod diagnostic;
pub mod dna;
pub mod event;
pub mod evidence;
pub mod finding;
pub mod glob;
pub mod hex;
pub mod id;
pub mod judge;
pub mod landing_order;
pub mod message;
pub mod oid;
pub mod output_file;
pub mod path;
pub mod persona;
pub mod profile;
pub mod prompt;
pub mod public_path;
pub mod ref_update;
pub mod role;
pub mod run;
pub mod sandbox;
pub mod scope;
pub mod secret;
pub mod shell;
pub mod stamp;
pub mod task;
pub mod tool_call;
pub mod veil;
pub mod violation;
