//! What is found at the path is judged before it is touched: success, or a typed error and the same bytes as before.
