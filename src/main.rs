//! Runs the command line.
fn main() {}
