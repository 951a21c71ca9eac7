//! Two tenants in one space never see each other's facts, whatever their ids and messages contain.

use std::sync::{Arc, Mutex};

use memory_core::Checked;
use memory_fakes::isolation::never_meet;
use memory_http::Tenancy;

use crate::support::fake::Mem9;
use crate::support::{ParsedRequest, checked, options, provider, serve};

#[tokio::test]
async fn tenants_in_one_space_are_isolated() {
    let server = Mem9::default().start().await;
    never_meet(&checked(&server), 10_000, 4).await;
}

#[tokio::test]
async fn every_id_sent_has_the_tenants_prefix() {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let (mut fake, noted) = (Mem9::default(), Arc::clone(&sent));
    let server = serve(Arc::new(Mutex::new(move |asked: &ParsedRequest| {
        let of_body =
            |name: &str| asked.body.as_ref().and_then(|body| body[name].as_str().map(str::to_owned));
        let of_query = asked.parameter("agent_id").map(str::to_owned);
        let ids = of_query.into_iter().chain(of_body("agent_id")).chain(of_body("session_id"));
        noted.lock().unwrap().extend(ids.map(|id| (asked.method.clone(), id)));
        fake.handle(asked)
    })))
    .await;
    let mut options = options(&server.url(""));
    options.tenancy = Tenancy::SharedKeyWithPrefix;
    options.prefix = Some("p-{tenant}.".to_owned());
    never_meet(&Checked::new(provider(&server, options)).unwrap(), 2_000, 5).await;
    let sent = sent.lock().unwrap();
    for method in ["POST", "GET"] {
        assert!(sent.iter().filter(|(of, _)| of == method).count() > 500, "{method}");
    }
    for (method, id) in sent.iter() {
        assert!(id.starts_with("p-acme.m1.") || id.starts_with("p-acme_2fuser.m1."), "{method} {id}");
        assert!(id.len() <= 100, "{id}");
    }
}
