//! Measures the recall of the sign bits, on embeddings and on hard data.
//!
//! `MEMORY_MATRIX_ROWS=1000000 cargo test --release -p memory-sqlite recall -- --nocapture` prints it for one size.

use std::path::PathBuf;

use super::super::kernel::Kernel;
use super::{Matrix, Random};

const DIMENSIONS: usize = 384;

/// Rows of generated data: few by default, for a build without optimisation.
fn rows() -> usize {
    std::env::var("MEMORY_MATRIX_ROWS").ok().and_then(|rows| rows.parse().ok()).unwrap_or(8_000)
}

/// Rows above which signs are used: a third of all, at most the matrix's own threshold.
fn exact_rows(rows: usize) -> usize {
    (rows / 3).min(super::super::rows::EXACT_ROWS)
}

struct Outcome {
    recall: f64,
    shortlist: usize,
    worst: f64,
}

/// CPU milliseconds of this thread if the system offers them; elapsed ones otherwise.
fn milliseconds() -> f64 {
    static BEGUN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let ran = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let ran = ran.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    let elapsed = BEGUN.get_or_init(std::time::Instant::now).elapsed();
    ran.map_or(elapsed.as_secs_f64() * 1e3, |nanoseconds| nanoseconds / 1e6)
}

/// Searches for each query and compares with its true nearest.
fn measure(name: &str, matrix: &Matrix, queries: &[Vec<f32>], nearest: &[Vec<i64>]) -> Outcome {
    let (mut hits, mut shortlist, mut worst) = (0, 0, 1.0_f64);
    let begun = milliseconds();
    for (query, nearest) in queries.iter().zip(nearest) {
        let found = matrix.shortlist(query, nearest.len(), 0, None, &|| false);
        shortlist += found.len();
        let hit = nearest.iter().filter(|id| found.iter().any(|near| near.id == **id)).count();
        hits += hit;
        worst = worst.min(ratio(hit, nearest.len()));
    }
    let total = milliseconds() - begun;
    // The system counts in ticks of a few milliseconds.
    let each = if total > 50.0 {
        format!("{:.3} ms", total / ratio(queries.len(), 1))
    } else {
        "a moment".to_owned()
    };
    let total: usize = nearest.iter().map(Vec::len).sum();
    let outcome = Outcome { recall: ratio(hits, total), shortlist: shortlist / queries.len(), worst };
    println!(
        "{name}: {} rows, recall {:.4}, worst query {:.2}, shortlist {}, {each} a search, {} bytes a vector",
        matrix.len(),
        outcome.recall,
        outcome.worst,
        outcome.shortlist,
        matrix.heap_bytes() / matrix.len()
    );
    outcome
}

#[allow(clippy::cast_precision_loss)]
fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}

fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    let norm = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    vector.iter_mut().for_each(|x| *x /= norm);
    vector
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0_f32; 16];
    for (a, b) in a.as_chunks::<16>().0.iter().zip(b.as_chunks::<16>().0) {
        for lane in 0..16 {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum()
}

/// The ten best of each query so far, updated row by row.
struct Truth {
    queries: Vec<Vec<f32>>,
    best: Vec<Vec<(f32, i64)>>,
}

impl Truth {
    fn new(queries: Vec<Vec<f32>>) -> Self {
        let best = vec![Vec::new(); queries.len()];
        Self { queries, best }
    }

    fn meet(&mut self, id: i64, vector: &[f32]) {
        for (query, best) in self.queries.iter().zip(&mut self.best) {
            let cosine = dot(query, vector);
            if best.len() < 10 || best[9].0 < cosine {
                best.insert(best.partition_point(|known| known.0 >= cosine), (cosine, id));
                best.truncate(10);
            }
        }
    }

    fn nearest(&self) -> Vec<Vec<i64>> {
        self.best.iter().map(|best| best.iter().map(|known| known.1).collect()).collect()
    }
}

/// Measures rows made by `make`, with queries made the same way.
fn generated(name: &str, mut make: impl FnMut() -> Vec<f32>) -> Outcome {
    let queries = (0..if rows() > 50_000 { 200 } else { 20 }).map(|_| unit(make())).collect();
    let mut truth = Truth::new(queries);
    let mut matrix = Matrix::with(DIMENSIONS, Kernel::detect(), exact_rows(rows()));
    let mut pushing = 0.0;
    let mut chunk = Vec::new();
    for id in (1..).take(rows()) {
        chunk.push(unit(make()));
        if chunk.len() == 1_000 || id == rows() {
            let begun = milliseconds();
            for (id, vector) in (id - chunk.len()..).zip(&chunk) {
                matrix.push(i64::try_from(id).unwrap(), vector, None);
            }
            pushing += milliseconds() - begun;
            for (id, vector) in (id - chunk.len()..).zip(chunk.drain(..)) {
                truth.meet(i64::try_from(id).unwrap(), &vector);
            }
        }
    }
    println!("{name}: pushing took {:.2} µs a row", pushing * 1e3 / ratio(rows(), 1));
    measure(name, &matrix, &truth.queries, &truth.nearest())
}

#[test]
fn recall_on_clusters() {
    for (name, spread, offset) in [("clusters", 0.5, 0.0), ("clusters far from the origin", 0.5, 2.0)] {
        let mut random = Random(21);
        let clusters = (rows() / 100).max(1);
        let centres: Vec<Vec<f32>> = (0..clusters).map(|_| random.vector(DIMENSIONS)).collect();
        let away: Vec<f32> = random.vector(DIMENSIONS).iter().map(|x| x * offset).collect();
        let outcome = generated(name, || {
            let centre = &centres[random.below(clusters)];
            centre.iter().zip(&away).map(|(centre, away)| centre + away + spread * random.normal()).collect()
        });
        assert!(outcome.recall >= 0.995, "{name}: {}", outcome.recall);
    }
}

#[test]
fn recall_on_rows_written_cluster_by_cluster() {
    let mut random = Random(22);
    let mut centre = random.vector(DIMENSIONS);
    let mut made = 0;
    let outcome = generated("clusters in order of writing", || {
        made += 1;
        if made % 100 == 0 {
            centre = random.vector(DIMENSIONS);
        }
        centre.iter().map(|centre| centre + 0.5 * random.normal()).collect()
    });
    assert!(outcome.recall >= 0.99, "{}", outcome.recall);
}

#[test]
fn recall_when_nothing_is_near() {
    let mut random = Random(23);
    let outcome = generated("noise", || random.vector(DIMENSIONS));
    assert!(outcome.recall >= 0.98, "{}", outcome.recall);
}

#[test]
fn recall_with_two_dominant_coordinates() {
    let mut random = Random(24);
    let centres: Vec<Vec<f32>> = (0..80).map(|_| random.vector(DIMENSIONS)).collect();
    let outcome = generated("outlying coordinates", || {
        let mut vector: Vec<f32> =
            centres[random.below(80)].iter().map(|x| x + 0.5 * random.normal()).collect();
        vector[5] += 30.0;
        vector[77] *= 20.0;
        vector
    });
    assert!(outcome.recall >= 0.99, "{}", outcome.recall);
}

#[test]
fn recall_of_short_vectors() {
    for dimensions in [2, 3, 8, 20] {
        let mut random = Random(25);
        let mut matrix = Matrix::with(dimensions, Kernel::detect(), 1_000);
        let rows: Vec<Vec<f32>> = (0..5_000).map(|_| random.vector(dimensions)).collect();
        (0..).zip(&rows).for_each(|(id, vector)| matrix.push(id, vector, None));
        let queries: Vec<Vec<f32>> = (0..50).map(|_| random.vector(dimensions)).collect();
        let nearest: Vec<Vec<i64>> = queries
            .iter()
            .map(|query| {
                let rows = (0..).zip(&rows).map(|(id, row)| (id, row.as_slice()));
                super::nearest(rows, query, 10).into_iter().map(|(id, _)| id).collect()
            })
            .collect();
        let outcome = measure(&format!("{dimensions} dimensions"), &matrix, &queries, &nearest);
        assert!(outcome.recall >= 0.98, "{dimensions}: {}", outcome.recall);
    }
}

fn half(bits: u16) -> f32 {
    let (sign, exponent, fraction) = (bits >> 15, u32::from(bits >> 10 & 31), u32::from(bits & 1_023));
    let size = if exponent == 0 {
        f32::from(u16::try_from(fraction).unwrap()) * 2_f32.powi(-24)
    } else {
        f32::from_bits((exponent + 112) << 23 | fraction << 13)
    };
    if sign == 1 { -size } else { size }
}

fn vectors(bytes: &[u8]) -> Vec<Vec<f32>> {
    let numbers: Vec<f32> =
        bytes.as_chunks::<2>().0.iter().map(|pair| half(u16::from_le_bytes(*pair))).collect();
    numbers.chunks_exact(DIMENSIONS).map(<[f32]>::to_vec).collect()
}

#[test]
fn recall_on_embeddings() {
    let shared = std::env::var_os("MEMORY_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared"), PathBuf::from);
    let folder = shared.join("data/vectors");
    let read = |name: &str| std::fs::read(folder.join(name));
    let (Ok(base), Ok(queries), Ok(top)) =
        (read("minilm-20k.f16"), read("minilm-queries-200.f16"), read("minilm-top10.u32"))
    else {
        println!("no embeddings at {}: set MEMORY_SHARED", folder.display());
        return;
    };
    let (base, queries) = (vectors(&base), vectors(&queries));
    let nearest: Vec<Vec<i64>> = top
        .as_chunks::<4>()
        .0
        .iter()
        .map(|id| i64::from(u32::from_le_bytes(*id)))
        .collect::<Vec<_>>()
        .chunks(10)
        .map(<[i64]>::to_vec)
        .collect();
    let mut exact = Matrix::new(DIMENSIONS);
    let mut signed = Matrix::with(DIMENSIONS, Kernel::detect(), 5_000);
    for (id, vector) in (0..).zip(&base) {
        exact.push(id, vector, None);
        signed.push(id, vector, None);
    }
    assert_eq!(measure("embeddings, exactly", &exact, &queries, &nearest).recall, 1.0);
    let outcome = measure("embeddings, by signs first", &signed, &queries, &nearest);
    assert!(outcome.recall >= 0.995, "{}", outcome.recall);
    assert!(outcome.shortlist < 60, "{}", outcome.shortlist);
}
