//! The debug log on standard error that `GIT_AGENT_LOG` asks for.

use crate::agents::ctx::Env;
use std::str::FromStr;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::FmtSpan;

/// Starts the log where the environment names a level: `error`, `warn`, `info`, `debug` or `trace`. At `debug` it has
/// a line for each step of an operation, with the time that it took, and for each git that is started.
pub(super) fn start() {
    let level = Env::log_level().and_then(|level| LevelFilter::from_str(&level).ok());
    if let Some(level) = level {
        let log = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_target(false)
            .with_span_events(FmtSpan::CLOSE)
            .with_writer(std::io::stderr);
        // It fails only where a log was started before.
        let _ = log.try_init();
    }
}
