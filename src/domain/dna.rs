//! The fingerprint of a composition: same role, task and scope, same DNA.
