//! Backends defined at run time. The sentences are those of `docs/spec/definitions.md`.

use std::path::Path;
use std::sync::Arc;

use memory::definitions::{Definition, DefinitionRef, DefinitionStore};
use memory::{Config, ErrorKind, Registry, TenantId};
use memory_conformance::TestClock;

const SECTION: &str = "[definitions]\nschemes = [\"sqlite\", \"postgres\", \"mem0+https\"]\nhosts = [\"db.example:5432\", \
    \"mem0.example:8443\"]\nenv = [\"TEAM_*\", \"ONE\"]\npaths = [\"agents\"]\nembedders = [\"local\"]\nfallbacks = [\"main\"]\n\
    [backends.main]\nurl = \"sqlite:main.db\"\n[default]\nbackend = \"main\"\n";

fn config(folder: &Path) -> Config {
    std::fs::create_dir_all(folder.join("agents")).unwrap();
    Config::parse(SECTION, folder.join("memory.toml")).unwrap()
}

fn store(folder: &Path) -> DefinitionStore {
    DefinitionStore::open(&folder.join("d.db"), Arc::new(TestClock::new())).unwrap()
}

fn tenant(name: &str) -> TenantId {
    TenantId::new(name).unwrap()
}

fn of(text: &str) -> DefinitionRef {
    DefinitionRef::parse(text).unwrap()
}

#[test]
fn listed_targets_are_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    for url in [
        "sqlite:agents/a.db",
        "sqlite:agents/deeper/a.db?durability=normal&busy_timeout_ms=250&sql.root=agents/trees",
        "sqlite::memory:",
        "postgres://app@db.example/memory?password_env=TEAM_DB&sslmode=verify-full",
        "postgres://app@DB.example:5432/memory?password_env=ONE",
        "mem0+https://mem0.example:8443/base?flavour=self_hosted&api_key=file:agents/key",
        "mem0+https://mem0.example:8443?tenancy=key_per_tenant&tenant_key=env:TEAM_{tenant}",
        "mem0+https://mem0.example:8443?tenancy=key_per_tenant&tenant_keys.acme=env:ONE",
    ] {
        config
            .check_definition(&Registry::default(), "notes", &Definition::new(url))
            .unwrap_or_else(|error| panic!("{url}: {error}"));
    }
    let mut whole = Definition::new("sqlite:agents/a.db");
    (whole.embedder, whole.fallback) = (Some("local".into()), Some("main".into()));
    config.check_definition(&Registry::default(), "notes", &whole).unwrap();
}

