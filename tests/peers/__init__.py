"""Process tests of stick-tables shared by instances, one file a subject."""
