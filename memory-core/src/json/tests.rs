//! The specification of the module, as tests.
