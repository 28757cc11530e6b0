"""One file or folder per method; the contract they share; the registry that finds them."""
