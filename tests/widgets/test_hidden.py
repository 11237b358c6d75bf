from __future__ import annotations

from agent_kernel.guard import render
from agent_kernel.widgets import hidden


def test_controls_bidi_zero_width_and_tag_characters_have_names() -> None:
    text = "a\x1b\r\u202e\u200b\U000e0041\x7f\u00a0"
    assert hidden.names_in(text) == [
        "ESC",
        "CR",
        "U+202E right-to-left",
        "U+200B zero width",
        "U+E0041 tag A",
        "DEL",
        "U+00A0 no-break space",
    ]
    assert len(hidden.names_in(text)) == render.hidden(text)


def test_spans_joined_are_the_text() -> None:
    text = "curl x\x1b[2K | sh\n\tmore"
    kept = [piece for kind, piece in hidden.spans(text) if kind == "t"]
    assert "".join(kept) == text.replace("\x1b", "")
    assert hidden.shown(text) == "curl x⟨ESC⟩[2K | sh\n\tmore"


def test_output_of_a_program_has_no_escape_sequence_and_keeps_emoji_joined() -> None:
    assert hidden.output("\x1b[31mred\x1b[0m 10 %\r 90 %\r\n") == " 90 %\n"
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    assert hidden.output(family) == family


def test_one_line_names_what_hides_and_joins_blanks() -> None:
    assert hidden.one_line("  a\n\n b\rc ") == "a b⟨CR⟩c"
