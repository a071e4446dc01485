//! Which agent a branch belongs to, and which policy binds it.
