//! `median`, `percentile`, `percentile_cont`, `percentile_disc`, missing from SQLite's bundled build:
//! <https://sqlite.org/percentile.html>.
//!
//! SQLite's own sort the values in a time that an agent can make quadratic; these select in linear time. The values
//! are stored in the engine's memory, so they count against the statement's budget.
//!
//! # Safety
//!
//! SQLite calls [`step`], [`inverse`], [`value`] and [`finish`] with a context and arguments that are valid until
//! they return. The aggregate's memory is [`State`], zeroed by SQLite before the first call, which is a valid
//! value, and used by one call at a time. Its pointer is null or from `sqlite3_realloc64`, with capacity for
//! `capacity` numbers, of which the first `len` are written; [`finish`], which SQLite calls once per aggregate,
//! frees it. The application pointer is a `&'static Kind`. None of the called code can unwind: it neither indexes
//! nor allocates in Rust.
#![allow(unsafe_code)]

use std::ffi::{CString, c_int, c_void};
use std::slice;

use memory_core::Result;
use rusqlite::{Connection, ffi};

use crate::error::engine;

struct Kind {
    name: &'static str,
    arguments: c_int,
    /// Upper bound of the second argument.
    most: f64,
    /// Whether the result is one of the values.
    discrete: bool,
}

const KINDS: &[Kind] = &[
    Kind { name: "median", arguments: 1, most: 1.0, discrete: false },
    Kind { name: "percentile", arguments: 2, most: 100.0, discrete: false },
    Kind { name: "percentile_cont", arguments: 2, most: 1.0, discrete: false },
    Kind { name: "percentile_disc", arguments: 2, most: 1.0, discrete: true },
];

/// Fractions this close count as equal.
const SAME: f64 = 0.001;
/// Initial capacity, in values.
const INITIAL_CAPACITY: usize = 256;

#[repr(C)]
struct State {
    values: *mut f64,
    len: usize,
    capacity: usize,
    fraction: f64,
    /// Whether the fraction is known.
    begun: bool,
    /// Whether the values are sorted, and must stay so.
    ordered: bool,
}

impl State {
    fn values(&mut self) -> &mut [f64] {
        if self.values.is_null() {
            return &mut [];
        }
        // SAFETY: the first `len` are written, and borrowed as long as the state is.
        unsafe { slice::from_raw_parts_mut(self.values, self.len) }
    }

    /// Adds a value; false if out of memory.
    fn add(&mut self, value: f64) -> bool {
        if self.len >= self.capacity {
            let capacity = self.capacity.saturating_mul(2).max(INITIAL_CAPACITY);
            let bytes = capacity.saturating_mul(size_of::<f64>()) as u64;
            // SAFETY: the pointer is null or SQLite's; if it cannot be reallocated it stays valid.
            let moved = unsafe { ffi::sqlite3_realloc64(self.values.cast::<c_void>(), bytes) };
            if moved.is_null() {
                return false;
            }
            (self.values, self.capacity) = (moved.cast(), capacity);
        }
        let at = if self.ordered {
            self.values().partition_point(|known| known.total_cmp(&value).is_le())
        } else {
            self.len
        };
        // SAFETY: the capacity exceeds `len`, and `at` is at most `len`.
        unsafe {
            let place = self.values.add(at);
            std::ptr::copy(place, place.add(1), self.len - at);
            place.write(value);
        }
        self.len += 1;
        true
    }

    /// Removes a value that was added.
    fn remove(&mut self, value: f64) {
        self.order();
        let values = self.values();
        let at = values.partition_point(|known| known.total_cmp(&value).is_lt());
        if at < values.len() {
            values.copy_within(at + 1.., at);
            self.len -= 1;
        }
    }

    fn order(&mut self) {
        if !self.ordered {
            self.values().sort_unstable_by(f64::total_cmp);
            self.ordered = true;
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positions among values that fit in memory, exact as a real"
    )]
    fn answer(&mut self, discrete: bool) -> Option<f64> {
        let (fraction, ordered) = (self.fraction, self.ordered);
        let values = self.values();
        let last = values.len().checked_sub(1)?;
        let place = fraction * last as f64;
        let at = (place as usize).min(last);
        if !ordered {
            values.select_nth_unstable_by(at, f64::total_cmp);
        }
        let (before, after) = values.split_at(at + 1);
        let low = *before.last()?;
        if discrete {
            return Some(low);
        }
        // The values after this position are not less, in no order.
        let high =
            if ordered { after.first().copied() } else { after.iter().copied().min_by(f64::total_cmp) };
        Some(low + (high.unwrap_or(low) - low) * (place - at as f64))
    }
}

/// Registers these functions on a connection, as aggregates and window functions.
pub(super) fn register(conn: &Connection) -> Result<()> {
    let flags = ffi::SQLITE_UTF8 | ffi::SQLITE_DETERMINISTIC | ffi::SQLITE_INNOCUOUS;
    for kind in KINDS {
        let Ok(name) = CString::new(kind.name) else { continue };
        let data = std::ptr::from_ref(kind).cast_mut().cast::<c_void>();
        // SAFETY: the handle is open while the connection is borrowed; the data is `'static` and read-only.
        let code = unsafe {
            ffi::sqlite3_create_window_function(
                conn.handle(),
                name.as_ptr(),
                kind.arguments,
                flags,
                data,
                Some(step),
                Some(finish),
                Some(value),
                Some(inverse),
                None,
            )
        };
        if code != ffi::SQLITE_OK {
            return Err(engine(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)));
        }
    }
    Ok(())
}

