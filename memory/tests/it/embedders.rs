//! Embedders of `memory.toml`, and the backends that get them.

use std::sync::Arc;

use memory::config::EmbedderSection;
use memory::{
    BackendUrl, Config, Embedder, ErrorKind, Factory, OpenContext, Provider, Registry, Result, async_trait,
};
use memory_conformance::TestEmbedder;
use memory_conformance::reference::Reference;

/// Opens the reference provider, with the embedder it is given.
#[derive(Debug)]
struct InMemory {
    takes_embedder: bool,
}

#[async_trait]
impl Factory for InMemory {
    async fn open(&self, _: &BackendUrl, context: &OpenContext) -> Result<Arc<dyn Provider>> {
        let reference = Reference::new(context.clock.clone());
        Ok(match &context.embedder {
            Some(embedder) if self.takes_embedder => Arc::new(reference.with_embedder(Arc::clone(embedder))),
            _ => Arc::new(reference),
        })
    }
}

fn registry(takes_embedder: bool) -> Registry {
    let mut registry = Registry::empty();
    registry.register("test", Arc::new(InMemory { takes_embedder })).unwrap();
    registry
}

const FILE: &str = r#"
[embedders.local]
kind = "static"
path = "models/wordllama-256"
dimensions = 256

[egress]
allow = ["localhost:11434", "[::1]:8080"]

[backends.main]
url = "test:main"
embedder = "local"

[backends.plain]
url = "test:plain"
"#;

#[tokio::test]
async fn a_registry_s_embedder_reaches_the_backend_and_its_model_is_shown() {
    let embedder = Arc::new(TestEmbedder::new());
    let memory = registry(true).with_embedder(embedder.clone()).open("test:x").await.unwrap();
    assert!(memory.capabilities().vector_search);
    assert_eq!(memory.embedding_model(), Some(embedder.model()));
    let without = registry(true).open("test:x").await.unwrap();
    assert!(!without.capabilities().vector_search);
    assert_eq!(without.embedding_model(), None);
}

#[tokio::test]
async fn a_backend_without_embedder_support_is_refused() {
    let registry = registry(false).with_embedder(Arc::new(TestEmbedder::new()));
    let error = registry.open("test:x").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::VectorUnsupported);
    assert!(error.to_string().contains("takes no embedder"), "{error}");
}

#[tokio::test]
async fn a_backend_s_embedder_is_the_one_the_file_names_unless_the_registry_has_one() {
    let config = Config::parse(FILE, "somewhere/memory.toml").unwrap();
    assert_eq!(config.embedders().collect::<Vec<_>>(), ["local"]);
    assert_eq!(config.embedder_of("main").unwrap(), Some("local"));
    assert_eq!(config.embedder_of("plain").unwrap(), None);
    assert_eq!(config.embedder("local").unwrap().kind(), "static");

    let plain = config.open_backend_with(&registry(true), "plain").await.unwrap();
    assert!(!plain.capabilities().vector_search);
    // The files do not exist; the attempt to open them shows which embedder is meant.
    let error = config.open_backend_with(&registry(true), "main").await.unwrap_err();
    let expected = if cfg!(feature = "embed-static") { ErrorKind::NotFound } else { ErrorKind::Unsupported };
    assert_eq!(error.kind(), expected);
    assert!(error.to_string().contains("[embedders.local]"), "{error}");

    let own = registry(true).with_embedder(Arc::new(TestEmbedder::new()));
    assert!(config.open_backend_with(&own, "main").await.unwrap().capabilities().vector_search);
}

#[test]
fn an_unused_embedder_causes_a_warning() {
    let warnings = |text: &str| Config::parse(text, "memory.toml").unwrap().warnings();
    assert!(!warnings(FILE).iter().any(|warning| warning.contains("[embedders.")));
    let unused = FILE.replace("embedder = \"local\"\n", "");
    assert!(
        warnings(&unused).iter().any(|warning| warning.contains("[embedders.local]")),
        "{:?}",
        warnings(&unused)
    );
}

