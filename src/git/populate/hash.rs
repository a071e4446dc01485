//! The names that git gives to objects: the SHA-1 of kind, size and content.

use sha1::{Digest, Sha1};

/// The name of an object with this content.
pub(super) fn object(kind: &str, content: &[u8]) -> [u8; 20] {
    hasher(kind, content.len() as u64)
        .chain_update(content)
        .finalize()
        .into()
}

/// A hasher that gives the name of an object once it has seen the `size` bytes of its content.
pub(super) fn hasher(kind: &str, size: u64) -> Sha1 {
    Sha1::new().chain_update(format!("{kind} {size}\0"))
}
