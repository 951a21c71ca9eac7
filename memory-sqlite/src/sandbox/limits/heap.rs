//! Limits what one statement may allocate, and ends statements while they allocate.
//!
//! SQLite's own heap limit covers the whole process, so one tenant's statement could take what the others need.
//! Therefore SQLite's allocator is wrapped once, before SQLite is first used. A thread that runs an agent's statement
//! carries a [`Meter`]; beyond its budget, only this statement's allocations fail. They also fail after the deadline,
//! which ends the statement even within a single virtual machine instruction, where neither the progress handler nor an
//! interrupt is checked.
//!
//! If the process has used SQLite before, its allocator can no longer be replaced and [`install`] returns false. Then
//! agents get SQL only if the operator limits SQLite for the whole process: [`limit_process`].
//!
//! # Safety
//!
//! The four replacements only count and call the original with the same arguments on the same thread; they return
//! its result, or null, as an allocator may. The originals are stored once, before SQLite gets the replacements.
//! Counting touches only thread-local cells, so it neither allocates through SQLite nor re-enters; a thread whose
//! cells are already destroyed is not counted.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::time::Instant;

use rusqlite::ffi;

use crate::sandbox::statement::Cancel;

/// The wrapped allocator.
#[derive(Clone, Copy)]
struct Original {
    malloc: unsafe extern "C" fn(c_int) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    realloc: unsafe extern "C" fn(*mut c_void, c_int) -> *mut c_void,
    size: unsafe extern "C" fn(*mut c_void) -> c_int,
}

static ORIGINAL: OnceLock<Original> = OnceLock::new();
static INSTALLED: OnceLock<bool> = OnceLock::new();

/// Overhead of an allocation, in bytes.
const OVERHEAD: i64 = 16;
/// Allocations between two clock checks.
const CLOCK_EVERY: u32 = 256;
/// Bytes allocated between two clock checks: copying them takes time too.
const CLOCK_BYTES: i64 = 4 << 20;

thread_local! {
    static ACTIVE: Cell<bool> = const { Cell::new(false) };
    static LIMIT: Cell<i64> = const { Cell::new(i64::MAX) };
    static USED: Cell<i64> = const { Cell::new(0) };
    static PEAK: Cell<i64> = const { Cell::new(0) };
    static CALLS: Cell<u32> = const { Cell::new(0) };
    static BYTES: Cell<i64> = const { Cell::new(0) };
    static DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
    static REFUSED: Cell<Option<Refused>> = const { Cell::new(None) };
    static CANCEL: RefCell<Option<Cancel>> = const { RefCell::new(None) };
}

/// Why an allocation was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sandbox) enum Refused {
    Budget,
    Deadline,
    Cancelled,
    /// The system had none left.
    System,
}

/// Why statements are not served where [`install`] failed, and what to do.
pub(crate) const TOO_LATE: &str = "this process used SQLite before memory-sqlite did, so the memory of a statement cannot be bounded; call \
     memory_sqlite::prepare_process() first, or set sql.process_heap_bytes";

/// Wraps the allocator; only the first call has an effect. Returns whether statements are metered.
pub(crate) fn install() -> bool {
    *INSTALLED.get_or_init(wrap)
}

/// Limits SQLite's memory in the whole process. The lowest limit ever set applies.
pub(crate) fn limit_process(bytes: u64) {
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    // SAFETY: these take and return a number; a negative one only queries.
    unsafe {
        let now = ffi::sqlite3_hard_heap_limit64(-1);
        if now <= 0 || now > bytes {
            ffi::sqlite3_hard_heap_limit64(bytes);
        }
    }
}

/// Whether SQLite's memory in the whole process has a limit.
pub(in crate::sandbox) fn is_process_limited() -> bool {
    // SAFETY: as above; a negative number only queries.
    unsafe { ffi::sqlite3_hard_heap_limit64(-1) > 0 }
}

/// SQLite's current memory in this process.
#[cfg(feature = "lab")]
pub(crate) fn process_bytes() -> u64 {
    // SAFETY: takes nothing and returns a number.
    u64::try_from(unsafe { ffi::sqlite3_memory_used() }).unwrap_or(0)
}

fn wrap() -> bool {
    let mut methods = ffi::sqlite3_mem_methods {
        xMalloc: None,
        xFree: None,
        xRealloc: None,
        xSize: None,
        xRoundup: None,
        xInit: None,
        xShutdown: None,
        pAppData: std::ptr::null_mut(),
    };
    // SAFETY: GETMALLOC takes a pointer to such a struct and fills it; SQLite refuses once it is initialised.
    let got = unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_GETMALLOC, &raw mut methods) };
    if got != ffi::SQLITE_OK {
        return false;
    }
    let (Some(original_malloc), Some(original_free), Some(original_realloc), Some(original_size)) =
        (methods.xMalloc, methods.xFree, methods.xRealloc, methods.xSize)
    else {
        return false;
    };
    let original = Original {
        malloc: original_malloc,
        free: original_free,
        realloc: original_realloc,
        size: original_size,
    };
    if ORIGINAL.set(original).is_err() {
        return false;
    }
    methods.xMalloc = Some(malloc);
    methods.xFree = Some(free);
    methods.xRealloc = Some(realloc);
    // SAFETY: MALLOC takes a pointer to such a struct and copies it. The functions keep the allocator's contract,
    // see above.
    let wrapped =
        unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_MALLOC, &raw mut methods) == ffi::SQLITE_OK };
    let (none, zero) = (std::ptr::null_mut::<c_void>(), 0 as c_int);
    // Otherwise each connection allocates twenty pages with its first one, and there are a thousand connections.
    // SAFETY: PAGECACHE takes a pointer, which may be null, and two integers.
    let _ = unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_PAGECACHE, none, zero, zero) };
    wrapped
}

