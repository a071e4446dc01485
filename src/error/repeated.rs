//! One failure that ends several things.

use super::{Error, Inner};

impl Error {
    /// The same error once more, for another thing that failed with it.
    #[must_use]
    pub fn repeated(&self) -> Error {
        let inner = &self.inner;
        let copy = Error {
            inner: Box::new(Inner {
                code: inner.code,
                message: inner.message.clone(),
                details: inner.details.clone(),
                hints: inner.hints.clone(),
                facts: inner.facts.clone(),
                is_absence: inner.is_absence,
                layered: inner.layered.clone(),
                source: None,
            }),
        };
        match self.causes().first() {
            Some(cause) => copy.because(cause.clone()),
            None => copy,
        }
    }
}
