//! What two backends can do together.

use memory_core::{Capabilities, Consistency, EmbeddingOwner};

/// What both can do, within the limits of both.
///
/// Never `ReadYourWrites`: a read that falls back does not see earlier writes to the primary.
pub(super) fn both(one: &Capabilities, other: &Capabilities) -> Capabilities {
    let mut both = Capabilities::none();
    both.kv = one.kv && other.kv;
    both.lexical_search = one.lexical_search && other.lexical_search;
    let one_owner = one.embedding == other.embedding;
    both.vector_search = one.vector_search && other.vector_search && one_owner;
    both.stats = one.stats && other.stats;
    both.compare_and_set = one.compare_and_set && other.compare_and_set;
    both.quotas = one.quotas && other.quotas;
    both.atomic_import = both.kv && one.atomic_import && other.atomic_import;
    both.memory_layer = one.memory_layer && other.memory_layer;
    both.layer_sync = one.layer_sync && other.layer_sync;
    both.layer_events = one.layer_events && other.layer_events;
    both.layer_forget = one.layer_forget && other.layer_forget;
    both.layer_verbatim = one.layer_verbatim && other.layer_verbatim;
    both.layer_metadata = one.layer_metadata && other.layer_metadata;
    both.layer_threshold = one.layer_threshold && other.layer_threshold;
    both.layer_ids = one.layer_ids && other.layer_ids;
    both.layer_idempotent = one.layer_idempotent && other.layer_idempotent;
    both.layer_supersede = one.layer_supersede && other.layer_supersede;
    both.layer_confirm = one.layer_confirm && other.layer_confirm;
    both.layer_expiry = one.layer_expiry && other.layer_expiry;
    both.layer_sessions = one.layer_sessions && other.layer_sessions;
    both.sql = one.sql && other.sql && one.sql_dialect == other.sql_dialect;
    if both.sql {
        both.sql_dialect = one.sql_dialect;
        both.sql_transactions = one.sql_transactions && other.sql_transactions;
        both.sql_vectors = one.sql_vectors && other.sql_vectors;
        both.sql_entries = both.kv && one.sql_entries && other.sql_entries;
        both.shared_schemas = one.shared_schemas && other.shared_schemas;
    }
    both.tenants = (both.kv || both.sql) && one.tenants && other.tenants;
    both.erase = (both.kv || both.sql) && one.erase && other.erase;
    both.run_fence = (both.kv || both.sql) && one.run_fence && other.run_fence;
    both.consistency = Consistency::Eventual;
    both.embedding = match (one_owner, both.kv, both.vector_search) {
        (false, ..) | (true, true, false) => EmbeddingOwner::None,
        (true, ..) => one.embedding,
    };
    both.max_key_bytes = one.max_key_bytes.min(other.max_key_bytes);
    both.max_value_bytes = one.max_value_bytes.min(other.max_value_bytes);
    both.max_top_k = one.max_top_k.min(other.max_top_k);
    both
}

#[cfg(test)]
mod tests {
    use super::*;
    use memory_core::SqlDialect;

    fn kv() -> Capabilities {
        let mut kv = Capabilities::none();
        (kv.kv, kv.lexical_search, kv.vector_search) = (true, true, true);
        kv.embedding = EmbeddingOwner::Embedder;
        (kv.sql, kv.sql_dialect, kv.sql_entries) = (true, Some(SqlDialect::Sqlite), true);
        kv
    }

    #[test]
    fn a_pair_serves_common_capabilities_without_contradictions() {
        let mut words = kv();
        (words.vector_search, words.embedding) = (false, EmbeddingOwner::None);
        (words.sql_dialect, words.max_top_k) = (Some(SqlDialect::Postgres), 7);
        let mut layer = Capabilities::none();
        (layer.memory_layer, layer.embedding) = (true, EmbeddingOwner::Remote);
        for one in [kv(), words.clone(), layer.clone(), Capabilities::none()] {
            for other in [kv(), words.clone(), layer.clone(), Capabilities::none()] {
                let pair = both(&one, &other);
                assert_eq!(pair.contradictions(), Vec::<&str>::new());
                assert_eq!(pair, both(&other, &one));
                assert_eq!(pair.consistency, Consistency::Eventual);
            }
        }
        let pair = both(&kv(), &words);
        assert!(pair.kv && pair.lexical_search && !pair.vector_search && !pair.sql);
        assert_eq!(pair.max_top_k, 7);
        assert!(!both(&kv(), &layer).kv && !both(&kv(), &layer).memory_layer);
    }
}
