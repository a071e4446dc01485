//! Rows from elsewhere are claims, and nothing private stays behind.
