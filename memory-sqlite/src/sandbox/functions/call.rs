//! SQL functions written in Rust, using the engine's own conversions of values.
//!
//! rusqlite passes arguments unconverted, but `trim(1.0, '0')` needs the text that the engine would write.
//!
//! # Safety
//!
//! [`call`] is the only code that SQLite calls (`fts5.rs` makes a [`Call`] for FTS5). SQLite passes a context and
//! an array of arguments that stay valid until it returns; a [`Call`] borrows them for that long and cannot be
//! kept. The application pointer is a `&'static Function`, so it outlives every connection and needs no destructor.
//! Converting an argument may move its bytes, so each is converted at most once, by [`Call::text`] or
//! [`Call::value`]; borrowed slices are tied to the call. No panic crosses into C. What [`Call::kept`] stores is a
//! `Box<dyn Any>` behind a thin pointer; SQLite drops it with [`forget`], and it is read back by its type.
#![allow(unsafe_code)]

use std::any::Any;
use std::ffi::{CString, c_int, c_void};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;
use std::sync::Arc;

use memory_core::Result;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ffi};

use crate::error::engine;

/// An SQL function. All are deterministic, and harmless in an agent's own views and triggers.
pub(in crate::sandbox) struct Function {
    pub(in crate::sandbox) name: &'static str,
    /// -1: any number.
    pub(in crate::sandbox) arguments: i8,
    pub(in crate::sandbox) run: fn(&Call<'_>) -> Outcome,
}

/// The result of a function.
pub(in crate::sandbox) enum Outcome {
    Null,
    Integer(i64),
    Real(f64),
    Text(Vec<u8>),
    /// JSON text, which other JSON functions take as JSON.
    Json(Vec<u8>),
    Blob(Vec<u8>),
    /// The result would be longer than a value may be.
    TooBig,
    /// The statement must end; the heap knows why.
    Ended,
    /// What is wrong with the arguments.
    Error(String),
}

/// The subtype by which SQLite's JSON functions recognise JSON.
const JSON: u32 = b'J' as u32;

/// One call of a function.
pub(in crate::sandbox) struct Call<'a> {
    context: *mut ffi::sqlite3_context,
    arguments: &'a [*mut ffi::sqlite3_value],
    _not_send: PhantomData<*const ()>,
}

impl<'a> Call<'a> {
    /// Wraps a call in progress.
    ///
    /// # Safety
    /// The context and the `count` arguments belong to one call by SQLite, which waits for the result.
    pub(in crate::sandbox) unsafe fn of(
        context: *mut ffi::sqlite3_context,
        count: c_int,
        arguments: *mut *mut ffi::sqlite3_value,
    ) -> Self {
        let count = usize::try_from(count).unwrap_or(0);
        // Without arguments the array may be null.
        let arguments = if count == 0 || arguments.is_null() {
            &[]
        } else {
            // SAFETY: the caller's contract.
            unsafe { slice::from_raw_parts(arguments, count) }
        };
        Self { context, arguments, _not_send: PhantomData }
    }

    pub(in crate::sandbox) fn len(&self) -> usize {
        self.arguments.len()
    }

