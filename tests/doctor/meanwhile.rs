//! What another process does while the doctor looks is no damage.

use crate::removal::busy;
use crate::support::agent::agent_command;
use crate::support::death::{self, Reached};
use git_agent::ops::discard::{self, DiscardOptions};
use serde_json::Value;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The problems that the doctor finds in a repository, each with the step at which it was asked.
#[derive(Clone, Default)]
struct Problems(Arc<Mutex<Vec<String>>>);

impl Problems {
    fn at_each_step(&self, directory: &Path) -> Reached {
        let (problems, directory) = (self.clone(), directory.to_owned());
        Arc::new(move |step: &str| {
            let doctor = agent_command(&directory).args(["doctor", "--format=json"]).output();
            let answer = doctor.expect("git-agent starts").stdout;
            let report: Value = serde_json::from_slice(&answer).expect("JSON");
            let found = report["findings"].as_array().expect("a list").iter();
            let found = found.filter(|finding| finding["severity"] == "problem");
            let lines = found.map(|finding| format!("{step}: {finding}"));
            problems.0.lock().expect("unpoisoned").extend(lines);
        })
    }
}

#[test]
fn a_discard_under_way_is_no_problem() {
    let agent = busy();
    let path = agent.repo.path();
    let problems = Problems::default();
    let ctx = death::ctx(&path, problems.at_each_step(&path));
    let plan = discard::plan(&ctx, &agent.id, DiscardOptions::default()).expect("a plan");
    discard::execute(&ctx, plan).expect("discarded");
    let problems = problems.0.lock().expect("unpoisoned");
    assert!(problems.is_empty(), "{problems:#?}");
}
