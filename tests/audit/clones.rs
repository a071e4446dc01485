//! Several clones of one repository.
