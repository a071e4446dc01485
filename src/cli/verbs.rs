//! Every verb, listed once: the group of help that it belongs to, its arguments, and what it calls.

mod amend;
mod archive;
pub(super) mod board;
mod bundle;
mod check;
mod commit;
mod diff;
mod discard;
mod doctor;
mod enter;
mod gc;
mod guard;
pub(super) mod help;
mod hook;
mod init;
mod ledger;
mod list;
mod materialize;
mod merge;
mod overlap;
mod pr;
mod receive;
mod rename;
mod report;
mod rescue;
mod retry;
mod roles;
mod run;
mod runs;
mod schema;
mod send;
mod settle;
mod setup;
mod shell;
mod show;
mod spawn;
mod sync;
mod train;
mod undo;
mod uninstall;
mod update;
mod verify;

use self::run::supervisor;
use crate::agents::Ctx;
use crate::cli::out::ui::Ui;
use crate::cli::verbs::help::{Group, kebab};
use crate::cli::{look, open};
use crate::error::{Exit, Result};
use clap::{Args, Subcommand};

/// Makes of the list of verbs the commands that clap reads, the call of each and the groups of help. A star stands before
/// what a newcomer needs: `git agent -h` shows these alone.
macro_rules! verbs {
    (@star *) => { true };
    (@star) => { false };
    ($ui:ident; $($group:literal {
        $($(#[$attribute:meta])* $([$star:tt])? $verb:ident($args:ident: $type:ty) => $call:expr;)*
    })*) => {
        #[derive(Debug, Subcommand)]
        pub(super) enum Command {
            $($($(#[$attribute])* $verb($type),)*)*
        }

        /// Runs one verb.
        pub(super) fn dispatch(command: Command, $ui: &mut Ui) -> Result<Exit> {
            match command {
                $($(Command::$verb($args) => $call,)*)*
            }
        }

        /// The verb of this name with what it takes, without what belongs to help alone.
        pub(super) fn verb(name: &str) -> Option<clap::Command> {
            $($(if name == kebab(stringify!($verb)) {
                // clap borrows names for good, and this is the only one of this process.
                let name: &'static str = kebab(stringify!($verb)).leak();
                return Some(<$type>::augment_args(clap::Command::default().name(name)));
            })*)*
            None
        }

        /// The groups of help, in order.
        pub(super) const GROUPS: &[Group] = &[$(Group {
            title: $group,
            verbs: &[$((stringify!($verb), verbs!(@star $($star)?))),*],
        }),*];
    };
}

verbs! { ui;
    "start" {
        [*] Spawn(args: Box<spawn::SpawnArgs>) => spawn::run(&open(ui)?, ui, *args);
        #[command(alias = "add")]
        Adopt(args: retry::AdoptArgs) => retry::run_adopt(&open(ui)?, ui, args);
        [*] Run(args: Box<run::RunArgs>) => run::run(&open(ui)?, ui, *args);
        Enter(args: enter::EnterArgs) => enter::run(&open(ui)?, ui, args);
        Retry(args: retry::RetryArgs) => retry::run(&open(ui)?, ui, &args);
        #[command(hide = true)]
        Ps(args: runs::PsArgs) => runs::run_ps(&open(ui)?, ui, &args);
        Wait(args: runs::WaitArgs) => runs::run_wait(&open(ui)?, ui, args);
        Stop(args: runs::StopArgs) => runs::run_stop(&open(ui)?, ui, &args);
        #[command(hide = true)]
        Logs(args: runs::LogsArgs) => runs::run_logs(&open(ui)?, ui, &args);
    }
    "look" {
        [*] Board(args: board::BoardArgs) => look(ui, |ctx, ui| board::run(ctx, ui, &args));
        [*] List(args: list::ListArgs) => look(ui, |ctx, ui| list::run(ctx, ui, args));
        [*] Show(args: show::ShowArgs) => look(ui, |ctx, ui| show::run(ctx, ui, &args));
        [*] Diff(args: diff::DiffArgs) => look(ui, |ctx, ui| diff::run(ctx, ui, &args));
        #[command(hide = true)]
        Log(args: show::LogArgs) => show::run_log(&open(ui)?, ui, &args);
        Tree(args: list::TreeArgs) => list::run_tree(&open(ui)?, ui, &args);
        Report(args: report::ReportArgs) => look(ui, |ctx, ui| report::run(ctx, ui, &args));
        Path(args: show::PathArgs) => show::run_path(&open(ui)?, ui, &args);
        Overlap(args: overlap::OverlapArgs) => look(ui, |ctx, ui| overlap::run(ctx, ui, args));
    }
    "work" {
        Check(args: check::CheckArgs) => match open(ui) {
            Err(error) if args.is_of_no_agent(&error) => Ok(Exit::Yes),
            opened => check::run(&opened?, ui, args),
        };
        Bundle(args: bundle::BundleArgs) => bundle::run(&open(ui)?, ui, &args);
        Commit(args: commit::CommitArgs) => commit::run(&open(ui)?, ui, &args);
        Amend(args: amend::AmendArgs) => amend::run(&open(ui)?, ui, args);
        Materialize(args: materialize::MaterializeArgs) => materialize::run(&open(ui)?, ui, &args);
        Rename(args: rename::RenameArgs) => rename::run(&open(ui)?, ui, &args);
        Update(args: update::UpdateArgs) => update::run(&open(ui)?, ui, &args);
        Mark(args: settle::MarkArgs) => settle::run_mark(&open(ui)?, ui, &args);
        #[command(hide = true)]
        Done(args: settle::DoneArgs) => settle::run_done(&open(ui)?, ui, &args);
        #[command(hide = true)]
        Fail(args: settle::FailArgs) => settle::run_fail(&open(ui)?, ui, &args);
    }
    "land" {
        [*] Verify(args: verify::VerifyArgs) => match args.attested() {
            Some(options) => verify::run_attested(ui, &options),
            None => verify::run(&open(ui)?, ui, args),
        };
        Guard(args: guard::GuardArgs) => guard::run(&open(ui)?, ui, args);
        [*] Merge(args: merge::MergeArgs) => merge::run(&open(ui)?, ui, args);
        Train(args: train::TrainArgs) => train::run(&open(ui)?, ui, args);
        Pr(args: pr::PrArgs) => pr::run(&open(ui)?, ui, args);
        #[command(hide = true)]
        Reject(args: settle::RejectArgs) => settle::run_reject(&open(ui)?, ui, &args);
        #[command(hide = true)]
        Defer(args: settle::DeferArgs) => settle::run_defer(&open(ui)?, ui, &args);
    }
    "talk" {
        [*] Send(args: send::SendArgs) => send::run(&open(ui)?, ui, args);
        [*] Receive(args: receive::ReceiveArgs) => receive::run(&open(ui)?, ui, args);
        Inbox(args: receive::InboxArgs) => receive::run_inbox(&open(ui)?, ui, &args);
        #[command(hide = true)]
        Ack(args: archive::AckArgs) => archive::run_ack(&open(ui)?, ui, &args);
        #[command(hide = true)]
        Archive(args: archive::ArchiveArgs) => archive::run(&open(ui)?, ui, &args);
    }
    "travel" {
        Sync(args: sync::SyncArgs) => if args.is_limited() { sync::run_limited(ui, &args) } else { sync::run(&open(ui)?, ui, args) };
    }
    "clean" {
        [*] Discard(args: discard::DiscardArgs) => discard::run(&open(ui)?, ui, &args);
        [*] Rescue(args: rescue::RescueArgs) => rescue::run(&open(ui)?, ui, args);
        Undo(args: undo::UndoArgs) => undo::run(&open(ui)?, ui, args);
        Gc(args: gc::GcArgs) => gc::run(&open(ui)?, ui, &args);
        #[command(hide = true)]
        Ledger(args: ledger::LedgerArgs) => ledger::run(&open(ui)?, ui, &args);
        Doctor(args: doctor::DoctorArgs) => doctor::run(ui, &args);
    }
    "set up" {
        [*] Init(args: init::InitArgs) => init::run(&open(ui)?, ui, args);
        Setup(args: setup::SetupArgs) => setup::run(ui, args);
        #[command(hide = true)]
        Config(args: setup::ConfigArgs) => setup::run_config(&open(ui)?, ui, &args);
        #[command(hide = true)]
        Pool(args: setup::PoolArgs) => setup::run_pool(&open(ui)?, ui, &args);
        Roles(args: roles::RolesArgs) => roles::run(&open(ui)?, ui, &args);
        #[command(hide = true)]
        Hooks(args: setup::HooksArgs) => setup::run_hooks(&open(ui)?, ui, &args);
        #[command(hide = true)]
        InstallShell(args: shell::InstallShellArgs) => shell::run_install(ui, args);
        Uninstall(args: uninstall::UninstallArgs) => uninstall::run(&open(ui)?, ui, &args);
        Schema(args: schema::SchemaArgs) => schema::run(ui, &args, verb);
        Help(args: help::HelpArgs) => help::run(ui, &args, GROUPS);
        Mcp(_args: hook::McpArgs) => hook::run_mcp();
        Hook(args: hook::HookArgs) => hook::run(ui, args);
    }
    "internal" {
        #[command(hide = true)]
        Unite(args: sync::UniteArgs) => sync::run_unite(&open(ui)?, ui, &args);
        #[command(hide = true)]
        Sweep(args: discard::SweepArgs) => Ok(discard::run_sweep(&Ctx::of_process()?, &args));
        #[command(hide = true)]
        CatchUp(args: update::CatchUpArgs) => update::run_catch_up(&open(ui)?, &args);
        #[command(hide = true)]
        Supervise(args: supervisor::SuperviseArgs) => supervisor::run_supervise(args);
        #[command(hide = true)]
        Supervisor(args: supervisor::WardenArgs) => supervisor::run(args);
        #[command(hide = true)]
        Launch(args: supervisor::LaunchArgs) => supervisor::run_launch(&args);
        #[command(hide = true)]
        Fenced(args: supervisor::FencedArgs) => supervisor::run_fenced(args);
        #[command(hide = true)]
        Complete(args: shell::CompleteArgs) => shell::run_complete(ui, args);
    }
}
