//! Rows from elsewhere are claims, and nothing confidential stays behind.

/// What an agent was told leaves the disk with the agent.
mod briefing;
