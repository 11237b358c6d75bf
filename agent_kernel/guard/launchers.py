"""Launchers: programs that run another one named somewhere among their words or by a flag.

It serves the finder, over-approximating: it may not decide, nor say where exactly the words start.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

_MOST_STARTS: Final = 12

# Any word of these may be the program they run, with the words after it, or be shell text.
ANYWHERE: Final = frozenset(
    "pkexec runuser nsenter firejail bwrap proot fakechroot faketime eatmydata perf gdb lldb "
    "script tmux screen dbus-run-session dbus-launch xvfb-run start-stop-daemon entr socat "
    "docker-compose hyperfine setarch linux32 linux64 i386 x86_64 prlimit cpulimit capsh choom "
    "numactl cgexec systemd-inhibit ssh-agent gpg-agent dtach abduco nodemon concurrently "
    "npm-run-all lerna turbo nx tox nox pdm rye chpst setuidgid gosu su-exec tini dumb-init "
    "catatonit with-contenv envdir softlimit dotenv cross-env cross-env-shell env-cmd rlwrap "
    "ifne chronic pee retry logsave direnv asdf mise rtx rbenv pyenv nodenv goenv nix nix-shell "
    "pipx bundle bundler yarn pnpm npm bun deno inotifywait watchexec watchmedo reflex air at "
    "batch crontab runsv daemonize expect unbuffer ts torsocks proxychains proxychains4 tsocks "
    "heroku flyctl vagrant multipass lxc machinectl distrobox toolbox flatpak snap aa-exec "
    "runcon newgrp sg seunshare pwsh powershell cmd rsh rlogin mosh ansible env-exec aws-vault "
    "op doppler chamber envconsul sops teller infisical kubectx oc nerdctl crictl ctr run-parts "
    "cmake ctest ninja meson scons bazel".split()
)
_LOADER = re.compile(r"ld(?:-linux|-musl)?[\w.-]*\.so(?:\.\d+)*|ld\.so")

# Flags whose value is a program or shell text, by program; a trailing `*` covers longer names.
_FLAGS: Final[Mapping[str, tuple[str, ...]]] = {
    "split": ("--filter*",),
    "zip": ("-TT", "--unzip-command"),
    "man": ("-P", "-H", "--pager", "--html"),
    "sort": ("--compress-program*",),
    "cpio": ("--rsh-command",),
    "wget": ("--use-askpass",),
    "fzf": ("--preview*", "--bind*"),
    "bat": ("--pager",),
    "delta": ("--pager",),
    "install": ("--strip-program",),
    "sdiff": ("--diff-program",),
    "diff3": ("--diff-program",),
    "gcc": ("-wrapper",),
    "g++": ("-wrapper",),
    "cc": ("-wrapper",),
    "clang": ("-wrapper",),
    "go": ("-exec", "-toolexec", "-vettool"),
    "cargo": ("--config",),
    "scp": ("-S", "-o"),
    "sftp": ("-S", "-o"),
    "ssh": ("-o",),
    "rsync": ("-e", "--rsh", "--rsync-path"),
    "nc": ("-e", "-c", "--exec", "--sh-exec"),
    "ncat": ("-e", "-c", "--exec", "--sh-exec", "--lua-exec"),
    "tcpdump": ("-z",),
    "psql": ("-c", "--command"),
    "mysql": ("-e", "--execute"),
    "mariadb": ("-e", "--execute"),
    "sqlite3": ("-cmd",),
    "npx": ("-c", "--call"),
    "curl": ("-K",),
}
# What stands before the program in a word: `exec:`, `\\!`, `.shell`, `+!`, `start:execute(`.
_LEAD = re.compile(
    r"(?is)(?:.*?\b(?:exec|system|shell|execute|become)[(:]|\\!|\.(?:shell|system)\b|[+|]*!|"
    r"\w+command=|[\w.-]+=['\"]?)\s*(.+?)\)?"
)
_CODE = re.compile(r"(?s)(?:\\!|\.(?:shell|system)\s|\+?!)\s*(.+)")
_HEADS: Final = frozenset(
    "less more most psql mysql mariadb sqlite3 ex vi vim nvim view ed".split()
)


def launched(name: str, texts: Sequence[str]) -> Iterator[str]:
    """Shell text that the flags and the words of a program hold."""
    flags = _FLAGS.get(name, ())
    for at, text in enumerate(texts[1:], 1):
        key, equals, value = text.partition("=")
        if any(_is(key, flag) for flag in flags):
            given = value if equals else texts[at + 1] if at + 1 < len(texts) else ""
            yield from _code(given)
        elif any(len(flag) == 2 and text.startswith(flag) and len(text) > 2 for flag in flags):
            yield from _code(text[2:])
        match = _CODE.fullmatch(text) if name in _HEADS else None
        if match:
            yield match[1]
    if name == "sed":
        yield from _sed(texts[1:])


def starts(name: str, texts: Sequence[str]) -> list[int]:
    """The places in the words of a launcher where the program it runs may stand."""
    if name not in ANYWHERE and not _LOADER.fullmatch(name):
        return []
    found = [at for at, text in enumerate(texts) if at and text[:1] not in ("-", "+", "")]
    return found[:_MOST_STARTS]


def inline(text: str) -> Iterator[str]:
    """The shell text that one word of a launcher may be."""
    if re.search(r"\s", text.strip()):
        yield text
    match = _LEAD.fullmatch(text)
    if match:
        yield match[1]


def _is(key: str, flag: str) -> bool:
    return key.startswith(flag[:-1]) if flag.endswith("*") else key == flag


def _code(text: str) -> Iterator[str]:
    if text:
        yield text.replace(",", " ") if re.fullmatch(r"[\w./-]+(?:,[\w./ -]+)+", text) else text
        yield from inline(text)


def _sed(words: Sequence[str]) -> Iterator[str]:
    """The commands of `e COMMAND`, and the replacement of `s/…/COMMAND/e`, in a sed script."""
    for word in words:
        for command in re.finditer(r"(?:^|[;{}\n!\d$/])\s*e\s*([^\n;}]+)", word):
            yield command[1]
        match = re.search(r"s([/|,#!:@])(.*?)\1(.*?)\1[gpiImM\d]*e", word, re.DOTALL)
        if match:
            yield match[3]
