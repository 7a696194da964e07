"""Programs that others wrote for HAProxy, against weir, by subject."""
