"""Which release is sent when: in-flight window, retries, deferrals."""
