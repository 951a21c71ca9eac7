mod locomo;
mod ranking;
mod spec;
mod speed;
