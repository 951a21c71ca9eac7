//! No pattern lets two tenants collide, in a key or a prefix, whatever they are called.

use memory_core::{ErrorKind, RunContext, Scope, ScopeId, ScopeKind, TenantId};
use memory_http::{KeyOptions, KeyRef, Keyring, PatternOf, Tenancy, TenantPattern, scope_id};
use proptest::prelude::*;

fn tenants() -> impl Strategy<Value = TenantId> {
    // Ids that look alike once something folds, trims, splits or cuts them.
    let alike = prop::sample::select(vec![
        "acme", "Acme", "ACME", "acme.", "ac-me", "ac_me", "ac_2dme", "acme_", "a", "aa", "a b", "a.b", "é",
        "e\u{301}", "ı", "i", "K", "\u{212a}", "m1", "m1.agent", "_41cme", "{tenant}", "../acme", "a/b",
        "a%2Fb", "**", "acme-eu", "acme~",
    ])
    .prop_map(str::to_owned);
    let any = "[a-zA-Z0-9._~{}*/\\\\%é-]{1,40}|\\PC{1,20}"
        .prop_filter("an id", |id| TenantId::new(id.as_str()).is_ok());
    prop_oneof![alike, any].prop_map(|id| TenantId::new(id).unwrap())
}

fn patterns() -> impl Strategy<Value = TenantPattern> {
    let variable = ("[A-Z][A-Z0-9_]{0,20}_", "[A-Z0-9_]{0,10}")
        .prop_map(|(head, tail)| (format!("{head}{{tenant}}{tail}"), PatternOf::Variables));
    let file = ("(/[a-z]{1,5}/)?[a-z0-9_.-]{0,10}", "(|[.][a-z_]{1,5})")
        .prop_map(|(head, tail)| (format!("{head}{{tenant}}{tail}"), PatternOf::Files));
    let prefix = ("[a-z0-9._~-]{0,10}", "[.~-][a-z0-9._~-]{0,5}")
        .prop_map(|(head, tail)| (format!("{head}{{tenant}}{tail}"), PatternOf::Prefixes));
    prop_oneof![variable, file, prefix].prop_map(|(text, of)| TenantPattern::parse(&text, of).unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn two_tenants_never_have_one_name(pattern in patterns(), a in tenants(), b in tenants()) {
        let (Ok(of_a), Ok(of_b)) = (pattern.name(&a), pattern.name(&b)) else { return Ok(()) };
        prop_assert_eq!(pattern.tenant(&of_a), Some(a.clone()), "{}", of_a);
        if a != b {
            // Not even for services that fold case, trim, or drop trailing dots.
            let folded = |name: &str| name.to_lowercase().trim().trim_end_matches('.').to_owned();
            prop_assert_ne!(folded(&of_a), folded(&of_b));
            if pattern.of() == PatternOf::Prefixes {
                prop_assert!(!of_a.starts_with(&of_b) && !of_b.starts_with(&of_a), "{} {}", of_a, of_b);
            }
        }
    }

    #[test]
    fn two_scopes_never_have_one_remote_id(
        a in tenants(), b in tenants(), id in "[a-z.*/]{1,10}", other in "[a-z.*/]{1,10}",
    ) {
        let keys = shared("p-{tenant}.");
        let scope = |tenant: &TenantId, id: &str, kind| ScopeId::new(id).ok().map(|id| Scope::new(tenant.clone(), kind, id));
        let (Some(one), Some(two)) = (scope(&a, &id, ScopeKind::Agent), scope(&b, &other, ScopeKind::User)) else {
            return Ok(());
        };
        let (Ok(of_one), Ok(of_two)) = (keys.remote_id(&one), keys.remote_id(&two)) else { return Ok(()) };
        prop_assert_ne!(&of_one, &of_two);
        prop_assert!(of_one.ends_with(&scope_id(&one)));
        prop_assert!(of_one.bytes().all(|b| b.is_ascii_alphanumeric() || b"._~-".contains(&b)), "{}", of_one);
    }

    #[test]
    fn whatever_is_written_as_a_pattern_is_judged_and_never_panics(text in "\\PC{0,60}|[A-Za-z_]{0,9}\\{tenant\\}[.a-zA-Z/]{0,9}") {
        for of in [PatternOf::Variables, PatternOf::Files, PatternOf::Prefixes] {
            if let Ok(pattern) = TenantPattern::parse(&text, of) {
                let tenant = TenantId::new("acme").unwrap();
                prop_assert!(pattern.name(&tenant).is_ok_and(|name| name.to_lowercase().contains("acme")));
            }
        }
    }
}

fn shared(prefix: &str) -> Keyring {
    Keyring::load(&with_prefix(prefix)).unwrap()
}

fn with_prefix(prefix: &str) -> KeyOptions {
    let mut options = KeyOptions::new(Tenancy::SharedKeyWithPrefix);
    // A variable that every process has; it is read, but sent nowhere.
    options.shared = Some(KeyRef::env("PATH"));
    options.prefix = Some(prefix.to_owned());
    options
}

#[test]
fn patterns_in_which_tenants_could_meet_are_refused_when_defined() {
    for (text, of) in [
        ("MEM9_KEY", PatternOf::Variables),
        ("MEM9_KEY_{tenant}_{tenant}", PatternOf::Variables),
        ("MEM9_KEY_{agent}", PatternOf::Variables),
        ("MEM9_KEY_{tenant}{user}", PatternOf::Variables),
        ("mem9_key_{tenant}", PatternOf::Variables),
        ("MEM9_KEY_{TENANT}", PatternOf::Variables),
        ("{tenant}", PatternOf::Variables),
        ("{tenant}_SECRET", PatternOf::Variables),
        ("MEM9{tenant}", PatternOf::Variables),
        ("MEM9_KEY_ {tenant}", PatternOf::Variables),
        ("1_{tenant}", PatternOf::Variables),
        ("/run/{tenant}/key", PatternOf::Files),
        ("/run/secrets/key", PatternOf::Files),
        ("/run/secrets/{tenant}.", PatternOf::Files),
        ("/run/secrets/{tenant} ", PatternOf::Files),
        ("/run/secrets/KEY-{tenant}", PatternOf::Files),
        ("acme.", PatternOf::Prefixes),
        ("{tenant}", PatternOf::Prefixes),
        ("acme-{tenant}x", PatternOf::Prefixes),
        ("acme-{tenant}_", PatternOf::Prefixes),
        ("Acme-{tenant}.", PatternOf::Prefixes),
        (" {tenant}.", PatternOf::Prefixes),
        ("{tenant}. ", PatternOf::Prefixes),
        ("*{tenant}.", PatternOf::Prefixes),
        ("a/{tenant}.", PatternOf::Prefixes),
    ] {
        assert_eq!(
            TenantPattern::parse(text, of).unwrap_err().kind(),
            ErrorKind::InvalidArgument,
            "{text:?}"
        );
    }
}

#[test]
fn a_prefix_and_its_tenancy_go_together() {
    let mut options = with_prefix("acme-{tenant}.");
    options.check().unwrap();
    options.prefix = None;
    assert!(options.check().unwrap_err().message().contains("needs `prefix`"));
    options.tenancy = Tenancy::SharedKey;
    options.check().unwrap();
    options.prefix = Some("acme-{tenant}.".into());
    assert!(options.check().is_err());
}

#[test]
fn a_name_that_would_have_to_be_cut_is_refused() {
    let mut options = with_prefix("{tenant}.");
    options.max_id_bytes = Some(100);
    let keys = Keyring::load(&options).unwrap();
    assert_eq!(keys.remote_id(&Scope::agent("acme", "a").unwrap()).unwrap().find("m1.agent."), Some(5));
    let error = keys.remote_id(&Scope::agent(&"x".repeat(60), "a").unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    options.prefix = Some("a-prefix-that-leaves-no-room-{tenant}.".into());
    assert!(Keyring::load(&options).unwrap_err().message().contains("no space"));
}

fn run(tenant: &str) -> RunContext {
    let id = |text: &str| ScopeId::new(text).unwrap();
    RunContext::new(TenantId::new(tenant).unwrap(), id("agent"), id("run"))
}

#[test]
fn keys_by_pattern_are_each_tenants_own() {
    let dir = tempfile::tempdir().unwrap();
    for (name, key) in [("acme.key", "of-acme"), ("_41cme.key", "of-capital-acme"), ("twin.key", "of-acme\n")]
    {
        std::fs::write(dir.path().join(name), key).unwrap();
    }
    let mut options = KeyOptions::new(Tenancy::KeyPerTenant);
    options.tenant_pattern = Some(KeyRef::file(dir.path().join("{tenant}.key")));
    let keys = Keyring::load(&options).unwrap();
    assert_eq!(keys.of(&run("acme")).unwrap().expose(), "of-acme");
    assert_eq!(keys.of(&run("Acme")).unwrap().expose(), "of-capital-acme");
    for tenant in ["twin", "umbrella", "../acme", &"x".repeat(250)] {
        let error = keys.of(&run(tenant)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unauthenticated, "{tenant}: {error}");
        assert!(!format!("{error:?}").contains("of-"));
    }
    // A named key takes precedence over the pattern, and never enters it.
    options.tenants.insert("umbrella".into(), KeyRef::file(dir.path().join("acme.key")));
    assert!(Keyring::load(&options).unwrap_err().message().contains("another tenant's"));
    options.tenants.clear();
    options.tenants.insert("acme".into(), KeyRef::file(dir.path().join("_41cme.key")));
    assert!(options.check().is_err());
    options.tenants.clear();
    options.tenancy = Tenancy::SharedKey;
    assert!(options.check().is_err());
}
