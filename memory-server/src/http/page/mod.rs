//! The operator's page at `/`: what the store holds, as HTML without scripts. `docs/page.md` is for users;
//! `docs/spec/http.md` specifies how it is protected.
//!
//! It is a client of `/v1` in the same process: a view asks for its data as the token that signed in, so the token's
//! limits and the audit are those of the API. `router.rs` lets requests in; `views/` has the pages.

mod ask;
mod fields;
mod frame;
mod html;
mod place;
mod router;
mod sessions;
mod views;

pub(crate) use ask::{Beside, Page};
pub(crate) use router::{owns, router};
