//! Circles of memories that supersede each other.

use std::collections::{HashMap, HashSet};

/// The positions of the edges on a cycle: those within a strongly connected component (Kosaraju and Sharir 1981).
pub(super) fn on_circles<'a>(edges: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<usize> {
    let edges: Vec<(&str, &str)> = edges.collect();
    let (mut onward, mut back) = (HashMap::<&str, Vec<&str>>::new(), HashMap::<&str, Vec<&str>>::new());
    for &(from, to) in &edges {
        onward.entry(from).or_default().push(to);
        back.entry(to).or_default().push(from);
    }
    // Each after all that it leads to, unless those lead back to it.
    let (mut order, mut seen) = (Vec::new(), HashSet::new());
    for &(from, _) in &edges {
        let mut stack = vec![(from, false)];
        while let Some((id, is_over)) = stack.pop() {
            if is_over {
                order.push(id);
            } else if seen.insert(id) {
                stack.push((id, true));
                stack.extend(onward.get(id).into_iter().flatten().map(|to| (*to, false)));
            }
        }
    }
    let mut component = HashMap::new();
    while let Some(root) = order.pop() {
        let mut stack = vec![root];
        while let Some(id) = stack.pop() {
            if !component.contains_key(id) {
                component.insert(id, root);
                stack.extend(back.get(id).into_iter().flatten());
            }
        }
    }
    let lies_on_one = |(_, (from, to)): &(usize, (&str, &str))| component.get(from) == component.get(to);
    edges.into_iter().enumerate().filter(lies_on_one).map(|(place, _)| place).collect()
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
            (
                vec![("b", "c"), ("a", "b"), ("b", "a"), ("c", "d"), ("d", "c"), ("d", "d")],
                vec![1, 2, 3, 4, 5],
            ),
            (chain, vec![]),
        ] {
            assert_eq!(on_circles(edges.into_iter()), places);
        }
    }
}
