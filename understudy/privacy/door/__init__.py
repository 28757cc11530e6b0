"""The door: handles to private records, and the checks on what is called there."""
