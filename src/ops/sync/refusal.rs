//! What a remote refuses, and which layer of it.

use crate::error::{Code, Error};
use crate::git::refs::remote::{self, PushOutcome};

/// The error for a ref that a remote does not take; it repeats what the remote said.
pub(crate) fn refused(remote: &str, refname: &str, reason: &str, outcome: &PushOutcome) -> Error {
    let layer = remote::refusing_layer(reason, &outcome.remote_text);
    let what = format!("the remote `{remote}` does not take {refname}: {layer} ({reason})");
    let error = Error::new(Code::RemoteRefused, what);
    if outcome.remote_text.is_empty() {
        error
    } else {
        error.because(outcome.remote_text.clone())
    }
}