#[test]
fn everything_else_is_forbidden_and_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    std::fs::create_dir(folder.path().join("hunter2")).unwrap();
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(folder.path().join("hunter2"), folder.path().join("agents/link")).unwrap();
        std::os::unix::fs::symlink("/hunter2/nowhere", folder.path().join("agents/dangling")).unwrap();
    }
    for url in [
        "sqlite:hunter2.db",
        "sqlite:/etc/hunter2",
        "sqlite:///etc/hunter2",
        "sqlite:agents/../hunter2.db",
        "sqlite:agents/%2e%2e/hunter2.db",
        "sqlite:agents/link/hunter2.db",
        "sqlite:agents/dangling",
        "sqlite:agents",
        "sqlite:agents/a.db?sql.root=hunter2",
        "sqlite:agents/a.db?sql.shared.x=/hunter2",
        "sqlite:agents/a.db?hunter2=1",
        "sqlite:agents/a.db?durability=hunter2/../x",
        "postgres://app@evil.example/hunter2",
        "postgres://app@db.example:5433/hunter2",
        "postgres://app@db.example,evil.example/hunter2",
        "postgres://app@db.example%2Cevil.example/hunter2",
        "postgres://app@db.example/memory?host=hunter2",
        "postgres://app@db.example/memory?hostaddr=10.0.0.1",
        "postgres://app@db.example/memory?password=hunter2",
        "postgres://app@db.example/memory?options=hunter2",
        "postgres://app@db.example/memory?sql.url=hunter2",
        "postgres://app@db.example/memory?password_env=HUNTER2",
        "postgres://app@db.example/memory?passfile=/hunter2",
        "mem0+https://mem0.example/hunter2",
        "mem0+https://mem0.example:8443@evil.example/hunter2",
        "mem0+https://evil.example#@mem0.example:8443/hunter2",
        "mem0+https://mem0.example:8443?api_key=hunter2",
        "mem0+https://mem0.example:8443?api_key=env:HUNTER2",
        "mem0+https://mem0.example:8443?api_key=file:/hunter2",
        "mem0+https://mem0.example:8443?api_key=file:agents/../hunter2",
        "mem0+https://mem0.example:8443?tenant_keys.acme=hunter2",
        "mem0+https://mem0.example:8443?ca_file=/hunter2",
        "mem0+http://mem0.example:8443/hunter2",
        "redis://hunter2",
        "sqlite:agents/a.db?durability=hunter2",
        "postgres://app@db.example/memory?pool_size=hunter2",
    ] {
        let error =
            config.check_definition(&Registry::default(), "notes", &Definition::new(url)).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Forbidden | ErrorKind::InvalidArgument), "{url}: {error}");
        assert!(
            !format!("{error:?}").to_lowercase().contains("hunter2") || url.contains("?hunter2="),
            "{url}: {error:?}"
        );
    }
    for url in [
        "postgres://app:hunter2@db.example/memory",
        "postgres://app:hun/ter2@db.example/memory",
        "mem0+https://hunter2:@mem0.example:8443",
        "postgres:///memory",
        "postgres:memory",
    ] {
        let error =
            config.check_definition(&Registry::default(), "notes", &Definition::new(url)).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Forbidden | ErrorKind::InvalidArgument), "{url}: {error}");
        assert!(!format!("{error:?}").contains("hunter2"), "{url}: {error:?}");
    }
    let mut named = Definition::new("sqlite:agents/a.db");
    named.embedder = Some("other".into());
    assert_eq!(
        config.check_definition(&Registry::default(), "notes", &named).unwrap_err().kind(),
        ErrorKind::Forbidden
    );
    named.embedder = None;
    named.fallback = Some("notes".into());
    assert_eq!(
        config.check_definition(&Registry::default(), "notes", &named).unwrap_err().kind(),
        ErrorKind::Forbidden
    );
    let taken = config.check_definition(&Registry::default(), "main", &Definition::new("sqlite:agents/a.db"));
    assert_eq!(taken.unwrap_err().kind(), ErrorKind::Conflict);
    let without =
        Config::parse("[backends.main]\nurl = \"sqlite:main.db\"\n", folder.path().join("memory.toml"))
            .unwrap();
    let refused =
        without.check_definition(&Registry::default(), "notes", &Definition::new("sqlite:agents/a.db"));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Forbidden);
    let nothing = Config::parse("[definitions]\n", folder.path().join("memory.toml")).unwrap();
    let refused =
        nothing.check_definition(&Registry::default(), "notes", &Definition::new("sqlite::memory:"));
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Forbidden);
}