unsafe extern "C" fn malloc(bytes: c_int) -> *mut c_void {
    let Some(original) = ORIGINAL.get() else { return std::ptr::null_mut() };
    if !is_granted(rounded(bytes) + OVERHEAD, 0) {
        return std::ptr::null_mut();
    }
    // SAFETY: the caller keeps the original's contract.
    unsafe {
        let block = (original.malloc)(bytes);
        if block.is_null() {
            refused_by_the_system();
        } else {
            count(i64::from((original.size)(block)) + OVERHEAD);
        }
        block
    }
}

unsafe extern "C" fn free(block: *mut c_void) {
    let Some(original) = ORIGINAL.get() else { return };
    // SAFETY: as above; the block is measured before it is freed.
    unsafe {
        if !block.is_null() && is_active() {
            count(-(i64::from((original.size)(block)) + OVERHEAD));
        }
        (original.free)(block);
    }
}

unsafe extern "C" fn realloc(block: *mut c_void, bytes: c_int) -> *mut c_void {
    let Some(original) = ORIGINAL.get() else { return std::ptr::null_mut() };
    // SAFETY: as above. If it returns null, the old block is unchanged and the caller handles it.
    unsafe {
        let before = if block.is_null() || !is_active() { 0 } else { i64::from((original.size)(block)) };
        if !is_granted(rounded(bytes), before) {
            return std::ptr::null_mut();
        }
        let moved = (original.realloc)(block, bytes);
        if moved.is_null() {
            refused_by_the_system();
        } else if is_active() {
            count(i64::from((original.size)(moved)) - before);
        }
        moved
    }
}

/// The size to which the allocator rounds a number of bytes.
fn rounded(bytes: c_int) -> i64 {
    (i64::from(bytes) + 7) & !7
}

fn is_active() -> bool {
    ACTIVE.try_with(Cell::get).unwrap_or(false)
}

/// Whether `bytes` may be allocated in place of `before`.
fn is_granted(bytes: i64, before: i64) -> bool {
    if !is_active() {
        return true;
    }
    let used = USED.with(Cell::get);
    if used.saturating_add(bytes).saturating_sub(before) > LIMIT.with(Cell::get) {
        REFUSED.with(|refused| refused.set(refused.get().or(Some(Refused::Budget))));
        return false;
    }
    let calls = CALLS.with(|calls| calls.replace(calls.get().wrapping_add(1)));
    let allocated = BYTES.with(|allocated| allocated.replace(allocated.get().saturating_add(bytes)));
    if calls.is_multiple_of(CLOCK_EVERY) || allocated >= CLOCK_BYTES {
        BYTES.with(|allocated| allocated.set(0));
        if let Some(refused) = is_over() {
            REFUSED.with(|first| first.set(first.get().or(Some(refused))));
            return false;
        }
    }
    true
}

/// Whether this thread's statement must end: past its deadline, or cancelled; records that as the reason. For long
/// work that does not allocate through SQLite.
pub(in crate::sandbox) fn must_end() -> bool {
    let over = if is_active() { is_over() } else { None };
    if over.is_some() {
        REFUSED.with(|first| first.set(first.get().or(over)));
    }
    over.is_some()
}

fn is_over() -> Option<Refused> {
    let cancelled = CANCEL.with(|cancel| {
        cancel.try_borrow().is_ok_and(|cancel| cancel.as_ref().is_some_and(Cancel::is_cancelled))
    });
    if cancelled {
        return Some(Refused::Cancelled);
    }
    let deadline = DEADLINE.with(Cell::get)?;
    (Instant::now() >= deadline).then_some(Refused::Deadline)
}

fn count(bytes: i64) {
    if is_active() {
        let used = USED.with(|used| {
            used.set(used.get().saturating_add(bytes));
            used.get()
        });
        PEAK.with(|peak| peak.set(peak.get().max(used)));
    }
}

fn refused_by_the_system() {
    if is_active() {
        REFUSED.with(|refused| refused.set(refused.get().or(Some(Refused::System))));
    }
}

/// Meters this thread's allocations until dropped. Only one at a time.
#[derive(Debug)]
pub(in crate::sandbox) struct Meter(());

impl Meter {
    /// Starts metering: at most `limit` bytes, and none after the deadline.
    pub(in crate::sandbox) fn begin(limit: Option<usize>, deadline: Option<(Instant, &Cancel)>) -> Self {
        LIMIT.set(limit.map_or(i64::MAX, |limit| i64::try_from(limit).unwrap_or(i64::MAX)));
        USED.set(0);
        PEAK.set(0);
        CALLS.set(1);
        BYTES.set(0);
        REFUSED.set(None);
        DEADLINE.set(deadline.map(|(deadline, _)| deadline));
        CANCEL.set(deadline.map(|(_, cancel)| cancel.clone()));
        ACTIVE.set(true);
        Self(())
    }

    /// Peak number of bytes.
    pub(in crate::sandbox) fn peak(&self) -> u64 {
        u64::try_from(PEAK.get()).unwrap_or(0)
    }

    /// Why the first refused allocation was refused.
    pub(in crate::sandbox) fn refused(&self) -> Option<Refused> {
        REFUSED.get()
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        ACTIVE.set(false);
        CANCEL.set(None);
    }
}

/// Runs the runtime's own work in the middle of a statement without charging its budget.
pub(in crate::sandbox) fn unmetered<T>(work: impl FnOnce() -> T) -> T {
    struct Resume(bool);
    impl Drop for Resume {
        fn drop(&mut self) {
            ACTIVE.set(self.0);
        }
    }
    let _resume = Resume(ACTIVE.replace(false));
    work()
}
