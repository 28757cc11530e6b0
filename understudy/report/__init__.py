"""Reports on a run: the owner's and the shareable one."""
