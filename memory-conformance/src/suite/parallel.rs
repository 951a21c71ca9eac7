//! Several threads for independent work.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// Applies `work` to every item on several threads; results are in the order of the items. The flag says whether
/// `progress` cancelled; results so far are kept.
pub(crate) fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> R + Sync,
    mut progress: impl FnMut(&R) -> ControlFlow<()>,
) -> (Vec<R>, bool) {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (send, receive) = mpsc::channel();
    let mut results = Vec::with_capacity(items.len());
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, items.len().max(1)) {
            let (send, next, stop, work) = (send.clone(), &next, &stop, &work);
            scope.spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    let index = next.fetch_add(1, Ordering::SeqCst);
                    let Some(item) = items.get(index) else { break };
                    // The receiver is gone once the run is cancelled.
                    let _ = send.send((index, work(item)));
                }
            });
        }
        drop(send);
        for (index, result) in receive {
            if !stop.load(Ordering::SeqCst) && progress(&result).is_break() {
                stop.store(true, Ordering::SeqCst);
            }
            results.push((index, result));
        }
    });
    results.sort_by_key(|(index, _)| *index);
    (results.into_iter().map(|(_, result)| result).collect(), stop.load(Ordering::SeqCst))
}
