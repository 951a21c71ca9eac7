//! The first page of a new database.

/// A database without tables in WAL mode, as SQLite writes it: <https://www.sqlite.org/fileformat2.html>. SQLite itself
/// would need a journal and six syncs to create it.
pub(super) fn first_page() -> Vec<u8> {
    let mut page = vec![0; 4_096];
    let fields: [(usize, &[u8]); 7] = [
        (0, b"SQLite format 3\0"),
        // Pages of 4,096 bytes; WAL for reading and writing; no reserved bytes; the fractions.
        (16, &[0x10, 0x00, 2, 2, 0, 64, 32, 32]),
        // One change, one page.
        (24, &[0, 0, 0, 1, 0, 0, 0, 1]),
        // The change for which the number of pages is valid.
        (92, &[0, 0, 0, 1]),
        // The version of SQLite that wrote it.
        (96, &[0x00, 0x2e, 0x5f, 0x20]),
        // The schema table: a leaf without cells.
        (100, &[0x0d]),
        (105, &[0x10, 0x00]),
    ];
    for (at, bytes) in fields {
        for (to, from) in page.iter_mut().skip(at).zip(bytes) {
            *to = *from;
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::first_page;

    #[test]
    fn sqlite_accepts_the_first_page() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data.db");
        std::fs::write(&path, first_page()).unwrap();
        let conn = rusqlite::Connection::open(&path).unwrap();
        let text = |sql: &str| conn.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
        assert_eq!(text("PRAGMA integrity_check"), "ok");
        assert_eq!(text("PRAGMA journal_mode"), "wal");
        assert_eq!(text("PRAGMA encoding"), "UTF-8");
        conn.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1); PRAGMA wal_checkpoint(TRUNCATE)")
            .unwrap();
        assert_eq!(text("PRAGMA integrity_check"), "ok");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 8_192);
    }
}
