//! What the tests share: a clock that stands still, waiting without a runtime, the test binary as a child process.
