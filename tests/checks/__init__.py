"""Health checks of the program as a process, by subject."""
