//! `import` and `export`.

mod conversations;
mod importing;
mod records;
mod shared_data;
mod turns;
