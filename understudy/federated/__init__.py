"""Many users, each with a filter of their own: what is agreed, sent, checked and merged."""
