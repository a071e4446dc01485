//! An agent as its events tell it: the fold, its states and the legal moves between them.
