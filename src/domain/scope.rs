//! What an agent may touch: whitelist and denylist, deny wins.
