//! What is forgotten is in no file beside the store, and comes back from no copy.

mod beside;
mod ledger;
mod modes;
mod places;
mod services;
mod waiting;
