"""DP-SGD: sessions of noisy gradient steps, and the engine that computes them."""
