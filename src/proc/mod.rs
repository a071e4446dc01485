//! proc
