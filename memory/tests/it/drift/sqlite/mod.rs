//! On SQLite.

#[path = "../agent.rs"]
mod agent;
#[path = "../backups.rs"]
mod backups;
mod foreign;
mod forgotten;
#[cfg(unix)]
mod full_disk;
mod meanwhile;
mod own;
mod races;
#[cfg(unix)]
#[path = "../read_only.rs"]
mod read_only;
#[path = "../restore.rs"]
mod restore;
#[path = "../sessions.rs"]
mod sessions;
#[path = "../strict.rs"]
mod strict;
mod support;
mod tool;
