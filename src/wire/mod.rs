//! Formats: what is read from files and written to them, and nothing else. Values go to and come from
//! `domain`, which knows the rules.

pub mod task_file;
mod toml_reader;
