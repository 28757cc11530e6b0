"""Public encoders: what they compute, how they are taught, and the file that carries one."""
