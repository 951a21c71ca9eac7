//! On a PostgreSQL server. Without one, each test says so and passes.

#[path = "../agent.rs"]
mod agent;
#[path = "../backups.rs"]
mod backups;
mod foreign;
mod housekeeping;
#[path = "../own.rs"]
mod own;
#[path = "../past.rs"]
mod past;
#[path = "../races.rs"]
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
mod triggers;
