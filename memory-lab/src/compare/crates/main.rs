//! Does the work of `memory-lab compare` with one product of the crate registry, and prints what it took as one JSON object:
//! what `theirs.py` does with those of PyPI.
//!
//! `theirs WORK FOLDER VERSION`: WORK has what every product is given, FOLDER is empty and the product's own.

mod product;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// How long one kind of call may take; what is not done by then is not counted.
const LIMIT: Duration = Duration::from_secs(60);
pub const TOP: usize = 10;

pub type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

#[derive(Deserialize)]
pub struct Near {
    pub query: usize,
    pub group: usize,
    nearest: Vec<usize>,
}

#[derive(Deserialize)]
pub struct Words {
    pub text: String,
    key: String,
}

#[derive(Deserialize)]
pub struct Work {
    keys: Vec<String>,
    pub values: Vec<String>,
    /// Which entries are read, in this order.
    pub gets: Vec<usize>,
    pub near: Vec<Near>,
    pub words: Vec<Words>,
    dimensions: usize,
    pub groups: usize,
    #[serde(skip)]
    pub vectors: Vec<Vec<f32>>,
    #[serde(skip)]
    pub queries: Vec<Vec<f32>>,
}

impl Work {
    fn read(folder: &Path) -> Result<Self> {
        let mut work: Self = serde_json::from_slice(&std::fs::read(folder.join("work.json"))?)?;
        let matrix = |name: &str| -> Result<Vec<Vec<f32>>> {
            let bytes = std::fs::read(folder.join(name))?;
            let numbers: Vec<f32> = bytes
                .chunks_exact(4)
                .map(|four| f32::from_le_bytes([four[0], four[1], four[2], four[3]]))
                .collect();
            Ok(numbers.chunks(work.dimensions).map(<[f32]>::to_vec).collect())
        };
        (work.vectors, work.queries) = (matrix("vectors.f32")?, matrix("queries.f32")?);
        Ok(work)
    }
}

/// Calls of one kind.
#[derive(Serialize)]
pub struct Took {
    pub count: usize,
    seconds: f64,
    p50_us: f64,
    exact: Option<f64>,
}

impl Took {
    /// Of searches by vector, which found these.
    pub fn near(mut self, work: &Work, found: &[Vec<usize>]) -> Self {
        let hits = work
            .near
            .iter()
            .zip(found)
            .map(|(near, found)| near.nearest.iter().filter(|at| found.contains(at)).count());
        self.exact = Some(hits.sum::<usize>() as f64 / (found.len() * TOP) as f64);
        self
    }

    /// Of searches by words, which found these.
    pub fn words(mut self, work: &Work, found: &[Vec<usize>]) -> Self {
        let hits = work.words.iter().zip(found).filter(|(words, found)| {
            work.keys.iter().position(|key| *key == words.key).is_some_and(|at| found.contains(&at))
        });
        self.exact = Some(hits.count() as f64 / found.len() as f64);
        self
    }
}

/// Calls one after the other; what they returned, and how long they took.
pub fn timed<A, T>(
    given: impl IntoIterator<Item = A>,
    mut call: impl FnMut(A) -> Result<T>,
) -> Result<(Vec<T>, Took)> {
    let (mut answers, mut took, begun) = (Vec::new(), Vec::new(), Instant::now());
    for argument in given {
        let at = Instant::now();
        answers.push(call(argument)?);
        took.push(at.elapsed());
        if begun.elapsed() > LIMIT {
            break;
        }
    }
    took.sort_unstable();
    let median = took.get(took.len() / 2).copied().unwrap_or_default();
    let seconds = took.iter().sum::<Duration>().as_secs_f64();
    Ok((answers, Took { count: took.len(), seconds, p50_us: median.as_secs_f64() * 1e6, exact: None }))
}

#[derive(Serialize)]
pub struct Measured {
    pub durability: &'static str,
    pub rows: BTreeMap<&'static str, Took>,
    /// Why a call is not offered.
    pub notes: BTreeMap<&'static str, &'static str>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Answer {
    Measured {
        version: String,
        #[serde(flatten)]
        measured: Measured,
    },
    Absent {
        why: String,
    },
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [work, folder, version] = &arguments[..] else { return Err("give WORK FOLDER VERSION".into()) };
    let answer = match Work::read(Path::new(work)).and_then(|work| product::measure(work, Path::new(folder)))
    {
        Ok(measured) => Answer::Measured { version: version.clone(), measured },
        Err(error) => Answer::Absent { why: error.to_string() },
    };
    println!("{}", serde_json::to_string(&answer)?);
    Ok(())
}
