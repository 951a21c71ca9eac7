#![no_main]
#![allow(missing_docs)]

libfuzzer_sys::fuzz_target!(|data: &[u8]| memory_fuzz::product::http::run(data));
