//! Refs: reading, creating without overwriting, and moving by compare-and-swap.
