"""Shell grammar: bash programs from a seed, from plain ones to everything bash knows."""

from __future__ import annotations

import random

NAMES = (
    "alpha beta gamma ls cat grep echo touch printf test true false : pwd head wc cd export eval "
    "command type rm env"
).split()
BARE = "abcxyz019_@%+,./^-"
QUOTABLE = "ab ;|&()<>#{}[]*?~=\\\n\t:,.'!é"
WILD_PIECES = (
    "$x", "${x}", "${x:-$(beta)}", "$(alpha b)", "`gamma c`", "$((1 + 2))", "$((a[$(alpha)]))",
    "{a,b}", "$'\\x74x'", "[ab]", "~", "\u00a0", "$(case x in x) beta;; esac)", "<(alpha q)",
    "$( # ) comment\nbeta )", "\"$(alpha \"$(beta)\")\"", "${x/a/`gamma`}", "$\"quoted\"", "\\\n",
    "\\n", "$(<in)", "$1", "$@", "\u200b", "\x07", "$(echo \")\")", "${#x}", "$[1+1]", "?(a)",
)  # fmt: skip
HARMLESS = (
    "2>/dev/null",
    ">/dev/null",
    "1>/dev/null",
    "&>/dev/null",
    "2>&1",
    "< in",
    "<in",
    "2> /dev/null",
    "< 'c d'",
)
WILD_REDIRECTS = (
    ">out",
    ">>out",
    "2>out",
    "&>out",
    "<<<word",
    ">&2",
    "3<in",
    "<>out",
    ">|out",
    "< $x",
    "> >(alpha)",
    "{fd}>out",
    "2>/dev/nullx",
    "2>&1x",
    '<<<"$(beta)"',
)
JOINS = (
    " && ",
    " || ",
    "; ",
    "\n",
    " | ",
    ";",
    "&&",
    "||",
    "|",
    "\n\n",
    " # note; it's\n",
    ";\n",
    " &&\n",
    " |\n# c\n",
)
NOISE = "'\"\\$`;|&()<>{}[]*?#! \n\t=~\r"


def program(rng: random.Random) -> str:
    """One program: mostly of the accepted grammar, partly wild, sometimes damaged."""
    wild = rng.random() < 0.55
    text = _list(rng, wild, 0)
    if rng.random() < 0.15:
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice(NOISE) + text[at + rng.randrange(2) :]
    return text


def _list(rng: random.Random, wild: bool, depth: int) -> str:
    pieces = [_command(rng, wild, depth)]
    for _ in range(rng.choice((0, 0, 1, 1, 2, 3))):
        join = rng.choice(JOINS)
        if wild and rng.random() < 0.1:
            join = rng.choice((" & ", " |& ", ";;", "&", " ; ; ", "\r\n"))
        pieces += [join, _command(rng, wild, depth)]
    if rng.random() < 0.1:
        pieces.append(rng.choice((";", "\n", " # end", " &")))
    return "".join(pieces)


def _command(rng: random.Random, wild: bool, depth: int) -> str:
    if wild and depth < 3 and rng.random() < 0.3:
        return _compound(rng, depth + 1)
    words = [_name(rng, wild)]
    words += [_word(rng, wild, words[0]) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    if rng.random() < 0.04:
        words = ["[", "-f", "in", "]"]
    if wild and rng.random() < 0.1:
        words.insert(0, rng.choice(("x=1", "x=$(beta)", "PATH=.", "a[0]=1", "x='$(alpha)'")))
    if rng.random() < 0.25:
        redirect = rng.choice(WILD_REDIRECTS if wild and rng.random() < 0.5 else HARMLESS)
        words.insert(rng.randrange(len(words) + 1), redirect)
    return rng.choice((" ", " ", "  ", "\t")).join(words)


def _compound(rng: random.Random, depth: int) -> str:
    def inner() -> str:
        return _list(rng, rng.random() < 0.6, depth)

    return rng.choice(
        (
            lambda: f"if {inner()}; then {inner()}; else {inner()}; fi",
            lambda: f"while {inner()}; do {inner()}; done",
            lambda: f"until {inner()}\ndo {inner()}\ndone",
            lambda: f"for i in a b; do {inner()}; done",
            lambda: f"for ((i = 0; i < 2; i++)); do {inner()}; done",
            lambda: f"case x in x) {inner()};; *) {inner()};; esac",
            lambda: f"case $x in\n(a|b)\n{inner()}\n;;\nesac",
            lambda: f"( {inner()} )",
            lambda: f"{{ {inner()}; }}",
            lambda: f"f() {{ {inner()}; }}; f",
            lambda: f"function g {{ {inner()}\n}}\ng",
            lambda: f"! {inner()}",
            lambda: f"time {inner()}",
            lambda: f"coproc {inner()}",
            lambda: f"cat <<EOF\n{inner()}\nEOF\n{inner()}",
            lambda: f"cat <<'E F'\n{inner()}\nE F\n{inner()}",
            lambda: f"cat <<-EOF\n\tx $(beta)\n\tEOF\n{inner()}",
            lambda: f"[[ -f in && $(alpha) ]] && {inner()}",
            lambda: f"(( 1 + $(echo 1) )) ; {inner()}",
            lambda: f"echo $({inner()})",
            lambda: f'echo "a $({inner()}) b"',
            lambda: f"echo `{_list(rng, False, depth)}`",
            lambda: f"select i in a; do {inner()}; done",
        )
    )()


def _name(rng: random.Random, wild: bool) -> str:
    name = rng.choice(NAMES)
    at = rng.randrange(len(name) + 1)
    if wild and rng.random() < 0.08:
        return rng.choice(("$x", "$(echo beta)", "{ls,a}", "t?", "a$x", "`beta`", "$'ls'"))
    return rng.choice(
        (name, name, name, name, f"'{name}'", f'"{name}"', f"{name[:at]}''{name[at:]}")
    )


def _word(rng: random.Random, wild: bool, name: str) -> str:
    pieces = [_piece(rng, wild, name) for _ in range(rng.choice((1, 1, 1, 2, 3)))]
    return "".join(pieces)


def _piece(rng: random.Random, wild: bool, name: str) -> str:
    if wild and rng.random() < 0.2:
        return rng.choice(WILD_PIECES)
    kind = rng.randrange(8)
    if kind == 0:
        body = "".join(rng.choice(QUOTABLE) for _ in range(rng.randrange(6)))
        return "'" + body.replace("'", "") + "'"
    if kind == 1:
        body = "".join(rng.choice(QUOTABLE) for _ in range(rng.randrange(6)))
        return '"' + body.replace("\\", "").replace("!", "") + '"'
    if kind == 2:
        return "\\" + rng.choice(" ;|&()<>$`'\"*?[]{}#!~=,.")
    if kind == 3 and name in ("ls", "cat", "grep", "head", "wc"):
        return rng.choice(("*", "*.py", "?.py", "s/*", ".h*", "nothing*", "*d"))
    if kind == 4:
        return rng.choice(("-n", "--flag=v", "HEAD~1", "a#b", "x=y", "a:b", "!", "]", "-", "--"))
    return "".join(rng.choice(BARE) for _ in range(rng.randrange(1, 6)))
