"""Reconciliation of every debited release."""
