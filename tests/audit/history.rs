//! Missing history, and what is out of a clone's reach.
