//! Side-by-side measurements against other MPIs and raw sockets.
