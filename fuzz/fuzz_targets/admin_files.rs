#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| git_agent_fuzz::admin_files::run(data));
