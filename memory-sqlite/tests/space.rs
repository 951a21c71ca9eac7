//! Space: what expires is given back, reads do not write one by one, the log does not grow without bound.
