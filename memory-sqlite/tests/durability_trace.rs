//! The system calls of a durable write: the log is synced after its last byte and before the acknowledgement.
