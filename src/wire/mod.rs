//! Durable and public formats, versioned: what is read from files and written to them, and nothing
//! else. No file is opened here; values go to and come from `domain`, which knows the rules.

pub mod hook_payload;
pub mod host_settings;
pub mod task_file;
mod toml_reader;
