//! `add`, `recall`, `facts`, `event` and `forget`, over fakes of the services.

use serde_json::{Value, json};

use crate::support::service::Service;
use crate::support::user::{Ran, User, has};

/// A user whose `memory.toml` names this service as `name`, with a file as the default backend.
fn user_of(service: &Service, name: &str, parameters: &str) -> User {
    let user = User::new();
    user.file("keys/mem0", memory_fakes::mem0::KEY);
    user.file("keys/mem9", memory_fakes::mem9::KEY);
    let config = service.config(name, parameters);
    user.file("memory.toml", format!("{config}[default]\nbackend = \"local\"\nuser = \"ada\"\n"));
    user
}

const MEM0: &str = "api_key=file:keys/mem0";
const PLATFORM: &str = "flavour=platform&api_key=file:keys/mem0";
const MEM9: &str = "preview=true&tenancy=shared_key&api_key=file:keys/mem9";

fn ids(answer: &Value) -> Vec<String> {
    answer["ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect()
}

fn memories(answer: &Value) -> Vec<&str> {
    answer["facts"].as_array().unwrap().iter().map(|fact| fact["memory"].as_str().unwrap()).collect()
}

#[test]
fn mem0_learns_recalls_lists_and_forgets() {
    let service = Service::mem0();
    let user = user_of(&service, "mem0", MEM0);
    let run = |arguments: &[&str]| user.json(&[&["--backend", "mem0"], arguments].concat());
    let added = run(&["add", "I live in Lisbon. I love green tea."]);
    assert_eq!((&added["status"], ids(&added).len()), (&json!("done"), 2), "{added}");
    let found = run(&["recall", "where", "do", "I", "live"]);
    assert!(memories(&found)[0].contains("Lisbon"), "{found}");
    assert_eq!(found["facts"][0]["score_kind"], "rank");
    assert_eq!(memories(&run(&["recall", "live", "-k", "1"])).len(), 1);
    let first = run(&["facts", "--limit", "1"]);
    let rest = run(&["facts", "--cursor", first["next"].as_str().unwrap()]);
    assert_eq!((memories(&first).len(), memories(&rest).len(), &rest["next"]), (1, 1, &json!(null)));
    let lines = user.run(&["--backend", "mem0", "facts", "--all", "--limit", "1", "--json"]).lines();
    assert_eq!(lines.iter().map(|fact| fact["id"].as_str().unwrap()).collect::<Vec<_>>(), ids(&added));

    let id = &ids(&added)[0];
    let forgotten = run(&["forget", id]);
    has(&forgotten, json!({"forgotten": 1, "not_found": []}));
    assert!(forgotten["remains"][0].as_str().unwrap().contains("last 10 messages"), "{forgotten}");
    let again = user.run(&["--backend", "mem0", "forget", id, "--json"]);
    let told = again.document();
    assert_eq!((again.code, &told["forgotten"], &told["not_found"]), (Some(1), &json!(0), &json!([id])));
    assert_eq!(run(&["forget", "--all"])["forgotten"], 1);
    assert_eq!(memories(&run(&["facts"])), [""; 0]);
}

#[test]
fn what_is_printed_is_for_people() {
    let service = Service::mem0();
    let user = user_of(&service, "mem0", MEM0);
    let run = |arguments: &[&str]| user.ok(&[&["--backend", "mem0"], arguments].concat());
    let added = run(&["add", "I live in Lisbon", "--metadata", "day=3"]);
    let id = added.trim().strip_prefix("stored: ").unwrap();
    assert_eq!(run(&["add", "I live in Lisbon"]), "done: nothing new to store\n");
    let found = run(&["recall", "Lisbon"]);
    assert!(found.contains("Lisbon") && found.contains(id) && found.contains("rank"), "{found}");
    assert_eq!(run(&["recall", "zebra", "--user", "nobody"]), "nothing found in user:nobody\n");
    let listed = run(&["facts"]);
    assert!(listed.starts_with("ID") && listed.contains(id), "{listed}");
    let forgotten = run(&["forget", id]);
    assert!(forgotten.starts_with("forgotten: 1\nremains: mem0 keeps the last 10 messages"), "{forgotten}");
    let gone = user.run(&["--backend", "mem0", "forget", id]);
    assert_eq!(gone.code, Some(1));
    assert!(gone.stdout.starts_with(&format!("forgotten: 0\nnot found: {id}\n")), "{gone:?}");
}

#[test]
fn instructions_are_left_out_and_the_answer_says_so() {
    let user = User::new();
    let add =
        |options: &[&str]| user.ok(&[&["--url", "sqlite:m.db", "add", "You are terse"], options].concat());
    let told = add(&["--role", "system"]);
    assert_eq!(
        told,
        "done: nothing new to store\nleft out: 1 of the system or a tool; memories are what users and assistants say\n"
    );
    assert!(add(&[]).starts_with("stored: "));
    assert_eq!(add(&[]), "done: nothing new to store\nthere already: 1\n");
}

#[test]
fn what_a_service_did_before_its_503_is_told_as_unknown() {
    let mut fake = memory_fakes::mem0::SelfHosted::default();
    let service = Service::of(move |asked| {
        let answer = fake.handle(asked);
        match asked.method.as_str() {
            "POST" if asked.path == ["memories"] => (503, json!({"detail": "proxy"})),
            "DELETE" => (503, json!({"detail": "proxy"})),
            _ => answer,
        }
    });
    let user = user_of(&service, "mem0", MEM0);
    let added = user.run(&["--backend", "mem0", "add", "I live in Lisbon", "--json"]);
    assert_eq!((added.code, &added.document()["status"]), (Some(9), &json!("unknown")), "{added:?}");
    assert_eq!(memories(&user.json(&["--backend", "mem0", "facts"])).len(), 1);
    let forgot = user.run(&["--backend", "mem0", "forget", "--all", "--json"]);
    assert!(forgot.code == Some(9) && forgot.stderr.contains("outcome_unknown"), "{forgot:?}");
    assert_eq!(memories(&user.json(&["--backend", "mem0", "facts"])).len(), 0);
}

#[test]
fn each_scope_has_its_own_facts() {
    let service = Service::mem0();
    let user = user_of(&service, "mem0", MEM0);
    let run = |arguments: &[&str]| user.json(&[&["--backend", "mem0"], arguments].concat());
    let added = run(&["add", "I live in Lisbon"]);
    for other in
        [["--user", "bob"], ["--agent", "ada"], ["--run", "ada"], ["--tenant", "umbrella"], ["--user", "Ada"]]
    {
        assert_eq!(memories(&run(&[&["recall", "Lisbon"], &other[..]].concat())), [""; 0], "{other:?}");
        let id = &ids(&added)[0];
        let ran = user.run(&[&["--backend", "mem0", "forget", id, "--json"], &other[..]].concat());
        assert_eq!((ran.code, &ran.document()["not_found"]), (Some(1), &json!([id])), "{other:?}");
        assert_eq!(run(&[&["forget", "--all"], &other[..]].concat())["forgotten"], 0, "{other:?}");
    }
    assert_eq!(memories(&run(&["facts"])).len(), 1);
    assert!(!service.heard().contains("ada"), "ids of scopes go out as digests");
}

#[test]
fn a_listing_is_of_one_session_where_the_store_keeps_them() {
    let service = Service::mem0();
    let user = user_of(&service, "mem0", MEM0);
    for (words, day) in [("I live in Oslo", "monday"), ("I own a kite", "tuesday"), ("I moved", "monday")] {
        user.ok(&["add", words, "--session", day]);
    }
    let listed = user.json(&["facts", "--session", "monday"]);
    assert_eq!(memories(&listed), ["I live in Oslo", "I moved"]);
    assert_eq!(memories(&user.json(&["facts", "--session", "sunday"])), [""; 0]);
    user.refused(&["--backend", "mem0", "facts", "--session", "monday"], 3, "capability_unsupported");
}

#[test]
fn a_conversation_is_added_from_a_file_or_standard_input_verbatim_on_request() {
    let service = Service::mem0();
    let user = user_of(&service, "mem0", MEM0);
    let said = r#"[{"role":"user","content":"I moved to Porto.","at":"2026-01-31T09:30:00Z"},
                   {"role":"assistant","content":"Noted."},{"role":"tool","content":"{}"}]"#;
    let file = user.file("said.json", said);
    let added = user.json(&["--backend", "mem0", "add", "--messages", file.to_str().unwrap(), "--verbatim"]);
    assert_eq!(ids(&added).len(), 2);
    let facts = user.json(&["--backend", "mem0", "facts"]);
    assert!(memories(&facts).contains(&"I moved to Porto."), "{facts}");
    let piped = user.run_with(&["--backend", "mem0", "add", "--messages", "-", "--json"], said.as_bytes());
    assert_eq!(piped.code, Some(0), "{piped:?}");
    let spoken =
        user.json(&["--backend", "mem0", "add", "--role", "assistant", "I will call Porto", "--verbatim"]);
    assert_eq!(ids(&spoken).len(), 1);
    for (wrong, code) in [
        ("[]", "invalid_argument"),
        ("{}", "invalid_argument"),
        ("[{\"role\":\"user\"}]", "invalid_argument"),
    ] {
        let ran = user.run_with(&["--backend", "mem0", "add", "--messages", "-", "--json"], wrong.as_bytes());
        assert_eq!(ran.code, Some(3), "{wrong}: {ran:?}");
        assert!(ran.stderr.contains(code), "{ran:?}");
    }
    let long = format!(r#"[{{"role":"user","content":"{}"}}]"#, "x".repeat((1 << 20) + 1));
    let ran = user.run_with(&["--backend", "mem0", "add", "--messages", "-", "--json"], long.as_bytes());
    assert!(ran.code == Some(3) && ran.stderr.contains("too_large"), "{ran:?}");
    assert_eq!(user.run(&["--backend", "mem0", "add"]).code, Some(2), "nothing was said");
}

#[test]
fn pending_work_of_the_platform_is_polled_and_awaited() {
    let service = Service::mem0_platform();
    let user = user_of(&service, "mem0", PLATFORM);
    let run = |arguments: &[&str]| user.json(&[&["--backend", "mem0"], arguments].concat());
    let added = run(&["add", "I live in Lisbon"]);
    assert_eq!(added["status"], "pending");
    let event = added["event"].as_str().unwrap();
    assert_eq!(memories(&run(&["facts"])), [""; 0]);
    assert_eq!(run(&["event", event])["status"], "pending");
    let done = run(&["event", event, "--wait", "30"]);
    assert_eq!((&done["status"], &done["event"], ids(&done).len()), (&json!("done"), &json!(event), 1));
    assert_eq!(memories(&run(&["recall", "Lisbon"])).len(), 1);

    let waited = run(&["add", "I love green tea. I own a boat.", "--wait", "30"]);
    assert_eq!((&waited["status"], ids(&waited).len()), (&json!("done"), 2), "{waited}");
    let text = user.ok(&["--backend", "mem0", "add", "I play the violin"]);
    assert!(text.starts_with("pending") && text.contains("memory event "), "{text}");
    let failed = user.run(&["--backend", "mem0", "add", "[[fail]]", "--wait", "30", "--json"]);
    assert_eq!((failed.code, &failed.document()["status"]), (Some(8), &json!("failed")), "{failed:?}");
    let in_vain = user.run(&["--backend", "mem0", "add", "I have a cat", "--wait", "0", "--json"]);
    assert_eq!((in_vain.code, &in_vain.document()["status"]), (Some(8), &json!("pending")), "{in_vain:?}");
    assert_eq!(run(&["add", "I have a dog", "--verbatim"])["status"], "done");

    user.refused(&["--backend", "mem0", "event", event, "--user", "bob"], 3, "not_found");
    user.refused(&["--backend", "mem0", "event", "made-up"], 3, "not_found");
    assert_eq!(user.run(&["--backend", "mem0", "event", event, "--wait", "601"]).code, Some(2));
    assert_eq!(run(&["forget", "--all"])["forgotten"], 4);
    assert_eq!(memories(&run(&["facts"])), [""; 0]);
}

#[test]
fn an_accepted_add_keeps_its_event_though_asking_about_it_fails() {
    for (status, body) in [
        (401, json!({"detail": "no"})),
        (404, json!({"detail": "no such event"})),
        (200, json!({"_text": "<html>Log in</html>"})),
        (200, json!({"id": "x", "status": "TRANSCENDED"})),
    ] {
        let (mut fake, reply) = (memory_fakes::mem0::Platform::default(), body.clone());
        let service = Service::of(move |asked| {
            let answer = fake.handle(asked);
            if asked.path.iter().any(|part| part == "event") { (status, reply.clone()) } else { answer }
        });
        let user = user_of(&service, "mem0", PLATFORM);
        let ran = user.run(&["--backend", "mem0", "add", "I live in Lisbon", "--wait", "30", "--json"]);
        let told = ran.document();
        assert_eq!((ran.code, &told["status"]), (Some(8), &json!("pending")), "{status} {body}: {ran:?}");
        assert!(told["event"].is_string() && ran.stderr.contains("accepted"), "{status} {body}: {ran:?}");
    }
}

#[test]
fn a_list_that_repeats_itself_ends_with_an_error() {
    let mut fake = memory_fakes::mem9::Mem9::default();
    let service = Service::of(move |asked| {
        let mut asked = asked.clone();
        asked.parameters.retain(|(name, _)| name != "offset");
        let (status, mut body) = fake.handle(&asked);
        if body["total"].is_number() {
            body["total"] = json!(500);
        }
        (status, body)
    });
    let user = user_of(&service, "mem9", MEM9);
    user.ok(&["--backend", "mem9", "add", "I live in Lisbon. I love green tea."]);
    let ran = user.run(&["--backend", "mem9", "facts", "--all", "--json"]);
    assert_eq!((ran.code, ran.lines().len()), (Some(6), 2), "each fact once: {ran:?}");
    assert!(ran.stderr.contains("paging"), "{ran:?}");
}

#[test]
fn mem9_learns_and_recalls_and_says_what_it_cannot_report() {
    let service = Service::mem9();
    let user = user_of(&service, "mem9", MEM9);
    let run = |arguments: &[&str]| user.json(&[&["--backend", "mem9"], arguments].concat());
    assert_eq!(run(&["add", "I live in Lisbon. I love green tea."]), json!({"status": "done", "ids": []}));
    let text = user.ok(&["--backend", "mem9", "add", "I own a boat."]);
    assert!(text.contains("does not say") && text.contains("memory facts"), "{text}");
    let found = run(&["recall", "green tea"]);
    assert_eq!(
        (memories(&found), &found["facts"][0]["score_kind"]),
        (vec!["I love green tea"], &json!("similarity"))
    );
    assert_eq!(memories(&run(&["recall", "green tea", "--threshold", "0.99"])), [""; 0]);
    assert_eq!(memories(&run(&["facts"])).len(), 3);
    assert_eq!(run(&["forget", "--all"])["forgotten"], 3);
    for arguments in [&["add", "x", "--verbatim"][..], &["add", "x", "--metadata", "a=1"], &["event", "e"]] {
        user.refused(&[&["--backend", "mem9"], arguments].concat(), 3, "capability_unsupported");
    }
    let late = user_of(&service, "mem9", &format!("{MEM9}&sync=false"));
    assert_eq!(late.json(&["--backend", "mem9", "add", "I live in Porto."]), json!({"status": "pending"}));
    let in_vain = late.run(&["--backend", "mem9", "add", "I live in Faro.", "--wait", "5"]);
    assert_eq!(in_vain.code, Some(8), "{in_vain:?}");
    assert!(in_vain.stdout.contains("does not report completion"), "{in_vain:?}");
}

#[test]
fn a_run_may_bring_its_own_key() {
    let service = Service::mem0();
    let user = user_of(&service, "mem0", "run_credential=mem0");
    user.refused(&["--backend", "mem0", "add", "I live in Lisbon"], 3, "unauthenticated");
    let with = |key: &str, arguments: &[&str]| {
        let arguments =
            [&["--backend", "mem0"], arguments, &["--credential", "mem0=env:MY_KEY", "--json"]].concat();
        let child = user.command(&arguments).env("MY_KEY", key).output().unwrap();
        Ran {
            code: child.status.code(),
            stdout: String::from_utf8(child.stdout).unwrap(),
            stderr: String::from_utf8(child.stderr).unwrap(),
        }
    };
    let added = with(memory_fakes::mem0::KEY, &["add", "I live in Lisbon"]);
    assert_eq!(added.code, Some(0), "{added:?}");
    let wrong = with("hunter2", &["recall", "Lisbon"]);
    assert_eq!(wrong.code, Some(3));
    assert!(
        wrong.stderr.contains("unauthenticated") && !format!("{wrong:?}").contains("hunter2"),
        "{wrong:?}"
    );
    user.refused(&["--backend", "mem0", "facts", "--credential", "mem0=hunter2"], 3, "invalid_argument");
}

#[test]
fn only_listed_hosts_are_reached_without_tls_and_the_refusal_says_how_to_list_one() {
    let service = Service::mem0();
    let user = User::new();
    let key = user.file("key", memory_fakes::mem0::KEY);
    let address = service.address();
    let url = format!("mem0+http://{address}?api_key=file:{}", key.display());
    let error = user.refused(&["--url", &url, "add", "I live in Lisbon"], 3, "egress_denied");
    let message = error["message"].as_str().unwrap();
    assert!(
        message.contains(&address) && message.contains("[egress]") && message.contains("--allow-host"),
        "{message}"
    );
    assert_eq!(service.asked(), [""; 0], "nothing was sent");
    user.ok(&["--url", &url, "--allow-host", &address, "add", "I live in Lisbon"]);
    let other = format!("{address}0");
    user.refused(&["--url", &url, "--allow-host", &other, "facts"], 3, "invalid_argument");
    for private in ["https://127.0.0.1", "https://169.254.169.254", "http://10.0.0.1:8888", "https://[::1]:1"]
    {
        let url = format!("mem0+{private}?api_key=file:{}", key.display());
        user.refused(&["--url", &url, "facts"], 3, "egress_denied");
    }
    let secret = format!("mem0+http://{address}?api_key=hunter2");
    let error = user.refused(&["--url", &secret, "--allow-host", &address, "facts"], 3, "invalid_argument");
    assert!(
        error["message"].as_str().unwrap().contains("env:") && !error.to_string().contains("hunter2"),
        "{error}"
    );
    let described = user.run(&["--url", &secret, "config"]);
    assert!(!format!("{described:?}").contains("hunter2"), "{described:?}");
}

#[test]
fn mem9_is_a_preview_and_must_be_asked_for() {
    let service = Service::mem9();
    let user = user_of(&service, "mem9", "tenancy=shared_key&api_key=file:keys/mem9");
    let error = user.refused(&["--backend", "mem9", "facts"], 3, "invalid_argument");
    assert!(error["message"].as_str().unwrap().contains("preview"), "{error}");
}

#[test]
fn a_command_for_the_other_kind_of_store_is_refused_with_an_alternative() {
    let service = Service::mem0();
    let user = user_of(&service, "mem0", MEM0);
    for arguments in
        [&["get", "k"][..], &["set", "k", "1"], &["list"], &["search", "x"], &["export"], &["stats"]]
    {
        let error = user.refused(&[&["--backend", "mem0"], arguments].concat(), 3, "capability_unsupported");
        assert!(error["message"].as_str().unwrap().contains("memory add"), "{arguments:?}: {error}");
    }
    user.ok(&["set", "k", "1"]);
    let error = user.refused(&["event", "x"], 3, "capability_unsupported");
    assert!(error["message"].as_str().unwrap().contains("sqlite"), "{error}");
    assert_eq!(service.asked(), [""; 0]);
}

#[test]
fn a_store_is_named_once_and_by_a_known_name() {
    let service = Service::mem0();
    let user = user_of(&service, "mem0", MEM0);
    user.refused(&["--backend", "mem0", "--url", "sqlite::memory:", "facts"], 3, "invalid_argument");
    let error = user.refused(&["--backend", "mem8", "facts"], 3, "not_found");
    assert!(error["message"].as_str().unwrap().contains("local, mem0"), "{error}");
    let error = User::new().refused(&["--backend", "mem0", "facts"], 3, "invalid_argument");
    assert!(error["message"].as_str().unwrap().contains("memory.toml"), "{error}");
    user.ok(&["--backend", "local", "set", "k", "1"]);
    assert_eq!(user.ok(&["get", "k"]), "1\n", "the default backend is the same file");
}

#[test]
fn an_unreachable_service_is_unavailable_and_a_wrong_key_is_reported() {
    let service = Service::mem0();
    let user = user_of(&service, "mem0", &format!("{MEM0}&timeout_ms=2000&add_timeout_ms=2000"));
    let described = user.json(&["--backend", "mem0", "describe"]);
    assert_eq!((&described["provider"], &described["health"]["status"]), (&json!("mem0"), &json!("ok")));
    assert_eq!(described["capabilities"]["memory_layer"], true);
    user.file("keys/mem0", "another");
    user.refused(&["--backend", "mem0", "add", "x"], 3, "unauthenticated");
    assert_eq!(user.json(&["--backend", "mem0", "describe"])["health"]["status"], "down");
    drop(service);
    for arguments in [&["add", "x"][..], &["recall", "x"], &["facts"], &["forget", "--all"]] {
        user.refused(&[&["--backend", "mem0"], arguments].concat(), 5, "unavailable");
    }
}

#[test]
fn a_forgotten_message_is_gone_from_the_file_and_not_only_from_the_answers() {
    let user = User::new();
    let turns: Vec<Value> = (0..200)
        .map(|n| json!({"role": "user", "content": format!("the marker of turn {n} is zq{n}x, among words")}))
        .collect();
    user.file("turns.json", Value::from(turns).to_string());
    user.ok(&["import", "turns.json"]);
    let facts = user.json(&["facts", "--limit", "500"]);
    let facts: Vec<(&str, &str)> = facts["facts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fact| (fact["id"].as_str().unwrap(), fact["memory"].as_str().unwrap()))
        .collect();
    let marker =
        |text: &str| text.split_whitespace().find(|word| word.starts_with("zq")).unwrap().replace(',', "");
    let (gone, kept): (Vec<_>, Vec<_>) = facts.iter().enumerate().partition(|(index, _)| index % 10 == 3);
    let mut forget = vec!["forget", "--yes"];
    forget.extend(gone.iter().map(|(_, (id, _))| *id));
    user.ok(&forget);
    let file = std::fs::read(user.home().join(".local/share/memory/memory.db")).unwrap();
    let holds = |text: &str| file.windows(text.len()).any(|bytes| bytes == text.as_bytes());
    assert!(kept.iter().all(|(_, (_, text))| holds(&marker(text))), "the file is read");
    let left: Vec<String> =
        gone.iter().map(|(_, (_, text))| marker(text)).filter(|word| holds(word)).collect();
    assert_eq!(left, [""; 0]);
}
