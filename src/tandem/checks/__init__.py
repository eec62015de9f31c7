"""What must hold before and after a run: pure functions over plain data."""
