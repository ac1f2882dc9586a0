"""The server program: ingests the releases of a fleet, stores them, and answers queries."""

import os

# The equations of a fit are small: with more threads a fit mostly waits, on a busy machine four
# times as long. Before NumPy is imported, and for all processes that follow.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