/// # Safety
/// The context belongs to a call of one of these functions.
unsafe fn kind(context: *mut ffi::sqlite3_context) -> Option<&'static Kind> {
    // SAFETY: the application pointer is a `&'static Kind`.
    unsafe { ffi::sqlite3_user_data(context).cast::<Kind>().as_ref() }
}

/// # Safety
/// The context belongs to a call of one of these functions, for `'a`.
unsafe fn state<'a>(context: *mut ffi::sqlite3_context, make: bool) -> Option<&'a mut State> {
    let bytes = if make { c_int::try_from(size_of::<State>()).unwrap_or(0) } else { 0 };
    // SAFETY: SQLite returns null, or zeroed memory of this size that belongs to this aggregate.
    unsafe { ffi::sqlite3_aggregate_context(context, bytes).cast::<State>().as_mut() }
}

/// # Safety
/// The value belongs to a call by SQLite.
unsafe fn number(value: *mut ffi::sqlite3_value) -> Result<Option<f64>, &'static str> {
    // SAFETY: the caller's contract.
    let (kind, number) = unsafe { (ffi::sqlite3_value_type(value), ffi::sqlite3_value_double(value)) };
    match kind {
        ffi::SQLITE_NULL => Ok(None),
        ffi::SQLITE_INTEGER | ffi::SQLITE_FLOAT if number.is_finite() => Ok(Some(number)),
        ffi::SQLITE_INTEGER | ffi::SQLITE_FLOAT => Err("its input is infinite"),
        _ => Err("its input is not numeric"),
    }
}

unsafe extern "C" fn step(
    context: *mut ffi::sqlite3_context,
    count: c_int,
    arguments: *mut *mut ffi::sqlite3_value,
) {
    // SAFETY: SQLite's contract for a step; the number of arguments is the registered one.
    unsafe {
        let Some(kind) = kind(context) else { return };
        let fraction = if count < 2 {
            0.5
        } else {
            let given = *arguments.add(1);
            let numeric = ffi::sqlite3_value_numeric_type(given);
            let fraction = ffi::sqlite3_value_double(given) / kind.most;
            if !matches!(numeric, ffi::SQLITE_INTEGER | ffi::SQLITE_FLOAT) || !(0.0..=1.0).contains(&fraction)
            {
                return fail(context, kind, "its fraction is out of range");
            }
            fraction
        };
        let Some(state) = state(context, true) else { return };
        if !state.begun {
            (state.begun, state.fraction) = (true, fraction);
        } else if (state.fraction - fraction).abs() > SAME {
            return fail(context, kind, "its fraction is not the same for all rows");
        }
        match number(*arguments) {
            Ok(None) => {}
            Ok(Some(value)) if state.add(value) => {}
            Ok(Some(_)) => ffi::sqlite3_result_error_nomem(context),
            Err(why) => fail(context, kind, why),
        }
    }
}

unsafe extern "C" fn inverse(
    context: *mut ffi::sqlite3_context,
    _: c_int,
    arguments: *mut *mut ffi::sqlite3_value,
) {
    // SAFETY: as for `step`, with the arguments of an earlier one.
    unsafe {
        if let (Some(state), Ok(Some(value))) = (state(context, false), number(*arguments)) {
            state.remove(value);
        }
    }
}

unsafe extern "C" fn value(context: *mut ffi::sqlite3_context) {
    // SAFETY: as for `step`.
    unsafe {
        if let (Some(kind), Some(state)) = (kind(context), state(context, false)) {
            // Rows will keep entering and leaving.
            state.order();
            tell(context, state.answer(kind.discrete));
        }
    }
}

unsafe extern "C" fn finish(context: *mut ffi::sqlite3_context) {
    // SAFETY: as for `step`; it is the last call for this aggregate.
    unsafe {
        if let (Some(kind), Some(state)) = (kind(context), state(context, false)) {
            tell(context, state.answer(kind.discrete));
            ffi::sqlite3_free(state.values.cast::<c_void>());
            (state.values, state.len, state.capacity) = (std::ptr::null_mut(), 0, 0);
        }
    }
}

/// # Safety
/// The context belongs to a call of one of these functions.
unsafe fn tell(context: *mut ffi::sqlite3_context, answer: Option<f64>) {
    if let Some(answer) = answer {
        // SAFETY: the caller's contract.
        unsafe { ffi::sqlite3_result_double(context, answer) };
    }
}

/// # Safety
/// The context belongs to a call of one of these functions.
unsafe fn fail(context: *mut ffi::sqlite3_context, kind: &Kind, why: &str) {
    let message = format!("{}() cannot be computed: {why}", kind.name);
    let bytes = c_int::try_from(message.len()).unwrap_or(0);
    // SAFETY: the caller's contract; SQLite copies the message.
    unsafe { ffi::sqlite3_result_error(context, message.as_ptr().cast(), bytes) };
}
