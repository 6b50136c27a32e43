"""What the daemon tells its operator."""
