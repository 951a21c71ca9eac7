//! Writes the access counts held in memory.

use memory_core::Result;
use memory_core::access::AccessCounts;
use rusqlite::params;

use crate::commit::writer::{Cost, Writer};
use crate::file::column::signed;

/// Keys whose counts one step writes.
const FLUSH: usize = 512;

/// Writes access counts; one caller at a time.
pub(crate) fn flush(writer: &Writer, counts: &AccessCounts) -> Result<()> {
    // Keys counted in the meantime are written next time.
    let mut keys = counts.keys();
    while keys > 0 {
        let shares = counts.take(FLUSH);
        if shares.is_empty() {
            return Ok(());
        }
        keys = keys.saturating_sub(shares.len());
        let written = writer.submit_blocking(Cost::slow(0), move |batch| {
            let mut reached = Vec::with_capacity(shares.len());
            for share in &shares {
                let mut statement = batch.statement(
                    "UPDATE entry SET accesses = accesses + ?4 WHERE space = ?1 AND key = ?2 AND born = ?3 \
                     RETURNING accesses",
                )?;
                let mut rows =
                    statement.query(params![share.space, share.key, share.born, signed(share.count)])?;
                let mut row_reached = None;
                while let Some(row) = rows.next()? {
                    row_reached = u64::try_from(row.get::<_, i64>(0)?).ok();
                }
                reached.push(row_reached);
            }
            batch.wrote(shares.len());
            batch.context().accesses.wrote(reached);
            batch.wrote_accesses();
            Ok(())
        });
        if let Err(error) = written {
            counts.failed();
            return Err(error);
        }
    }
    Ok(())
}
