"""Files that `understudy bench new-method` copies; they are modules, so they are checked."""
