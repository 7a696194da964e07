"""Stick-tables that instances share, by processes, by subject."""
