//! FTS5 auxiliary functions in Rust: functions of a row that matches a full-text query.
//!
//! # Safety
//!
//! [`call`] is the only code that FTS5 calls, with pointers that are valid until it returns; a [`Match`] borrows
//! them for that long and cannot be kept. FTS5's table of functions is that of the bundled version, and each entry
//! is checked before it is called. Texts of columns belong to FTS5 and live until the cursor leaves the row, which
//! no function does. The user data is a `&'static Auxiliary`. Tokens arrive through [`token`], whose context is a
//! `Tokens` on the stack of the tokenizing call. No panic crosses into C.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{ptr, slice};

use memory_core::{Error, Result};
use rusqlite::{Connection, ffi};

use super::call::{Call, Outcome};
use crate::error::engine;

/// A function of a row that matches a full-text query.
pub(in crate::sandbox) struct Auxiliary {
    pub(in crate::sandbox) name: &'static str,
    pub(in crate::sandbox) run: fn(&Match<'_>, &Call<'_>) -> std::result::Result<Outcome, Code>,
}

/// An SQLite error code, passed on unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sandbox) struct Code(c_int);

impl Code {
    pub(in crate::sandbox) const RANGE: Self = Self(ffi::SQLITE_RANGE);
    pub(in crate::sandbox) const TOO_BIG: Self = Self(ffi::SQLITE_TOOBIG);
    pub(in crate::sandbox) const CORRUPT: Self = Self(ffi::SQLITE_CORRUPT_VTAB);
    /// The statement must end: past its deadline, or cancelled.
    pub(in crate::sandbox) const ENDED: Self = Self(ffi::SQLITE_NOMEM);
}

type Answer<T> = std::result::Result<T, Code>;

fn checked(code: c_int) -> Answer<()> {
    if code == ffi::SQLITE_OK { Ok(()) } else { Err(Code(code)) }
}

/// An occurrence of a query phrase in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::sandbox) struct Instance {
    pub(in crate::sandbox) phrase: usize,
    pub(in crate::sandbox) column: usize,
    /// Its first token.
    pub(in crate::sandbox) at: i64,
}

/// A row that matches a full-text query.
pub(in crate::sandbox) struct Match<'a> {
    api: &'a ffi::Fts5ExtensionApi,
    context: *mut ffi::Fts5Context,
}

/// Looks up one of FTS5's functions, which the bundled version must have.
macro_rules! of {
    ($row:expr, $name:ident) => {
        $row.api.$name.ok_or(Code(ffi::SQLITE_MISUSE))?
    };
}

impl<'a> Match<'a> {
    pub(in crate::sandbox) fn columns(&self) -> Answer<usize> {
        let columns = of!(self, xColumnCount);
        // SAFETY: the context belongs to this call.
        Ok(usize::try_from(unsafe { columns(self.context) }).unwrap_or(0))
    }

    pub(in crate::sandbox) fn phrases(&self) -> Answer<usize> {
        let phrases = of!(self, xPhraseCount);
        // SAFETY: as above.
        Ok(usize::try_from(unsafe { phrases(self.context) }).unwrap_or(0))
    }

    /// Tokens of a phrase.
    pub(in crate::sandbox) fn phrase_size(&self, phrase: usize) -> Answer<i64> {
        let (size, phrase) = (of!(self, xPhraseSize), index(phrase)?);
        // SAFETY: as above; an unknown phrase has no tokens.
        Ok(i64::from(unsafe { size(self.context, phrase) }))
    }

    /// Number of instances, in order of columns and tokens.
    pub(in crate::sandbox) fn instances(&self) -> Answer<usize> {
        let (instances, mut count) = (of!(self, xInstCount), 0);
        // SAFETY: as above.
        checked(unsafe { instances(self.context, &raw mut count) })?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    pub(in crate::sandbox) fn instance(&self, at: usize) -> Answer<Instance> {
        let (instance, at) = (of!(self, xInst), index(at)?);
        let (mut phrase, mut column, mut token) = (0, 0, 0);
        // SAFETY: as above; FTS5 checks the index.
        checked(unsafe { instance(self.context, at, &raw mut phrase, &raw mut column, &raw mut token) })?;
        Ok(Instance {
            phrase: usize::try_from(phrase).unwrap_or(usize::MAX),
            column: usize::try_from(column).unwrap_or(usize::MAX),
            at: i64::from(token),
        })
    }

    /// Tokens of a column.
    pub(in crate::sandbox) fn size(&self, column: usize) -> Answer<i64> {
        let (size, column, mut tokens) = (of!(self, xColumnSize), index(column)?, 0);
        // SAFETY: as above.
        checked(unsafe { size(self.context, column, &raw mut tokens) })?;
        Ok(i64::from(tokens))
    }

    /// The text of a column; `None` if the table stores none.
    pub(in crate::sandbox) fn text(&self, column: usize) -> Answer<Option<&'a [u8]>> {
        let (text, column) = (of!(self, xColumnText), index(column)?);
        let (mut bytes, mut length) = (ptr::null::<c_char>(), 0);
        // SAFETY: as above; the text lives until the cursor leaves the row.
        unsafe {
            checked(text(self.context, column, &raw mut bytes, &raw mut length))?;
            Ok(borrowed(bytes, length))
        }
    }

