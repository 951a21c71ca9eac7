//! The weight of a term in a document.

/// How fast further occurrences of a term in a document stop counting (`k1`).
///
/// 0.9 and 0.4 come from Trotman, Jia and Crane ("Towards an Efficient and Effective Search Engine", SIGIR OSIR 2012)
/// and are Anserini's defaults. Memories are short: a repeated word says less there than in an article, and length
/// should cost less.
pub const K1: f64 = 0.9;

/// How much a document's length discounts its terms (`b`): 0 not at all, 1 in full.
pub const B: f64 = 0.4;

/// Inverse document frequency: `ln(1 + (N − df + 0.5) / (df + 0.5))`, positive for every `df ≤ N`.
///
/// The form of Lucene's `BM25Similarity`, after Robertson and Zaragoza, "The Probabilistic Relevance
/// Framework: BM25 and Beyond" (Foundations and Trends in Information Retrieval 3(4), 2009), with 1 added so
/// that a term in more than half of the documents does not count against them.
#[must_use]
pub fn idf(documents: u32, document_frequency: u32) -> f64 {
    let (n, df) = (f64::from(documents), f64::from(document_frequency));
    (1.0 + (n - df + 0.5) / (df + 0.5)).ln()
}

/// BM25 (Robertson and Zaragoza, 2009) over one scope: a sum over the distinct terms of the query,
/// `Σ idf(t) · tf · (k1 + 1) / (tf + k1 · (1 − b + b · length / mean length))`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bm25 {
    k1: f64,
    b: f64,
    documents: u32,
    mean_length: f64,
}

impl Bm25 {
    /// For a scope with this many documents, and this many tokens in all of them together.
    #[must_use]
    pub fn new(documents: u32, tokens: u64) -> Self {
        Self::with_parameters(documents, tokens, K1, B)
    }

    pub(super) fn with_parameters(documents: u32, tokens: u64, k1: f64, b: f64) -> Self {
        // Exact: token totals stay far below 2^53.
        let tokens = tokens as f64;
        Self { k1, b, documents, mean_length: tokens / f64::from(documents.max(1)) }
    }

    /// Inverse document frequency of a term found in this many of the scope's documents; see [`idf`].
    #[must_use]
    pub fn idf(&self, document_frequency: u32) -> f64 {
        idf(self.documents, document_frequency)
    }

    /// The contribution of one query term to a document's BM25: the term occurs `frequency` times (at least once) in a
    /// document of `length` tokens.
    #[must_use]
    pub fn weight(&self, idf: f64, frequency: u16, length: u32) -> f64 {
        let frequency = f64::from(frequency);
        let relative_length = f64::from(length) / self.mean_length;
        idf * frequency * (self.k1 + 1.0) / (frequency + self.k1 * (1.0 - self.b + self.b * relative_length))
    }

    /// The query's ceiling, `Σ idf(t) · (k1 + 1)`: the limit of BM25 for a short document that repeats every query term
    /// without end. `idf_sum` is over all distinct query terms. Terms missing in the scope count too, with a document
    /// frequency of 0, so that a document with only the known words does not score as if it answered the whole query.
    #[must_use]
    pub fn ceiling(&self, idf_sum: f64) -> f64 {
        idf_sum * (self.k1 + 1.0)
    }

    /// A score from a BM25 sum: its share of the query's [ceiling](Self::ceiling), in `[0, 1]`.
    ///
    /// It depends on the query, the document and the scope's statistics, never on other hits. 1 is never reached: with
    /// `k1` = 0.9, a document of mean length that contains every query term once scores 1 / 1.9 ≈ 0.53.
    #[must_use]
    pub fn saturate(&self, bm25: f64, ceiling: f64) -> f64 {
        if ceiling > 0.0 { (bm25 / ceiling).clamp(0.0, 1.0) } else { 0.0 }
    }
}
