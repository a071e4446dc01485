//! Explores every model, or those that are named, and says how many states there were.

use git_agent_proof::{Outcome, all};
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let named: Vec<String> = std::env::args().skip(1).collect();
    let (mut states, mut took, mut is_proved) = (0, Duration::ZERO, true);
    println!("{:<14} {:>10} {:>6} {:>8}  world", "model", "states", "depth", "time");
    for (name, explore) in all() {
        if !named.is_empty() && !named.iter().any(|one| one == name) {
            continue;
        }
        let outcome = explore();
        show(&outcome);
        states += outcome.states;
        took += outcome.took;
        is_proved &= outcome.failures.is_empty();
    }
    println!("{:<14} {states:>10} {:>6} {:>7.1}s", "total", "", took.as_secs_f64());
    if is_proved { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn show(outcome: &Outcome) {
    println!(
        "{:<14} {:>10} {:>6} {:>7.1}s  {}",
        outcome.model,
        outcome.states,
        outcome.depth,
        outcome.took.as_secs_f64(),
        outcome.bounds
    );
    for (property, is_safety) in &outcome.properties {
        let word = match (outcome.failures.contains_key(property), is_safety) {
            (true, _) => "FAILS",
            (false, true) => "always",
            (false, false) => "reached",
        };
        println!("    {word:<8} {property}");
        for step in outcome.failures.get(property).into_iter().flatten() {
            println!("        {step}");
        }
    }
}
