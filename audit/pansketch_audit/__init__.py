"""The evidence that the promise holds: what `pansketch audit` runs.

Nothing here is on a device's way from reading to release. This package may start processes, read
memory and measure time, which the rest of the library may not.
"""
