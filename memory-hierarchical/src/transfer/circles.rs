//! Circles of memories that supersede each other.

use std::collections::{HashMap, HashSet};

/// The places of the edges that lie on a circle or lead from one to another: those that are left once nothing is that no edge
/// leads to, and nothing that leads nowhere (Kahn 1962).
pub(super) fn on_circles<'a>(edges: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<usize> {
    let mut left: Vec<_> = edges.enumerate().map(|(place, (from, to))| (place, from, to)).collect();
    for _ in 0..2 {
        let (mut reached, mut leaving) = (HashMap::new(), HashMap::<_, Vec<_>>::new());
        for &(place, from, to) in &left {
            *reached.entry(to).or_insert(0_usize) += 1;
            reached.entry(from).or_insert(0);
            leaving.entry(from).or_default().push((place, to));
        }
        let mut free: Vec<&str> = reached.iter().filter(|(_, by)| **by == 0).map(|(id, _)| *id).collect();
        let mut gone = HashSet::new();
        while let Some(id) = free.pop() {
            for (place, to) in leaving.remove(id).unwrap_or_default() {
                gone.insert(place);
                if let Some(by) = reached.get_mut(to) {
                    *by -= 1;
                    if *by == 0 {
                        free.push(to);
                    }
                }
            }
        }
        left.retain(|(place, ..)| !gone.contains(place));
        // Then the other way.
        left.iter_mut().for_each(|(_, from, to)| std::mem::swap(from, to));
    }
    left.into_iter().map(|(place, ..)| place).collect()
}

#[cfg(test)]
mod tests {
    use super::on_circles;

    #[test]
    fn only_edges_of_circles_are_left() {
        let chain: Vec<String> = (0..100_000).map(|n| n.to_string()).collect();
        let chain: Vec<(&str, &str)> = chain.windows(2).map(|two| (&*two[0], &*two[1])).collect();
        for (edges, places) in [
            (vec![], vec![]),
            (vec![("a", "b"), ("b", "c"), ("a", "c")], vec![]),
            (vec![("a", "a")], vec![0]),
            (vec![("x", "a"), ("a", "b"), ("b", "c"), ("c", "a"), ("c", "y")], vec![1, 2, 3]),
            (chain, vec![]),
        ] {
            assert_eq!(on_circles(edges.into_iter()), places);
        }
    }
}
