//! A cache of bounded weight that forgets what was not used for a while, in constant time.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

/// What was used lately is young; where the young ones weigh half of what is allowed they grow old together, and the old
/// ones that nobody used meanwhile are forgotten.
#[derive(Debug)]
pub(crate) struct TwoAges<K, V> {
    young: HashMap<K, (V, usize)>,
    old: HashMap<K, (V, usize)>,
    weight: usize,
    half: usize,
}

impl<K: Eq + Hash, V: Clone> TwoAges<K, V> {
    pub(crate) fn new(weight: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), weight: 0, half: weight / 2 }
    }

    pub(crate) fn get<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        if let Some((value, _)) = self.young.get(key) {
            return Some(value.clone());
        }
        let (key, (value, weight)) = self.old.remove_entry(key)?;
        self.put(key, value.clone(), weight);
        Some(value)
    }

    /// Keeps it, unless it alone is too heavy.
    pub(crate) fn put(&mut self, key: K, value: V, weight: usize) {
        if weight > self.half {
            return;
        }
        if self.weight + weight > self.half {
            self.old = std::mem::take(&mut self.young);
            self.weight = 0;
        }
        if let Some((_, replaced)) = self.young.insert(key, (value, weight)) {
            self.weight -= replaced;
        }
        self.weight += weight;
    }
}

#[cfg(test)]
mod tests {
    use super::TwoAges;

    #[test]
    fn what_is_used_stays_and_the_weight_is_bounded() {
        let mut cache = TwoAges::new(100);
        for number in 0..10_000_u32 {
            cache.put(number, number, 10);
            assert_eq!(cache.get(&0), Some(0), "at {number}");
            assert!(cache.young.len() + cache.old.len() <= 10);
        }
        assert_eq!(cache.get(&9_000), None);
        cache.put(7, 7, 51);
        assert_eq!(cache.get(&7), None);
    }
}
