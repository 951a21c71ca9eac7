//! Recorded pairs of a real service's request and reply: fakes must answer alike, and clients are replayed the replies.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::Value;

use crate::http::Server;
use crate::parsed::{Answer, ParsedRequest, sent};

/// The recorded pairs of request and reply in a folder; `None`, after saying so, where there is none.
pub fn pairs(folder: &str) -> Option<Vec<Value>> {
    let shared = std::env::var_os("MEMORY_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared"), PathBuf::from);
    let folder = shared.join("data").join(folder);
    let Ok(files) = std::fs::read_dir(&folder) else {
        eprintln!("not checked: {} is not there; set MEMORY_SHARED", folder.display());
        return None;
    };
    let mut paths: Vec<_> = files
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    paths.sort();
    Some(paths.iter().map(|path| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()).collect())
}

pub fn by_name(pairs: &[Value], name: &str) -> Value {
    pairs.iter().find(|pair| pair["name"] == name).unwrap_or_else(|| panic!("no pair {name}")).clone()
}

pub fn answer_of(pair: &Value) -> Answer {
    (u16::try_from(pair["response"]["status"].as_u64().unwrap()).unwrap(), pair["response"]["body"].clone())
}

/// A server that gives the recorded answers one after the other, with `id` in the place of the recorded owners'.
pub async fn replaying(pairs: &[&Value], owners: &[&str], id: &str) -> Server {
    let script = pairs.iter().map(|pair| {
        let (status, body) = answer_of(pair);
        let body = owners.iter().fold(body.to_string(), |body, owner| body.replace(owner, id));
        sent(status, &serde_json::from_str(&body).unwrap())
    });
    Server::script(script.collect()).await
}

/// The `n`th request to the server, and a recorded one. Their methods are equal, and their paths but for ids.
pub fn sent_as(server: &Server, n: usize, request: &Value) -> (ParsedRequest, ParsedRequest) {
    let ours = ParsedRequest::of(&server.requests()[n]);
    let theirs = ParsedRequest::to(request["method"].as_str().unwrap(), request["path"].as_str().unwrap());
    assert_eq!((&ours.method, ours.path.len()), (&theirs.method, theirs.path.len()), "{request}");
    for (ours, theirs) in ours.path.iter().zip(&theirs.path) {
        assert!(ours == theirs || theirs.len() == 36 || theirs.starts_with("id"), "{ours} for {theirs}");
    }
    (ours, theirs)
}

/// Compares a fake with recorded answers.
#[derive(Default)]
pub struct Comparison {
    /// Members that differ in every run.
    ignored: &'static [&'static str],
    /// The fake's ids, by the recorded ones: they are matched one to one.
    ids: BTreeMap<String, String>,
    compared: usize,
    wrong: Vec<String>,
}

impl Comparison {
    pub fn ignoring(ignored: &'static [&'static str]) -> Self {
        Self { ignored, ..Self::default() }
    }

    /// Asks the fake what was recorded. `arrange` makes answers comparable whose order is the service's own affair.
    pub fn compare(
        &mut self,
        pair: &Value,
        fake: impl FnOnce(&ParsedRequest) -> Answer,
        arrange: impl Fn(&ParsedRequest, &mut Value),
    ) {
        let (name, request) = (pair["name"].as_str().unwrap(), &pair["request"]);
        let (mut target, mut body) =
            (request["path"].as_str().unwrap().to_owned(), request["body"].to_string());
        for (real, fake) in &self.ids {
            (target, body) = (target.replace(real, fake), body.replace(real, fake));
        }
        let mut asked = ParsedRequest::to(request["method"].as_str().unwrap(), &target);
        asked.headers = request["headers"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| (name.to_ascii_lowercase(), value.as_str().unwrap_or("").to_owned()))
            .collect();
        asked.body = match request["body"]["_raw_head"].as_str() {
            Some(raw) => serde_json::from_str(raw).ok(),
            None => serde_json::from_str(&body).ok().filter(|body: &Value| !body.is_null()),
        };
        let ((status, mut body), (real_status, mut real)) = (fake(&asked), answer_of(pair));
        self.compared += 1;
        let unrecorded = real.get("_text").is_some();
        arrange(&asked, &mut real);
        arrange(&asked, &mut body);
        if status != real_status || !(unrecorded || self.same(&real, &body)) {
            self.wrong.push(format!("{name}: {real_status} {real}\n    fake: {status} {body}"));
        }
    }

    fn same(&mut self, real: &Value, fake: &Value) -> bool {
        match (real, fake) {
            (Value::Object(real), Value::Object(fake)) => {
                let ignored = self.ignored;
                let kept = |name: &&String| !ignored.contains(&name.as_str());
                real.keys().filter(kept).eq(fake.keys().filter(kept))
                    && real.iter().filter(|(name, _)| kept(name)).all(|(name, value)| match name.as_str() {
                        "id" => match (value.as_str(), fake["id"].as_str()) {
                            (Some(real), Some(fake)) => {
                                self.ids.entry(real.to_owned()).or_insert_with(|| fake.to_owned()) == fake
                            }
                            _ => false,
                        },
                        // A message for people, which contains ids; a list of problems must be a list.
                        "detail" => value.is_string() == fake["detail"].is_string(),
                        name => self.same(value, &fake[name]),
                    })
            }
            (Value::Array(real), Value::Array(fake)) => {
                real.len() == fake.len() && real.iter().zip(fake).all(|(real, fake)| self.same(real, fake))
            }
            (real, fake) => real == fake,
        }
    }

    /// Panics where answers differed, or fewer were compared.
    pub fn finish(self, at_least: usize) {
        let Self { compared, wrong, .. } = self;
        assert!(compared >= at_least, "only {compared} pairs were compared");
        assert!(wrong.is_empty(), "{} of {compared} pairs differ:\n{}", wrong.len(), wrong.join("\n"));
    }
}
