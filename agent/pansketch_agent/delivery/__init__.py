"""The retransmission policy: in-flight window, retries, deferrals."""
