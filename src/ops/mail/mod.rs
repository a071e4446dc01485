//! What the verbs of the messenger share: who a name stands for, and how a message is answered.

pub mod conversation;
mod report;

pub use report::{MessageReport, ReceiversReport, Standing};
