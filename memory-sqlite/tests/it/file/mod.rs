//! The database file: its format, what is wrong with it, and the disk below it.

#[cfg(unix)]
mod displaced;
#[cfg(target_os = "linux")]
mod durability_trace;
mod format;
#[cfg(unix)]
mod full_disk;
mod hostile;
#[cfg(unix)]
mod permissions;
mod repair;
