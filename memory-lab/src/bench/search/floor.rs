//! What searches are compared with: this machine's memory bandwidth, and an exhaustive search.

use std::hint::black_box;
use std::path::Path;

use memory_core::{Error, Result};
use rusqlite::{Connection, OpenFlags};

use super::vectors::Vectors;

/// Reads every number once: a lower bound for an exact scan of 32-bit floats on one thread. It only combines bits, in as
/// many registers as every processor has, so that memory is the bottleneck.
pub(super) fn read_all(vectors: &Vectors) {
    let (chunks, rest) = vectors.numbers().as_chunks::<32>();
    let mut seen = [0_u32; 32];
    for chunk in chunks {
        for (seen, x) in seen.iter_mut().zip(chunk) {
            *seen ^= x.to_bits();
        }
    }
    black_box((seen, rest.iter().fold(0, |seen, x| seen ^ x.to_bits())));
}

/// Reads the `data` of every row through SQLite, as the first search must.
pub(super) fn read_blobs(file: &Path, table: &str) -> Result<u64> {
    let read = || -> rusqlite::Result<u64> {
        memory_sqlite::prepare_process();
        let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        let mut statement = connection.prepare(&format!("SELECT data FROM {table} ORDER BY id"))?;
        let mut rows = statement.query([])?;
        let mut bytes = 0;
        while let Some(row) = rows.next()? {
            bytes += black_box(row.get_ref(0)?.as_blob()?).len() as u64;
        }
        Ok(bytes)
    };
    read().map_err(|error| Error::internal("the benchmark's file cannot be read").with_source(error))
}

/// The `k` nearest of the rows that pass, best first, ties by number.
pub(super) fn nearest(
    vectors: &Vectors,
    query: &[f32],
    k: usize,
    passes: impl Fn(usize) -> bool,
) -> Vec<usize> {
    let mut scored: Vec<(f32, usize)> = vectors
        .rows()
        .enumerate()
        .filter(|(index, _)| passes(*index))
        .map(|(index, row)| (dot(row, query), index))
        .collect();
    let best_first = |a: &(f32, usize), b: &(f32, usize)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
    if scored.len() > k {
        scored.select_nth_unstable_by(k, best_first);
        scored.truncate(k);
    }
    scored.sort_by(best_first);
    scored.into_iter().map(|(_, index)| index).collect()
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<16>(), b.as_chunks::<16>());
    let mut sums = [0.0_f32; 16];
    for (a, b) in a.iter().zip(b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f32>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f32>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use memory_core::embed::cosine;

    #[test]
    fn the_nearest_are_those_of_a_plain_loop() {
        let (stored, asked) = Vectors::clustered(500, 3, 50, 3);
        for query in asked.rows() {
            let mut all: Vec<(f64, usize)> = stored.rows().map(|row| cosine(row, query)).zip(0..).collect();
            all.retain(|(_, index)| index % 3 == 0);
            all.sort_by(|a, b| b.0.total_cmp(&a.0));
            let expected: Vec<usize> = all.iter().take(10).map(|(_, index)| *index).collect();
            assert_eq!(nearest(&stored, query, 10, |index| index % 3 == 0), expected);
        }
    }
}
