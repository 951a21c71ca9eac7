//! Two tenants on one key never see each other's facts, whatever their ids and messages contain.

use std::sync::{Arc, Mutex};

use memory_fakes::isolation::never_meet;
use memory_http::Tenancy;
use memory_mem0::Mem0Options;

use crate::support::platform::Platform;
use crate::support::self_hosted::SelfHosted;
use crate::support::{ParsedRequest, checked, serve};

#[tokio::test]
async fn tenants_of_a_self_hosted_server_are_isolated() {
    let server = SelfHosted::default().start().await;
    never_meet(&checked(&server, Mem0Options::self_hosted("")), 10_000, 1).await;
}

#[tokio::test]
async fn tenants_are_isolated_if_the_key_may_not_delete_by_filter() {
    let mut fake = SelfHosted::default();
    fake.admin_refused = true;
    let server = fake.start().await;
    never_meet(&checked(&server, Mem0Options::self_hosted("")), 1_000, 2).await;
}

#[tokio::test]
async fn tenants_of_the_platform_are_isolated() {
    let server = Platform::default().start().await;
    never_meet(&checked(&server, Mem0Options::platform()), 10_000, 3).await;
}

/// Options that put the tenant's prefix before every id.
fn prefixed(mut options: Mem0Options) -> Mem0Options {
    options.tenancy = Tenancy::SharedKeyWithPrefix;
    options.prefix = Some("p-{tenant}.".to_owned());
    options
}

/// The ids in a request, each with the text before it, back to a character that no id contains.
fn ids(asked: &ParsedRequest) -> Vec<String> {
    let parameters = asked.parameters.iter().map(|(_, value)| value.clone());
    let body = asked.body.iter().map(ToString::to_string);
    let in_id = |c: char| c.is_ascii_alphanumeric() || "._~-".contains(c);
    let words = |text: String| text.split(|c| !in_id(c)).map(str::to_owned).collect::<Vec<_>>();
    let is_id = |word: &String| ["m1.agent.", "m1.user.", "m1.run."].iter().any(|id| word.contains(id));
    parameters.chain(body).chain(asked.path.iter().cloned()).flat_map(words).filter(is_id).collect()
}

/// What was seen in the requests: ids, ids without their tenant's prefix, and the calls.
#[derive(Default)]
struct Seen {
    ids: usize,
    bare: Vec<String>,
    calls: std::collections::BTreeSet<String>,
}

impl Seen {
    fn look(&mut self, asked: &ParsedRequest) {
        let ids = ids(asked);
        self.ids += ids.len();
        if !ids.is_empty() {
            self.calls.insert(format!("{} {}", asked.method, asked.path.join("/")));
        }
        let own = |id: &String| id.starts_with("p-acme.m1.") || id.starts_with("p-acme_2fuser.m1.");
        self.bare.extend(ids.into_iter().filter(|id| !own(id)));
    }
}

#[tokio::test]
async fn every_call_to_a_self_hosted_server_has_the_tenants_prefix() {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let (mut fake, noted) = (SelfHosted::default(), Arc::clone(&seen));
    let server = serve(Arc::new(Mutex::new(move |asked: &ParsedRequest| {
        noted.lock().unwrap().look(asked);
        fake.handle(asked)
    })))
    .await;
    never_meet(&checked(&server, prefixed(Mem0Options::self_hosted(""))), 2_000, 4).await;
    let seen = seen.lock().unwrap();
    assert_eq!(seen.bare, Vec::<String>::new());
    assert!(seen.ids > 2_000, "{} ids", seen.ids);
    for call in ["POST memories", "POST search", "GET memories", "DELETE memories"] {
        assert!(seen.calls.contains(call), "{call} is not among {:?}", seen.calls);
    }
}

#[tokio::test]
async fn every_call_to_the_platform_has_the_tenants_prefix() {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let (mut fake, noted) = (Platform::default(), Arc::clone(&seen));
    let server = serve(Arc::new(Mutex::new(move |asked: &ParsedRequest| {
        noted.lock().unwrap().look(asked);
        fake.handle(asked)
    })))
    .await;
    never_meet(&checked(&server, prefixed(Mem0Options::platform())), 2_000, 5).await;
    let seen = seen.lock().unwrap();
    assert_eq!(seen.bare, Vec::<String>::new());
    assert!(seen.ids > 2_000 && seen.calls.len() > 2, "{} ids in {:?}", seen.ids, seen.calls);
}
