//! The table. Each module holds the cases of one area and says nothing of any backend.

use crate::case::Case;

mod bulk;
mod capabilities;
mod carried;
mod concurrency;
mod dedup;
mod delete;
mod drift;
mod embedding;
mod errors;
mod filters;
mod forget;
mod given;
mod histories;
mod hybrid;
mod increment;
mod isolation;
mod keys;
mod kv;
mod late;
mod layer;
mod lexical;
mod lifecycle;
mod lifetime;
mod linear;
mod list;
mod models;
mod moment;
mod near;
mod quotas;
mod ranking;
mod reembed;
mod scopes;
mod search;
mod sql;
mod stats;
mod transfer;
mod update;
mod values;
mod vectors;
mod versions;
mod whole;

pub(crate) use near::owned as owns_embedding;

/// Every case, in the order of the table.
#[must_use]
pub fn all() -> Vec<Case> {
    [
        capabilities::cases(),
        isolation::cases(),
        keys::cases(),
        values::cases(),
        kv::cases(),
        lifetime::cases(),
        versions::cases(),
        drift::cases(),
        delete::cases(),
        list::cases(),
        filters::cases(),
        increment::cases(),
        update::cases(),
        bulk::cases(),
        lexical::cases(),
        search::cases(),
        vectors::cases(),
        hybrid::cases(),
        histories::cases(),
        ranking::cases(),
        dedup::cases(),
        stats::cases(),
        embedding::cases(),
        late::cases(),
        carried::cases(),
        reembed::cases(),
        models::cases(),
        scopes::cases(),
        lifecycle::cases(),
        quotas::cases(),
        transfer::cases(),
        whole::cases(),
        moment::cases(),
        forget::cases(),
        concurrency::cases(),
        linear::cases(),
        errors::cases(),
        sql::cases(),
        layer::cases(),
    ]
    .concat()
}
