//! Two tenants of one server make random requests, also with each other's names, ids, cursors, sessions and idempotency
//! keys: no answer contains what the other wrote, and no request that names the other is served.
//! `MEMORY_TENANT_REQUESTS` sets the number of requests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memory_conformance::random::Random;
use memory_core::Op;
use serde_json::{Value, json};

use super::door::{Answer, Door};

const RULES: &str = "sql_scopes = [\"agent\", \"run\"]\nshared_space = \"team\"\nshared_state = \"forget\"\ngraph = \"supersede\"\n\
    [sql]\nenabled = true\n";
/// The tenants' names occur in requests of both. Their marks occur only in what they write.
const NAMES: [&str; 2] = ["acme", "globex"];
const MARKS: [&str; 2] = ["quartz", "cobalt"];

/// Operations of `/v1/ops`, frequent ones several times; a batch has the first of them.
const OPS: [&str; 44] = [
    "get",
    "get",
    "get_many",
    "set",
    "set",
    "set",
    "list",
    "list",
    "list",
    "search",
    "search",
    "increment",
    "update",
    "update",
    "update",
    "bulk_insert",
    "delete",
    "stats",
    "add",
    "add",
    "recall",
    "recall",
    "facts",
    "facts",
    "forget",
    "event",
    "exec",
    "exec",
    "query",
    "query",
    "commit",
    "rollback",
    "describe_tables",
    "begin",
    "export_scope",
    "dump",
    "scopes",
    "scope_uses",
    "sql_scopes",
    "sql_usage",
    "drift_state",
    "end_run",
    "erase",
    "tombstones",
];
const OF_BATCH: usize = 33;
const STATE_OPS: [&str; 15] = [
    "note",
    "note",
    "shared",
    "why",
    "pending",
    "reject",
    "forget_shared",
    "verify",
    "remember",
    "remember",
    "relate",
    "recall_graph",
    "neighbours",
    "graph_stats",
    "sessions",
];
const TOOL_OPS: [&str; 16] = [
    "get",
    "set",
    "list",
    "search",
    "incr",
    "add",
    "recall",
    "facts",
    "note",
    "shared",
    "why",
    "pending",
    "forget_shared",
    "remember",
    "recall_graph",
    "describe",
];
/// Members of answers that later requests of both tenants use.
const REUSED: [&str; 10] =
    ["id", "ids", "next", "cursor", "tx", "memory_id", "pending_id", "note_id", "event", "seq"];

/// Requests that may be sent again.
const RECENT: usize = 24;

/// A caller: a tenant's token with its id, and the session of one that is bound to an agent.
struct Caller {
    tenant: usize,
    token: String,
    session: Option<String>,
}

#[derive(Clone)]
struct Request {
    method: &'static str,
    path: String,
    key: Option<String>,
    /// The session's owner, for an MCP session.
    session: Option<usize>,
    body: String,
    /// The tenants that it names; for a batch, those of each operation.
    names: Vec<Vec<usize>>,
}

#[derive(Default)]
struct Counts {
    own_marks: usize,
    refused: usize,
    replayed: usize,
}

struct Fuzz {
    door: Door,
    random: Random,
    callers: Vec<Caller>,
    runs: Vec<String>,
    /// Names from the server: ids, cursors, transactions.
    named: Vec<String>,
    /// The latest requests, and their senders.
    sent: Vec<(usize, Request)>,
    written: u64,
    counts: Counts,
}

impl Fuzz {
    fn new(seed: u64) -> Self {
        let door = Door::open(RULES);
        let all = Op::ALL.iter().map(|op| op.as_str()).collect::<Vec<_>>().join(",");
        let (mut callers, mut runs) = (Vec::new(), vec!["r-1".to_owned()]);
        for (tenant, name) in NAMES.iter().enumerate() {
            for bound in [&["--ops", all.as_str()][..], &["--agent", "ann", "--user", "ada"]] {
                let label = format!("{name}{}", bound[1]);
                let label = &label[..name.len() + 2];
                let made = door.user.json(&[&["token", "create", label, "--tenant", name], bound].concat());
                let token = made["token"].as_str().unwrap().to_owned();
                runs.push(format!("{}-r", made["id"].as_str().unwrap()));
                let session = (bound.len() == 4).then(|| door.session(&token));
                callers.push(Caller { tenant, token, session });
            }
        }
        let random = Random::new(seed);
        let (named, sent) = (Vec::new(), Vec::new());
        Self { door, random, callers, runs, named, sent, written: 0, counts: Counts::default() }
    }

