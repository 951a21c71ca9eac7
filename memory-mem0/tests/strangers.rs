//! Two tenants on one key never see each other's facts, whatever their ids and words look like.

mod support;

use std::sync::{Arc, Mutex};

use memory_mem0::Mem0Options;
use support::platform::Platform;
use support::self_hosted::SelfHosted;
use support::strangers::never_meet;
use support::{Asked, checked, serve};

#[tokio::test]
async fn on_a_self_hosted_server() {
    let mut fake = SelfHosted::default();
    let server = serve(Arc::new(Mutex::new(move |asked: &Asked| fake.handle(asked)))).await;
    never_meet(&checked(&server, Mem0Options::self_hosted("")), 10_000, 1).await;
}

#[tokio::test]
async fn on_a_self_hosted_server_whose_key_may_not_delete_by_filter() {
    let mut fake = SelfHosted::default();
    fake.admin_refused = true;
    let server = serve(Arc::new(Mutex::new(move |asked: &Asked| fake.handle(asked)))).await;
    never_meet(&checked(&server, Mem0Options::self_hosted("")), 1_000, 2).await;
}

#[tokio::test]
async fn on_the_platform() {
    let mut fake = Platform::default();
    let server = serve(Arc::new(Mutex::new(move |asked: &Asked| fake.handle(asked)))).await;
    never_meet(&checked(&server, Mem0Options::platform()), 10_000, 3).await;
}
