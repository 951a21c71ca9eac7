//! Facts over MCP, from fakes of the services.

use serde_json::{Value, json};

use crate::serve::client::Place;
use crate::support::service::Service;
use crate::support::user::has;

const RULES: &str =
    "[default]\nagent = \"claude\"\nuser = \"ada\"\nmemory_scopes = [\"agent\", \"user\", \"run\"]\n";

/// A folder whose `memory.toml` binds the agent to this service.
pub(crate) fn place_of(service: &Service, name: &str, parameters: &str) -> Place {
    let place = Place::new();
    std::fs::create_dir(place.path().join("keys")).unwrap();
    place.write("keys/mem0", memory_fakes::mem0::KEY);
    place.write("keys/mem9", memory_fakes::mem9::KEY);
    let config = service.config(name, parameters);
    place.write("memory.toml", &format!("{config}{RULES}backend = \"{name}\"\n"));
    place
}

fn said(text: &str) -> Value {
    json!({"op": "add", "messages": [{"role": "user", "content": text}]})
}

fn memories(answer: &Value) -> Vec<&str> {
    answer["facts"].as_array().unwrap().iter().map(|fact| fact["memory"].as_str().unwrap()).collect()
}

#[test]
fn a_client_sees_only_what_mem0_serves() {
    let service = Service::mem0();
    let place = place_of(&service, "mem0", "api_key=file:keys/mem0");
    let mut client = place.start(&[]);
    let instructions = client.initialize()["instructions"].as_str().unwrap().to_owned();
    assert!(instructions.contains("`recall`") && !instructions.contains("`set`"), "{instructions}");
    let own = Place::new();
    let both = own.start(&["--url", "sqlite:memory.db", "--agent", "claude"]).initialize();
    let both = both["instructions"].as_str().unwrap();
    let at = |word: &str| both.find(word).unwrap_or_else(|| panic!("{word}: {both}"));
    assert!(at("`recall`") < at("`add`") && at("`add`") < at("`set`"), "{both}");
    let tool = client.request("tools/list", json!({}))["result"]["tools"][0].clone();
    let properties = &tool["inputSchema"]["properties"];
    assert_eq!(
        properties["op"]["enum"],
        json!(["add", "recall", "facts", "forget", "list_scopes", "describe"])
    );
    assert!(
        properties["infer"].is_object() && properties["metadata"].is_object() && properties["key"].is_null()
    );
    assert_eq!(service.asked(), [""; 0], "to be shown is not to be asked");
}

#[test]
fn facts_are_added_recalled_listed_and_forgotten_over_mem0() {
    let service = Service::mem0();
    let place = place_of(&service, "mem0", "api_key=file:keys/mem0");
    let mut client = place.connect_with(&[]);
    let added = client.ok(said("I live in Lisbon. I love green tea."));
    let ids = added["ids"].as_array().unwrap().clone();
    assert_eq!((&added["status"], ids.len()), (&json!("done"), 2), "{added}");
    let found = client.ok(json!({"op": "recall", "query": "where do I live", "top_k": 1}));
    assert!(memories(&found)[0].contains("Lisbon"), "{found}");
    let page = client.ok(json!({"op": "facts", "limit": 1}));
    let rest = client.ok(json!({"op": "facts", "cursor": page["next"]}));
    assert_eq!((memories(&page).len(), memories(&rest).len()), (1, 1));
    let verbatim = json!({"op": "add", "infer": false, "metadata": {"day": 3}, "scope": "user",
        "messages": [{"role": "user", "content": "* AND user_id"}]});
    client.ok(verbatim);
    let own = client.ok(json!({"op": "facts", "scope": "user"}));
    assert_eq!((memories(&own), &own["facts"][0]["metadata"]), (vec!["* AND user_id"], &json!({"day": 3})));
    let forgot = client.ok(json!({"op": "forget", "ids": [ids[0], own["facts"][0]["id"]]}));
    has(&forgot, json!({"forgotten": 1, "not_found": [own["facts"][0]["id"]]}));
    let error = client.refused(json!({"op": "set", "key": "k", "value": 1}));
    assert_eq!(
        (&error["code"], &error["details"]["instead"]),
        (&json!("capability_unsupported"), &json!("add"))
    );
    let error = client.refused(json!({"op": "event", "event": "e"}));
    assert_eq!(error["code"], "capability_unsupported");
    assert!(client.close().status.success());

    // Another connection is another run and the same agent and user.
    let mut again = place.connect_with(&[]);
    assert_eq!(memories(&again.ok(json!({"op": "facts"}))).len(), 1);
    assert_eq!(memories(&again.ok(json!({"op": "facts", "scope": "run"}))), [""; 0]);
}

