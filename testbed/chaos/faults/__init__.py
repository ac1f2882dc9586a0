"""The schedule of faults, and the injector."""
