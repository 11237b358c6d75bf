"""Kernel: the roof over all rooms: the notebook kernel, its cells, commands and displays.

Importing this package loads nothing: `extension.py` is what a kernel loads, the rest comes at first use.
"""
