//! The state of an agent after its runs, and what a name means.