    fn one(&mut self, of: &[&'static str]) -> &'static str {
        self.random.pick(of).copied().unwrap()
    }

    /// A tenant to name: mostly the caller's own.
    fn tenant(&mut self, own: usize) -> usize {
        if self.random.one_in(4) { 1 - own } else { own }
    }

    fn scope(&mut self, tenant: usize) -> Value {
        let kind = self.one(&["agent", "agent", "user", "run"]);
        let id = match kind {
            "agent" => self.one(&["ann", "ann", "bob"]).to_owned(),
            "user" => "ada".to_owned(),
            _ => self.run(),
        };
        json!({"tenant": NAMES[tenant], "kind": kind, "id": id})
    }

    fn run(&mut self) -> String {
        self.random.pick(&self.runs).cloned().unwrap()
    }

    fn named(&mut self) -> String {
        self.random.pick(&self.named).cloned().unwrap_or_else(|| "none".to_owned())
    }

    /// Words that only this tenant writes.
    fn words(&mut self, own: usize) -> String {
        self.written += 1;
        let mark = MARKS[own];
        match self.random.below(4) {
            0 => format!("issue row{}: {mark}{} plan times out", self.random.below(4), self.written),
            1 => format!("the earlier {mark}{} blocker is fixed", self.written),
            _ => format!("{mark}{} is the plan for Oslo", self.written),
        }
    }

    /// The arguments of an operation in a tenant's scope, and the tenants that they name.
    fn arguments(&mut self, own: usize, op: &str) -> (Value, Vec<usize>) {
        let tenant = self.tenant(own);
        let scope = self.scope(tenant);
        let mut names = vec![tenant];
        let key = format!("k{}", self.random.below(5));
        let words = self.words(own);
        let cursor = if self.random.one_in(2) { Some(self.named()) } else { None };
        let name = self.named();
        let mut run = || {
            // A run of one tenant in a scope of the other is a request for both.
            let of = if self.random.one_in(8) { 1 - tenant } else { tenant };
            names.push(of);
            let id = self.runs[self.random.index(self.runs.len())].clone();
            json!({"tenant": NAMES[of], "agent": "ann", "run": id})
        };
        let arguments = match op {
            "get" | "delete" => json!({"scope": scope, "key": key}),
            "get_many" => json!({"scope": scope, "keys": ["k0", "k1", key]}),
            "set" => json!({"scope": scope, "key": key, "value": words}),
            "list" => json!({"scope": scope, "query": {"limit": 2, "cursor": cursor}}),
            "search" => json!({"scope": scope, "query": {"text": "plan blocker Oslo"}}),
            "increment" => json!({"scope": scope, "key": "n", "delta": 1}),
            "update" => json!({"scope": scope, "key": "merged", "reducer": {"merge": {key: words}}}),
            "bulk_insert" => {
                json!({"scope": scope, "items": [{"key": key, "value": words}, {"key": "k9", "value": words}]})
            }
            "add" => json!({"run": run(), "scope": scope, "messages": [{"role": "user", "content": words}]}),
            "recall" => json!({"run": run(), "scope": scope, "query": {"text": "the plan for Oslo"}}),
            "facts" => json!({"run": run(), "scope": scope, "query": {"limit": 2, "cursor": cursor}}),
            "forget" => json!({"run": run(), "scope": scope, "what": {"ids": [name]}}),
            "event" => json!({"run": run(), "scope": scope, "id": name}),
            "exec" | "query" => {
                let sql = match (op, self.random.below(3)) {
                    ("exec", 0) => "CREATE TABLE IF NOT EXISTS t (a TEXT)",
                    ("exec", _) => "INSERT INTO t VALUES (?) RETURNING a",
                    (_, 0) => "SELECT value FROM memory_entries",
                    _ => "SELECT a FROM t",
                };
                let args = if sql.contains('?') { json!([words]) } else { json!([]) };
                let tx = if self.random.one_in(4) { Some(name) } else { None };
                let (of, id) = (names[0], self.run());
                let run = json!({"tenant": NAMES[of], "agent": "ann", "run": id});
                json!({"run": run, "scope": scope, "sql": sql, "args": args, "options": {"tx": tx}})
            }
            "begin" | "describe_tables" => json!({"run": run(), "scope": scope}),
            "commit" | "rollback" => json!({"run": run(), "scope": scope, "tx": name}),
            "scopes" | "scope_uses" | "sql_scopes" => {
                json!({"tenant": NAMES[tenant], "query": {"limit": 2, "cursor": cursor}})
            }
            "end_run" => json!({"tenant": NAMES[tenant], "root_run": self.run()}),
            "erase" => json!({"target": {"key": {"scope": scope, "key": key}}}),
            "tombstones" => json!({"of": {"scope": scope}, "limit": 2}),
            _ => json!({"scope": scope}),
        };
        (arguments, names)
    }

    /// The fields of an operation on shared state or a graph, or of the tool.
    fn fields(&mut self, own: usize, op: &str) -> Value {
        let (words, name, other) = (self.words(own), self.named(), self.named());
        let row = format!("row{}", self.random.below(4));
        match op {
            "note" => json!({"note": words}),
            "shared" => json!({"bucket": "issues", "id": self.random.one_in(2).then_some(row)}),
            "why" => json!({"bucket": "issues", "id": row}),
            "pending" if self.random.one_in(2) => json!({"bind": name, "target": row}),
            "forget_shared" if self.random.one_in(2) => json!({"note_id": name}),
            "forget_shared" => json!({"bucket": "issues", "id": row, "dry_run": self.random.one_in(2)}),
            "reject" => json!({"id": name, "reason": words}),
            "remember" => json!({"content": words}),
            "relate" => json!({"source_id": name, "relation": "similar_to", "target_id": other}),
            "recall_graph" => json!({"query": "the plan for Oslo"}),
            "neighbours" => json!({"memory_id": name}),
            "sessions" => json!({"session_id": self.random.one_in(2).then_some(name)}),
            _ => json!({}),
        }
    }

    fn request(&mut self, own: usize) -> Request {
        // Some are used for several requests.
        let key = if self.random.one_in(6) { self.random.below(8) } else { self.written };
        let key = self.random.one_in(2).then(|| format!("key-{key}"));
        let post = |path, body: &Value, names| Request {
            method: "POST",
            path,
            key,
            session: None,
            body: body.to_string(),
            names,
        };
        match self.random.below(20) {
            0..=9 => {
                let op = self.one(&OPS);
                let (arguments, names) = self.arguments(own, op);
                post(format!("/v1/ops/{op}"), &arguments, vec![names])
            }
            10..=11 => {
                let (mut calls, mut names) = (Vec::new(), Vec::new());
                for _ in 0..4 {
                    let op = self.one(&OPS[..OF_BATCH]);
                    let (arguments, named) = self.arguments(own, op);
                    calls.push(json!({"op": op, "arguments": arguments}));
                    names.push(named);
                }
                post("/v1/batch".to_owned(), &calls.into(), names)
            }
            12..=14 => {
                let (tenant, op) = (self.tenant(own), self.one(&STATE_OPS));
                let agent = self.one(&["ann", "ann", "bob"]);
                let path = format!("/v1/tenants/{}/agents/{agent}/{op}", NAMES[tenant]);
                post(path, &self.fields(own, op), vec![vec![tenant]])
            }
            15..=16 => {
                let (tenant, method) = (self.tenant(own), self.one(&["GET", "GET", "PUT", "DELETE"]));
                let (scope, words) = (self.scope(tenant), self.words(own));
                let [kind, id] = ["kind", "id"].map(|part| scope[part].as_str().unwrap());
                let path =
                    format!("/v1/tenants/{}/{kind}/{id}/entries/k{}", NAMES[tenant], self.random.below(5));
                let body = if method == "PUT" { json!(words) } else { Value::Null };
                Request { method, ..post(path, &body, vec![vec![tenant]]) }
            }
            _ => {
                let tenant = self.tenant(own);
                let (method, params) = self.message(own);
                let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
                Request { session: Some(tenant), ..post("/mcp".to_owned(), &body, vec![vec![tenant]]) }
            }
        }
    }

    /// A message of MCP.
    fn message(&mut self, own: usize) -> (&'static str, Value) {
        match self.random.below(8) {
            0 => return ("resources/list", json!({"cursor": format!("user:{}", self.named())})),
            1 => return ("resources/list", json!({})),
            2 => {
                let place = self.one(&["agent/k1", "user/k1", "user/merged", "run/k1"]);
                return ("resources/read", json!({"uri": format!("memory://{place}")}));
            }
            3 => {
                return (
                    "prompts/get",
                    json!({"name": "recall", "arguments": {"query": "the plan for Oslo"}}),
                );
            }
            _ => {}
        }
        let op = self.one(&TOOL_OPS);
        let cursor = if self.random.one_in(2) { Some(self.named()) } else { None };
        let mut arguments = match op {
            "get" => json!({"key": "k1", "scope": "user"}),
            "set" => json!({"key": "k1", "value": self.words(own)}),
            "list" => json!({"limit": 2, "cursor": cursor}),
            "search" | "recall" => json!({"query": "the plan for Oslo"}),
            "incr" => json!({"key": "n"}),
            "add" => json!({"messages": [{"role": "user", "content": self.words(own)}]}),
            "facts" => json!({"limit": 2}),
            _ => self.fields(own, op),
        };
        arguments["op"] = op.into();
        // The sender of a call does not decide whom it is for.
        let meta = json!({"memory/user": "ada", "memory/run": self.run(), "tenant": NAMES[1 - own]});
        ("tools/call", json!({"name": "memory", "arguments": arguments, "_meta": meta}))
    }

    fn step(&mut self) {
        let mut at = self.random.index(self.callers.len());
        // Earlier requests are sent again, by either tenant; finding in them what the other wrote would not be a leak.
        let again = self.random.one_in(4).then(|| self.random.pick(&self.sent).cloned()).flatten();
        if let Some((by, _)) = &again
            && self.random.one_in(2)
        {
            at = *by;
        }
        let own = self.callers[at].tenant;
        let again = again.map(|(_, sent)| sent).filter(|sent| !sent.body.contains(MARKS[1 - own]));
        let request = again.unwrap_or_else(|| self.request(own));
        let answer = self.send(at, &request);
        self.check(own, &request, &answer);
        let replayed = answer.header("idempotency-replayed").is_some();
        if let (200, "/v1/ops/begin", false) = (answer.status, request.path.as_str(), replayed) {
            self.end(at, &request, &serde_json::from_str::<Value>(&answer.body).unwrap()["tx"]);
        }
        if self.sent.len() == RECENT {
            self.sent.remove(0);
        }
        self.sent.push((at, request));
    }

    /// Ends a transaction, for which others of its scope would wait, after the other tenant has tried to use it.
    fn end(&mut self, at: usize, begun: &Request, tx: &Value) {
        let own = self.callers[at].tenant;
        let other = (0..self.callers.len()).find(|other| self.callers[*other].tenant != own).unwrap();
        let [ours, theirs] = [own, 1 - own].map(|tenant| NAMES[tenant]);
        for (op, by, named) in [
            ("query", other, theirs),
            ("commit", other, theirs),
            ("commit", other, ours),
            ("rollback", at, ours),
        ] {
            let mut arguments: Value = serde_json::from_str(&begun.body.replace(ours, named)).unwrap();
            match op {
                "query" => {
                    (arguments["sql"], arguments["args"]) = ("SELECT a FROM t".into(), json!([]));
                    arguments["options"] = json!({"tx": tx});
                }
                _ => arguments["tx"] = tx.clone(),
            }
            let tenant = NAMES.iter().position(|name| *name == named).unwrap();
            let (path, body) = (format!("/v1/ops/{op}"), arguments.to_string());
            let request = Request { path, body, key: None, names: vec![vec![tenant]], ..begun.clone() };
            let answer = self.send(by, &request);
            self.check(self.callers[by].tenant, &request, &answer);
            assert_eq!(answer.status == 200, by == at, "{op} {named}: {answer:?}");
        }
    }

    fn send(&self, at: usize, request: &Request) -> Answer {
        let caller = &self.callers[at];
        if let Some(of) = request.session {
            // MCP is for tokens with an agent.
            let bound = |tenant| {
                self.callers.iter().find(|one| one.tenant == tenant && one.session.is_some()).unwrap()
            };
            return self.door.post(&bound(caller.tenant).token, bound(of).session.as_deref(), &request.body);
        }
        let bearer = format!("Bearer {}", caller.token);
        let mut headers = vec![("Authorization", bearer.as_str())];
        headers.extend(request.key.as_deref().map(|key| ("Idempotency-Key", key)));
        self.door.request(request.method, &request.path, &headers, &request.body)
    }

    fn check(&mut self, own: usize, request: &Request, answer: &Answer) {
        let shown = || {
            let Request { method, path, key, body, .. } = request;
            format!("{} sent {method} {path} {key:?} {body}: {answer:?}", NAMES[own])
        };
        assert!((200..500).contains(&answer.status) || answer.status == 501, "{}", shown());
        let whole = format!("{}\n{}\n{}", answer.head, answer.body, decoded(&answer.body));
        assert!(!whole.contains(MARKS[1 - own]), "a leak: {}", shown());
        self.counts.own_marks += usize::from(whole.contains(MARKS[own]));
        self.counts.replayed += usize::from(answer.header("idempotency-replayed").is_some());

        let foreign = |names: &Vec<usize>| names.iter().any(|tenant| *tenant != own);
        let value: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        if request.path == "/v1/batch" {
            for (names, answer) in request.names.iter().zip(value.as_array().into_iter().flatten()) {
                assert!(!foreign(names) || answer.get("error").is_some(), "served to {}", shown());
                self.counts.refused += usize::from(foreign(names));
            }
        } else if request.names.iter().any(foreign) {
            assert!(answer.status >= 400, "served to {}", shown());
            self.counts.refused += 1;
        }
        self.reuse(&value);
        if let Some(text) = value.pointer("/result/content/0/text").and_then(Value::as_str) {
            self.reuse(&serde_json::from_str(text).unwrap_or_default());
        }
    }

    /// Keeps the names in an answer for later requests.
    fn reuse(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.reuse(item)),
            Value::Object(members) => {
                for (name, member) in members {
                    self.reuse(member);
                    let list = member.as_array().into_iter().flatten();
                    for text in list.chain([member]).filter_map(Value::as_str) {
                        let usable =
                            REUSED.contains(&name.as_str()) && !MARKS.iter().any(|mark| text.contains(mark));
                        if usable && self.named.len() < 500 {
                            self.named.push(text.to_owned());
                        } else if usable {
                            let at = self.random.index(self.named.len());
                            self.named[at] = text.to_owned();
                        }
                    }
                }
            }
            _ => {}
        }
    }
}

/// What the lines of a dump hold.
fn decoded(body: &str) -> String {
    let line = |line: &str| {
        let item: Value = serde_json::from_str(line).ok()?;
        let bytes = STANDARD.decode(item.get("item")?.as_str()?).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    body.lines().filter_map(line).collect()
}

#[test]
fn no_request_of_one_tenant_is_answered_with_what_another_wrote() {
    let requests =
        std::env::var("MEMORY_TENANT_REQUESTS").ok().and_then(|text| text.parse().ok()).unwrap_or(400);
    // A longer run tries other requests.
    let mut fuzz = Fuzz::new(0x7e4a_1175 ^ (requests - 400));
    for _ in 0..requests {
        fuzz.step();
    }
    // It is about something.
    let Counts { own_marks, refused, replayed } = fuzz.counts;
    println!(
        "{requests} requests: {own_marks} answers with own words, {refused} refusals of another's, {replayed} replays"
    );
    assert!(own_marks > 40 && refused > 40 && replayed > 1, "{own_marks} {refused} {replayed}");
}