#[test]
fn sections_are_parsed_by_kind_and_paths_stay_as_written() {
    let config = Config::parse(FILE, "memory.toml").unwrap();
    let EmbedderSection::Static(section) = config.embedder("local").unwrap() else { panic!("another kind") };
    assert_eq!(section.path.to_str(), Some("models/wordllama-256"));
    assert_eq!((section.dimensions, section.name.as_deref()), (Some(256), None));
    let error = config.embedder("remote").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.to_string().contains("there are: local"), "{error}");
}

#[cfg(feature = "embed-openai")]
#[test]
fn a_service_needs_a_listed_host_and_its_key_is_never_shown() {
    let file = |allow: &str, url: &str| {
        format!(
            "[embedders.remote]\nkind = \"openai\"\nmodel = \"m\"\ndimensions = 8\nbase_url = \"{url}\"\n\
             [egress]\nallow = [{allow}]\n[backends.b]\nurl = \"test:b\"\nembedder = \"remote\"\n"
        )
    };
    let open = |allow: &str, url: &str| {
        let config = Config::parse(&file(allow, url), "memory.toml").unwrap();
        config.open_embedder(&registry(true), "remote").map(|embedder| embedder.model().clone())
    };
    let model = open("\"localhost:11434\"", "http://localhost:11434/v1").unwrap();
    assert_eq!((model.provider.as_str(), model.model.as_str(), model.dimensions), ("openai", "m", 8));
    for url in ["http://localhost:11435/v1", "http://127.0.0.1:11434/v1", "https://169.254.169.254/v1"] {
        assert_eq!(open("\"localhost:11434\"", url).unwrap_err().kind(), ErrorKind::EgressDenied, "{url}");
    }

    let unknown = "[embedders.r]\nkind = \"openai\"\nmodel = \"m\"\ndimensions = 8\napi_key = \"hunter2\"\n";
    let error = Config::parse(unknown, "memory.toml").unwrap_err();
    assert!(error.to_string().contains("unknown field `api_key`"), "{error}");
    let keyed =
        "[embedders.r]\nkind = \"openai\"\nmodel = \"m\"\ndimensions = 8\napi_key_env = \"hunter2\"\n";
    let config = Config::parse(keyed, "memory.toml").unwrap();
    let error = config.open_embedder(&registry(true), "r").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthenticated);
    assert!(!format!("{config:?}").contains("hunter2"));
}

#[test]
fn errors_give_the_line_and_never_quote_the_value() {
    for (bad, named) in [
        ("[embedders.a]\npath = \"x\"\n", "missing field `kind`"),
        ("[embedders.a]\nkind = 3\n", "`kind`"),
        ("[embedders.a]\nkind = \"hunter2\"\n", "expected `static` or `openai`"),
        ("[embedders.a]\nkind = \"static\"\n", "missing field `path`"),
        (
            "[embedders.a]\nkind = \"static\"\npath = \"x\"\napi_key = \"hunter2\"\n",
            "unknown field `api_key`",
        ),
        (
            "[embedders.a]\nkind = \"static\"\npath = \"x\"\ndimensions = \"hunter2\"\n",
            "invalid type: string,",
        ),
        ("[embedders.a]\nkind = \"static\"\npath = \"\"\n", "[embedders.a]: `path` is empty"),
        ("[backends.b]\nurl = \"sqlite:a.db\"\nembedder = \"hunter2\"\n", "[backends.b] names an embedder"),
        ("[egress]\nallow = [\"hunter2\"]\n", "host:port"),
        ("[egress]\nallow = [\"http://hunter2:80/\"]\n", "host:port"),
        ("[egress]\ndeny = []\n", "unknown field `deny`"),
    ] {
        let error = Config::parse(bad, "memory.toml").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{bad}");
        assert!(error.to_string().contains(named), "{bad}: {error}");
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{bad}: {error:?}");
    }
    let error = Config::parse("[limits]\n\n[embedders.a]\nkind = \"x\"\n", "memory.toml").unwrap_err();
    assert!(error.to_string().contains("line 3"), "{error}");
}
