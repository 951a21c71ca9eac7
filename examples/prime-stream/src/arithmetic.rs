//! Primes, found one way and checked another.

/// The first `count` primes, by the sieve of Eratosthenes.
pub(crate) fn sieve(count: usize) -> Vec<u64> {
    let mut limit = 16_usize;
    loop {
        let mut composite = vec![false; limit];
        let mut primes = Vec::new();
        for candidate in 2..limit {
            if composite.get(candidate).copied().unwrap_or(true) {
                continue;
            }
            primes.push(u64::try_from(candidate).unwrap_or(u64::MAX));
            for multiple in composite.iter_mut().skip(candidate * candidate).step_by(candidate) {
                *multiple = true;
            }
        }
        if primes.len() >= count {
            primes.truncate(count);
            return primes;
        }
        limit *= 2;
    }
}

/// Whether a number has no divisor but one and itself, by trying them.
pub(crate) fn is_prime(n: u64) -> bool {
    n >= 2 && (2..).take_while(|divisor| divisor * divisor <= n).all(|divisor| !n.is_multiple_of(divisor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sieve_and_the_division_agree() {
        let by_division: Vec<u64> = (0..).filter(|n| is_prime(*n)).take(500).collect();
        assert_eq!(sieve(500), by_division);
        assert_eq!(by_division.last(), Some(&3_571));
        assert_eq!(sieve(0), [0_u64; 0]);
    }
}