#[test]
fn pending_work_of_the_platform_can_be_queried() {
    let service = Service::mem0_platform();
    let place = place_of(&service, "mem0", "flavour=platform&api_key=file:keys/mem0");
    let mut client = place.connect_with(&[]);
    let added = client.ok(said("I live in Lisbon"));
    assert_eq!(added["status"], "pending");
    let ask = json!({"op": "event", "event": added["event"]});
    assert_eq!(client.ok(ask.clone()), json!({"status": "pending"}));
    let done = client.ok(ask.clone());
    assert_eq!((&done["status"], done["ids"].as_array().unwrap().len()), (&json!("done"), 1));
    assert_eq!(memories(&client.ok(json!({"op": "recall", "query": "Lisbon"}))).len(), 1);
    let mut elsewhere = ask;
    elsewhere["scope"] = json!("user");
    assert_eq!(client.refused(elsewhere)["code"], "not_found");
}

#[test]
fn mem9_is_served_without_operations_it_would_ignore() {
    let service = Service::mem9();
    let place = place_of(&service, "mem9", "preview=true&tenancy=shared_key&api_key=file:keys/mem9");
    let mut client = place.connect_with(&[]);
    let tool = client.request("tools/list", json!({}))["result"]["tools"][0].clone();
    let properties = &tool["inputSchema"]["properties"];
    assert!(properties["infer"].is_null() && properties["metadata"].is_null(), "{properties}");
    let added = client.ok(said("I live in Lisbon. I love green tea."));
    assert_eq!(added, json!({"status": "done", "ids": [], "truncated": false}));
    let found = client.ok(json!({"op": "recall", "query": "green tea"}));
    assert_eq!(
        (memories(&found), &found["facts"][0]["score_kind"]),
        (vec!["I love green tea"], &json!("similarity"))
    );
    let error =
        client.refused(json!({"op": "add", "infer": false, "messages": [{"role": "user", "content": "x"}]}));
    assert_eq!(
        (&error["code"], &error["details"]["option"]),
        (&json!("capability_unsupported"), &json!("infer"))
    );
    assert_eq!(client.ok(json!({"op": "forget", "all": true}))["forgotten"], 2);
}

#[test]
fn a_runs_own_facts_are_forgotten_when_the_connection_ends() {
    for (service, name, parameters) in [
        (Service::mem0(), "mem0", "api_key=file:keys/mem0"),
        (Service::mem9(), "mem9", "preview=true&tenancy=shared_key&api_key=file:keys/mem9"),
    ] {
        let place = place_of(&service, name, parameters);
        let mut client = place.connect_with(&[]);
        let mut own = said("I live in Lisbon");
        own["scope"] = json!("run");
        client.ok(own);
        client.ok(said("I love green tea"));
        let before = service.asked().len();
        assert!(client.close().status.success());
        let asked = service.asked();
        let deletes = asked[before..]
            .iter()
            .filter(|line| line.starts_with("DELETE") || line.ends_with("batch-delete"));
        assert!(deletes.count() > 0, "{asked:?}");
        let mut again = place.connect_with(&[]);
        assert_eq!(memories(&again.ok(json!({"op": "facts"}))).len(), 1, "the agent's own fact stays");
    }
}

