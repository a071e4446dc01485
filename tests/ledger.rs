//! Filled by the module's own commit.
