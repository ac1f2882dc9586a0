"""The append-only privacy ledger, and the state folder that holds it."""
