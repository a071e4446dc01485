//! Every verb, in the order in which help lists them, and what it calls.

use super::run::{background, fenced, warden};
use super::ui::{Format, Ui};
use super::{
    archive, check, commit, decide, diff, discard, doctor, gc, hook, hooks, init, list, logs,
    merge, overlap, ps, receive, report, rescue, roles, run, schema, send, settle, shell, show,
    spawn, stop, tree, unite, verify, wait,
};
use crate::agents::ctx::Ctx;
use crate::error::{Exit, Result};
use crate::ops;
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
    match command {
        Command::Spawn(args) => spawn::run(&open(ui)?, ui, args),
        Command::List(args) => list::run(&open(ui)?, ui, args),
        Command::Show(args) => show::run(&open(ui)?, ui, &args),
        Command::Log(args) => show::run_log(&open(ui)?, ui, &args),
        Command::Tree(args) => tree::run(&open(ui)?, ui, &args),
        Command::Report(args) => report::run(&open(ui)?, ui, &args),
        Command::Path(args) => show::run_path(&open(ui)?, ui, &args),
        Command::Diff(args) => diff::run(&open(ui)?, ui, &args),
        Command::Check(args) => check::run(&open(ui)?, ui, args),
        Command::Run(args) => run::run(&open(ui)?, ui, args),
        Command::Supervise(args) => background::run(args),
        Command::Ps(args) => ps::run(&open(ui)?, ui, &args),
        Command::Wait(args) => wait::run(&open(ui)?, ui, args),
        Command::Stop(args) => stop::run(&open(ui)?, ui, &args),
        Command::Logs(args) => logs::run(&open(ui)?, ui, args),
        Command::Warden(args) => warden::run(args),
        Command::Launch(args) => warden::run_launch(&args),
        Command::Fenced(args) => fenced::run(args),
        Command::Verify(args) => verify::run(&open(ui)?, ui, args),
        Command::Done(args) => settle::run_done(&open(ui)?, ui, &args),
        Command::Fail(args) => settle::run_fail(&open(ui)?, ui, &args),
        Command::Commit(args) => commit::run(&open(ui)?, ui, &args),
        Command::Overlap(args) => overlap::run(&open(ui)?, ui, args),
        Command::Merge(args) => merge::run(&open(ui)?, ui, args),
        Command::Reject(args) => decide::run_reject(&open(ui)?, ui, &args),
        Command::Defer(args) => decide::run_defer(&open(ui)?, ui, &args),
        Command::Discard(args) => discard::run(&open(ui)?, ui, &args),
        Command::Rescue(args) => rescue::run(&open(ui)?, ui, args),
        Command::Gc(args) => gc::run(&open(ui)?, ui, &args),
        Command::Sweep(args) => Ok(discard::run_sweep(&Ctx::of_process()?, &args)),
        Command::Send(args) => send::run(&open(ui)?, ui, args),
        Command::Receive(args) => receive::run(&open(ui)?, ui, args),
        Command::Inbox(args) => receive::run_inbox(&open(ui)?, ui, &args),
        Command::Ack(args) => archive::run_ack(&open(ui)?, ui, &args),
        Command::Archive(args) => archive::run(&open(ui)?, ui, &args),
        Command::Unite(args) => unite::run(&open(ui)?, ui, &args),
        Command::Roles(args) => roles::run(&open(ui)?, ui, &args),
        Command::Hooks(args) => hooks::run(&open(ui)?, ui, &args),
        Command::Hook(args) => hook::run(ui, args),
        Command::Doctor(args) => doctor::run(&Ctx::to_examine()?, ui, &args),
        Command::Init(args) => init::run(&open(ui)?, ui, args),
        Command::Schema(args) => schema::run(ui, &args),
        Command::InstallShell(args) => shell::install::run(ui, args),
        Command::Complete(args) => shell::complete::run(ui, args),
    }
}

/// The surroundings, for the verbs that need them: a hook is called in places that have no repository. A ledger that
/// was overwritten is reported at the first command after that.
fn open(ui: &mut Ui) -> Result<Ctx> {
    let ctx = Ctx::of_process()?;
    // A program that reads JSON finds one object or nothing on standard error.
    if ui.format() == Format::Text
        && let Some(warning) = ops::doctor::overwritten_ledger(&ctx)
    {
        ui.warn(&warning);
    }
    Ok(ctx)
}
