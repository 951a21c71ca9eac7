mod locomo;
mod ranking;
mod segments;
mod spec;
