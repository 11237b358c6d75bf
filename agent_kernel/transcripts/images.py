"""Images: width and height from the first bytes of a base64 picture.

May not decode pixels, nor trust a size it cannot read.
"""

from __future__ import annotations

import base64
import binascii
import struct

_HEAD = 64 * 1024
_Size = tuple[int | None, int | None]


def measure(data: str) -> _Size:
    """Return (width, height) in pixels of a PNG, GIF or JPEG; (None, None) for anything else."""
    head = data[:_HEAD]
    try:
        raw = base64.b64decode(head[: len(head) // 4 * 4])
    except (binascii.Error, ValueError):
        return None, None
    if raw.startswith(b"\x89PNG\r\n\x1a\n") and len(raw) >= 24:
        width, height = struct.unpack(">II", raw[16:24])
        return width, height
    if raw[:6] in (b"GIF87a", b"GIF89a") and len(raw) >= 10:
        width, height = struct.unpack("<HH", raw[6:10])
        return width, height
    return _jpeg(raw) if raw.startswith(b"\xff\xd8") else (None, None)


def _jpeg(raw: bytes) -> _Size:
    """Walk the segments to the frame header (ITU T.81, markers C0 to CF without C4, C8, CC)."""
    place = 2
    while place + 9 < len(raw) and raw[place] == 0xFF:
        marker, size = raw[place + 1], int.from_bytes(raw[place + 2 : place + 4], "big")
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", raw[place + 5 : place + 9])
            return width, height
        place += 2 + size
    return None, None
