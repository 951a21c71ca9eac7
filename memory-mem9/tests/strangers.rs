//! Two tenants in one space never see each other's facts, whatever their ids and words look like.

mod support;

use std::sync::{Arc, Mutex};

use support::fake::Mem9;
use support::strangers::never_meet;
use support::{Asked, checked, serve};

#[tokio::test]
async fn in_one_space() {
    let mut fake = Mem9::default();
    let server = serve(Arc::new(Mutex::new(move |asked: &Asked| fake.handle(asked)))).await;
    never_meet(&checked(&server), 10_000, 4).await;
}
