//! Facts extracted in the background while a connection is served.

use std::time::Instant;

use serde_json::{Value, json};

use crate::serve::client::{PATIENCE, Place};
use crate::support::service::Service;

#[test]
fn facts_are_drawn_while_a_connection_is_served_and_shutdown_does_not_wait_for_the_model() {
    let mut asked = 0;
    let service = Service::of(move |_| {
        asked += 1;
        if asked > 1 {
            // Longer than closing takes.
            std::thread::sleep(std::time::Duration::from_secs(5));
        }
        let fact =
            json!({"fact": "Ada lives in Bergen.", "sources": ["t1"], "valid_from": null, "supersedes": []});
        let message = json!({"role": "assistant", "content": json!({ "facts": [fact] }).to_string()});
        (200, json!({"choices": [{"finish_reason": "stop", "message": message}]}))
    });
    let (place, address) = (Place::new(), service.address());
    place.write(
        "memory.toml",
        &format!(
            "[backends.local]\nurl = \"sqlite:memory.db\"\n\
             [default]\nagent = \"a\"\nuser = \"ada\"\nmemory_scopes = [\"user\"]\n\
             [models.chat]\nbase_url = \"http://{address}/v1\"\nmodel = \"small\"\n[egress]\nallow = [\"{address}\"]\n\
             [recall.extract]\nenabled = true\n"
        ),
    );
    let run = |arguments: &[&str]| {
        let ran =
            place.command(&[arguments, &["--config", "memory.toml", "--json"]].concat()).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
        serde_json::from_slice::<Value>(&ran.stdout).unwrap()
    };
    run(&["add", "I live there, in Bergen"]);
    let client = place.connect_with(&["--config", "memory.toml"]);
    let until = |done: &dyn Fn() -> bool| {
        let began = Instant::now();
        while !done() {
            assert!(began.elapsed() < PATIENCE);
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    };
    let facts = || run(&["facts"])["facts"].as_array().unwrap().len();
    until(&|| facts() == 2);
    run(&["add", "and I like it"]);
    until(&|| service.asked().len() == 2);
    let ended = client.close();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert_eq!(run(&["extract", "--status"])["waiting"], 1, "nothing is lost");
}
