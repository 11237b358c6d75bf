"""Widgets: what a person sees of a session, as pure functions of its events."""
