mod locomo;
mod ranking;
mod spec;
