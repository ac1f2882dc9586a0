"""The evidence for the privacy guarantee: the parts of `pansketch audit`.

No code here is on a device's path from reading to release. This package may start processes, read
memory and measure time. The rest of the library may not.
"""
