//! Nothing that waits or takes its time holds up an unrelated task, and no particular executor is needed.
