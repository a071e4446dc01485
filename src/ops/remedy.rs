//! What the remedies that lower layers name are called on the command line.

use crate::domain::finding::Finding;
use crate::error::Remedy;

/// The command for a remedy.
pub fn command(remedy: &Remedy) -> String {
    match remedy {
        Remedy::AcceptAudited => "git agent mark accept <agent> -m <why>".to_owned(),
        Remedy::Agents => "git agent list --all".to_owned(),
        Remedy::Agent(id) => format!("git agent show {id}"),
        Remedy::Place(id) => format!("git agent path {id}"),
        Remedy::Materialize(who) => format!("git agent materialize {who}"),
        Remedy::CommitMerge(id) => format!("git agent update {id}"),
        Remedy::History(id) => format!("git agent show --log {id}"),
        Remedy::Histories => "git agent show --log".to_owned(),
        Remedy::Wait(id) => format!("git agent wait {id}"),
        Remedy::Stop(id) => format!("git agent stop {id}"),
        Remedy::Rescue(id) => format!("git agent rescue {id}"),
        Remedy::Running => "git agent ps".to_owned(),
        Remedy::Settings => "git agent setup config".to_owned(),
        Remedy::Collect => "git agent gc".to_owned(),
        Remedy::Roles => "git agent roles".to_owned(),
        Remedy::Examine => "git agent doctor".to_owned(),
        Remedy::Repair => "git agent doctor --fix".to_owned(),
        Remedy::RepairHooks(None) => "git agent doctor hooks repair".to_owned(),
        Remedy::RepairHooks(Some(who)) => format!("git agent doctor hooks repair {who}"),
        Remedy::Messages(None) => "git agent inbox".to_owned(),
        Remedy::Messages(Some(reader)) => format!("git agent inbox --agent '{reader}'"),
        Remedy::ExpireMessages => "git agent inbox --expire".to_owned(),
        Remedy::SpawnFrom(task) => format!("git agent spawn {task}"),
        Remedy::SpawnFromCommit => "git agent spawn --base <revision> …".to_owned(),
        Remedy::CheckTask(file) => format!("git agent spawn --dry-run {file}"),
        Remedy::Synchronise => "git agent sync".to_owned(),
        Remedy::SynchroniseAll => "git config agent.sync all && git agent sync".to_owned(),
        Remedy::Register(host) => format!("git agent init --host {host}"),
    }
}

/// The advice to a user who lacks what another clone keeps.
pub fn to_have_what_others_keep() -> String {
    let command = command(&Remedy::SynchroniseAll);
    format!("to have what other clones keep, run {command}")
}

/// What to do about a finding, with the command where there is one.
pub fn fix(finding: &Finding) -> String {
    match &finding.remedy {
        Some(remedy) => format!("{}, run {}", finding.fix, command(remedy)),
        None => finding.fix.clone(),
    }
}
