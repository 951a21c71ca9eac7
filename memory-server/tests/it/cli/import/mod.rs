//! `import` and `export`.

mod beside;
mod conversations;
mod corrected;
mod foreign;
mod importing;
mod records;
mod shared_data;
mod turns;