#[test]
fn a_key_that_the_operator_gives_the_run_reaches_the_service_and_nothing_else() {
    let service = Service::mem0();
    let place = place_of(&service, "mem0", "run_credential=mem0");
    let config = std::fs::read_to_string(place.path().join("memory.toml")).unwrap();
    place.write("memory.toml", &format!("{config}[audit]\nfile = \"audit.jsonl\"\nmode = \"full\"\n"));
    let mut without = place.connect_with(&[]);
    assert_eq!(without.refused(said("I live in Lisbon"))["code"], "unauthenticated");
    drop(without);
    let mut client = place.connect_with(&["--credential", "mem0=file:keys/mem0"]);
    client.ok(said("I live in Lisbon"));
    let described = client.ok(json!({"op": "describe"}));
    let secret = "sk-proj-Zr8vK2mQ9xT4bN7wL1cD5fH3";
    client.ok(said(&format!("my key is {secret}, remember Porto")));
    let error = client.refused(json!({"op": "recall", "query": "x", "credentials": {"mem0": "other"}}));
    assert_eq!(error["code"], "invalid_argument", "a model has no say in it");
    let ended = client.close();
    let audit = std::fs::read_to_string(place.path().join("audit.jsonl")).unwrap();
    let key = memory_fakes::mem0::KEY;
    for shown in [&described.to_string(), &ended.stderr, &audit] {
        assert!(!shown.contains(key), "{shown}");
    }
    assert!(service.heard().contains(key));
    assert!(audit.contains("\"op\":\"add\"") && audit.contains("remember Porto"), "{audit}");
    assert!(!audit.contains(secret), "what looks like a key is not recorded: {audit}");
}

#[test]
fn scopes_that_are_not_allowed_are_denied_before_anything_is_sent() {
    let service = Service::mem0();
    let place = place_of(&service, "mem0", "api_key=file:keys/mem0");
    let mut client = place.connect_with(&["--scopes", "agent"]);
    for call in [
        json!({"op": "add", "scope": "user", "messages": [{"role": "user", "content": "x"}]}),
        json!({"op": "recall", "scope": "user", "query": "x"}),
        json!({"op": "facts", "scope": "run"}),
        json!({"op": "forget", "scope": "user", "all": true}),
        json!({"op": "event", "scope": "user", "event": "e"}),
    ] {
        assert_eq!(client.refused(call.clone())["code"], "scope_denied", "{call}");
    }
    assert_eq!(service.asked(), [""; 0]);
}

#[test]
fn a_printed_configuration_names_the_backend_and_the_reference_to_its_key() {
    let service = Service::mem0();
    let place = place_of(&service, "mem0", "run_credential=mem0");
    let printed = place
        .command(&["serve", "--backend", "mem0", "--allow-host", "localhost:8888"])
        .args(["--credential", "mem0=file:keys/mem0", "--print-config", "claude-code"])
        .output()
        .unwrap();
    let text = String::from_utf8(printed.stdout).unwrap();
    let file = place.path().join("keys/mem0");
    for part in ["\"--backend\"", "\"--allow-host\"", &format!("mem0=file:{}", file.display())] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains(memory_fakes::mem0::KEY));
}

/// A folder with the first memory.toml that a page shows, for a local service.
fn place_of_page(page: &str, service: &Service, url: &str) -> Place {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(page);
    let page = std::fs::read_to_string(file).unwrap();
    let shown = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let address = service.address();
    let config = shown
        .replace(url, &format!("http://{address}"))
        .replace("allow = [\"", &format!("allow = [\"{address}\", \""))
        .replace("env:MEM0_API_KEY", "file:keys/mem0")
        .replace("tenant_keys.acme=env:ACME_MEM9_KEY", "tenant_keys.acme=file:keys/mem9");
    let place = Place::new();
    std::fs::create_dir(place.path().join("keys")).unwrap();
    place.write("keys/mem0", memory_fakes::mem0::KEY);
    place.write("keys/mem9", memory_fakes::mem9::KEY);
    place.write("memory.toml", &config);
    place
}

#[test]
fn an_agent_may_use_what_the_first_example_of_each_page_configures() {
    let (mem0, mem9) = (Service::mem0(), Service::mem9());
    let agent = ["--agent", "claude", "--user", "ada"];
    for (page, service, url, backend) in [
        ("mem0.md", &mem0, "http://localhost:8888", "mem0"),
        ("mem9.md", &mem9, "https://api.mem9.ai", "mem9"),
    ] {
        let place = place_of_page(page, service, url);
        let options = [&["--backend", backend, "--tenant", "acme"], &agent[..]].concat();
        let mut client = place.connect_with(&options);
        for scope in ["agent", "user"] {
            let mut add = said("I live in Lisbon.");
            add["scope"] = json!(scope);
            client.ok(add);
            let found = client.ok(json!({"op": "recall", "query": "Lisbon", "scope": scope}));
            assert_eq!(memories(&found).len(), 1, "{page}: {found}");
            client.ok(json!({"op": "facts", "scope": scope}));
            client.ok(json!({"op": "forget", "all": true, "scope": scope}));
        }
    }
}
