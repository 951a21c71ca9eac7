//! Folders of backups that nobody may write to, for the superuser neither.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memory::drift::backup::Backup;
use memory::drift::{BackupLimits, Backups, DriftSession};
use memory::{DriftPolicy, ErrorKind};

use super::support::{Agent, Fixture, reason};

/// While it lives, the modes of files bind this thread and those that it starts, as they bind everybody but the superuser.
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

/// A folder that may be read and not written to, until the value goes.
struct ReadOnly(PathBuf);

impl ReadOnly {
    /// `None` where this user may write all the same, which is said.
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
async fn scenario_20_where_the_folder_is_read_only_the_write_is_refused_all_the_same() {
    let _bound = Bound::new();
    for json_bytes in [BackupLimits::default().json_bytes, 0] {
        // The folder of all, and that of the scope within it.
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
            // Where it may be written again, the same drift is saved after all, and still refused.
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
