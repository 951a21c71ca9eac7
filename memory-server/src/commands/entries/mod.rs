//! Keys and values.

mod reading;
mod reembed;
mod search;
mod shown;
mod writing;

pub(crate) use reading::{GetArgs, ListArgs, get, list};
pub(crate) use reembed::{ReembedArgs, run as reembed};
pub(crate) use search::{SearchArgs, run as search};
pub(crate) use writing::{DeleteArgs, IncrArgs, SetArgs, UpdateArgs, delete, incr, set, update};
