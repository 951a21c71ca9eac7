//! Read-only folders of backups, effective even for the superuser.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memory::drift::backup::Backup;
use memory::drift::{BackupLimits, Backups, DriftSession};
use memory::{DriftPolicy, ErrorKind};

use super::support::{Agent, Fixture, reason};

/// While it lives, file modes apply to this thread and those it starts, even for the superuser.
struct Bound {
    #[cfg(target_os = "linux")]
    before: rustix::thread::CapabilitySets,
}

impl Bound {
    #[cfg(target_os = "linux")]
    fn new() -> Self {
        use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
        let before = capabilities(None).unwrap();
        let mut bound = before;
        bound.effective.remove(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
        set_capabilities(None, bound).unwrap();
        Self { before }
    }

    #[cfg(not(target_os = "linux"))]
    fn new() -> Self {
        Self {}
    }
}

#[cfg(target_os = "linux")]
impl Drop for Bound {
    fn drop(&mut self) {
        rustix::thread::set_capabilities(None, self.before).unwrap();
    }
}

/// A read-only folder, until the value is dropped.
struct ReadOnly(PathBuf);

impl ReadOnly {
    /// `None` if this user can still write, with a note.
    fn new(folder: &Path) -> Option<Self> {
        std::fs::create_dir_all(folder).unwrap();
        set_permissions(folder, Permissions::from_mode(0o500)).unwrap();
        let held = Self(folder.to_owned());
        if std::fs::write(folder.join("probe"), "").is_ok() {
            assert_ne!(std::env::consts::OS, "linux", "the folder is to be read-only");
            println!("skipped: no folder is read-only for the superuser");
            return None;
        }
        Some(held)
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        set_permissions(&self.0, Permissions::from_mode(0o700)).unwrap();
    }
}

#[tokio::test]
async fn scenario_20_with_a_read_only_folder_the_write_is_still_refused() {
    let _bound = Bound::new();
    for json_bytes in [BackupLimits::default().json_bytes, 0] {
        // The folder of all scopes, and the scope's folder in it.
        for below in [false, true] {
            let Some(fixture) = Fixture::new().await else { return };
            let root = fixture.memory.drift_backups().unwrap();
            let folder = if below { root.join(fixture.scope.digest().to_hex()) } else { root.to_owned() };
            let mut limits = BackupLimits::default();
            limits.json_bytes = json_bytes;
            let backups = Arc::new(Backups::new(root).with_limits(limits));
            let session = DriftSession::new(DriftPolicy::Row).with_backups(backups);
            let agent = Agent::of(&session, &fixture);
            fixture.other_sets("k", "1").await;
            agent.read("k").await;
            fixture.other_sets("k", "\"of somebody else\"").await;
            let Some(held) = ReadOnly::new(&folder) else { return };
            for _ in 0..2 {
                let error = agent.set("k", "\"mine\"").await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::DriftDetected, "{error:?}");
                assert!(error.details()["drift_backup"].is_null(), "{error:?}");
                assert_eq!(fixture.value("k").await.unwrap(), "\"of somebody else\"");
            }
            assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "no half of a copy stays");
            // Once the folder is writable, the same drift is saved, and still refused.
            drop(held);
            let error = agent.set("k", "\"mine\"").await.unwrap_err();
            let saved = PathBuf::from(error.details()["drift_backup"].as_str().unwrap());
            let saved = Backup::load(&saved).await.unwrap();
            assert_eq!(saved.records[0].entry.value.as_str(), "\"of somebody else\"");
            assert_eq!(reason(agent.set("k", "\"mine\"").await), "changed");
            agent.read("k").await;
            agent.set("k", "\"mine\"").await.unwrap();
            assert_eq!(fixture.value("k").await.unwrap(), "\"mine\"");
        }
    }
}
