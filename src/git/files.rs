//! Files and directories: going into them, reading what an agent may have written, locking, removing; what an admin directory says.

pub mod admin_dir;
pub mod descent;
pub mod layer;
pub mod lock_file;
pub mod separate;
pub mod temporary;
pub mod untrusted;
