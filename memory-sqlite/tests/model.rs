//! Random histories have the answers of the plain in-memory reference, search scores included.
