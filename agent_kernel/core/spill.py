"""Spill: long results cut to head and tail, the whole kept in a blob (features.md F4.15).

May not cut inside a code point or a secret: text is cleaned before it is cut.
"""

from __future__ import annotations

from agent_kernel.core.messages import Block, Json, Text
from agent_kernel.core.session import Session

INLINE_BYTES = 50_000


def spilled(session: Session, content: tuple[Block, ...], meta: Json) -> tuple[Block, ...]:
    """Return `content` with long text cut to head 4/5 and tail 1/5; `meta` gains the blob's
    hash."""
    out: list[Block] = []
    for block in content:
        raw = block.text.encode("utf-8", "surrogatepass") if isinstance(block, Text) else b""
        if len(raw) <= INLINE_BYTES or not isinstance(block, Text):
            out.append(block)
            continue
        raw = session.clean(block.text).encode("utf-8", "surrogatepass")  # before a cut splits one
        sha = session.blobs.put(raw)
        meta.update(truncated=True, original_bytes=len(raw), blob=sha)
        where = str(session.blobs.path(sha)) if session.blobs.folder else f"blob {sha}"
        out.append(Text(cut_text(raw, INLINE_BYTES, where)))
    return tuple(out)


def cut_text(raw: bytes, limit: int, where: str) -> str:
    """Return head and tail of UTF-8 text within `limit` bytes, whole code points, the gap named."""
    rest = f"of {len(raw):,} bytes left out; the whole is in {where}: read it there"
    notice = f"\n[… {{left:,}} {rest} …]\n"
    room = limit - len(notice.encode()) - 24
    head, tail = raw[: room * 4 // 5], raw[len(raw) - room // 5 :]
    head_text = head.decode("utf-8", "ignore")
    tail_text = tail.decode("utf-8", "ignore")
    return head_text + notice.format(left=len(raw) - len(head) - len(tail)) + tail_text
