//! Files that git ignores are neither judged nor landed.
