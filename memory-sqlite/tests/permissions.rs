//! Files are private from the moment they exist, whatever the umask.
