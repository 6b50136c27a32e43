"""Gathering: provider instances behind one narrow port, one request's lanes, deadlines, quarantine."""
