//! The authorizer callback.
//!
//! rusqlite's own hook panics if the engine names something that is not UTF-8, which an agent can provoke:
//! `pragma_table_info(CAST(x'ff' AS TEXT))`. Here such bytes are replaced; every name known to the watch is ASCII
//! and unaffected.
//!
//! # Safety
//!
//! SQLite calls [`ask`] on the thread that compiles, with the pointer it was given and texts that stay valid until
//! it returns. The pointer is an `Arc`'s. SQLite keeps it as the connection's client data and drops it with
//! [`forget`] when the connection closes or the data is replaced, which [`install`] does only after setting the
//! hook to the new one. No panic crosses into C.
#![allow(unsafe_code)]

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use rusqlite::hooks::{AuthAction, AuthContext, Authorization, TransactionOperation};
use rusqlite::{Connection, ffi};

use super::watch::Watch;
use crate::sandbox::lock::lock;

const KEPT_AS: &CStr = c"memory-sqlite/watch";

/// Makes the engine ask this watch about every statement from now on.
pub(in crate::sandbox) fn install(conn: &Connection, watch: &Arc<Mutex<Watch>>) -> rusqlite::Result<()> {
    let kept = Arc::into_raw(Arc::clone(watch)).cast_mut().cast::<c_void>();
    // SAFETY: the handle is open. If the engine cannot keep the pointer it drops it itself, and the hook that would
    // use it is removed.
    unsafe {
        let db = conn.handle();
        ffi::sqlite3_set_authorizer(db, Some(ask), kept);
        let code = ffi::sqlite3_set_clientdata(db, KEPT_AS.as_ptr(), kept, Some(forget));
        if code != ffi::SQLITE_OK {
            ffi::sqlite3_set_authorizer(db, None, std::ptr::null_mut());
            return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
        }
    }
    Ok(())
}

unsafe extern "C" fn forget(kept: *mut c_void) {
    // SAFETY: it came from `Arc::into_raw` in `install`, and is dropped once.
    drop(unsafe { Arc::from_raw(kept.cast_const().cast::<Mutex<Watch>>()) });
}

unsafe extern "C" fn ask(
    kept: *mut c_void,
    code: c_int,
    first: *const c_char,
    second: *const c_char,
    database: *const c_char,
    accessor: *const c_char,
) -> c_int {
    // SAFETY: the watch outlives the hook, and the texts outlive this call.
    let (watch, first, second, database, accessor) = unsafe {
        (
            &*kept.cast_const().cast::<Mutex<Watch>>(),
            text(first),
            text(second),
            text(database),
            text(accessor),
        )
    };
    let asked = || {
        let [first, second, database_name, accessor] =
            [&first, &second, &database, &accessor].map(|text| text.as_deref());
        lock(watch).authorize(&AuthContext { action: action(code, first, second), database_name, accessor })
    };
    match catch_unwind(AssertUnwindSafe(asked)) {
        Ok(Authorization::Allow) => ffi::SQLITE_OK,
        Ok(Authorization::Ignore) => ffi::SQLITE_IGNORE,
        _ => ffi::SQLITE_DENY,
    }
}

/// A text that may be missing.
///
/// # Safety
/// It is null, or null-terminated and valid for as long as the result is used.
unsafe fn text<'a>(text: *const c_char) -> Option<Cow<'a, str>> {
    // SAFETY: the caller's contract.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy())
}

/// Converts the callback's arguments to rusqlite's type.
fn action<'a>(code: c_int, first: Option<&'a str>, second: Option<&'a str>) -> AuthAction<'a> {
    use AuthAction as A;
    let operation = TransactionOperation::Unknown;
    // The actions that have one name as argument, and those that have two.
    macro_rules! action {
        (
            { $($one:ident => $first:ident($name:ident);)* }
            { $($two:ident => $both:ident($left:ident, $right:ident);)* }
        ) => {
            match (code, first, second) {
                (ffi::SQLITE_SELECT, ..) => A::Select,
                (ffi::SQLITE_RECURSIVE, ..) => A::Recursive,
                (ffi::SQLITE_FUNCTION, _, Some(function_name)) => A::Function { function_name },
                (ffi::SQLITE_PRAGMA, Some(pragma_name), pragma_value) => A::Pragma { pragma_name, pragma_value },
                (ffi::SQLITE_TRANSACTION, ..) => A::Transaction { operation },
                (ffi::SQLITE_SAVEPOINT, _, Some(savepoint_name)) => A::Savepoint { operation, savepoint_name },
                $((ffi::$one, Some($name), _) => A::$first { $name },)*
                $((ffi::$two, Some($left), Some($right)) => A::$both { $left, $right },)*
                (code, arg1, arg2) => A::Unknown { code, arg1, arg2 },
            }
        };
    }
    action! {{
        SQLITE_INSERT => Insert(table_name);
        SQLITE_DELETE => Delete(table_name);
        SQLITE_CREATE_TABLE => CreateTable(table_name);
        SQLITE_CREATE_VIEW => CreateView(view_name);
        SQLITE_CREATE_TEMP_TABLE => CreateTempTable(table_name);
        SQLITE_CREATE_TEMP_VIEW => CreateTempView(view_name);
        SQLITE_DROP_TABLE => DropTable(table_name);
        SQLITE_DROP_VIEW => DropView(view_name);
        SQLITE_DROP_TEMP_TABLE => DropTempTable(table_name);
        SQLITE_DROP_TEMP_VIEW => DropTempView(view_name);
        SQLITE_ATTACH => Attach(filename);
        SQLITE_DETACH => Detach(database_name);
        SQLITE_REINDEX => Reindex(index_name);
        SQLITE_ANALYZE => Analyze(table_name);
    } {
        SQLITE_READ => Read(table_name, column_name);
        SQLITE_UPDATE => Update(table_name, column_name);
        SQLITE_CREATE_INDEX => CreateIndex(index_name, table_name);
        SQLITE_CREATE_TRIGGER => CreateTrigger(trigger_name, table_name);
        SQLITE_CREATE_VTABLE => CreateVtable(table_name, module_name);
        SQLITE_CREATE_TEMP_INDEX => CreateTempIndex(index_name, table_name);
        SQLITE_CREATE_TEMP_TRIGGER => CreateTempTrigger(trigger_name, table_name);
        SQLITE_DROP_INDEX => DropIndex(index_name, table_name);
        SQLITE_DROP_TRIGGER => DropTrigger(trigger_name, table_name);
        SQLITE_DROP_VTABLE => DropVtable(table_name, module_name);
        SQLITE_DROP_TEMP_INDEX => DropTempIndex(index_name, table_name);
        SQLITE_DROP_TEMP_TRIGGER => DropTempTrigger(trigger_name, table_name);
        SQLITE_ALTER_TABLE => AlterTable(database_name, table_name);
    }}
}
