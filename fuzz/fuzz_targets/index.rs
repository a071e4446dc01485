#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| git_agent_fuzz::index::run(data));
