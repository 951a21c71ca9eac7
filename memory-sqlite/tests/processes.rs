//! Several processes on one file: exact counters, one winner per version, and each sees what the others wrote.
