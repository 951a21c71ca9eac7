//! The page in a real browser: Chromium, if installed. Recreates the pictures found in the folder that
//! `MEMORY_PAGE_SHOTS` names, or all of them if there are none.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::door::Door;
use super::page::{HOSTILE, api, encoded};

/// The browser, if there is one and a Python that drives it.
fn chromium() -> Option<String> {
    let named = std::env::var("MEMORY_CHROMIUM").ok();
    let candidates =
        named.into_iter().chain(["chromium", "chromium-browser", "google-chrome"].map(str::to_owned));
    let runs =
        |program: &str| Command::new(program).arg("--version").output().is_ok_and(|run| run.status.success());
    candidates.into_iter().find(|program| runs(program)).filter(|_| runs("python3"))
}

/// What the agents of a small company have stored.
fn furnish(door: &Door, ops: &str, ann: &str) {
    let session = door.session(ann);
    let user = json!({"tenant": "acme", "kind": "user", "id": "ada"});
    let agent = json!({"tenant": "acme", "kind": "agent", "id": "ann"});
    for (key, value, metadata) in [
        (
            "deploy/checklist",
            json!({"steps": ["run the tests", "tag the release", "watch the dashboards for an hour"], "owner": "Ada"}),
            json!({"kind": "procedure", "team": "platform"}),
        ),
        (
            "deploy/last",
            json!({"version": "4.12.0", "at": "2026-03-05T14:10:00Z", "rolled_back": false}),
            json!({"kind": "fact"}),
        ),
        (
            "note/proxy",
            json!("The proxy in Frankfurt closes idle connections after 90 seconds."),
            json!({"kind": "note", "city": "Frankfurt"}),
        ),
        ("note/hebrew", json!("שלום, הפגישה היא ביום שני בשעה תשע"), json!({"kind": "note"})),
        ("preference/tea", json!({"tea": "oolong", "milk": false}), json!({"kind": "preference"})),
        (HOSTILE, json!(HOSTILE), json!({"kind": HOSTILE})),
    ] {
        let options = json!({"metadata": metadata, "source": "chat"});
        api(door, ops, "set", &json!({"scope": agent, "key": key, "value": value, "options": options}));
    }
    for number in 0..4 {
        let scope =
            json!({"tenant": "acme", "kind": "run", "id": format!("nightly-2026-03-0{}", number + 1)});
        api(door, ops, "set", &json!({"scope": scope, "key": "summary", "value": "x".repeat(300 << number)}));
    }
    let said =
        |who: &str, at: &str, text: &str| json!({"role": "user", "name": who, "at": at, "content": text});
    let messages = json!([
        said("Ada", "2026-03-01T09:00:00Z", "My sister Ida lives in Bergen, she moved there last spring."),
        said("Ben", "2026-03-01T09:01:00Z", "Nice, what does she do there?"),
        said("Ada", "2026-03-01T09:02:00Z", "She teaches physics at a school near the harbour."),
        said(
            "Ada",
            "2026-03-07T20:00:00Z",
            "We had dinner at the harbour in Lisbon, the grilled sardines were wonderful."
        ),
        said("Ben", "2026-03-07T20:05:00Z", HOSTILE),
    ]);
    let run = json!({"tenant": "acme", "agent": "ann", "run": "seed"});
    api(door, ops, "add", &json!({"run": run, "scope": user, "messages": messages}));
    for words in [
        "issue redis_timeout: Redis times out under load",
        "issue lint: the linter fails on the generated files",
        "decision use_postgres: we keep the ledger in PostgreSQL",
        "the earlier blocker is fixed",
    ] {
        door.ok(ann, &session, json!({"op": "note", "note": words}));
    }
    for (id, concept, content) in [
        ("proxy_old", "proxy", "The proxy allows 30 seconds for an answer."),
        ("proxy_new", "proxy", "The proxy allows 90 seconds for an answer."),
        ("ledger", "storage", "The ledger is kept in PostgreSQL, with a proof of every event."),
    ] {
        let about = json!({"op": "remember", "memory_id": id, "concept": concept, "content": content, "entity": concept});
        door.ok(ann, &session, about);
    }
    let raised =
        json!({"op": "relate", "source_id": "proxy_new", "relation": "supersedes", "target_id": "proxy_old"});
    door.ok(ann, &session, raised);
    for question in ["Where does Ida live?", "What did we eat in Lisbon?"] {
        door.ok(ann, &session, json!({"op": "recall", "scope": "user", "query": question, "explain": true}));
    }
    door.ok(ann, &session, json!({"op": "search", "scope": "agent", "query": "deploy"}));
}

#[test]
fn a_browser_shows_every_page_without_a_complaint() {
    let Some(chromium) = chromium() else {
        println!(
            "skipped: there is no Chromium and Python 3; install both, or name the browser in MEMORY_CHROMIUM"
        );
        return;
    };
    let door = Door::open(
        "shared_state = \"authority\"\ngraph = \"supersede\"\nquota = { max_entries = 10000, max_bytes = 10000000 }\n\
         sql_scopes = [\"agent\"]\n[sql]\nenabled = true\n[audit]\nfile = \"audit.jsonl\"\nmode = \"full\"\n",
    );
    let ann = door.token("ann", &["--tenant", "acme", "--agent", "ann", "--user", "ada"]);
    let ops = door.token("ops", &["--tenant", "acme"]);
    furnish(&door, &ops, &ann);
    let hostile = encoded(HOSTILE);
    let paths = json!({
        "overview": "/",
        "entries": "/page/entries?kind=agent&id=ann",
        "search": "/page/entries?kind=agent&id=ann&q=idle+connections",
        "entry": "/page/entry?kind=agent&id=ann&key=deploy%2Fchecklist",
        "hostile": format!("/page/entry?kind=agent&id=ann&key={hostile}"),
        "scope": "/page/scope?kind=agent&id=ann",
        "recall": "/page/recall?kind=user&id=ada&q=Where+does+Ida+live%3F&top_k=5",
        "facts": "/page/facts?kind=user&id=ada",
        "shared": "/page/shared",
        "why": "/page/why?bucket=issues&row=redis_timeout",
        "graph": "/page/graph?agent=ann",
        "memory": "/page/memory?agent=ann&memory=proxy_new",
        "activity": "/page/activity",
        "store": "/page/store",
    });
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/http/browser.py");
    let folder = std::env::var("MEMORY_PAGE_SHOTS").unwrap_or_default();
    let run = Command::new("python3")
        .arg(script)
        .args([&chromium, &format!("http://127.0.0.1:{}", door.port), &ops, &folder, &paths.to_string()])
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
}
