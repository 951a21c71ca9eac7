//! Backups that contain a forgotten key (FGT-32 of `docs/spec/forget.md`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use memory::drift::backup::Backup;
use memory::drift::{BackupLimits, Backups};
use memory::forget::{ForgetPolicy, ForgetReport, Places, StepOutcome, dry_run, forget};
use memory::{Clock as _, EraseTarget};

use super::support::{Fixture, key};

const SECRET: &str = "xylograph";

fn of_key(fixture: &Fixture) -> EraseTarget {
    EraseTarget::Key { scope: fixture.scope.clone(), key: key(SECRET) }
}

/// Saves the scope as it is.
async fn saved(fixture: &Fixture, limits: BackupLimits) -> PathBuf {
    let backups = Backups::new(fixture.memory.drift_backups().unwrap()).with_limits(limits);
    let token = fixture.backend().drift_state(&fixture.scope).await.unwrap().token;
    let (observed, actual) = (Some(token), Some(token));
    let saving =
        Arc::new(backups).save(fixture.backend(), &fixture.scope, observed, actual, fixture.clock.now());
    saving.await.unwrap().path
}

async fn forgotten(fixture: &Fixture, target: &EraseTarget) -> ForgetReport {
    let places = Places::beside(&fixture.path);
    forget(&fixture.memory, target, &places, ForgetPolicy::default(), None).await.unwrap()
}

fn step(report: &ForgetReport) -> (StepOutcome, u64) {
    let step = report.steps.iter().find(|step| step.place == "drift_backups").unwrap();
    (step.outcome, step.count)
}

fn names_it(path: &Path) -> bool {
    let bytes = std::fs::read(path).unwrap();
    bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes())
}

#[tokio::test]
async fn a_backup_with_a_forgotten_key_keeps_the_rest_and_stays_valid() {
    let Some(fixture) = Fixture::new().await else { return };
    fixture.other_sets("kept", "\"tea\"").await;
    let without = saved(&fixture, BackupLimits::default()).await;
    let untouched = std::fs::read(&without).unwrap();
    fixture.clock.advance(1);
    fixture.other_sets(SECRET, "\"a xylograph of Lisbon\"").await;
    let path = saved(&fixture, BackupLimits::default()).await;
    let before = Backup::load(&path).await.unwrap();
    assert_eq!(before.records.len(), 2);
    let places = Places::beside(&fixture.path);
    let dry = dry_run(&fixture.memory, &of_key(&fixture), &places, ForgetPolicy::default()).await.unwrap();
    assert_eq!(step(&dry), (StepOutcome::Found, 1));
    assert!(names_it(&path), "a dry run touches nothing");

    let report = forgotten(&fixture, &of_key(&fixture)).await;
    assert_eq!(step(&report), (StepOutcome::Done, 1), "{report:?}");
    assert!(!names_it(&path));
    assert_eq!(std::fs::read(&without).unwrap(), untouched, "one without the key is left alone");
    assert_eq!(fixture.backup_files().len(), 2, "no draft is left: {:?}", fixture.backup_files());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    let after = Backup::load(&path).await.unwrap();
    let keys: Vec<&str> = after.records.iter().map(|record| record.entry.key.as_str()).collect();
    assert_eq!(keys, ["kept"]);
    assert_eq!(
        (after.timestamp, after.generation_observed, after.generation_actual, after.generation_snapshot),
        (before.timestamp, before.generation_observed, before.generation_actual, before.generation_snapshot)
    );
    fixture.other_deletes("kept").await;
    after.restore(fixture.backend(), &fixture.memory.capabilities()).await.unwrap();
    assert_eq!(fixture.value("kept").await.as_deref(), Some("\"tea\""));
    assert_eq!(step(&forgotten(&fixture, &of_key(&fixture)).await), (StepOutcome::Nothing, 0), "again");
}

#[tokio::test]
async fn an_otherwise_empty_or_damaged_backup_is_removed_with_the_key() {
    let Some(fixture) = Fixture::new().await else { return };
    fixture.other_sets(SECRET, "1").await;
    let alone = saved(&fixture, BackupLimits::default()).await;
    fixture.backups().resolve(&alone);
    fixture.clock.advance(1);
    fixture.other_sets("kept", "1").await;
    let mut large = BackupLimits::default();
    large.json_bytes = 0;
    let database = saved(&fixture, large).await;
    assert!(database.with_extension("db").exists());
    let folder = alone.parent().unwrap();
    let damaged = folder.join("memory.bak.7.json");
    std::fs::write(&damaged, format!("{{\"key\":\"{SECRET}\"")).unwrap();
    let strange = folder.join("memory.bak.8.json");
    std::fs::write(&strange, "{\"key\":\"kept\"").unwrap();
    // Written by a process that died before renaming it.
    let orphan = folder.join("memory.bak.9.db");
    std::fs::write(&orphan, SECRET).unwrap();

    let report = forgotten(&fixture, &of_key(&fixture)).await;
    assert_eq!(step(&report).0, StepOutcome::Done, "{report:?}");
    assert_eq!(fixture.backup_files(), ["memory.bak.8.json"]);
}

#[tokio::test]
async fn a_folder_half_removed_by_a_killed_process_is_removed_by_the_next() {
    let Some(fixture) = Fixture::new().await else { return };
    fixture.other_sets(SECRET, "1").await;
    let path = saved(&fixture, BackupLimits::default()).await;
    let (folder, root) = (path.parent().unwrap(), fixture.memory.drift_backups().unwrap());
    for target in
        [EraseTarget::Scope(fixture.scope.clone()), EraseTarget::Tenant(fixture.scope.tenant.clone())]
    {
        // Nothing in it names its scope any more.
        let gone = root.join(format!(".gone-{}", folder.file_name().unwrap().to_str().unwrap()));
        std::fs::create_dir_all(&gone).unwrap();
        std::fs::write(gone.join("memory.bak.1.db"), SECRET).unwrap();
        let report = forgotten(&fixture, &target).await;
        assert_eq!(step(&report).0, StepOutcome::Done, "{report:?}");
        assert_eq!(std::fs::read_dir(root).unwrap().count(), 0, "{target:?}");
    }
}
