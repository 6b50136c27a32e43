"""What is kept of compositions: audits, usage, and what became of the frames placed. It knows nothing of a wire."""
