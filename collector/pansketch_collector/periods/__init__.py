"""Questions over time: a series of answers by window, day or device, and two periods compared."""
