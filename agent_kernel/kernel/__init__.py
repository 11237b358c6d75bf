"""Kernel: the roof over all rooms: the notebook kernel, its cells, commands and displays.

Importing this package loads nothing: a kernel loads `extension.py`, the rest comes at first use.
"""
