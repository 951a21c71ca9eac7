//! The operator's page, as a browser without scripts sees it.

use serde_json::{Value, json};

use super::door::{Answer, Door, RULES};
use crate::support::service::Service;
use crate::support::user::User;

/// What an agent may leave behind: markup, the end of an attribute, reversed text, and a long word.
pub(super) const HOSTILE: &str =
    "<script>document.title='owned'</script>\" onload=\"x' <img src=x onerror=alert(1)> \u{202e}txt.exe";

/// A browser, signed in or not.
pub(super) struct Browser<'a> {
    door: &'a Door,
    cookie: String,
}

impl<'a> Browser<'a> {
    pub(super) fn signed_in(door: &'a Door, token: &str) -> Self {
        let answer = sign_in(door, token);
        assert_eq!((answer.status, answer.header("location")), (303, Some("/")), "{answer:?}");
        let cookie = answer.header("set-cookie").unwrap();
        for part in ["; HttpOnly", "; SameSite=Strict", "; Path=/"] {
            assert!(cookie.contains(part), "{cookie}");
        }
        assert!(!cookie.contains(&token[token.len() - 40..]));
        Self { door, cookie: cookie.split(';').next().unwrap().to_owned() }
    }

    pub(super) fn get(&self, path: &str) -> Answer {
        self.door.get(path, &[("Cookie", &self.cookie)])
    }

    pub(super) fn shown(&self, path: &str) -> String {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
        assert!(
            answer
                .header("content-security-policy")
                .unwrap()
                .starts_with("default-src 'none'; style-src 'self'")
        );
        answer.body
    }

    /// Sends a form with these headers.
    pub(super) fn send(&self, path: &str, headers: &[(&str, &str)], fields: &[(&str, &str)]) -> Answer {
        let body: Vec<String> =
            fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let cookie = [("Cookie", self.cookie.as_str())];
        self.door.request("POST", path, &[&cookie[..], headers].concat(), &body.join("&"))
    }

    /// Sends a form as this page itself does.
    pub(super) fn submit(&self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let (origin, key) = (own(self.door), self.form_key());
        self.send(path, &[("Origin", &origin)], &[&[("form_key", key.as_str())], fields].concat())
    }

    pub(super) fn form_key(&self) -> String {
        let page = self.shown("/");
        let (_, rest) = page.split_once("name=\"form_key\" value=\"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    }
}

pub(super) fn own(door: &Door) -> String {
    format!("http://127.0.0.1:{}", door.port)
}

pub(super) fn sign_in(door: &Door, token: &str) -> Answer {
    door.request("POST", "/login", &[("Origin", &own(door))], &format!("token={token}"))
}

pub(super) fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Performs an operation over `/v1`.
pub(super) fn api(door: &Door, token: &str, op: &str, arguments: &Value) -> Value {
    let answer = door.request(
        "POST",
        &format!("/v1/ops/{op}"),
        &[("Authorization", &format!("Bearer {token}"))],
        &arguments.to_string(),
    );
    assert_eq!(answer.status, 200, "{op}: {answer:?}");
    serde_json::from_str(&answer.body).unwrap()
}

/// The text of a page, without the contents of its fields.
fn outside_tags(page: &str) -> String {
    page.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text)).collect()
}

fn scope(id: &str) -> Value {
    json!({"tenant": "acme", "kind": "agent", "id": id})
}

