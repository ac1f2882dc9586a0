"""The main loop, and one worker for each stream."""
