//! A full disk refuses writes with a typed error; nothing acknowledged is lost, reads and deletes go on.
