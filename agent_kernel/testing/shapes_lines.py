"""Shapes of lines: streamed responses, copies, damage, odd bytes, odd values, prices.

May not hold a line of a real session.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

from agent_kernel.testing.script import (
    OPUS,
    Buckets,
    Expected,
    Script,
    dollars,
    expected,
    message_id,
    said,
    tokens,
    use,
)

_A: Buckets = (10, 400, 1000, 0, 0)
_B: Buckets = (2, 300, 50, 200, 1000)


def _streamed() -> Script:
    s = Script()
    s.user("please fix the parser")
    for out, block in ((3, said("I look.")), (40, use("Read", 1, file_path="/src/a.py"))):
        s.answer(1, [block], (10, out, 1000, 0, 0))
    s.answer(1, [use("Grep", 2, pattern="x")], (10, 120, 1000, 0, 0))
    s.answer(1, [said("Done looking.")], _A)
    return s


def one_response_over_four_lines(folder: Path) -> Expected:
    """1: the output grows from line to line; the largest counts, once."""
    _streamed().write(folder)
    return expected(_A, tables={"calls": {"lines": [4]}, "tools": {"name": ["Read", "Grep"]}})


def the_same_lines_shuffled(folder: Path) -> Expected:
    """2: the order of lines changes no number."""
    s = _streamed()
    random.Random(7).shuffle(s.lines)
    s.write(folder)
    return expected(_A, tables={"calls": {"lines": [4]}})


def undecodable_line_mid_file(folder: Path) -> Expected:
    """7: a broken line is a record and an issue; its neighbours are whole."""
    s = _streamed()
    s.lines.insert(2, b'{"type":"user","message":{"content":"broken \\q"}}\n')
    s.write(folder)
    return expected(
        _A, issues={"bad_json": 1}, tables={"records": {"parse_status": _status(6, 2, "bad_json")}}
    )


def _status(count: int, at: int, what: str) -> list[str]:
    return [what if number == at else "ok" for number in range(count)]


def torn_tail(folder: Path) -> Expected:
    """8: the last line is cut; what stands before it counts."""
    s = _streamed()
    s.answer(2, [said("never finished")], _B)
    s.lines[-1] = s.lines[-1][:-40]
    s.write(folder)
    return expected(_A, issues={"torn_tail": 1})


def empty_file(folder: Path) -> Expected:
    """9: nothing is read and nothing is wrong."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "empty.jsonl").write_bytes(b"")
    return Expected()


def only_blank_lines(folder: Path) -> Expected:
    """10: blank lines are no records."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "blank.jsonl").write_bytes(b"\n \n\r\n\n")
    return Expected()


def not_an_object(folder: Path) -> Expected:
    """A line that is JSON but no object is kept without fields."""
    s = _streamed()
    s.line(b"[1, 2]")
    s.write(folder)
    return expected(_A, issues={"not_object": 1})


def image_and_document_blocks(folder: Path) -> Expected:
    """27, 28: pictures have a kind and a size and no characters."""
    s = Script()
    png = "iVBORw0KGgoAAAANSUhEUgAAAAoAAAAUCAYAAAC07w7bAAAAAElFTkSuQmCC"
    source = {"type": "base64", "media_type": "image/png", "data": png}
    pdf = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQK"}
    s.user([said("see"), {"type": "image", "source": source}, {"type": "document", "source": pdf}])
    s.answer(1, [said("A picture.")], _A)
    s.write(folder)
    kinds = ["text", "image", "document", "text"]
    table = {"kind": kinds, "width": [None, 10, None, None], "chars": [3, 0, 0, 10]}
    return expected(_A, tables={"blocks": table})


def synthetic_error_message(folder: Path) -> Expected:
    """29, 30: retries and an error written as a message are no calls."""
    s = Script()
    s.user("go")
    s.node("system", subtype="api_error", error={"status": 529}, retryInMs=500, retryAttempt=1)
    zero = tokens((0, 0, 0, 0, 0))
    text = [said("API Error: Overloaded")]
    s.answer(9, text, zero, model="<synthetic>", isApiErrorMessage=True)
    s.write(folder)
    return Expected(tables={"turns": {"end": ["error"]}})


def missing_request_id(folder: Path) -> Expected:
    """35: a gateway may omit the request id; the message id is the call's."""
    s = Script()
    s.user("go")
    s.answer(1, [said("a")], _A, requestId=None)
    s.answer(1, [said("b")], _A, requestId=None)
    s.write(folder)
    return expected(_A, tables={"calls": {"lines": [2]}})


def missing_message_id(folder: Path) -> Expected:
    """36: without a message id the request id stands in, then the place itself."""
    s = Script()
    s.user("go")
    s.answer(1, [said("a")], _A, id=None)
    s.answer(2, [said("b")], _B, id=None, requestId=None)
    s.write(folder)
    return expected(_A, _B, issues={"no_call_id": 1})


def replay_with_a_new_request_id(folder: Path) -> Expected:
    """37: a request id is shown, never a key."""
    s = Script()
    s.user("go")
    s.answer(1, [said("a")], _A)
    s.answer(1, [said("a")], _A, requestId="req_replayed")
    s.write(folder)
    return expected(_A)


def unknown_model(folder: Path) -> Expected:
    """38: an unknown model has no dollars, and says so."""
    s = Script()
    s.user("go")
    s.answer(1, [said("a")], _A, model="claude-unheard-of-9")
    s.answer(2, [said("b")], _B)
    s.write(folder)
    usd = {"usd_recorded": [None, dollars(_B)]}
    found = expected(_A, _B, issues={"unknown_model": 1}, tables={"calls": usd})
    found.usd = dollars(_B)
    return found


