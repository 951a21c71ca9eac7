//! Events are never changed, are chained, and suffice to rebuild the tables.

use std::sync::Arc;

use memory_core::ErrorKind;
use memory_governed::Options;

use crate::support::*;

on_both_stores! {
    async fn what_is_missing_of_the_tables_is_made_when_the_space_is_opened(world) {
        world.open_issue("a", "one").await;
        let off = if world.store.given.contains("postgres:") {
            "DROP TRIGGER events_memory_rows ON events_memory"
        } else {
            "DROP TRIGGER events_memory_DELETE"
        };
        for sql in [off, "DROP INDEX notes_by_agent", "DROP TABLE shadow_shared_issues"] {
            world.sql(sql).await.unwrap();
        }
        let world = world.again(Options::default()).await;
        let refused = world.sql("DELETE FROM events_memory").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
        assert_eq!(world.sql("DROP INDEX notes_by_agent").await.unwrap(), 0);
        assert!(world.ledger.rebuild().await.unwrap().agrees());
    }

    async fn a_space_that_an_earlier_build_made_is_refused(world) {
        world.sql("ALTER TABLE events_memory RENAME COLUMN target_digest TO other").await.unwrap();
        let again = space_on(Arc::clone(&world.store.provider), Arc::clone(&world.clock), Options::default()).await;
        assert_eq!(again.unwrap_err().kind(), ErrorKind::Unsupported);
    }
}
