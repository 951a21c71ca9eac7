//! The API `/v1`, through the real binary and a token.

use serde_json::{Value, json};

use super::door::{Answer, Door};

/// A server and a token for all of one tenant.
struct Api {
    door: Door,
    token: String,
}

impl Api {
    fn open() -> Self {
        let door = Door::open("sql_scopes = [\"agent\", \"run\"]\n[sql]\nenabled = true\n");
        let token = door.token("ops", &["--tenant", "acme"]);
        Self { door, token }
    }

    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let bearer = format!("Bearer {}", self.token);
        self.door.request(method, path, &[&[("Authorization", bearer.as_str())], headers].concat(), body)
    }

    fn post(&self, op: &str, arguments: &Value) -> Answer {
        self.send("POST", &format!("/v1/ops/{op}"), &[], &arguments.to_string())
    }

    fn ok(&self, op: &str, arguments: &Value) -> Value {
        let answer = self.post(op, arguments);
        assert_eq!(answer.status, 200, "{op}: {answer:?}");
        serde_json::from_str(&answer.body).unwrap()
    }
}

fn scope(id: &str) -> Value {
    json!({"tenant": "acme", "kind": "agent", "id": id})
}

#[test]
fn an_operation_takes_its_arguments_and_answers_its_result() {
    let api = Api::open();
    let served: Value = serde_json::from_str(&api.send("GET", "/v1/capabilities", &[], "").body).unwrap();
    assert_eq!((&served["provider"], &served["capabilities"]["kv"]), (&json!("sqlite"), &json!(true)));
    assert_eq!(served["capabilities"]["moment"], false);
    let text = r#"{"z":1.50,"a":9007199254740993}"#;
    let body = format!(r#"{{"scope":{},"key":"k","value":{text}}}"#, scope("ann"));
    assert_eq!(api.send("POST", "/v1/ops/set", &[], &body).status, 200);
    let found = api.post("get", &json!({"scope": scope("ann"), "key": "k"}));
    assert!(found.body.contains(text), "{found:?}");
    assert_eq!(api.ok("get", &json!({"scope": scope("ann"), "key": "none"})), Value::Null);
    let run = json!({"tenant": "acme", "agent": "ann", "run": "r-1"});
    let statement = |sql: &str| json!({"run": run, "scope": scope("ann"), "sql": sql, "args": []});
    api.ok("exec", &statement("CREATE TABLE t (n INTEGER)"));
    assert_eq!(
        api.ok("query", &statement("SELECT 9007199254740993 AS n"))["rows"][0][0],
        9_007_199_254_740_993_i64
    );
    let document: Value = serde_json::from_str(&api.send("GET", "/v1/openapi.json", &[], "").body).unwrap();
    assert_eq!(document["openapi"], "3.1.0");
}

#[test]
fn what_is_wrong_is_refused_with_a_code_and_a_fitting_status() {
    let api = Api::open();
    api.ok("set", &json!({"scope": scope("ann"), "key": "text", "value": "x"}));
    let at = |id: &str, kind: &str, tenant: &str| json!({"scope": {"tenant": tenant, "kind": kind, "id": id}, "key": "k"});
    for (op, arguments, status, code) in [
        ("no_such", json!({}), 404, "not_found"),
        ("moment", json!({}), 501, "capability_unsupported"),
        ("get", json!([]), 400, "invalid_argument"),
        ("bulk_insert", json!({"scope": scope("ann"), "items": [["k", 1]]}), 400, "invalid_argument"),
        ("get", json!({"scope": scope("ann"), "key": "k", "kye": 1}), 400, "invalid_argument"),
        ("get", at("ann", "agent", "globex"), 403, "scope_denied"),
        ("get", at("shared", "host", "acme"), 501, "capability_unsupported"),
        ("erase", json!({"target": {"tenant": "acme"}}), 403, "forbidden"),
        ("tenants", json!({"limit": 10}), 403, "forbidden"),
        ("increment", json!({"scope": scope("ann"), "key": "text", "delta": 1}), 422, "wrong_type"),
        ("list", json!({"scope": scope("ann"), "query": {"limit": 5000}}), 413, "too_large"),
    ] {
        let answer = api.post(op, &arguments);
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{op} {arguments}: {answer:?}");
    }
    let put = api.send("PUT", "/v1/tenants/acme/agent/ann/entries/k?ttl=5", &[], "1");
    assert_eq!((put.status, put.code().as_str()), (400, "invalid_argument"), "an option that nobody reads");
    let deep = format!(
        r#"{{"scope":{},"key":"k","value":{}{}}}"#,
        scope("ann"),
        "[".repeat(5_000),
        "]".repeat(5_000)
    );
    assert_eq!(api.send("POST", "/v1/ops/set", &[], &deep).status, 400);
    for (method, path, allowed) in [
        ("GET", "/v1/ops/get", "POST"),
        ("POST", "/v1/capabilities", "GET,HEAD"),
        ("PATCH", "/v1/tenants/acme/agent/ann/entries/k", "GET,HEAD,PUT,DELETE"),
        ("POST", "/metrics", "GET,HEAD"),
    ] {
        let answer = api.send(method, path, &[], "");
        assert_eq!((answer.status, answer.code()), (405, "invalid_argument".to_owned()), "{path}");
        assert_eq!(answer.header("allow"), Some(allowed), "{path}");
    }
    assert_eq!(api.send("GET", "/v1/nothing", &[], "").status, 404);
    assert_eq!(api.door.get("/v1/capabilities", &[]).status, 401);
}

#[test]
fn an_entry_has_an_address_and_its_version_is_its_tag() {
    let api = Api::open();
    let path = "/v1/tenants/acme/agent/ann/entries/a%2Fb%20c";
    assert_eq!(api.send("GET", path, &[], "").status, 404);
    let made = api.send("PUT", path, &[("If-None-Match", "*")], "{\"n\": 1}");
    assert_eq!((made.status, made.header("etag")), (201, Some("\"1\"")), "{made:?}");
    assert_eq!(api.send("PUT", path, &[("If-None-Match", "*")], "2").status, 412);
    assert_eq!(api.send("PUT", path, &[("If-Match", "\"1\"")], "2").header("etag"), Some("\"2\""));
    let late = api.send("PUT", path, &[("If-Match", "\"1\"")], "3");
    assert_eq!((late.status, late.code()), (412, "conflict".to_owned()));
    let found = api.send("GET", path, &[], "");
    assert_eq!(serde_json::from_str::<Value>(&found.body).unwrap()["key"], "a/b c");
    assert_eq!(api.send("GET", path, &[("If-None-Match", "\"2\"")], "").status, 304);
    for tags in ["*", "W/\"2\"", "\"1\", \"2\""] {
        assert_eq!(api.send("GET", path, &[("If-None-Match", tags)], "").status, 304, "{tags}");
    }
    for tags in ["\"1\"", "2", "\"02\"", ""] {
        assert_eq!(api.send("GET", path, &[("If-None-Match", tags)], "").status, 200, "{tags}");
    }
    for tag in ["\"2\"", "*"] {
        assert_eq!(api.send("GET", path, &[("If-Match", tag)], "").status, 200, "{tag}");
    }
    let other = api.send("GET", path, &[("If-Match", "\"1\"")], "");
    assert_eq!((other.status, other.code()), (412, "conflict".to_owned()));
    for tag in ["2", "*", "\"02\"", "\"+2\"", "W/\"2\"", "\"1\", \"2\"", "\"-1\"", "\""] {
        assert_eq!(api.send("PUT", path, &[("If-Match", tag)], "3").status, 400, "{tag}");
    }
    let any = api.send("DELETE", path, &[("If-Match", "*")], "");
    assert!(any.status == 400 && any.body.contains("read the entry"), "{any:?}");
    assert_eq!(api.send("DELETE", path, &[("If-Match", "\"2\"")], "").body, r#"{"deleted":true}"#);
    assert_eq!(api.send("GET", "/v1/tenants/acme/host/ann/entries/k", &[], "").status, 400);
    assert_eq!(api.send("GET", "/v1/tenants/globex/agent/ann/entries/k", &[], "").status, 403);
    for unlike in ["%", "100%", "%zz", "a%2", "%ff", "%C0%80", "%00"] {
        let path = format!("/v1/tenants/acme/agent/ann/entries/{unlike}");
        assert_eq!(api.send("PUT", &path, &[], "1").status, 400, "{unlike}");
    }
    assert_eq!(api.send("PUT", path, &[("Content-Encoding", "gzip")], "1").status, 415);
}

#[test]
fn a_write_that_is_sent_again_with_its_key_is_done_once() {
    let mut api = Api::open();
    let increment = |delta: i64| json!({"scope": scope("ann"), "key": "n", "delta": delta}).to_string();
    let batch = json!([{"op": "increment", "arguments": {"scope": scope("ann"), "key": "n", "delta": 10}}])
        .to_string();
    let entry = "/v1/tenants/acme/agent/ann/entries/k";
    let send = |api: &Api, (method, path, key, body): (&str, &str, &str, &str)| {
        let answer = api.send(method, path, &[("Idempotency-Key", key)], body);
        let tag = answer.header("etag").map(str::to_owned);
        (answer.status, tag, answer.header("idempotency-replayed").is_some(), answer.body)
    };
    let one = increment(1);
    let writes = [
        ("POST", "/v1/ops/increment", "a", one.as_str()),
        ("POST", "/v1/batch", "b", &batch),
        ("PUT", entry, "c", "1"),
        ("DELETE", entry, "d", ""),
    ];
    let mut first = writes.map(|write| send(&api, write));
    assert_eq!(first.each_ref().map(|answer| answer.0), [200, 200, 201, 200]);
    assert!(first[2].1.is_some(), "an entry's tag");
    // A restart forgets nothing.
    api.door = api.door.again();
    for (write, first) in writes.into_iter().zip(&mut first) {
        assert!(!std::mem::replace(&mut first.2, true), "{first:?}");
        assert_eq!(send(&api, write), *first);
    }
    assert_eq!(api.ok("get", &json!({"scope": scope("ann"), "key": "n"}))["value"], 11);
    assert_eq!(api.ok("get", &json!({"scope": scope("ann"), "key": "k"})), Value::Null);
    // A different body, place or condition.
    for other in [
        ("POST", "/v1/ops/increment", "a", increment(2).as_str()),
        ("POST", "/v1/batch", "b", "[{\"op\": \"set\", \"arguments\": {}}]"),
        ("PUT", entry, "c", "2"),
        ("PUT", "/v1/tenants/acme/agent/bob/entries/k", "c", "1"),
        ("DELETE", entry, "c", ""),
    ] {
        assert_eq!(send(&api, other).0, 409, "{other:?}");
    }
    let headers = [("Idempotency-Key", "c"), ("If-None-Match", "*")];
    assert_eq!(api.send("PUT", entry, &headers, "1").status, 409);
    // A condition that does not hold now may hold later.
    let headers = [("Idempotency-Key", "e"), ("If-Match", "\"7\"")];
    for _ in 0..2 {
        let refused = api.send("PUT", entry, &headers, "1");
        assert_eq!((refused.status, refused.header("idempotency-replayed")), (412, None));
    }
    // What is kept for this belongs to nobody's scope.
    let scopes = api.ok("scopes", &json!({"tenant": "acme"}));
    assert_eq!(scopes["scopes"].as_array().unwrap().len(), 1, "{scopes}");
    assert_eq!(api.send("PUT", entry, &[("Idempotency-Key", &"x".repeat(257))], "1").status, 400);
    let two = [("Idempotency-Key", "x"), ("Idempotency-Key", "y")];
    assert_eq!(api.send("PUT", entry, &two, "1").status, 400);
}

#[test]
fn a_batch_answers_each_operation_by_itself() {
    let api = Api::open();
    let calls = json!([
        {"op": "set", "arguments": {"scope": scope("ann"), "key": "k", "value": 1}},
        {"op": "get", "arguments": {"scope": {"tenant": "globex", "kind": "agent", "id": "ann"}, "key": "k"}},
        {"op": "export_scope", "arguments": {"scope": scope("ann")}},
        {"op": "increment", "arguments": {"scope": scope("ann"), "key": "k", "delta": 4}},
    ]);
    let answer = api.send("POST", "/v1/batch", &[], &calls.to_string());
    let answers: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(answers[0]["reply"]["created"], true, "{answer:?}");
    assert_eq!(answers[1]["error"]["code"], "scope_denied");
    assert_eq!(answers[2]["error"]["code"], "invalid_argument");
    assert_eq!(answers[3]["reply"]["value"], 5);
    let many = Value::from(vec![calls[0].clone(); 101]);
    assert_eq!(api.send("POST", "/v1/batch", &[], &many.to_string()).status, 413);
}

#[test]
fn a_stream_goes_out_and_in_and_a_cut_one_is_refused() {
    let api = Api::open();
    for n in 0..50 {
        api.ok("set", &json!({"scope": scope("ann"), "key": format!("k{n:02}"), "value": {"n": n}}));
    }
    let exported = api.post("export_scope", &json!({"scope": scope("ann")})).body;
    assert_eq!(exported.lines().last(), Some(r#"{"end":50}"#));
    let import = |id: &str, lines: &str| {
        let body = format!("{}\n{lines}", json!({"scope": scope(id), "options": {"atomicity": "scope"}}));
        api.send("POST", "/v1/ops/import_scope", &[], &body)
    };
    let whole = import("bob", &exported);
    assert!(whole.body.contains("\"created\":50"), "{whole:?}");
    let half: String = exported.lines().take(25).map(|line| format!("{line}\n")).collect();
    for cut in [half.clone(), format!("{half}{{\"end\":24}}\n"), format!("{half}{{\"item\":{{}}}}\n")] {
        assert_ne!(import("cay", &cut).status, 200);
    }
    assert_eq!(
        api.ok("list", &json!({"scope": scope("cay")}))["entries"],
        json!([]),
        "nothing of a cut stream is kept"
    );
}

#[test]
fn a_servers_memory_is_opened_by_its_url() {
    let api = Api::open();
    let url = format!("memory+http://127.0.0.1:{}?api_key=file:token", api.door.port);
    api.door.user.file("token", &api.token);
    let host = format!("127.0.0.1:{}", api.door.port);
    let remote = ["--url", &url, "--allow-host", &host, "--tenant", "acme", "--agent", "ann"];
    let run = |arguments: &[&str]| api.door.user.json(&[&remote[..], arguments].concat());
    run(&["set", "k", "41"]);
    assert_eq!(run(&["incr", "k"])["value"], 42);
    assert_eq!(api.ok("get", &json!({"scope": scope("ann"), "key": "k"}))["value"], 42);
    let elsewhere =
        [&["--url", &url, "--allow-host", &host, "--tenant", "globex", "--agent", "ann"][..], &["get", "k"]];
    assert!(api.door.user.run(&elsewhere.concat()).code.unwrap_or(0) != 0);
}

#[test]
fn a_large_reply_is_compressed_for_who_asks_for_it_and_a_stream_is_not() {
    let api = Api::open();
    let value = "so much the same ".repeat(2_000);
    api.ok("set", &json!({"scope": scope("ann"), "key": "large", "value": value}));
    api.ok("set", &json!({"scope": scope("ann"), "key": "small", "value": 1}));
    let gzip = [("Accept-Encoding", "gzip")];
    let encoding = |method: &str, path: &str, headers: &[(&str, &str)], body: &str| {
        let answer = api.send(method, path, headers, body);
        (answer.status, answer.header("content-encoding").map(str::to_owned), answer.body.len())
    };
    let at = |key: &str| format!("/v1/tenants/acme/agent/ann/entries/{key}");
    let (status, coding, bytes) = encoding("GET", &at("large"), &gzip, "");
    assert_eq!((status, coding.as_deref()), (200, Some("gzip")));
    assert!(bytes < 4_000, "{bytes}");
    assert_eq!(encoding("GET", &at("large"), &[], "").1, None);
    assert_eq!(encoding("GET", &at("small"), &gzip, "").1, None);
    let export = json!({"scope": scope("ann")}).to_string();
    assert_eq!(encoding("POST", "/v1/ops/export_scope", &gzip, &export).1, None);
    // The provider asks for compression.
    let host = format!("127.0.0.1:{}", api.door.port);
    api.door.user.file("token", &api.token);
    let url = format!("memory+http://{host}?api_key=file:token");
    let remote = ["--url", &url, "--allow-host", &host, "--tenant", "acme", "--agent", "ann"];
    let found = api.door.user.ok(&[&remote[..], &["get", "large"]].concat());
    assert_eq!(found.trim(), json!(value).to_string());
}

#[test]
fn each_request_is_audited_by_the_id_of_its_token_and_without_keys() {
    let door = Door::open("[audit]\nfile = \"audit.jsonl\"\nmode = \"full\"\n");
    let token = door.token("ops", &["--tenant", "acme"]);
    let mut api = Api { door, token };
    api.ok("set", &json!({"scope": scope("ann"), "key": "private", "value": "diary"}));
    let elsewhere = json!({"scope": {"tenant": "globex", "kind": "agent", "id": "ann"}, "key": "private"});
    assert_eq!(api.post("get", &elsewhere).status, 403);
    api.door.signal("TERM");
    assert!(api.door.ended().0.success());
    let file = api.door.user.home().join("audit.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains("private") && !text.contains("diary"), "{text}");
    let id = api.door.user.json(&["token", "list"])["tokens"][0]["id"].clone();
    let records: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said = |record: &Value| {
        ["kind", "token", "op", "tenant", "scope", "scope_id", "outcome"].map(|name| record[name].clone())
    };
    let expected = |op: &str, tenant: &str, outcome: &str| {
        ["request", id.as_str().unwrap(), op, tenant, "agent", "ann", outcome].map(|text| json!(text))
    };
    let seen: Vec<[Value; 7]> = records.iter().map(said).collect();
    assert_eq!(seen, [expected("set", "acme", "ok"), expected("get", "globex", "scope_denied")]);
    api.door.user.ok(&["forget", "--yes", "--audit", "redact", "-q", "--tenant", "acme", "--agent", "ann"]);
    let text = std::fs::read_to_string(file).unwrap();
    let left: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_ne!(left["scope_id"], "ann", "{text}");
}

/// Even if the caller did not ask what the scores are made of, which is then not in its answer.
#[test]
fn a_recall_is_recorded_with_what_it_gave_and_in_full_mode_with_its_question() {
    for mode in ["full", "metadata"] {
        let door = Door::open(&format!("[audit]\nfile = \"audit.jsonl\"\nmode = \"{mode}\"\n"));
        let token = door.token("ops", &["--tenant", "acme"]);
        let mut api = Api { door, token };
        let run = json!({"tenant": "acme", "agent": "ann", "run": "r-1"});
        let said = json!([{"role": "user", "content": "I keep bees in Bergen"}]);
        api.ok("add", &json!({"run": run, "scope": scope("ann"), "messages": said}));
        let query = json!({"text": "who keeps bees? password=hunter2"});
        let answer = api.ok("recall", &json!({"run": run, "scope": scope("ann"), "query": query}));
        assert_eq!(answer[0]["shares"], Value::Null, "{answer}");
        api.door.signal("TERM");
        assert!(api.door.ended().0.success());
        let text = std::fs::read_to_string(api.door.user.home().join("audit.jsonl")).unwrap();
        assert!(!text.contains("Bergen") && !text.contains("hunter2"), "{text}");
        let record: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        let recalled = &record["recalled"][0];
        assert_eq!((&recalled["id"], &recalled["scope"]), (&answer[0]["id"], &json!("agent")), "{record}");
        assert!(!recalled["shares"].as_array().unwrap().is_empty(), "{record}");
        let asked = record["input"]["query"].as_str().unwrap_or_default();
        assert_eq!(asked.starts_with("who keeps bees?"), mode == "full", "{record}");
    }
}

#[test]
fn nobody_writes_entries_of_a_conversation_by_their_keys() {
    let mut api = Api::open();
    let run = json!({"tenant": "acme", "agent": "ann", "run": "r-1"});
    let said = json!([{"role": "user", "content": "I keep bees in Bergen"}]);
    api.ok("add", &json!({"run": run, "scope": scope("ann"), "messages": said}));
    let operator = api.door.token("operator", &["--tenant", "acme", "--all-ops"]);
    let ops = std::mem::replace(&mut api.token, operator);
    let key = "~turn/head";
    let at = |more: Value| {
        let mut arguments = json!({"scope": scope("ann"), "key": key});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };
    let items = json!([{"key": "k", "value": 1}, {"key": "~turn/log/0000000000000000", "value": 1}]);
    let writes = [
        ("set", at(json!({"value": 1}))),
        ("delete", at(json!({}))),
        ("increment", at(json!({"delta": 1}))),
        ("update", at(json!({"reducer": {"merge": {"next": 9}}}))),
        ("bulk_insert", json!({"scope": scope("ann"), "items": items})),
        ("erase", json!({"target": {"key": at(json!({}))}})),
    ];
    for token in [api.token.clone(), ops] {
        api.token = token;
        let path = "/v1/tenants/acme/agent/ann/entries/~turn%2Fhead";
        for (method, body) in [("PUT", "1"), ("DELETE", "")] {
            let refused = api.send(method, path, &[], body);
            assert_eq!((refused.status, refused.code()), (400, "invalid_argument".to_owned()));
            assert!(refused.body.contains("hold what was said"), "{refused:?}");
        }
        for (op, arguments) in &writes {
            let refused = api.post(op, arguments);
            // A caller that may not erase at all is told so.
            assert!(matches!(refused.status, 400 | 403), "{op}: {refused:?}");
            assert!(refused.status == 400 || *op == "erase", "{op}: {refused:?}");
        }
        let calls: Vec<Value> =
            writes.iter().map(|(op, arguments)| json!({"op": op, "arguments": arguments})).collect();
        let batch = api.send("POST", "/v1/batch", &[], &Value::from(calls).to_string());
        assert_eq!((batch.status, batch.body.matches("\"error\"").count()), (200, writes.len()), "{batch:?}");
    }
    let recalled = api.ok("recall", &json!({"run": run, "scope": scope("ann"), "query": {"text": "bees"}}));
    assert!(recalled.to_string().contains("Bergen"), "{recalled}");
    // A scope is copied as a whole, with its conversation.
    let exported = api.post("export_scope", &json!({"scope": scope("ann")}));
    assert!(exported.body.contains(key), "{exported:?}");
    let copy = format!("{}\n{}", json!({"scope": scope("bob")}), exported.body);
    assert_eq!(api.send("POST", "/v1/ops/import_scope", &[], &copy).status, 200);
}

#[test]
fn sql_that_the_operator_does_not_allow_is_not_advertised_and_refused_for_that_reason() {
    let door = Door::start(crate::support::user::User::new(), &[]);
    let token = door.token("ops", &["--tenant", "acme"]);
    let api = Api { door, token };
    let served: Value = serde_json::from_str(&api.send("GET", "/v1/capabilities", &[], "").body).unwrap();
    let capabilities = &served["capabilities"];
    assert_eq!((&capabilities["sql"], &capabilities["kv"]), (&json!(false), &json!(true)), "{served}");
    let run = json!({"tenant": "acme", "agent": "ann", "run": "r-1"});
    let refused =
        api.post("query", &json!({"run": run, "scope": scope("ann"), "sql": "SELECT 1", "args": []}));
    assert_eq!((refused.status, refused.code()), (403, "scope_denied".to_owned()));
    assert!(refused.body.contains("`sql_scopes` of memory.toml"), "{refused:?}");
    // What the store has is reported, except for what may not be asked for.
    let file = api.door.user.file("token", &api.token);
    let url = format!("memory+http://127.0.0.1:{}?api_key=file:{}", api.door.port, file.display());
    let host = format!("127.0.0.1:{}", api.door.port);
    let remote = ["stats", "--tenant", "acme", "--agent", "ann", "--allow-host", &host, "--url", &url];
    let stats = api.door.user.json(&remote);
    assert_eq!(stats["entries"], 0, "{stats}");
}