    /// Tokenizes the text of a column, calling `each` with the start and end offset of every token. Colocated
    /// tokens are skipped.
    pub(in crate::sandbox) fn tokens(
        &self,
        column: usize,
        text: &[u8],
        mut each: impl FnMut(usize, usize) -> Answer<()>,
    ) -> Answer<()> {
        let (locale, tokenize) = (of!(self, xColumnLocale), of!(self, xTokenize_v2));
        let length = c_int::try_from(text.len()).map_err(|_| Code(ffi::SQLITE_TOOBIG))?;
        let (mut name, mut name_length) = (ptr::null::<c_char>(), 0);
        let mut each: &mut dyn FnMut(usize, usize) -> Answer<()> = &mut each;
        let context = (&raw mut each).cast::<c_void>();
        // SAFETY: as above; `each` outlives the call, and `token` casts the context back to its type.
        checked(unsafe {
            checked(locale(self.context, index(column)?, &raw mut name, &raw mut name_length))?;
            tokenize(self.context, text.as_ptr().cast(), length, name, name_length, context, Some(token))
        })
    }
}

fn index(at: usize) -> Answer<c_int> {
    c_int::try_from(at).map_err(|_| Code::RANGE)
}

/// # Safety
/// `bytes` points to `length` bytes that live as long as the result is used, or is null.
unsafe fn borrowed<'a>(bytes: *const c_char, length: c_int) -> Option<&'a [u8]> {
    let length = usize::try_from(length).unwrap_or(0);
    // SAFETY: the caller's contract.
    (!bytes.is_null()).then(|| unsafe { slice::from_raw_parts(bytes.cast(), length) })
}

unsafe extern "C" fn token(
    context: *mut c_void,
    flags: c_int,
    _token: *const c_char,
    _length: c_int,
    begin: c_int,
    end: c_int,
) -> c_int {
    if flags & ffi::FTS5_TOKEN_COLOCATED != 0 {
        return ffi::SQLITE_OK;
    }
    // SAFETY: the context is that of `tokens`, which waits for this call.
    let each = unsafe { &mut *context.cast::<&mut dyn FnMut(usize, usize) -> Answer<()>>() };
    let (begin, end) = (usize::try_from(begin).unwrap_or(0), usize::try_from(end).unwrap_or(0));
    match catch_unwind(AssertUnwindSafe(|| each(begin, end))) {
        Ok(Ok(())) => ffi::SQLITE_OK,
        Ok(Err(Code(code))) => code,
        Err(_) => ffi::SQLITE_ERROR,
    }
}

unsafe extern "C" fn call(
    api: *const ffi::Fts5ExtensionApi,
    context: *mut ffi::Fts5Context,
    result: *mut ffi::sqlite3_context,
    count: c_int,
    arguments: *mut *mut ffi::sqlite3_value,
) {
    // SAFETY: FTS5's contract for a function, see above.
    unsafe {
        let called = Call::of(result, count, arguments);
        let Some(api) = api.as_ref() else { return };
        let Some(user_data) = api.xUserData else { return };
        let Some(function) = user_data(context).cast::<Auxiliary>().as_ref() else { return };
        let row = Match { api, context };
        let outcome = catch_unwind(AssertUnwindSafe(|| (function.run)(&row, &called)));
        match outcome {
            Ok(Ok(outcome)) => called.answer(outcome),
            Ok(Err(Code(code))) => ffi::sqlite3_result_error_code(result, code),
            Err(_) => {
                called.answer(Outcome::Error(format!("{} failed; please report it", function.name)));
            }
        }
    }
}

/// Registers functions on a connection, replacing FTS5's of the same name.
pub(in crate::sandbox) fn register(conn: &Connection, functions: &'static [Auxiliary]) -> Result<()> {
    let mut api: *mut ffi::fts5_api = ptr::null_mut();
    // SAFETY: the handle is open while the connection is borrowed. While the statement runs, `fts5` writes its
    // table's address into the bound pointer, whose type its name states; the table lives as long as the
    // connection.
    unsafe {
        let mut statement = ptr::null_mut();
        checked(ffi::sqlite3_prepare_v2(
            conn.handle(),
            c"SELECT fts5(?1)".as_ptr(),
            -1,
            &raw mut statement,
            ptr::null_mut(),
        ))
        .and_then(|()| {
            checked(ffi::sqlite3_bind_pointer(
                statement,
                1,
                (&raw mut api).cast(),
                c"fts5_api_ptr".as_ptr(),
                None,
            ))
        })
        .map(|()| ffi::sqlite3_step(statement))
        .map_err(failed)?;
        ffi::sqlite3_finalize(statement);
        let create = api.as_ref().and_then(|api| api.xCreateFunction);
        let Some(create) = create else {
            return Err(Error::internal("SQLite was built without FTS5"));
        };
        for function in functions {
            let Ok(name) = CString::new(function.name) else { continue };
            let data = ptr::from_ref(function).cast_mut().cast::<c_void>();
            checked(create(api, name.as_ptr(), data, Some(call), None)).map_err(failed)?;
        }
    }
    Ok(())
}

fn failed(Code(code): Code) -> Error {
    engine(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None))
}
