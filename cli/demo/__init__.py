"""`ossia demo`: a recorded turn, replayed in the real chat with the real tools."""