#[test]
fn versions_are_consecutive_and_immutable() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let acme = tenant("acme");
    let first = store.create(&acme, "notes", &Definition::new("sqlite:agents/1.db")).unwrap();
    assert_eq!((first.version, first.parent.as_deref()), (1, None));
    assert_eq!(store.create(&acme, "notes", &Definition::new("sqlite:agents/1.db")).unwrap(), first);
    let other = store.create(&acme, "notes", &Definition::new("sqlite:agents/2.db")).unwrap_err();
    assert_eq!(other.kind(), ErrorKind::Conflict);

    let second = store
        .fork(&acme, &of("notes"), "notes", |parent| {
            let mut next = parent.clone();
            next.embedder = Some("local".into());
            Ok(next)
        })
        .unwrap();
    assert_eq!((second.version, second.parent.as_deref()), (2, Some("notes@1")));
    assert_eq!(store.show(&acme, &of("notes")).unwrap(), second);
    assert_eq!(store.show(&acme, &of("notes@1")).unwrap(), first);
    let same = store.fork(&acme, &of("notes"), "notes", |parent| Ok(parent.clone())).unwrap();
    assert_eq!(same, second);
    // Back to the first content: a new version with the first one's id.
    let third = store.fork(&acme, &of("notes@1"), "notes", |parent| Ok(parent.clone())).unwrap();
    assert_eq!((third.version, &third.id), (3, &first.id));
    let copy = store.fork(&acme, &of("notes@2"), "copy", |parent| Ok(parent.clone())).unwrap();
    assert_eq!((copy.version, &copy.id, copy.parent.as_deref()), (1, &second.id, Some("notes@2")));
    let names: Vec<String> =
        store.list(&acme, true).unwrap().iter().map(|d| format!("{}@{}", d.name, d.version)).collect();
    assert_eq!(names, ["copy@1", "notes@1", "notes@2", "notes@3"]);
    assert_eq!(store.list(&acme, false).unwrap().len(), 2);

    // Another tenant has a different one.
    let umbrella = tenant("umbrella");
    assert_eq!(store.show(&umbrella, &of("notes")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(store.list(&umbrella, true).unwrap(), []);
    let theirs = store.create(&umbrella, "notes", &Definition::new("sqlite:agents/1.db")).unwrap();
    assert_eq!((&theirs.id, theirs.version), (&first.id, 1));
    let fork = store.fork(&umbrella, &of("copy"), "copy", |parent| Ok(parent.clone()));
    assert_eq!(fork.unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_retired_definition_stays_and_names_its_successor() {
    let folder = tempfile::tempdir().unwrap();
    let acme = tenant("acme");
    {
        let store = store(folder.path());
        store.create(&acme, "notes", &Definition::new("sqlite:agents/1.db")).unwrap();
        store.fork(&acme, &of("notes"), "notes", |_| Ok(Definition::new("sqlite:agents/2.db"))).unwrap();
        store.retire(&acme, &of("notes@2"), Some("next")).unwrap();
    }
    let store = store(folder.path());
    // The older version does not replace it.
    for which in ["notes", "notes@2"] {
        let error = store.resolve(&acme, &of(which)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(error.details().get("successor").unwrap(), "next");
        assert!(
            error.message().contains("`next`") && error.details().contains_key("retired_at"),
            "{error:?}"
        );
    }
    assert_eq!(store.resolve(&acme, &of("notes@1")).unwrap().version, 1);
    assert_eq!(store.show(&acme, &of("notes@2")).unwrap().definition.url, "sqlite:agents/2.db");
    let again = store.create(&acme, "notes", &Definition::new("sqlite:agents/2.db")).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::Conflict);
    store.retire(&acme, &of("notes"), None).unwrap();
    let error = store.resolve(&acme, &of("notes@1")).unwrap_err();
    assert!(error.details().get("successor").unwrap().is_null());
    assert_eq!(store.list(&acme, true).unwrap().len(), 2);
}

#[tokio::test]
async fn a_definition_is_opened_for_its_tenant_while_it_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path());
    let acme = tenant("acme");
    let clock = Arc::new(TestClock::new());
    let definition = Definition::new("sqlite:agents/notes.db?durability=normal");
    config.check_definition(&Registry::default(), "notes", &definition).unwrap();
    config.definition_store(clock.clone()).unwrap().create(&acme, "notes", &definition).unwrap();
    assert!(folder.path().join("memory.definitions.db").is_file());
    let registry = Registry::default();
    let memory = config.open_backend_for(&registry, &acme, "notes").await.unwrap();
    assert_eq!(memory.name(), "sqlite");
    assert!(folder.path().join("agents/notes.db").is_file());
    config.open_backend_for(&registry, &acme, "notes@1").await.unwrap();
    for (tenant, name) in [(&acme, "other"), (&acme, "notes@2"), (&tenant("umbrella"), "notes")] {
        let error = config.open_backend_for(&registry, tenant, name).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{name}");
    }
    let narrower = SECTION.replace("\"agents\"", "\"elsewhere\"");
    let narrower = Config::parse(&narrower, folder.path().join("memory.toml")).unwrap();
    let error = narrower.open_backend_for(&registry, &acme, "notes").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forbidden);
}

#[test]
fn the_file_is_private_and_contains_only_definitions() {
    let folder = tempfile::tempdir().unwrap();
    drop(store(folder.path()));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(folder.path().join("d.db")).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0);
    }
    let foreign = folder.path().join("foreign.db");
    std::fs::write(&foreign, "no database at all, and long enough to be looked at as if it were one")
        .unwrap();
    let refused = DefinitionStore::open(&foreign, Arc::new(TestClock::new())).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Corrupt);
}

#[test]
fn concurrent_definitions_get_one_version_each() {
    let folder = tempfile::tempdir().unwrap();
    let acme = tenant("acme");
    store(folder.path()).create(&acme, "notes", &Definition::new("sqlite:agents/0.db")).unwrap();
    std::thread::scope(|threads| {
        for thread in 0..4 {
            let (folder, acme) = (folder.path(), &acme);
            threads.spawn(move || {
                let store = store(folder);
                for n in 0..10 {
                    let url = format!("sqlite:agents/{thread}-{n}.db");
                    store.fork(acme, &of("notes"), "notes", |_| Ok(Definition::new(url))).unwrap();
                }
            });
        }
    });
    let versions: Vec<u32> =
        store(folder.path()).list(&acme, true).unwrap().iter().map(|stored| stored.version).collect();
    assert_eq!(versions, (1..=41).collect::<Vec<u32>>());
}
