"""Configuration, broker, devices, disks, clocks and hostile clients."""
