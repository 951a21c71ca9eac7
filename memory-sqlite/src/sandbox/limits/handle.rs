//! Settings and statistics of a connection that rusqlite does not offer.
//!
//! # Safety
//!
//! Each function calls SQLite with the handle of a borrowed connection, which is therefore open during the whole
//! call.
#![allow(unsafe_code)]

use std::ffi::{CString, c_int, c_void};

use memory_core::Result;
use rusqlite::{Connection, ffi};

use crate::error::engine;

/// Removes all virtual-table modules except these.
pub(in crate::sandbox) fn keep_modules(conn: &Connection, keep: &[&str]) -> Result<()> {
    let names: Vec<CString> = keep.iter().filter_map(|name| CString::new(*name).ok()).collect();
    let mut list: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
    list.push(std::ptr::null());
    // SAFETY: the handle is open; the list is null-terminated and its strings outlive the call.
    let code = unsafe { ffi::sqlite3_drop_modules(conn.handle(), list.as_mut_ptr()) };
    if code == ffi::SQLITE_OK {
        Ok(())
    } else {
        Err(engine(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)))
    }
}

/// Sets the connection's lookaside: slots of this many bytes. Call it before the first statement.
pub(in crate::sandbox) fn set_lookaside(conn: &Connection, bytes: c_int, slots: c_int) {
    // SAFETY: the handle is open; given a null buffer SQLite allocates one. SQLite refuses while statements use
    // slots.
    let _ = unsafe {
        ffi::sqlite3_db_config(
            conn.handle(),
            ffi::SQLITE_DBCONFIG_LOOKASIDE,
            std::ptr::null_mut::<c_void>(),
            bytes,
            slots,
        )
    };
}

/// Bytes of a connection's page cache.
pub(in crate::sandbox) fn page_bytes(conn: &Connection) -> usize {
    status(conn, ffi::SQLITE_DBSTATUS_CACHE_USED)
}

/// Bytes of a connection's schema and statements.
pub(in crate::sandbox) fn kept_bytes(conn: &Connection) -> usize {
    status(conn, ffi::SQLITE_DBSTATUS_SCHEMA_USED) + status(conn, ffi::SQLITE_DBSTATUS_STMT_USED)
}

fn status(conn: &Connection, what: c_int) -> usize {
    let (mut now, mut most) = (0, 0);
    // SAFETY: the handle is open; SQLite writes two integers.
    let code = unsafe { ffi::sqlite3_db_status(conn.handle(), what, &raw mut now, &raw mut most, 0) };
    if code == ffi::SQLITE_OK { usize::try_from(now).unwrap_or(0) } else { 0 }
}
