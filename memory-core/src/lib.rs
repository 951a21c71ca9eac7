//! Contracts for pluggable agent memory.
