//! How many files this process may open.

/// Assumed if the system does not say.
const UNKNOWN: usize = 256;

/// Half of the soft limit; the host keeps the rest.
pub(crate) fn budget() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").ok();
    limits.as_deref().and_then(soft_limit).map_or(UNKNOWN, |limit| limit / 2)
}

fn soft_limit(limits: &str) -> Option<usize> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(usize::MAX),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::soft_limit;

    #[test]
    fn the_soft_limit_is_read() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max processes             7                    7                    processes \n\
                      Max open files            1024                 524288               files     \n";
        assert_eq!(soft_limit(limits), Some(1_024));
        assert_eq!(
            soft_limit("Max open files            unlimited            unlimited            files"),
            Some(usize::MAX)
        );
        assert_eq!(soft_limit("nothing of it"), None);
    }
}
