//! From a URL or a `memory.toml` to an opened backend.

use std::path::Path;
use std::sync::Arc;

use memory::config::Discovery;
use memory::{
    BackendUrl, Config, Factory, OpenContext, Policy, Provider, Quota, Registry, Result, ScopeKind,
    SharedAccess, async_trait,
};
use memory_conformance::TestClock;
use memory_conformance::reference::Reference;

#[derive(Debug)]
struct InMemory;

#[async_trait]
impl Factory for InMemory {
    async fn open(&self, url: &BackendUrl, context: &OpenContext) -> Result<Arc<dyn Provider>> {
        assert_eq!(url.scheme(), "test");
        Ok(Arc::new(Reference::new(context.clock.clone())))
    }
}

#[tokio::test]
async fn a_registered_scheme_opens_checked() {
    let mut registry = Registry::empty().with_clock(Arc::new(TestClock::new()));
    registry.register("test", Arc::new(InMemory)).unwrap();
    let memory = registry.open("test:anything").await.unwrap();
    let scope = memory::Scope::agent("acme", "planner").unwrap();
    let too_many = memory::ListQuery::default().with_limit(100_000);
    let error = memory.backend().unwrap().list(&scope, too_many).await.unwrap_err();
    assert_eq!(error.kind().code(), "too_large", "Checked refuses before the backend is asked");
    assert_eq!(registry.register("test", Arc::new(InMemory)).unwrap_err().kind().code(), "conflict");
    for bad in ["", "Test", "a b", "1a", "test:", &"a".repeat(33)] {
        assert!(registry.register(bad, Arc::new(InMemory)).is_err(), "{bad}");
    }
}

