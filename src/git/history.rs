//! Which commits belong to a history, and what one history has that another lacks.

pub mod ancestry;
pub mod gained;
