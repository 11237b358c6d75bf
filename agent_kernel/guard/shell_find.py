"""Shell find: every program a bash text may run, over-approximated, for deny and ask.

It may not serve an allow: `dynamic` says that some name is known only at run time.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from agent_kernel.guard.commands import CODE_HEADS, NETWORK
from agent_kernel.guard.launchers import inline, launched, starts
from agent_kernel.guard.rules import interpreter
from agent_kernel.guard.shell import RESERVED
from agent_kernel.guard.shell_lex import Lexed, Loose, Redirect, Segment, lex
from agent_kernel.guard.shell_words import GIT_NETWORK, code_words, git_plain
from agent_kernel.guard.wrappers import SHELL, SHELLS, WRAPPERS, Wrapper

_DEEPEST: Final = 12
_SHALLOW: Final = 4  # launchers inside launchers are looked through this deep
_MOST_VALUES: Final = 6  # remembered of one variable
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]]*\])?\+?=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
_ECHOED = re.compile(
    r"(?:\$\(|`)\s*(?:echo|printf)\s+(?:-\w+\s+)*['\"]?([\w./ -]+?)['\"]?\s*(?:\)|`)"
)
# Setting one of these changes which program a later name is, or what it runs.
_POWERFUL = re.compile(
    r"PATH|IFS|BASH_ENV|ENV|PROMPT_COMMAND|PS4|SHELLOPTS|BASHOPTS|CDPATH|GLOBIGNORE|EDITOR|VISUAL|"
    r"(?:\w*_)?PAGER|LD_\w+|DYLD_\w+|GIT_\w+|PYTHON\w+|PERL5\w+|RUBY\w+|NODE_OPTIONS"
)
# Builtins that evaluate text in their words, quoted or not.
_EVALUATORS: Final = frozenset(
    "eval let declare typeset local export readonly test [ [[ printf read unset mapfile readarray "
    "trap alias compgen complete bind".split()
)
_REDIRECT_WRITES: Final = frozenset((">", ">>", ">|", "&>", "&>>", "<>", ">&"))
_QUIET_TARGETS: Final = frozenset(("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty", "-"))


@dataclass(frozen=True, slots=True)
class Found:
    """Names (as written and without folders), argvs with wrappers looked through, `dynamic` when
    a name or a piece of code is known at run time only; files read and written by redirects;
    `code` when a program that runs arbitrary code is among them."""

    names: frozenset[str]
    argvs: tuple[tuple[str, ...], ...]
    dynamic: bool
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    code: bool = False
    network: bool = False


@dataclass(slots=True)
class _Findings:
    argvs: dict[tuple[str, ...], None] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    reads: dict[str, None] = field(default_factory=dict)
    writes: dict[str, None] = field(default_factory=dict)
    variables: dict[str, list[str]] = field(default_factory=dict)
    dynamic: bool = False
    code: bool = False
    network: bool = False
    seen: set[str] = field(default_factory=set)
    piped: bool = False  # a shell reads its program from its input


def find(text: str) -> Found:
    """Every program `text` may run; never raises, and sets `dynamic` where it cannot know."""
    out = _Findings()
    try:
        _text(text, out, 0)
        for argv in list(out.argvs) if out.piped else ():
            if argv[0] in ("echo", "printf"):
                _text(" ".join(word for word in argv[1:] if not word.startswith("-")), out, 1)
    except RecursionError:  # nested deeper than any honest text
        _crude(text, out)
    return Found(
        frozenset(out.names),
        tuple(out.argvs),
        out.dynamic,
        tuple(out.reads),
        tuple(out.writes),
        out.code,
        out.network,
    )


def _text(text: str, out: _Findings, depth: int) -> None:
    if text in out.seen:
        return
    out.seen.add(text)
    if depth > _DEEPEST:
        _crude(text, out)
        return
    lexed = lex(text)
    _variables(lexed, out)
    in_case = 0
    for segment in lexed.segments:
        head = segment.words[0].text if segment.words else ""
        pattern = in_case and segment.after == ")" and segment.before in ("", "\n", ";;", ";&", "(")
        in_case += (head == "case") - (head == "esac")
        if not pattern:
            _segment(segment, out, depth)
        _redirects(segment, out, depth)
    for code in lexed.inner:
        _text(code, out, depth + 1)
    if lexed.broken:
        _crude(text, out)


def _variables(lexed: Lexed, out: _Findings) -> None:
    """Remembers literal assignments, so that `x=rm; $x` is seen."""
    for segment in lexed.segments:
        for word in segment.words:
            match = _ASSIGNMENT.fullmatch(word.text)
            values = out.variables.setdefault(match[1], []) if match else []
            if match and match[2] not in values and len(values) < _MOST_VALUES:
                values.insert(0, match[2])


def _segment(segment: Segment, out: _Findings, depth: int) -> None:
    words = list(segment.words)
    while words:
        head = words[0]
        match = _ASSIGNMENT.fullmatch(head.text)
        if match:
            _assignment(match, out, depth)
            if head.quoted:  # a quoted name is a command, a quoted value is none
                _argv(words, out, depth, segment.redirects)
            words.pop(0)
        elif head.text in RESERVED and not head.quoted:
            if segment.redirects or len(words) < len(segment.words):
                # behind a redirect or an assignment a shell word is a plain name
                _record(tuple(word.text for word in words), out)
            words = _past_reserved(words, out, depth)
        else:
            break
    if words:
        _argv(words, out, depth, segment.redirects)


def _past_reserved(words: list[Loose], out: _Findings, depth: int) -> list[Loose]:
    """The words after a shell word, none of them when they are data."""
    word = words[0].text
    if word in ("for", "select", "case"):
        return []
    if word == "[[":
        _evaluated(words, out, depth)
        return []
    if word == "function":
        return words[2:]
    if word == "coproc":
        # In a substitution bash 5.2 writes the name COPROC before the command, then runs it.
        _argv([Loose("COPROC"), *words[1:]], out, depth, [])
        if len(words) > 2:
            _argv(words[2:], out, depth, [])
    if word in ("in", "]]"):  # at the start of a command these are plain names
        _argv(words, out, depth, [])
        return []
    if word == "time":  # inside a pipeline it is a program of that name
        _argv(words, out, depth, [])
        return [word for word in words[1:] if word.text not in ("-p", "--")]
    return words[1:]


def _assignment(match: re.Match[str], out: _Findings, depth: int) -> None:
    if _POWERFUL.fullmatch(match[1]):
        out.dynamic = True
    if re.search(r"\$\(|`|<\(", match[2]):
        _text(match[2].replace("$(", ";").replace("`", ";"), out, depth + 1)


def _argv(words: Sequence[Loose], out: _Findings, depth: int, redirects: list[Redirect]) -> None:
    head = words[0]
    if head.dynamic or (head.live and head.text != "["):
        out.dynamic = True
    texts = tuple(word.text for word in words)
    _record(texts, out)
    if any(word.dynamic for word in words):
        for variant in _variants(texts, out.variables):
            _record(variant, out)
            _look_through([Loose(text) for text in variant], out, depth + 1, redirects)
    _look_through(words, out, depth, redirects)


def _record(argv: tuple[str, ...], out: _Findings) -> None:
    out.argvs.setdefault(argv)
    base = posixpath.basename(argv[0]) or argv[0]
    out.names |= {argv[0], base}
    if base != argv[0]:
        out.argvs.setdefault((base, *argv[1:]))
    if base == "git":
        stripped = git_plain(argv)
        out.argvs.setdefault(("git", *stripped))
        out.network = out.network or (bool(stripped) and stripped[0] in GIT_NETWORK)
    out.code = out.code or base in CODE_HEADS or interpreter(base) or base in SHELLS
    out.network = out.network or base in NETWORK


def _variants(texts: tuple[str, ...], variables: dict[str, list[str]]) -> Iterable[tuple[str, ...]]:
    """The argv with known variables and `$(echo …)` put in, split at blanks as bash would."""
    for number in range(_MOST_VALUES):
        line: list[str] = []
        for text in texts:
            known = _VARIABLE.sub(partial(_value, variables=variables, number=number), text)
            known = _ECHOED.sub(lambda match: match[1], known)
            known = known.replace("${IFS}", " ").replace("$IFS", " ")
            line += known.split() if known != text else [text]
        if not line or tuple(line) == texts:
            return
        yield tuple(line)
        if not any(number + 1 < len(values) for values in variables.values()):
            return


def _value(match: re.Match[str], variables: dict[str, list[str]], number: int) -> str:
    values = variables.get(match[1] or match[2]) or [match[0]]
    return values[min(number, len(values) - 1)]


def _look_through(
    words: Sequence[Loose], out: _Findings, depth: int, redirects: list[Redirect]
) -> None:
    if depth > _DEEPEST:
        out.dynamic = True
        return
    name = posixpath.basename(words[0].text)
    texts = [word.text for word in words]
    if name in _EVALUATORS:
        _evaluated(words, out, depth)
    for code in (*code_words(name, texts), *launched(name, texts)):
        _text(code, out, depth + 1)
    _launched(name, words, out, depth)
    if name in SHELLS:
        _shell(words, out, depth, redirects)
    elif name in WRAPPERS:
        _wrapper(name, WRAPPERS[name], words, out, depth)
    elif name in ("find", "fd", "fdfind"):
        _executed(words, out, depth)
    elif name in ("enable", "hash", "fc", "exec"):
        out.dynamic = True


def _wrapper(
    name: str, wrapper: Wrapper, words: Sequence[Loose], out: _Findings, depth: int
) -> None:
    texts = [word.text for word in words]
    if name == "command" and any(re.fullmatch(r"-\w*[vV]\w*", text) for text in texts[1:2]):
        return
    for at in wrapper.texts(texts):
        _code_word(words[at], out, depth)
    for start in wrapper.starts(texts):
        if name == "trap":
            _code_word(words[start], out, depth)
        elif wrapper.joined:
            joined = " ".join(texts[start:])
            out.dynamic = out.dynamic or any(word.dynamic for word in words[start:])
            _text(joined, out, depth + 1)
        elif depth < _DEEPEST:
            _argv(words[start:], out, depth + 1, [])
        else:
            out.dynamic = True
    if name == "exec":
        out.dynamic = out.dynamic or any(word.dynamic for word in words[1:])


def _launched(name: str, words: Sequence[Loose], out: _Findings, depth: int) -> None:
    """The programs a launcher may run: every word it could start with, or that is shell text."""
    for at in starts(name, [word.text for word in words]):
        for code in inline(words[at].text):
            _text(code, out, depth + 1)
        _record(tuple(word.text for word in words[at:]), out)
        if depth < _SHALLOW:
            _look_through(words[at:], out, depth + 4, [])


def _shell(words: Sequence[Loose], out: _Findings, depth: int, redirects: list[Redirect]) -> None:
    texts = [word.text for word in words]
    codes = SHELL.texts(texts)
    for at in codes:
        _code_word(words[at], out, depth)
    if not codes and not SHELL.starts(texts):  # the shell reads its program from its input
        out.piped = True
        bodies = [redirect for redirect in redirects if redirect.operator.startswith("<<")]
        out.dynamic = out.dynamic or not bodies


def _code_word(word: Loose, out: _Findings, depth: int) -> None:
    out.dynamic = out.dynamic or word.dynamic
    text = word.text
    if text.startswith("-"):
        text = text.partition("=")[2] if text.startswith("--") else text[2:]
    _text(text, out, depth + 1)


def _executed(words: Sequence[Loose], out: _Findings, depth: int) -> None:
    """The commands of `find -exec … ;` and `fd -x …`."""
    for at, word in enumerate(words):
        if re.fullmatch(r"-(?:exec|execdir|ok|okdir|x|X)|--exec(?:-batch)?", word.text):
            inner: list[Loose] = []
            for following in words[at + 1 :]:
                if following.text in (";", "+"):
                    break
                inner.append(following)
            if inner:
                _argv(inner, out, depth + 1, [])


def _evaluated(words: Sequence[Loose], out: _Findings, depth: int) -> None:
    """The code hidden in words a builtin evaluates: array subscripts, trap and alias texts."""
    name = words[0].text
    for word in words[1:]:
        match = _ASSIGNMENT.fullmatch(word.text)
        if name in ("declare", "typeset", "local", "export", "readonly") and match:
            _assignment(match, out, depth)
        if name == "alias" and match:
            _text(match[2], out, depth + 1)
        if re.search(r"\$\(|`", word.text):
            _text(re.sub(r"\$\(|`|\)", ";", word.text), out, depth + 1)


def _redirects(segment: Segment, out: _Findings, depth: int) -> None:
    for redirect in segment.redirects:
        target = redirect.target.text
        if redirect.operator in ("<<", "<<-"):
            _body(redirect.body, out, depth)
        elif redirect.operator == "<<<":
            _body(target, out, depth)
        elif redirect.operator in _REDIRECT_WRITES:
            if not (target in _QUIET_TARGETS or target.isdigit() or _is_descriptor(target)):
                out.writes.setdefault(target)
        elif redirect.operator == "<":
            out.reads.setdefault(target)
        if "/dev/tcp/" in target or "/dev/udp/" in target:
            out.network = True


def _is_descriptor(target: str) -> bool:
    return re.fullmatch(r"\d+-?|/dev/fd/\d+|&?\d+", target) is not None


def _body(text: str, out: _Findings, depth: int) -> None:
    """Reads a here-document as code, since it may be fed to a shell; its prose is not dynamic."""
    dynamic = out.dynamic
    _text(text, out, depth + 1)
    out.dynamic = dynamic


def _crude(text: str, out: _Findings) -> None:
    """Every word that could start a command, for text that is not understood."""
    out.dynamic = True
    for piece in re.split(r"[;&|()\n{}`<>\"']|\$\(|\b(?:then|do|else|if|while|until)\b", text):
        words = piece.split()
        while words and (_ASSIGNMENT.fullmatch(words[0]) or words[0] in RESERVED):
            words.pop(0)
        if words:
            _record(tuple(words[:200]), out)
