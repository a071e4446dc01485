//! Recognises credentials in texts that would be recorded.