#[tokio::test]
async fn an_unknown_scheme_s_error_lists_those_present_and_says_what_is_missing() {
    let mut registry = Registry::empty();
    let error = registry.open("sqlite:a.db").await.unwrap_err().to_string();
    assert!(error.contains("cargo feature `sqlite`"), "{error}");
    registry.register("test", Arc::new(InMemory)).unwrap();
    registry.register("other", Arc::new(InMemory)).unwrap();
    let error = registry.open("redis://app:hunter2@host/0").await.unwrap_err();
    assert!(error.to_string().contains("`redis`") && error.to_string().contains("other, test"), "{error}");
    for feature in ["sqlite (feature `sqlite`)", "mem0+https (feature `mem0`)", "mem9+http (feature `mem9`)"]
    {
        assert!(error.to_string().contains(feature), "{error}");
    }
    let error = registry.open("postgres://app:hunter2@db/x").await.unwrap_err();
    assert!(error.to_string().contains("cargo feature `postgres`"), "{error}");
    assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    for known in ["mem0+https://api.example?key=hunter2", "mem9+https://hunter2@host"] {
        let error = registry.open(known).await.unwrap_err();
        assert!(error.to_string().contains("cargo feature `mem"), "{error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    }
    for malformed in ["hunter2", "", "/var/lib/x.db", "host=db password=hunter2"] {
        let error = registry.open(malformed).await.unwrap_err();
        assert!(error.to_string().contains("sqlite:memory.db"), "{error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    }
}

const FULL: &str = r#"
[backends.main]
url = "sqlite:data/memory.db?durability=normal"

[backends.shared]
url = "postgres://app:hunter2@db.example/memory"

[default]
backend = "main"
tenant = "acme"
agent = "planner"
user = "ada"
memory_scopes = ["agent", "run"]
quota = { max_entries = 1000 }

[agents.planner]
backend = "shared"
memory_scopes = ["agent", "user", "run"]
sql_scopes = ["agent"]
quota = { max_bytes = 1000000 }
sql_max_bytes = 5000000
max_rows = 50

[limits]
quota = { max_bytes = 2000000 }
max_rows = 100
max_answer_bytes = 65536

[sql]
enabled = true
"#;

#[test]
fn an_agent_is_bound_to_its_section_completed_by_default_within_the_limits() {
    let config = Config::parse(FULL, "memory.toml").unwrap();
    let planner = config.agent("planner").unwrap();
    assert_eq!(planner.backend, "shared");
    let expected = Policy::default()
        .with_memory_scopes(ScopeKind::ALL)
        .with_sql_scopes([ScopeKind::Agent])
        .with_quota(Quota { max_entries: Some(1_000), max_bytes: Some(1_000_000) })
        .with_sql_max_bytes(5_000_000)
        .with_max_rows(50)
        .with_max_answer_bytes(65_536);
    assert_eq!(planner.policy, expected);
    let stranger = config.agent("anyone").unwrap();
    assert_eq!(stranger.backend, "main");
    let expected = Policy::default()
        .with_memory_scopes([ScopeKind::Agent, ScopeKind::Run])
        .with_quota(Quota { max_entries: Some(1_000), max_bytes: Some(2_000_000) })
        .with_max_rows(100)
        .with_max_answer_bytes(65_536);
    assert_eq!(stranger.policy, expected);
    let run = config.identity("run-1".parse().unwrap()).unwrap();
    assert_eq!(
        (run.tenant.as_str(), run.agent.as_str(), run.user.unwrap().as_str()),
        ("acme", "planner", "ada")
    );
    assert!(config.warnings().is_empty(), "{:?}", config.warnings());
}

#[test]
fn shared_state_is_granted_by_agent_or_default_in_the_space_that_is_named() {
    let text = "[backends.main]\nurl = \"sqlite:a.db\"\n[default]\nshared_space = \"team\"\nshared_state = \"read\"\n\
                [agents.lead]\nshared_state = \"authority\"\n[agents.guest]\nshared_space = \"lobby\"\n";
    let config = Config::parse(text, "memory.toml").unwrap();
    let granted = |agent: &str| {
        let policy = config.policy(agent);
        (policy.shared_state, policy.shared_space_name().to_owned())
    };
    assert_eq!(granted("lead"), (Some(SharedAccess::Authority), "team".to_owned()));
    assert_eq!(granted("guest"), (Some(SharedAccess::Read), "lobby".to_owned()));
    assert_eq!(granted("anyone"), (Some(SharedAccess::Read), "team".to_owned()));
    let unnamed = Config::parse("[default]\nshared_state = \"note\"\n", "memory.toml").unwrap();
    assert_eq!(unnamed.policy("x").shared_space_name(), "shared");
    for bad in [
        "shared_state = \"write\"",
        "shared_state = true",
        "shared_space = \"*\"",
        "shared_space = \"\"",
        "graph = \"all\"",
    ] {
        let error = Config::parse(&format!("[default]\n{bad}\n"), "memory.toml").unwrap_err();
        assert!(error.to_string().contains("line 2"), "{bad}: {error}");
    }
}

#[test]
fn an_empty_file_allows_nothing() {
    let config = Config::parse("", "memory.toml").unwrap();
    assert_eq!(config.default_backend(), None);
    assert!(config.agent("planner").is_err());
    assert!(config.identity("r".parse().unwrap()).unwrap_err().to_string().contains("`tenant`"));
    let config = Config::parse("[backends.only]\nurl = \"sqlite::memory:\"\n", "memory.toml").unwrap();
    assert_eq!(config.default_backend(), Some("only"));
    assert_eq!(config.agent("planner").unwrap().policy, Policy::deny_all());
    assert!(config.warnings()[0].contains("denied everything"));
}

#[test]
fn sql_is_off_by_default_and_unintended_settings_cause_warnings() {
    let parse = |text: &str| {
        Config::parse(&format!("{text}\n[backends.a]\nurl='sqlite::memory:'\n"), "m.toml").unwrap()
    };
    let off = parse("[agents.x]\nmemory_scopes=['agent']\nsql_scopes=['agent']");
    assert!(off.agent("x").unwrap().policy.sql_scopes.is_empty());
    assert!(off.warnings()[0].contains("[agents.x]") && off.warnings()[0].contains("SQL is off"));
    let unused = parse("[default]\nmemory_scopes=['agent']\n[sql]\nenabled=true");
    assert!(unused.warnings()[0].contains("no `sql_scopes`"));
}

#[test]
fn errors_name_file_line_and_what_is_allowed_and_quote_no_value() {
    for (text, line, says) in [
        ("[backends.a]\nurl = 'sqlite:x'\npath = 1\n", 3, "`url`"),
        ("\n[backend.a]\nurl = 'sqlite:x'\n", 2, "`backends`"),
        ("[agents.x]\nmemory_scope = ['agent']\n", 2, "`memory_scopes`"),
        ("[agents.x]\nmemory_scopes = ['tenant']\n", 2, "`user`"),
        ("[agents.x]\nquota = { max_entry = 1 }\n", 2, "`max_entries`"),
        ("[agents.x]\nmax_rows = -1\n", 2, "usize"),
        ("[default]\ntenant = '*'\n", 2, "wildcard"),
        ("[backends]\na = 'postgres://app:hunter2@db'\n", 2, "string"),
        ("[backends.a]\nurl = 'hunter2'\n", 2, "sqlite:memory.db"),
        ("[backends.a]\nurl = 'sqlite:x\n", 2, ""),
        ("[limits]\nmax_rows = 1\nmax_rows = 2\n", 3, "duplicate"),
    ] {
        let error = Config::parse(text, "conf/memory.toml").unwrap_err();
        let shown = error.to_string();
        assert!(
            shown.contains(&format!("conf/memory.toml, line {line}")) && shown.contains(says),
            "{text}: {shown}"
        );
        assert_eq!(error.details()["line"], line);
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
    }
    for (text, says) in [
        ("[default]\nbackend = 'none'\n", "[default]"),
        ("[agents.x]\nbackend = 'none'\n", "[agents.x]"),
        ("[limits]\nmax_rows = 0\n", "1 to 10000"),
        ("[limits]\nmax_answer_bytes = 1\n", "16384"),
        ("[limits]\nmax_rows = 10\n[agents.x]\nmax_rows = 11\n", "[limits]"),
        ("[limits]\nquota = {max_bytes=5}\n[default]\nquota = {max_bytes=6}\n", "quota.max_bytes"),
    ] {
        let error = Config::parse(text, "memory.toml").unwrap_err().to_string();
        assert!(error.starts_with("memory.toml: ") && error.contains(says), "{text}: {error}");
    }
    assert_eq!(Config::parse(&"#".repeat((1 << 20) + 1), "m").unwrap_err().kind().code(), "too_large");
    let config = Config::parse(FULL, "memory.toml").unwrap();
    assert!(!format!("{config:?}").contains("hunter2"));
    let error = config.backend_url("other").unwrap_err().to_string();
    assert!(error.contains("main, shared"), "{error}");
}

#[test]
fn a_backends_sql_section_is_equivalent_to_url_parameters() {
    let text = "[backends.main]\nurl = 'sqlite:a b.db?durability=normal'\n\
                [backends.main.sql]\ntx_idle_ms = 5000\nroot = 'trees & such'\nshared = { geo = 'data/geo.db' }\n";
    let config = Config::parse(text, "memory.toml").unwrap();
    let parameters = config.backend_url("main").unwrap().parameters().unwrap();
    let expected = [
        ("durability", "normal"),
        ("sql.root", "trees & such"),
        ("sql.shared.geo", "data/geo.db"),
        ("sql.tx_idle_ms", "5000"),
    ];
    assert!(
        parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())).eq(expected),
        "{parameters:?}"
    );
    for bad in ["tx_idle_ms = -1", "tx_idle_ms = 1.5", "shared = ['geo']", "shared = { geo = 1 }"] {
        let text = format!("[backends.main]\nurl = 'sqlite:a.db'\n[backends.main.sql]\n{bad}\n");
        let error = Config::parse(&text, "memory.toml").unwrap_err().to_string();
        assert!(error.contains("line 4") && error.contains("whole number"), "{bad}: {error}");
    }
    let twice = "[backends.main]\nurl = 'sqlite:a.db?sql.dumps=2'\n[backends.main.sql]\ndumps = 3\n";
    let config = Config::parse(twice, "memory.toml").unwrap();
    assert!(
        config.backend_url("main").unwrap().parameters().unwrap_err().to_string().contains("`sql.dumps`")
    );
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn an_unknown_sql_option_is_named() {
    let open = async |option: &str| {
        let text = format!("[backends.main]\nurl = 'sqlite::memory:'\n[backends.main.sql]\n{option}\n");
        Config::parse(&text, "memory.toml").unwrap().open_backend("main").await.map(drop)
    };
    open("max_transactions = 3").await.unwrap();
    open("inline = false").await.unwrap();
    for (bad, named) in [("max_transaction = 3", "sql.max_transaction"), ("dumps = 0", "sql.dumps")] {
        let error = open(bad).await.unwrap_err().to_string();
        assert!(error.contains(named), "{bad}: {error}");
    }
}

#[test]
fn a_file_is_found_by_name_variable_working_folder_or_configuration_folder() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let home = at("home");
    std::fs::create_dir_all(home.join("memory")).unwrap();
    let mut discovery = Discovery {
        explicit: None,
        variable: None,
        working_dir: dir.path().into(),
        config_home: Some(home.clone()),
    };
    assert_eq!(discovery.find().unwrap(), None);
    for (place, set) in [
        (home.join("memory/memory.toml"), None),
        (at("memory.toml"), None),
        (at("env.toml"), Some("variable")),
        (at("named.toml"), Some("explicit")),
    ] {
        match set {
            Some("variable") => discovery.variable = Some(place.clone()),
            Some(_) => discovery.explicit = Some(place.clone()),
            None => {}
        }
        if set.is_some() {
            let error = discovery.find().unwrap_err();
            assert_eq!(error.kind().code(), "not_found", "a named file must exist");
        }
        std::fs::write(&place, "").unwrap();
        assert_eq!(discovery.find().unwrap(), Some(place));
    }
}

#[test]
fn files_that_cannot_be_read_are_typed_errors() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("memory.toml");
    assert_eq!(Config::load(&path).unwrap_err().kind().code(), "not_found");
    std::fs::write(&path, vec![b'#'; (1 << 20) + 1]).unwrap();
    assert_eq!(Config::load(&path).unwrap_err().kind().code(), "too_large");
    std::fs::write(&path, b"a = \"\xff\"").unwrap();
    assert!(Config::load(&path).unwrap_err().to_string().contains("UTF-8"));
    assert!(Config::load(dir.path()).is_err());
    std::fs::write(&path, FULL).unwrap();
    assert_eq!(Config::load(&path).unwrap().origin(), Path::new(&path));
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use super::*;

    #[tokio::test]
    async fn paths_in_a_file_are_relative_to_it_and_data_is_there_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("memory.toml");
        std::fs::write(&path, "[backends.main]\nurl = 'sqlite:my%20data.db?durability=normal'\n").unwrap();
        let scope = memory::Scope::agent("acme", "planner").unwrap();
        let key: memory::Key = "k".parse().unwrap();
        for expected in [None, Some("1")] {
            let memory = Config::load(&path).unwrap().open_backend("main").await.unwrap();
            let backend = memory.backend().unwrap();
            let found = backend.get(&scope, &key, memory::GetOptions::default()).await.unwrap();
            assert_eq!(found.as_ref().map(|entry| entry.value.as_str()), expected);
            backend.set(&scope, &key, 1.into(), memory::SetOptions::default()).await.unwrap();
        }
        assert!(dir.path().join("my data.db").is_file());
    }

    #[tokio::test]
    async fn each_in_memory_store_is_separate() {
        let scope = memory::Scope::agent("acme", "planner").unwrap();
        let key: memory::Key = "k".parse().unwrap();
        let (a, b) =
            (memory::open("sqlite::memory:").await.unwrap(), memory::open("sqlite::memory:").await.unwrap());
        a.backend().unwrap().set(&scope, &key, 1.into(), memory::SetOptions::default()).await.unwrap();
        let found = b.backend().unwrap().get(&scope, &key, memory::GetOptions::default()).await.unwrap();
        assert!(found.is_none());
        assert_eq!(a.name(), "sqlite");
        assert_eq!(a.health().await.unwrap().status, memory::HealthStatus::Ok);
    }
}

