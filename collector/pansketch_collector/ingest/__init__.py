"""Ingestion: validate, commit and acknowledge messages, and log rejections."""
