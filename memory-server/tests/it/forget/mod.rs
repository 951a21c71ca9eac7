//! Forgotten data is in no file beside the store, and no copy restores it.

mod beside;
mod ledger;
mod modes;
mod places;
mod services;
mod waiting;