    /// An argument's text as the engine writes it; `None` for NULL, or if out of memory.
    pub(in crate::sandbox) fn text(&self, at: usize) -> Option<&'a [u8]> {
        let value = *self.arguments.get(at)?;
        // SAFETY: the value belongs to this call. Its text is valid until the next conversion, which no function
        // does.
        unsafe {
            let text = ffi::sqlite3_value_text(value);
            if text.is_null() {
                return None;
            }
            let bytes = usize::try_from(ffi::sqlite3_value_bytes(value)).unwrap_or(0);
            Some(slice::from_raw_parts(text, bytes))
        }
    }

    /// An argument without conversion.
    pub(in crate::sandbox) fn value(&self, at: usize) -> ValueRef<'a> {
        let Some(&value) = self.arguments.get(at) else { return ValueRef::Null };
        // SAFETY: as above; reading a value by its own type converts nothing.
        unsafe {
            match ffi::sqlite3_value_type(value) {
                ffi::SQLITE_INTEGER => ValueRef::Integer(ffi::sqlite3_value_int64(value)),
                ffi::SQLITE_FLOAT => ValueRef::Real(ffi::sqlite3_value_double(value)),
                ffi::SQLITE_TEXT => self.text(at).map_or(ValueRef::Null, ValueRef::Text),
                ffi::SQLITE_BLOB => {
                    let blob = ffi::sqlite3_value_blob(value).cast::<u8>();
                    let bytes = usize::try_from(ffi::sqlite3_value_bytes(value)).unwrap_or(0);
                    // An empty blob has a null address.
                    ValueRef::Blob(if blob.is_null() { &[] } else { slice::from_raw_parts(blob, bytes) })
                }
                _ => ValueRef::Null,
            }
        }
    }

    /// An argument as a number, if it is one or its text is one: `1`, `'1.5'`, but not `'1x'` or a blob.
    pub(in crate::sandbox) fn number(&self, at: usize) -> Option<ValueRef<'static>> {
        let value = *self.arguments.get(at)?;
        // SAFETY: as above.
        unsafe {
            match ffi::sqlite3_value_numeric_type(value) {
                ffi::SQLITE_INTEGER => Some(ValueRef::Integer(ffi::sqlite3_value_int64(value))),
                ffi::SQLITE_FLOAT => Some(ValueRef::Real(ffi::sqlite3_value_double(value))),
                _ => None,
            }
        }
    }

    /// An argument converted to an integer by the engine.
    pub(in crate::sandbox) fn integer(&self, at: usize) -> i64 {
        // SAFETY: as above.
        self.arguments.get(at).map_or(0, |value| unsafe { ffi::sqlite3_value_int64(*value) })
    }

    /// The longest value of this connection.
    pub(in crate::sandbox) fn longest(&self) -> usize {
        // SAFETY: the context belongs to this call; reading a limit changes nothing.
        let limit = unsafe {
            ffi::sqlite3_limit(ffi::sqlite3_context_db_handle(self.context), ffi::SQLITE_LIMIT_LENGTH, -1)
        };
        usize::try_from(limit).unwrap_or(0)
    }

    /// A value computed from an argument, cached if the argument is the same in every row of the statement.
    pub(in crate::sandbox) fn kept<T: Send + Sync + 'static>(
        &self,
        at: usize,
        make: impl FnOnce() -> Result<T, String>,
    ) -> Result<Arc<T>, String> {
        let Ok(index) = c_int::try_from(at) else { return make().map(Arc::new) };
        // SAFETY: everything kept under a context was stored below, so it is a `Box<Arc<dyn Any>>`.
        let kept = unsafe { ffi::sqlite3_get_auxdata(self.context, index).cast::<Kept>().as_ref() };
        if let Some(found) = kept.and_then(|kept| Arc::clone(kept).downcast::<T>().ok()) {
            return Ok(found);
        }
        let made = Arc::new(make()?);
        let kept: Kept = Arc::clone(&made) as Kept;
        let pointer = Box::into_raw(Box::new(kept)).cast::<c_void>();
        // SAFETY: SQLite calls `forget` exactly once with the pointer, immediately if it does not keep it.
        unsafe { ffi::sqlite3_set_auxdata(self.context, index, pointer, Some(forget)) };
        Ok(made)
    }

    pub(in crate::sandbox) fn answer(&self, outcome: Outcome) {
        let context = self.context;
        let copied = ffi::SQLITE_TRANSIENT();
        // SAFETY: the context belongs to this call. SQLite copies the bytes before it returns.
        unsafe {
            match outcome {
                Outcome::Null => ffi::sqlite3_result_null(context),
                Outcome::Integer(value) => ffi::sqlite3_result_int64(context, value),
                Outcome::Real(value) => ffi::sqlite3_result_double(context, value),
                Outcome::Text(bytes) => result_text(context, &bytes),
                Outcome::Json(bytes) => {
                    result_text(context, &bytes);
                    ffi::sqlite3_result_subtype(context, JSON);
                }
                Outcome::Blob(bytes) => ffi::sqlite3_result_blob64(
                    context,
                    bytes.as_ptr().cast::<c_void>(),
                    bytes.len() as u64,
                    copied,
                ),
                Outcome::Ended => ffi::sqlite3_result_error_nomem(context),
                Outcome::TooBig => ffi::sqlite3_result_error_toobig(context),
                Outcome::Error(message) => {
                    let bytes = c_int::try_from(message.len()).unwrap_or(0);
                    ffi::sqlite3_result_error(context, message.as_ptr().cast(), bytes);
                }
            }
        }
    }
}

type Kept = Arc<dyn Any + Send + Sync>;

/// # Safety
/// The context belongs to the call in progress.
unsafe fn result_text(context: *mut ffi::sqlite3_context, bytes: &[u8]) {
    let Ok(encoding) = u8::try_from(ffi::SQLITE_UTF8) else { return };
    // SAFETY: the caller's contract; SQLite copies the bytes.
    unsafe {
        ffi::sqlite3_result_text64(
            context,
            bytes.as_ptr().cast(),
            bytes.len() as u64,
            ffi::SQLITE_TRANSIENT(),
            encoding,
        );
    }
}

unsafe extern "C" fn forget(kept: *mut c_void) {
    if !kept.is_null() {
        // SAFETY: created by `kept`, freed once.
        drop(unsafe { Box::from_raw(kept.cast::<Kept>()) });
    }
}

unsafe extern "C" fn call(
    context: *mut ffi::sqlite3_context,
    count: c_int,
    arguments: *mut *mut ffi::sqlite3_value,
) {
    // SAFETY: SQLite's contract for a function, see above.
    let (function, called) = unsafe {
        let function = ffi::sqlite3_user_data(context).cast::<Function>().as_ref();
        (function, Call::of(context, count, arguments))
    };
    let outcome = match function {
        Some(function) => catch_unwind(AssertUnwindSafe(|| (function.run)(&called)))
            .unwrap_or_else(|_| Outcome::Error(format!("{} failed; please report it", function.name))),
        None => Outcome::Null,
    };
    called.answer(outcome);
}

/// Registers functions on a connection, replacing those of the same name and number of arguments.
pub(in crate::sandbox) fn register(conn: &Connection, functions: &'static [Function]) -> Result<()> {
    // All are deterministic, so they may be used in indexes and generated columns.
    let flags =
        ffi::SQLITE_UTF8 | ffi::SQLITE_DETERMINISTIC | ffi::SQLITE_INNOCUOUS | ffi::SQLITE_RESULT_SUBTYPE;
    for function in functions {
        let Ok(name) = CString::new(function.name) else { continue };
        let data = std::ptr::from_ref(function).cast_mut().cast::<c_void>();
        // SAFETY: the handle is open while the connection is borrowed; the data is `'static` and read-only.
        let code = unsafe {
            ffi::sqlite3_create_function_v2(
                conn.handle(),
                name.as_ptr(),
                c_int::from(function.arguments),
                flags,
                data,
                Some(call),
                None,
                None,
                None,
            )
        };
        check(code)?;
    }
    Ok(())
}

fn check(code: c_int) -> Result<()> {
    if code == ffi::SQLITE_OK {
        Ok(())
    } else {
        Err(engine(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)))
    }
}
