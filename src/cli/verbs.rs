//! Every verb, in the order in which help lists them, and what it calls.

use super::run::{background, fenced, warden};
use super::ui::Ui;
use super::{
    archive, check, commit, decide, diff, discard, doctor, gc, hook, hooks, init, list, logs,
    merge, overlap, ps, receive, report, rescue, roles, run, schema, send, settle, shell, show,
    spawn, stop, tree, unite, verify, wait,
};
use crate::error::{Exit, Result};
use crate::ops::Ctx;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    Spawn(spawn::SpawnArgs),
    Run(run::RunArgs),
    Ps(ps::PsArgs),
    Wait(wait::WaitArgs),
    Stop(stop::StopArgs),
    Logs(logs::LogsArgs),
    List(list::ListArgs),
    Show(show::ShowArgs),
    Log(show::LogArgs),
    Tree(tree::TreeArgs),
    Report(report::ReportArgs),
    Path(show::PathArgs),
    Diff(diff::DiffArgs),
    Check(check::CheckArgs),
    Done(settle::DoneArgs),
    Fail(settle::FailArgs),
    Verify(verify::VerifyArgs),
    Commit(commit::CommitArgs),
    Overlap(overlap::OverlapArgs),
    Merge(merge::MergeArgs),
    Reject(decide::RejectArgs),
    Defer(decide::DeferArgs),
    Discard(discard::DiscardArgs),
    Rescue(rescue::RescueArgs),
    Gc(gc::GcArgs),
    #[command(hide = true)]
    Sweep(discard::SweepArgs),
    #[command(hide = true)]
    Supervise(background::SuperviseArgs),
    #[command(hide = true)]
    Warden(warden::WardenArgs),
    #[command(hide = true)]
    Launch(warden::LaunchArgs),
    #[command(hide = true)]
    Fenced(fenced::FencedArgs),
    Send(send::SendArgs),
    Receive(receive::ReceiveArgs),
    Inbox(receive::InboxArgs),
    Ack(archive::AckArgs),
    Archive(archive::ArchiveArgs),
    Unite(unite::UniteArgs),
    Roles(roles::RolesArgs),
    Hooks(hooks::HooksArgs),
    Doctor(doctor::DoctorArgs),
    Init(init::InitArgs),
    Schema(schema::SchemaArgs),
    InstallShell(shell::install::InstallShellArgs),
    #[command(hide = true)]
    Complete(shell::complete::CompleteArgs),
    Hook(hook::HookArgs),
}

/// Runs one verb.
pub(super) fn dispatch(command: Command, ui: &mut Ui) -> Result<Exit> {
    // Made by the verbs that need it: a hook is called in places that have no repository.
    let ctx = Ctx::of_process;
    match command {
        Command::Spawn(args) => spawn::run(&ctx()?, ui, args),
        Command::List(args) => list::run(&ctx()?, ui, args),
        Command::Show(args) => show::run(&ctx()?, ui, &args),
        Command::Log(args) => show::run_log(&ctx()?, ui, &args),
        Command::Tree(args) => tree::run(&ctx()?, ui, &args),
        Command::Report(args) => report::run(&ctx()?, ui, &args),
        Command::Path(args) => show::run_path(&ctx()?, ui, &args),
        Command::Diff(args) => diff::run(&ctx()?, ui, &args),
        Command::Check(args) => check::run(&ctx()?, ui, args),
        Command::Run(args) => run::run(&ctx()?, ui, args),
        Command::Supervise(args) => background::run(args),
        Command::Ps(args) => ps::run(&ctx()?, ui, &args),
        Command::Wait(args) => wait::run(&ctx()?, ui, args),
        Command::Stop(args) => stop::run(&ctx()?, ui, &args),
        Command::Logs(args) => logs::run(&ctx()?, ui, args),
        Command::Warden(args) => warden::run(args),
        Command::Launch(args) => warden::run_launch(&args),
        Command::Fenced(args) => fenced::run(args),
        Command::Verify(args) => verify::run(&ctx()?, ui, args),
        Command::Done(args) => settle::run_done(&ctx()?, ui, &args),
        Command::Fail(args) => settle::run_fail(&ctx()?, ui, &args),
        Command::Commit(args) => commit::run(&ctx()?, ui, &args),
        Command::Overlap(args) => overlap::run(&ctx()?, ui, args),
        Command::Merge(args) => merge::run(&ctx()?, ui, args),
        Command::Reject(args) => decide::run_reject(&ctx()?, ui, &args),
        Command::Defer(args) => decide::run_defer(&ctx()?, ui, &args),
        Command::Discard(args) => discard::run(&ctx()?, ui, &args),
        Command::Rescue(args) => rescue::run(&ctx()?, ui, args),
        Command::Gc(args) => gc::run(&ctx()?, ui, &args),
        Command::Sweep(args) => Ok(discard::run_sweep(&ctx()?, &args)),
        Command::Send(args) => send::run(&ctx()?, ui, args),
        Command::Receive(args) => receive::run(&ctx()?, ui, args),
        Command::Inbox(args) => receive::run_inbox(&ctx()?, ui, &args),
        Command::Ack(args) => archive::run_ack(&ctx()?, ui, &args),
        Command::Archive(args) => archive::run(&ctx()?, ui, &args),
        Command::Unite(args) => unite::run(&ctx()?, ui, &args),
        Command::Roles(args) => roles::run(&ctx()?, ui, &args),
        Command::Hooks(args) => hooks::run(&ctx()?, ui, &args),
        Command::Hook(args) => hook::run(ui, args),
        Command::Doctor(args) => doctor::run(&Ctx::to_examine()?, ui, &args),
        Command::Init(args) => init::run(&ctx()?, ui, args),
        Command::Schema(args) => schema::run(ui, &args),
        Command::InstallShell(args) => shell::install::run(ui, args),
        Command::Complete(args) => shell::complete::run(ui, args),
    }
}