#[test]
fn parameters_of_bm25_are_read_and_checked() {
    let config = Config::parse("[recall]\nbm25 = { k1 = 1.2, b = 0.75 }\n", "memory.toml").unwrap();
    let bm25 = config.file().recall.bm25.unwrap();
    assert_eq!((bm25.k1, bm25.b), (1.2, 0.75));
    for (text, said) in [
        ("bm25 = { k1 = 11.0, b = 0.5 }", "k1 of bm25 is 11; it must be 0 to 10"),
        ("bm25 = { k1 = nan, b = 0.5 }", "k1 of bm25 is NaN"),
        ("bm25 = { k1 = 1.0, b = 1.5 }", "b of bm25 is 1.5; it must be 0 to 1"),
        ("bm25 = { k1 = 1.0 }", "missing field `b`"),
    ] {
        let error = Config::parse(&format!("[recall]\n{text}\n"), "memory.toml").unwrap_err();
        assert!(format!("{error} {error:?}").contains(said), "{error:?}");
    }
}

#[test]
fn the_documented_configuration_is_valid_and_complete() {
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/configuration.md"))
            .unwrap();
    let mut blocks = page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let config = Config::parse(blocks.next().expect("an example"), "docs/configuration.md").unwrap();
    assert!(config.warnings().is_empty());
    for name in [
        "url",
        "backend",
        "tenant",
        "agent",
        "user",
        "memory_scopes",
        "sql_scopes",
        "shared_state",
        "shared_space",
        "graph",
        "quota",
        "max_entries",
        "max_bytes",
        "sql_max_bytes",
        "max_rows",
        "max_answer_bytes",
        "max_input_bytes",
        "enabled",
        "MEMORY_CONFIG",
    ] {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
    for block in blocks {
        Config::parse(block, "docs/configuration.md").unwrap();
    }
}
