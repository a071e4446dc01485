//! What the verbs of the messenger share: who a name stands for, and how a message is answered.

mod names;
mod report;

pub use names::{Whom, handle, own, reader_of, whom};
pub use report::{MessageReport, ReceiversReport, Standing};
