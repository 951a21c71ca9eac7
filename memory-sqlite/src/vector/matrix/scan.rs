//! One search.

use super::block::loss_unit;
use super::encode::{self, Query, ROUNDING};
use super::nearest::{Near, Nearest};
use super::rows::Matrix;
use super::selection::Selection;

/// Rows between two checks for cancellation.
const CANCEL_ROWS: usize = 16_384;

impl Matrix {
    /// Rows that may be among the `k` nearest to `query` by cosine, unexpired at `now` and selected (`None`: all),
    /// in descending order of the estimate. Empty if the query is zero, not finite or of other dimensions, or if
    /// `cancel` returned true.
    pub(crate) fn shortlist(
        &self,
        query: &[f32],
        k: usize,
        now: i64,
        selected: Option<&Selection>,
        cancel: &dyn Fn() -> bool,
    ) -> Vec<Near> {
        let mut rotated = Vec::new();
        if k == 0 || query.len() != self.dimensions || !encode::rotate_unit(self.kernel, query, &mut rotated)
        {
            return Vec::new();
        }
        let (wanted, count) = wanted(self, now, selected);
        let signs =
            self.centre.as_ref().filter(|_| count > self.exact_rows).map(|centre| centre.query(&rotated));
        let query = Query::new(&rotated);
        let unit = loss_unit(self.width);
        let words = self.block_rows / 64;
        let mut nearest = Nearest::new(k, self.exact_rows.max(k.saturating_mul(4)));
        let (mut marks, mut rows, mut dots) = (vec![0_u64; words], Vec::<u32>::new(), Vec::<i64>::new());
        let mut unchecked = 0;
        for at in visits(self.blocks.len()) {
            let (Some(block), Some(wanted)) = (self.blocks.get(at), wanted.get(at * words..)) else {
                continue;
            };
            let wanted = wanted.get(..words).unwrap_or(wanted);
            unchecked += block.len();
            if unchecked >= CANCEL_ROWS {
                unchecked = 0;
                if cancel() {
                    return Vec::new();
                }
            }
            if wanted.iter().all(|word| *word == 0) {
                continue;
            }
            match &signs {
                Some((planes, lacking)) => {
                    self.kernel.above(block.sign_rows(), planes, nearest.floor() - lacking, &mut marks);
                }
                None => marks.fill(u64::MAX),
            }
            rows.clear();
            for (base, (wanted, marks)) in (0_u32..).step_by(64).zip(wanted.iter().zip(&marks)) {
                let mut word = wanted & marks;
                while word != 0 {
                    rows.push(base + word.trailing_zeros());
                    word &= word - 1;
                }
            }
            dots.resize(rows.len(), 0);
            self.kernel.dots(block.codes(), &query.codes, &rows, &mut dots);
            for (row, dot) in rows.iter().zip(&dots) {
                let Some(row) = usize::try_from(*row).ok() else { continue };
                let (Some((scale, loss)), Some(id)) = (block.scale(row), block.id(row)) else { continue };
                #[allow(
                    clippy::cast_precision_loss,
                    clippy::cast_possible_truncation,
                    reason = "about a cosine"
                )]
                let estimate = (*dot as f64 * query.step) as f32 * scale;
                let lost = f32::from(loss) * unit * scale;
                nearest.offer(Near { id, estimate, bound: lost + query.loss * (1.0 + lost) + ROUNDING });
            }
            nearest.settle();
        }
        nearest.finish()
    }
}

/// The rows to consider, 64 per word and block after block, and their number.
fn wanted(matrix: &Matrix, now: i64, selected: Option<&Selection>) -> (Vec<u64>, usize) {
    let words = matrix.block_rows / 64;
    let mut wanted = vec![0_u64; matrix.blocks.len() * words];
    let mut count = 0_usize;
    for (at, (block, wanted)) in matrix.blocks.iter().zip(wanted.chunks_mut(words)).enumerate() {
        for (word, (wanted, living)) in wanted.iter_mut().zip(block.living(now)).enumerate() {
            *wanted = living & selected.map_or(u64::MAX, |selected| selected.word(at * words + word));
            count += usize::try_from(wanted.count_ones()).unwrap_or(0);
        }
    }
    (wanted, count)
}

/// Visits every block once, in leaps of about .618 of all. Rows written together are alike: a search that met the
/// best ones last would have kept many candidates for nothing.
fn visits(blocks: usize) -> impl Iterator<Item = usize> {
    let mut leap = (blocks * 618 / 1_000).max(1);
    while gcd(leap, blocks.max(1)) != 1 {
        leap += 1;
    }
    (0..blocks).map(move |turn| turn * leap % blocks)
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_visited_once() {
        for blocks in 0..600 {
            let mut visited: Vec<usize> = visits(blocks).collect();
            visited.sort_unstable();
            assert_eq!(visited, (0..blocks).collect::<Vec<_>>());
        }
    }
}