def fast_speed(folder: Path) -> Expected:
    """40: a speed without a price of its own is not priced at the standard rate."""
    s = Script()
    s.user("go")
    s.answer(1, [said("a")], tokens(_A, speed="fast"))
    s.write(folder)
    found = expected(_A, issues={"price_modifier": 1})
    found.usd = None
    return found


def unknown_line_type(folder: Path) -> Expected:
    """41, 43: an unknown type is a record; unknown fields are nobody's concern."""
    s = _streamed()
    s.line({"type": "hologram", "sessionId": s.session, "beam": 3})
    s.user("more", entirelyNewField={"deep": [1]})
    s.write(folder)
    return expected(_A, issues={"unknown_type": 1})


def unknown_block_type(folder: Path) -> Expected:
    """42: the record stays; the block is named."""
    s = Script()
    s.user("go")
    s.answer(1, [said("a"), {"type": "hologram", "beam": 3}], _A)
    s.write(folder)
    return expected(_A, issues={"unknown_block": 1})


def odd_bytes_inside_a_line(folder: Path) -> Expected:
    """44, 45, 46: U+2028 and U+0085 are text, a lone surrogate and a NUL are read."""
    s = Script()
    s.user("line\u2028and\u0085next")
    s.lines[-1] = json.dumps(json.loads(s.lines[-1]), ensure_ascii=False).encode() + b"\n"
    s.user("surrogate X here")
    s.lines[-1] = s.lines[-1].replace(b"X", b"\\ud800")
    s.user("nul X here")
    s.lines[-1] = s.lines[-1].replace(b"X", b"\x00")
    s.answer(1, [said("a")], _A)
    s.write(folder)
    return expected(_A, tables={"blocks": {"chars": [13, 16, 10, 1]}})


def bom_and_crlf(folder: Path) -> Expected:
    """47: a byte order mark and CRLF change nothing."""
    s = _streamed()
    s.lines = [line[:-1] + b"\r\n" for line in s.lines]
    s.lines[0] = b"\xef\xbb\xbf" + s.lines[0]
    s.write(folder)
    return expected(_A)


def long_and_short_writes_mixed(folder: Path) -> Expected:
    """49: each write has the price of its time to live."""
    s = Script()
    s.user("go")
    s.answer(1, [said("a")], (1, 2, 300, 700, 5))
    s.write(folder)
    return expected((1, 2, 300, 700, 5), tables={"calls": {"write_split": ["recorded"]}})


def only_the_sum_of_writes(folder: Path) -> Expected:
    """50: without a split all writes are 5-minute writes, and it is said."""
    s = Script()
    s.user("go")
    usage = tokens((1, 2, 300, 700, 5))
    del usage["cache_creation"]
    s.answer(1, [said("a")], usage)
    s.write(folder)
    return expected((1, 2, 1000, 0, 5), tables={"calls": {"write_split": ["assumed_5m"]}})


def split_not_equal_to_sum(folder: Path) -> Expected:
    """51: the rest counts as 5 minutes, with an issue."""
    s = Script()
    s.user("go")
    usage = tokens((1, 2, 300, 700, 5))
    usage["cache_creation_input_tokens"] = 1500
    s.answer(1, [said("a")], usage)
    s.write(folder)
    call: Buckets = (1, 2, 800, 700, 5)
    return expected(call, issues={"cache_split_mismatch": 1})


def output_quality(folder: Path) -> Expected:
    """52, 53, 54: placeholder, partial and final output of 300 visible characters each."""
    s = Script(version="2.1.12")
    s.user("go")
    calls: list[Buckets] = [(1, 2, 0, 0, 0), (1, 50, 0, 0, 0), (1, 100, 0, 0, 0)]
    for number, call in enumerate(calls):
        s.answer(number, [said("x" * 300)], call)
    s.write(folder)
    table = {
        "output_quality": ["placeholder", "partial", "final"],
        "output_est": [100, 100, 100],
        "output_low": [88, 88, 88],
        "output_high": [115, 115, 115],
    }
    return expected(*calls, tables={"calls": table})


def iterations_with_a_compaction(folder: Path) -> Expected:
    """55: a server-side compaction is a call of its own, not in the top-level totals."""
    s = Script()
    s.user("go")
    inner = tokens((7, 70, 0, 0, 700)) | {"type": "compaction"}
    s.answer(1, [said("a")], tokens(_A, iterations=[inner, {"type": "message"}]))
    s.write(folder)
    table = {
        "call_id": [message_id(1), f"{message_id(1)}#it0"],
        "agent_kind": ["main", "compaction"],
    }
    return expected(_A, (7, 70, 0, 0, 700), tables={"calls": table})


def known_model_on_an_undated_call(folder: Path) -> Expected:
    """39: without a time a model whose price changed has no rate."""
    s = Script()
    s.user("go")
    s.answer(1, [said("a")], _A, timestamp=None, model="claude-opus-4-6")
    s.answer(2, [said("b")], _B, timestamp=None, model=OPUS)
    s.write(folder)
    found = expected(_A, _B, issues={"no_rate": 1})
    found.usd = dollars(_B)
    return found


def a_field_of_the_wrong_type(folder: Path) -> Expected:
    """A number where text should be is read as absent, and said."""
    s = Script()
    s.user("go")
    s.answer(1, [said("a")], _A, sessionId=42)
    s.write(folder)
    return expected(_A, issues={"wrong_field": 1})
