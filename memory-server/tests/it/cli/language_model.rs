//! `extract` and `promote` with a real language model, too small to understand what it reads. Its answers lose no turn
//! or note, and each fact names the turns it was extracted from.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::support::user::{User, has};

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/cli/language_model.py");

struct Model {
    process: Child,
    port: u16,
}

impl Model {
    /// `None` if there is none, after printing the reason.
    fn serve() -> Option<Self> {
        let Some(packages) = std::env::var_os("MEMORY_TEST_LANGUAGE_MODEL") else {
            println!(
                "skipped: MEMORY_TEST_LANGUAGE_MODEL names no model; `cargo xtask test` sets it where it can"
            );
            return None;
        };
        let mut process = Command::new("python3")
            .arg(SERVER)
            .env("PYTHONPATH", packages)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = lines.map_while(Result::ok).find_map(|line| line.parse().ok());
        Some(Self { process, port: port.expect("the model's server prints its port") })
    }

    fn user(&self) -> User {
        let user = User::new();
        let address = format!("127.0.0.1:{}", self.port);
        user.file(
            "memory.toml",
            format!(
                "[backends.local]\nurl = \"sqlite:memory.db\"\n[models.chat]\nbase_url = \"http://{address}/v1\"\n\
                 model = \"smollm2\"\ntemperature = 0\nmax_output_tokens = 300\n[egress]\nallow = [\"{address}\"]\n\
                 [governed]\ninterpreter = \"model\"\n"
            ),
        );
        user
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

#[test]
fn a_small_model_reads_every_turn_and_note_and_each_fact_names_its_turns() {
    let Some(model) = Model::serve() else { return };
    let user = model.user();
    let said = ["I live in Lisbon and work as a nurse.", "My cat is called Miso."];
    let turns: Vec<_> = said.iter().map(|text| user.json(&["add", text])["ids"][0].clone()).collect();
    let ran = user.run(&["extract", "--json"]);
    let report = ran.document();
    assert!(matches!(ran.code, Some(0 | 7)), "{ran:?}");
    assert!(report["spent"]["input_tokens"].as_u64() > Some(0), "{report}");
    has(&report, json!({"turns": 2, "waiting": 0}));

    let held = user.json(&["facts"]);
    let held = held["facts"].as_array().unwrap();
    for (text, id) in said.iter().zip(&turns) {
        assert!(held.iter().any(|fact| fact["id"] == *id && fact["memory"] == *text), "{held:?}");
    }
    for drawn in held.iter().filter(|fact| !turns.contains(&fact["id"])) {
        let sources = drawn["sources"].as_array().unwrap();
        assert!(!sources.is_empty() && sources.iter().all(|source| turns.contains(source)), "{drawn}");
    }

    user.ok(&["note", "issue crash-on-start: the app crashes on start"]);
    user.ok(&["note", "Somebody might have fixed it by now, or not."]);
    let ran = user.run(&["promote", "--json"]);
    let report = ran.document();
    let counted =
        ["committed", "deferred", "no_ops", "rejected", "retried"].map(|name| report[name].as_u64().unwrap());
    // A note may ask for several writes, each of which is counted.
    assert!(matches!(ran.code, Some(0 | 7)) && counted.iter().sum::<u64>() >= 2, "{ran:?}");
    assert_eq!(report["notes"], 2, "{report}");
    user.ok(&["verify"]);
}
