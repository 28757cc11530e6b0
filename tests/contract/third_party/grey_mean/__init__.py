"""One mean image per class, from one noisy sum."""
