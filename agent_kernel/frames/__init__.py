"""Frames: session logs as tables."""
