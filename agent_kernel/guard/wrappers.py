"""Wrappers: programs that run another program, and where in their words that program stands.

It may not decide anything: the finder and the rule loader look through it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Wrapper:
    """How one wrapper's words are read.

    `values` are short letters and `long` the long options that take the next word; `plain` are
    known options without one; `code` are options whose value is shell text; `skip` counts the
    wrapper's own operands; `after` are the subcommands it needs; `joined` means the rest is one
    shell text; `listed` wrappers may not be granted by a prefix rule.
    """

    values: str = ""
    long: tuple[str, ...] = ()
    plain: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    skip: int = 0
    assigns: bool = False
    after: tuple[str, ...] = ()
    joined: bool = False
    listed: bool = True

    def inner(self, words: Sequence[str]) -> list[str]:
        """The words of the program that is run, read with the options known here."""
        starts = self.starts(words)
        return list(words[starts[0] :]) if starts else []

    def starts(self, words: Sequence[str]) -> list[int]:
        """Every place where the inner program may start, the likeliest first."""
        first = 1
        if self.after:
            if len(words) < 2 or not any(word in self.after for word in words[1:]):
                return []
            first = 1 + next(at for at, word in enumerate(words[1:], 1) if word in self.after)
        found: list[int] = []
        open_places = [(first, self.skip, False)]
        seen: set[tuple[int, int, bool]] = set()
        while open_places:
            place = open_places.pop()
            if place in seen:
                continue
            seen.add(place)
            if self._is_start(words, place):
                found.append(place[0])
            elif place[0] < len(words):
                open_places.extend(self._next(words, place))
        return found

    def texts(self, words: Sequence[str]) -> list[int]:
        """The places of words holding shell text for a `code` option, attached values too."""
        return [
            at
            for at, word in enumerate(words[1:], 1)
            if any(self._holds(option, words, at, word) for option in self.code)
        ]

    def _holds(self, option: str, words: Sequence[str], at: int, word: str) -> bool:
        if option.startswith("--"):
            return word.startswith(option + "=") or words[at - 1] == option
        before = words[at - 1]
        clustered = before[:1] == "-" and before[:2] != "--" and before.endswith(option[1])
        attached = word.startswith(option) and len(word) > 2
        return clustered or attached

    def _is_start(self, words: Sequence[str], place: tuple[int, int, bool]) -> bool:
        at, skip, ended = place
        if at >= len(words) or skip:
            return False
        word = words[at]
        option = word.startswith("-") and (len(word) > 1 or self.assigns) and not ended
        return not option and not (self.assigns and "=" in word)

    def _next(
        self, words: Sequence[str], place: tuple[int, int, bool]
    ) -> list[tuple[int, int, bool]]:
        at, skip, ended = place
        word = words[at]
        if word == "--" and not ended:
            return [(at + 1, skip, True)]
        if not word.startswith("-") or len(word) == 1 or ended:
            if self.assigns and ("=" in word or word == "-"):  # `env -` is `env -i`
                return [(at + 1, skip, ended)]
            return [(at + 1, skip - 1, ended)]
        if self._takes_next(word):
            return [(at + 2, skip, False)]
        if word.startswith("--") and "=" not in word and word not in self.plain:
            return [(at + 2, skip, False), (at + 1, skip, False)]  # the last one is read first
        return [(at + 1, skip, False)]

    def _takes_next(self, word: str) -> bool:
        if word.startswith("--"):
            return word in self.long
        for at, letter in enumerate(word[1:], 1):
            if letter in self.values:
                return at == len(word) - 1
        return False


SHELLS: Final = frozenset("sh bash dash zsh ksh fish rbash ash mksh".split())
SHELL: Final = Wrapper(values="oOc", long=("--rcfile", "--init-file"), code=("-c",))

WRAPPERS: Final[Mapping[str, Wrapper]] = {
    "env": Wrapper(
        "uC",
        ("--unset", "--chdir"),
        ("--ignore-environment", "--null"),
        code=("-S", "--split-string"),
        assigns=True,
    ),
    "timeout": Wrapper(
        "ks",
        ("--kill-after", "--signal"),
        ("--foreground", "--preserve-status", "--verbose"),
        skip=1,
    ),
    "nice": Wrapper("n", ("--adjustment",)),
    "ionice": Wrapper("cnpPu", ("--class", "--classdata"), ("--ignore",)),
    "nohup": Wrapper(),
    "setsid": Wrapper(plain=("--ctty", "--fork", "--wait")),
    "stdbuf": Wrapper("ioe", ("--input", "--output", "--error")),
    "time": Wrapper("fo", ("--format", "--output"), ("--append", "--portability", "--verbose")),
    "command": Wrapper(),
    "builtin": Wrapper(),
    "exec": Wrapper("a"),
    "xargs": Wrapper(
        "adEILnPs",
        ("--arg-file", "--delimiter", "--max-args", "--max-procs", "--max-chars"),
        ("--null", "--no-run-if-empty", "--verbose", "--interactive", "--exit", "--open-tty"),
    ),
    "parallel": Wrapper("jNnLsS", ("--jobs", "--max-args", "--joblog"), joined=True),
    "watch": Wrapper("n", ("--interval",), ("--differences", "--no-title"), joined=True),
    "flock": Wrapper(
        "wE",
        ("--timeout", "--conflict-exit-code"),
        ("--exclusive", "--shared", "--nonblock", "--unlock", "--close"),
        code=("-c", "--command"),
        skip=1,
    ),
    "busybox": Wrapper(),
    "toybox": Wrapper(),
    "script": Wrapper("cEIOBTm", code=("-c", "--command"), skip=99),
    "sudo": Wrapper(
        "ugCDhpRrTtU",
        ("--user", "--group", "--chdir", "--prompt", "--host"),
        ("--non-interactive", "--preserve-env", "--login", "--shell"),
        assigns=True,
    ),
    "doas": Wrapper("uC"),
    "su": Wrapper("cgGs", code=("-c", "--command"), skip=99),
    "chroot": Wrapper(skip=1),
    "unshare": Wrapper(
        "SGRw", ("--root", "--wd"), ("--user", "--net", "--mount", "--fork", "--pid")
    ),
    "strace": Wrapper("eopsuaEIOPSbX"),
    "ltrace": Wrapper("eopsuanlxA"),
    "ssh": Wrapper("bcDEeFIiJLlmOopQRSWw", skip=1, joined=True),
    "eval": Wrapper(joined=True),
    "trap": Wrapper(),
    "coproc": Wrapper(),
    "taskset": Wrapper(skip=1, listed=False),
    "chrt": Wrapper(skip=1, listed=False),
    "setpriv": Wrapper(listed=False),
    "systemd-run": Wrapper("pt", listed=False),
    "fakeroot": Wrapper(listed=False),
    "unbuffer": Wrapper(listed=False),
    "caffeinate": Wrapper("tw", listed=False),
    "valgrind": Wrapper(listed=False),
    "uv": Wrapper(
        "pw",
        ("--with", "--python", "--extra", "--group", "--project"),
        after=("run",),
        listed=False,
    ),
    "poetry": Wrapper(after=("run",), listed=False),
    "pipenv": Wrapper(after=("run",), listed=False),
    "hatch": Wrapper(after=("run",), listed=False),
    "conda": Wrapper("np", ("--name", "--prefix"), after=("run",), listed=False),
    "npx": Wrapper("p", ("--package",), ("--yes", "--no-install"), listed=False),
    "uvx": Wrapper("p", ("--from", "--with", "--python"), listed=False),
    "docker": Wrapper(
        "evpuwhl",
        ("--name", "--volume", "--env", "--user", "--workdir", "--network"),
        ("--rm", "--interactive", "--tty", "--detach"),
        skip=1,
        after=("run", "exec"),
        listed=False,
    ),
    "podman": Wrapper(
        "evpuwhl", ("--name", "--volume"), ("--rm",), skip=1, after=("run", "exec"), listed=False
    ),
    "kubectl": Wrapper("nc", ("--namespace", "--container"), skip=1, after=("exec",), listed=False),
}
