"""Where tasks run: one small interface, and the local machine behind it."""