/// A page that follows the audit file, once it has these words: the file is written in the background.
fn shown_once_it_says(browser: &Browser<'_>, path: &str, words: &str) -> String {
    for _ in 0..1_500 {
        let page = browser.shown(path);
        if page.contains(words) {
            return page;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("{path} never says {words:?}");
}

#[test]
fn without_a_session_there_is_a_form_and_nothing_else() {
    let door = Door::open("");
    let token = door.token("ops", &["--tenant", "acme"]);
    let stranger = Browser { door: &door, cookie: "memory_session=0000".to_owned() };
    for path in ["/", "/page/entries", "/page/nothing"] {
        let answer = stranger.get(path);
        assert_eq!((answer.status, answer.header("location")), (303, Some("/login")), "{path}");
        let answer = door.get(path, &[("Authorization", &format!("Bearer {token}"))]);
        assert_eq!(answer.status, 303, "a token in a header is for programs");
    }
    assert_eq!(stranger.send("/page/entry", &[("Origin", &own(&door))], &[("key", "k")]).status, 401);
    let form = door.get("/login", &[]);
    assert!(form.status == 200 && form.body.contains("type=\"password\"") && !form.body.contains("<script"));
    assert_eq!(door.get("/page/style.css", &[]).header("content-type"), Some("text/css; charset=utf-8"));
    for wrong in ["", "memtok_x", &token.replace("memtok_", "memtok_0")] {
        let refused = sign_in(&door, wrong);
        assert_eq!((refused.status, refused.header("set-cookie")), (401, None), "{wrong}");
    }
    let browser = Browser::signed_in(&door, &token);
    assert!(browser.shown("/").contains("Scopes"));
    assert_eq!(browser.get("/v1/capabilities").status, 401, "a cookie is for the page");
    assert_eq!(browser.get("/page/nothing").status, 404);
    assert_eq!(door.request("PUT", "/", &[("Cookie", &browser.cookie)], "").status, 405);
}

#[test]
fn a_form_that_is_not_this_sessions_own_does_nothing() {
    let door = Door::open("");
    let token = door.token("ops", &["--tenant", "acme"]);
    api(&door, &token, "set", &json!({"scope": scope("ann"), "key": "k", "value": 1}));
    let (browser, other) = (Browser::signed_in(&door, &token), Browser::signed_in(&door, &token));
    let (key, foreign) = (browser.form_key(), other.form_key());
    let delete = [("kind", "agent"), ("id", "ann"), ("key", "\"k\""), ("version", "1")];
    let send = |browser: &Browser<'_>, headers: &[(&str, &str)], key: &str| {
        browser.send("/page/entry", headers, &[&[("form_key", key)], &delete[..]].concat()).status
    };
    let origin = own(&door);
    let own_page = [("Origin", origin.as_str()), ("Sec-Fetch-Site", "same-origin")];
    assert_eq!(send(&browser, &[], &key), 403, "who asks is not said");
    assert_eq!(send(&browser, &[("Origin", "http://evil.example")], &key), 403);
    assert_eq!(send(&browser, &[("Origin", "null")], &key), 403);
    for site in ["cross-site", "same-site", "none"] {
        assert_eq!(send(&browser, &[("Origin", &origin), ("Sec-Fetch-Site", site)], &key), 403, "{site}");
    }
    for wrong in ["", "0", foreign.as_str()] {
        assert_eq!(send(&browser, &own_page, wrong), 403, "{wrong}");
    }
    let stranger = Browser { door: &door, cookie: String::new() };
    assert_eq!(send(&stranger, &own_page, &key), 401);
    let cross =
        door.request("POST", "/login", &[("Sec-Fetch-Site", "cross-site")], &format!("token={token}"));
    assert_eq!((cross.status, cross.header("set-cookie")), (403, None));
    assert_eq!(browser.send("/logout", &own_page, &[]).status, 403);
    let long = "x".repeat(70_000);
    assert_eq!(browser.send("/page/entry", &own_page, &[("form_key", &key), ("key", &long)]).status, 413);

    let k = json!({"scope": scope("ann"), "key": "k"});
    assert_eq!(api(&door, &token, "get", &k)["value"], 1, "nothing was done");
    let stale = [("kind", "agent"), ("id", "ann"), ("key", "\"k\""), ("version", "7")];
    assert_eq!(browser.submit("/page/entry", &stale).status, 409, "not what was shown");
    let done = browser.submit("/page/entry", &delete);
    assert_eq!((done.status, done.header("location")), (303, Some("/page/entries?kind=agent&id=ann")));
    assert_eq!(api(&door, &token, "get", &k), Value::Null);
    assert!(browser.shown("/page/entries?kind=agent&id=ann").contains("The entry is deleted."));
    assert!(!browser.shown("/page/entries?kind=agent&id=ann").contains("The entry is deleted."), "said once");
}

#[test]
fn an_entry_whose_key_has_ends_of_lines_was_not_deleted() {
    let door = Door::open("");
    let token = door.token("ops", &["--tenant", "acme"]);
    let browser = Browser::signed_in(&door, &token);
    for key in ["a\nb", "a\rb", "a\r\nb\n"] {
        let named = json!({"scope": scope("ann"), "key": key, "value": 1});
        api(&door, &token, "set", &named);
        let page = browser.shown(&format!("/page/entry?kind=agent&id=ann&key={}", encoded(key)));
        let (_, rest) = page.split_once("name=\"key\" value=\"").unwrap();
        let quoted = rest.split('"').next().unwrap().replace("&quot;", "\"");
        // As browsers do.
        let sent = quoted.replace("\r\n", "\n").replace('\r', "\n").replace('\n', "\r\n");
        let version = page.split("Delete version ").nth(1).unwrap().split('<').next().unwrap();
        let form = [("kind", "agent"), ("id", "ann"), ("key", &sent), ("version", version)];
        assert_eq!(browser.submit("/page/entry", &form).status, 303);
        assert_eq!(
            api(&door, &token, "get", &json!({"scope": scope("ann"), "key": key})),
            Value::Null,
            "{key:?}"
        );
    }
}

#[test]
fn turns_and_what_a_token_only_reads_offer_no_form() {
    let door = Door::open("");
    let token = door.token("ops", &["--tenant", "acme"]);
    let run = json!({"tenant": "acme", "agent": "a", "run": "r"});
    let message = json!({"role": "user", "content": "My sister lives in Bergen"});
    api(&door, &token, "add", &json!({"run": run, "scope": scope("ann"), "messages": [message]}));
    let (at, facts) = ("kind=agent&id=ann", "/page/facts?kind=agent&id=ann");
    let browser = Browser::signed_in(&door, &token);
    let turn = browser.shown(&format!("/page/entry?{at}&key={}", encoded("~turn/head")));
    assert!(!turn.contains("Delete version") && turn.contains("what was said"), "{turn}");
    assert!(browser.shown(facts).contains("Forget it"));
    let reader = door.token("reader", &["--tenant", "acme", "--read-only"]);
    let shown = Browser::signed_in(&door, &reader).shown(facts);
    assert!(
        shown.contains("Bergen") && !shown.contains("Forget it") && shown.contains("only reads"),
        "{shown}"
    );
}

#[test]
fn what_agents_stored_is_shown_as_text() {
    let door = Door::open("");
    let token = door.token("ops", &["--tenant", "acme"]);
    let long = format!("{HOSTILE}{}", "x".repeat(100_000));
    let metadata = json!({"metadata": {HOSTILE: HOSTILE}, "text": HOSTILE});
    api(
        &door,
        &token,
        "set",
        &json!({"scope": scope(HOSTILE), "key": HOSTILE, "value": long, "options": metadata}),
    );
    let run = json!({"tenant": "acme", "agent": "a", "run": "r"});
    let message = json!({"role": "user", "content": HOSTILE, "name": HOSTILE});
    api(&door, &token, "add", &json!({"run": run, "scope": scope(HOSTILE), "messages": [message]}));
    let browser = Browser::signed_in(&door, &token);
    let at = format!("kind=agent&id={}", encoded(HOSTILE));
    let text = encoded(HOSTILE);
    for path in [
        "/".to_owned(),
        format!("/page/entries?{at}"),
        format!("/page/entries?{at}&q={text}&mode=lexical"),
        format!("/page/entry?{at}&key={text}"),
        format!("/page/recall?{at}&q={text}"),
        format!("/page/facts?{at}"),
        format!("/page/scope?{at}"),
    ] {
        let page = browser.shown(&path);
        for raw in ["<script", "<img", "\" onload=\"x"] {
            assert!(!page.contains(raw), "{raw} in {path}: {page}");
        }
        assert!(!outside_tags(&page).contains('\u{202e}'), "{path}: {page}");
        let labels = page.split("aria-label=\"").skip(1).filter_map(|rest| rest.split('"').next());
        assert!(labels.clone().all(|label| !label.contains('\u{202e}')), "{path}: {page}");
        assert!(page.contains("&lt;script&gt;document.title='owned'&lt;/script&gt;&quot; onload"), "{path}");
        assert!(page.len() < 400_000, "{path} has {} bytes", page.len());
    }
    let refused = browser.get(&format!("/page/entries?kind={text}&id=x"));
    assert!(refused.status == 400 && !refused.body.contains("<script"), "{refused:?}");
}

/// An operator decides by what is shown whether to delete it.
#[test]
fn an_entry_showed_another_value_than_is_stored_and_grew_with_its_depth() {
    let door = Door::open("");
    let token = door.token("ops", &["--tenant", "acme"]);
    let browser = Browser::signed_in(&door, &token);
    let put = |key: &str, value: &str| {
        let body = format!(r#"{{"scope":{},"key":"{key}","value":{value}}}"#, scope("ann"));
        let bearer = format!("Bearer {token}");
        let answer = door.request("POST", "/v1/ops/set", &[("Authorization", &bearer)], &body);
        assert_eq!(answer.status, 200, "{answer:?}");
        browser.shown(&format!("/page/entry?kind=agent&id=ann&key={key}"))
    };
    let page = put("k", r#"{"b":123456789012345678901234567890,"a":1,"a":[0.1000000000000000055,1E5,{}]}"#);
    let shown = "{\n  &quot;b&quot;: 123456789012345678901234567890,\n  &quot;a&quot;: 1,\n  &quot;a&quot;: [\n    \
                 0.1000000000000000055,\n    1E5,\n    {}\n  ]\n}";
    assert!(page.contains(shown), "{page}");
    let (open, close) = ("[".repeat(100), "]".repeat(100));
    let page = put("deep", &format!("{open}{}0{close}", "0,".repeat(100_000)));
    assert!(page.len() < 100_000 && page.contains("more characters"), "{} bytes", page.len());
}

#[test]
fn the_page_of_a_scope_did_not_say_which_turns_lack_vectors() {
    let door = Door::open("");
    let token = door.token("ops", &["--tenant", "acme"]);
    let browser = Browser::signed_in(&door, &token);
    let at = "/page/scope?kind=agent&id=ann";
    assert!(browser.shown(at).contains("Nothing was said here."));
    let run = json!({"tenant": "acme", "agent": "a", "run": "r"});
    let message = json!({"role": "user", "content": "My sister lives in Bergen"});
    api(&door, &token, "add", &json!({"run": run, "scope": scope("ann"), "messages": [message]}));
    let page = browser.shown(at);
    for figure in ["<dt>Turns</dt><dd>1</dd>", "<dt>Stale</dt><dd>0</dd>", "<dt>Missing</dt><dd>0</dd>"] {
        assert!(page.contains(figure), "{figure}: {page}");
    }
}

#[test]
fn a_token_shows_what_it_reaches_and_each_request_is_recorded() {
    let door = Door::open("[audit]\nfile = \"audit.jsonl\"\n");
    let token = door.token("ops", &["--tenant", "acme"]);
    api(&door, &token, "set", &json!({"scope": scope("ann"), "key": "k", "value": "xylograph"}));
    let entry = "/page/entry?tenant=acme&kind=agent&id=ann&key=k";
    assert!(Browser::signed_in(&door, &token).shown(entry).contains("xylograph"));

    let rival = door.token("rival", &["--tenant", "globex"]);
    let rival = Browser::signed_in(&door, &rival);
    for path in ["/", "/?tenant=acme", "/page/activity", "/page/store"] {
        let page = rival.get(path).body;
        assert!(!page.contains("xylograph") && !page.contains("ann"), "{path}: {page}");
    }
    assert!(rival.shown("/page/entries?kind=agent&id=ann").contains("No entry here"), "its own tenant's");
    for path in
        [entry, "/page/entries?tenant=acme&kind=agent&id=ann", "/page/facts?tenant=acme&kind=agent&id=ann"]
    {
        let refused = rival.get(path);
        assert!(refused.status == 403 && refused.body.contains("scope_denied"), "{path}: {refused:?}");
    }
    let refused = rival.submit(
        "/page/entry",
        &[("tenant", "acme"), ("kind", "agent"), ("id", "ann"), ("key", "\"k\""), ("version", "1")],
    );
    assert_eq!(refused.status, 403);

    let bound = door.token("bob", &["--tenant", "acme", "--agent", "bob"]);
    let bound = Browser::signed_in(&door, &bound);
    assert!(bound.shown("/").contains("Scopes of this token") && bound.get(entry).status == 403);
    let reader = door.token("reader", &["--tenant", "acme", "--read-only"]);
    let reader = Browser::signed_in(&door, &reader);
    let delete = [("kind", "agent"), ("id", "ann"), ("key", "\"k\""), ("version", "1")];
    let refused = reader.submit("/page/entry", &delete);
    assert!(refused.status == 403 && refused.body.contains("read_only"), "{refused:?}");
    assert!(!refused.body.contains("Not shown"), "{refused:?}");
    let offered = reader.shown(entry);
    assert!(
        !offered.contains("<form method=\"post\" action=\"/page/entry\"") && offered.contains("only reads"),
        "{offered}"
    );
    let gets = door.token("gets", &["--tenant", "acme", "--ops", "get"]);
    let gets = Browser::signed_in(&door, &gets);
    assert!(gets.shown(entry).contains("xylograph"));
    assert!(gets.shown("/").contains("does not allow `scopes`"));
    assert!(gets.shown("/page/activity").contains("does not allow `stats`"));

    let all = door.token("all", &["--all-tenants", "--ops", "tenants,scopes,get,list,stats"]);
    let all = Browser::signed_in(&door, &all);
    assert!(all.shown("/").contains("/?tenant=acme"));
    assert!(all.shown("/page/store").contains("does not know which processes use it"));
    assert!(rival.shown("/page/store").contains("Replicas are the operator"));
    assert!(all.shown("/?tenant=acme").contains("/page/entries?tenant=acme&amp;kind=agent&amp;id=ann"));
    let activity = shown_once_it_says(&all, "/page/activity?tenant=acme", "delete");
    for recorded in ["read_only", "scope_denied", "forbidden"] {
        assert!(activity.contains(recorded), "{recorded}: {activity}");
    }
}

/// Regression: the page showed what one user had asked to another user of the same agent.
#[test]
fn the_activity_of_an_agent_does_not_show_what_another_user_asked() {
    let door = Door::open("[audit]\nfile = \"audit.jsonl\"\nmode = \"full\"\n");
    let of = |name: &str, more: &[&str]| {
        door.token(name, &[&["--tenant", "acme", "--agent", "ann"], more].concat())
    };
    let (uma, victor, alone) =
        (of("uma", &["--user", "u"]), of("victor", &["--user", "v"]), of("alone", &[]));
    let calls = [
        (&victor, "user", "which secret illness"),
        (&victor, "agent", "what medicine"),
        (&victor, "run", "which ward"),
        (&uma, "user", "where is my sister"),
        (&alone, "run", "what did I note"),
        (&alone, "agent", "how tall is the tower"),
    ];
    for (token, scope, query) in calls {
        let session = door.session(token);
        door.ok(token, &session, json!({"op": "recall", "scope": scope, "query": query}));
    }
    let session = door.session(&victor);
    door.ok(&victor, &session, json!({"op": "recall", "query": "who treats him"}));
    let last = door.session(&alone);
    door.ok(&alone, &last, json!({"op": "recall", "scope": "agent", "query": "the last question"}));
    for (token, shown) in [
        (&uma, &["where is my sister", "how tall is the tower"][..]),
        (
            &victor,
            &[
                "which secret illness",
                "what medicine",
                "which ward",
                "who treats him",
                "how tall is the tower",
            ],
        ),
        (&alone, &["what did I note", "how tall is the tower"]),
    ] {
        let browser = Browser::signed_in(&door, token);
        let page = shown_once_it_says(&browser, "/page/activity", "the last question");
        for (_, _, query) in calls.iter().chain(&[(&victor, "", "who treats him")]) {
            assert_eq!(page.contains(query), shown.contains(query), "{query}: {page}");
        }
    }
}

#[test]
fn a_session_ends_with_its_token_and_when_it_is_signed_out() {
    let door = Door::open("");
    let token = door.token("ops", &["--tenant", "acme"]);
    let (kept, left) = (Browser::signed_in(&door, &token), Browser::signed_in(&door, &token));
    let out = left.submit("/logout", &[]);
    assert_eq!((out.status, out.header("location")), (303, Some("/login")));
    assert!(out.header("set-cookie").unwrap().contains("Max-Age=0"));
    assert_eq!(left.get("/").status, 303, "the old cookie opens nothing");
    kept.shown("/");
    door.user.ok(&["token", "revoke", "ops"]);
    let ended = kept.get("/");
    assert!(ended.status == 401 && ended.body.contains("was revoked"), "{ended:?}");
    assert_eq!(kept.get("/").header("location"), Some("/login"));
}

#[test]
fn shared_state_is_decided_and_a_graph_is_walked() {
    let door = Door::open(
        "shared_state = \"authority\"\ngraph = \"supersede\"\n[agents.reader]\nshared_state = \"read\"\n\
         [audit]\nfile = \"audit.jsonl\"\nmode = \"full\"\n",
    );
    let ann = door.token("ann", &["--tenant", "acme", "--agent", "ann"]);
    let ops = door.token("ops", &["--tenant", "acme"]);
    let browser = Browser::signed_in(&door, &ops);
    assert!(browser.shown("/page/shared").contains("has noted anything"));
    assert!(browser.shown("/page/graph").contains("has a graph yet"));
    let session = door.session(&ann);
    for words in [
        "issue redis_timeout: Redis times out under load",
        "issue lint: the linter fails",
        "the earlier blocker is fixed",
    ] {
        door.ok(&ann, &session, json!({"op": "note", "note": words}));
    }
    for (id, content) in [("old", "the proxy allows 30 seconds"), ("new", "the proxy allows 90 seconds")] {
        door.ok(&ann, &session, json!({"op": "remember", "content": content, "memory_id": id}));
    }
    door.ok(
        &ann,
        &session,
        json!({"op": "relate", "source_id": "new", "relation": "supersedes", "target_id": "old"}),
    );
    door.ok(
        &ann,
        &session,
        json!({"op": "add", "messages": [{"role": "user", "content": "We met in Lisbon"}]}),
    );
    door.ok(&ann, &session, json!({"op": "recall", "query": "where did we meet", "explain": true}));

    let shared = browser.shown("/page/shared");
    assert!(shared.contains("Redis times out under load") && shared.contains("the earlier blocker is fixed"));
    let (_, rest) = shared.split_once("name=\"pending\" value=\"").unwrap();
    let pending = rest.split('"').next().unwrap();
    let reader = door.token("reader", &["--tenant", "acme", "--agent", "reader"]);
    let reader = Browser::signed_in(&door, &reader);
    assert!(!reader.shown("/page/shared").contains("earlier blocker"), "notes are private");
    let bind = [("pending", pending), ("do", "bind"), ("target", "redis_timeout")];
    assert_eq!(reader.submit("/page/shared", &bind).status, 403);
    assert_eq!(browser.submit("/page/shared", &bind).status, 303);
    assert!(browser.shown("/page/shared").contains("It is event"));
    let why = browser.shown("/page/why?bucket=issues&row=redis_timeout");
    assert!(why.contains("the earlier blocker is fixed") && why.contains("Decided by"), "{why}");
    assert_eq!(browser.get("/page/why?bucket=issues&row=none").status, 404);

    assert!(browser.shown("/page/graph").contains("/page/graph?agent=ann"));
    assert!(browser.shown("/page/graph?agent=ann").contains("the proxy allows 90 seconds"));
    let memory = browser.shown("/page/memory?agent=ann&memory=new");
    assert!(memory.contains("supersedes →") && memory.contains("the proxy allows 30 seconds"));
    assert_eq!(reader.get("/page/graph?agent=ann").status, 403, "another agent's");

    let recall = browser.shown("/page/recall?kind=agent&id=ann&q=where+did+we+meet");
    for word in ["We met in Lisbon", "What the score is made of", "dense", "The block for a prompt"] {
        assert!(recall.contains(word), "{word}: {recall}");
    }
    let activity = shown_once_it_says(&browser, "/page/activity", "where did we meet");
    assert!(activity.contains("1 fact given"), "{activity}");
    assert!(
        !activity.contains("The question is not recorded"),
        "looks at shared state and graphs: {activity}"
    );
    let facts = browser.shown("/page/facts?kind=agent&id=ann");
    let (_, rest) = facts.split_once("name=\"fact\" value=\"").unwrap();
    let forget = [("kind", "agent"), ("id", "ann"), ("fact", rest.split('"').next().unwrap())];
    assert_eq!(browser.submit("/page/facts", &forget).status, 303);
    assert!(browser.shown("/page/facts?kind=agent&id=ann").contains("Nothing is remembered"));
}

#[test]
fn what_a_store_does_not_serve_is_said_in_words() {
    let service = Service::mem0();
    let user = User::new();
    user.file("key", "m0-key\n");
    user.file(
        "memory.toml",
        format!(
            "{}{}backend = \"mem0\"\n",
            service.config("mem0", "api_key=file:key"),
            &RULES[RULES.find("[default]").unwrap()..]
        ),
    );
    let door = Door::start(user, &[]);
    let browser = Browser::signed_in(&door, &door.token("ops", &["--tenant", "acme"]));
    for (path, words) in [
        ("/page/entries?kind=user&id=ada", "serves no entries"),
        ("/page/shared", "keeps no shared state"),
        ("/page/graph", "keeps no graphs"),
        ("/page/scope?kind=user&id=ada", "serves no SQL"),
        ("/page/activity", "writes no audit file"),
        ("/page/recall?kind=user&id=ada", "Ask as an agent would"),
    ] {
        let page = browser.shown(path);
        assert!(page.contains(words), "{path}: {page}");
    }
}
