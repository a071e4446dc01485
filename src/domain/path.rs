//! Paths inside a repository, as bytes with `/` between the parts.
