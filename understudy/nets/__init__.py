"""Networks shared by methods and by evaluation."""
