"""Paths: where a path text leads, what may not be written there, and opening exactly that.

It may not match rules (path_rules.py) or decide a call: it says what `stat` says, once.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import re
import secrets
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from agent_kernel.guard.shell import hidden

FileKind = Literal["file", "folder", "missing", "device"]

_PROTECTED_NAMES: Final = frozenset(
    ".git .gitmodules .gitattributes .envrc .vscode .idea .mcp.json .claude .cursor .agent_kernel "
    ".pre-commit-config.yaml conftest.py sitecustomize.py usercustomize.py .npmrc .netrc .ssh "
    ".gnupg .aws .bashrc .bash_profile .bash_login .bash_logout .profile .zshrc .zshenv .zprofile "
    ".bash_aliases .xinitrc .inputrc .lesskey .vimrc .exrc .emacs .gdbinit .lldbinit .pdbrc "
    ".curlrc .wgetrc .yarnrc .yarnrc.yml .pnpmfile.cjs .devcontainer .direnv .mise.toml "
    ".hg .svn .bzr .zlogin .jupyter .github .ipython .pypirc .condarc .gitconfig .husky".split()
)
_PROTECTED_SHAPES: Final = tuple(
    re.compile(shape)
    for shape in (
        r".*\.pth",
        r"(?:.*/)?kernels/[^/]+/kernel\.json",
        r"(?:.*/)?\.cargo/config(?:\.toml)?",
        r"(?:.*/)?\.config/agent_kernel(?:/.*)?",
        r"(?:.*/)?\.config/(?:git|fish|pip)(?:/.*)?",
    )
)
_SHORT_GIT: Final = re.compile(r"git~\d+")  # the eight-letter name of `.git`
_SECRET_NAMES: Final = (
    *(".env", ".env.*", ".env[!.]*", "*.pem", "*.p12", "*.pfx", "id_*", ".netrc"),
    *(".git-credentials", ".pgpass", ".pypirc"),
)
_SECRET_PLACES: Final = re.compile(
    r"(?:.*/)?(?:\.aws/credentials|\.docker/config\.json|\.kube/config|\.config/gcloud/.*|"
    r"\.gnupg/.*|\.ssh/id.*)"
)
_PUBLIC_NAMES: Final = frozenset((".env.example", ".env.sample", ".env.template", ".env.dist"))
_SYSTEM: Final = re.compile(
    r"/(?:etc|usr|bin|sbin|boot|lib\w*|opt|run|var(?!/(?:folders|tmp)/))(?:/.*)?"
)
_KEY_NAMES: Final = re.compile(r"id_(?:rsa|dsa|ecdsa|ed25519|xmss)(?:_sk)?(?:[._-].*)?")


@dataclass(frozen=True, slots=True)
class Target:
    """Where a path text leads: `lexical` is folded only, `real` has every link followed.

    `link` is "out" when a link leads out of the roots, "dangling" when it leads nowhere;
    `links` counts the hard links of a regular file.
    """

    text: str
    lexical: str
    real: str
    kind: FileKind
    inside: bool
    link: Literal["", "out", "dangling"] = ""
    links: int = 1


@dataclass(frozen=True, slots=True)
class Problem:
    """A path that is not resolved: ask, deny or error, and why."""

    verdict: Literal["ask", "deny", "error"]
    why: str


class ChangedDuringCheck(OSError):
    """The file system is no longer what was judged; nothing was read or written."""


def resolve(text: str, cwd: str, roots: Sequence[str], home: str = "") -> Target | Problem:
    """Where `text` leads from `cwd`, or the Problem that stops it before any lookup."""
    problem = _text_problem(text)
    if problem:
        return problem
    lexical = expand(text, cwd, home)
    problem = _special(lexical)
    if problem:
        return problem
    try:
        real = os.path.realpath(os.path.join(cwd, _at_home(text, home)))  # `..` after its links
    except OSError:
        return Problem("error", f"{text!r} changed during the check; look at it again")
    problem = _special(real)
    if problem:
        return problem
    kind, links = _kind(real)
    reals = [os.path.realpath(root) for root in roots]
    inside = within(real, reals)
    link: Literal["", "out", "dangling"] = ""
    if within(lexical, roots) and not inside:
        link = "out"
    elif kind == "missing" and os.path.islink(lexical):
        link = "dangling"
    return Target(text, lexical, real, kind, inside, link, links)


def expand(text: str, cwd: str, home: str = "") -> str:
    """The absolute path of `text` with `~/`, `.`, `..` and `//` folded, links untouched."""
    folded = os.path.normpath(os.path.join(cwd, _at_home(text, home)))
    return folded[1:] if folded.startswith("//") else folded


def _at_home(text: str, home: str) -> str:
    if text == "~" or text.startswith("~/"):
        return (home or os.path.expanduser("~")) + text[1:]
    return text


def within(path: str, roots: Iterable[str]) -> bool:
    """Whether `path` is one of the roots or lies under one, compared part by part."""
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)


def fold(path: str) -> str:
    """`path` as a disk without case and with one form of each letter would compare it."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def protected(target: Target, notebook: str = "") -> str:
    """Why a write to the target asks in every mode, or ''; looks at both readings of the path."""
    for path in {target.lexical, target.real}:
        why = protected_path(path)
        if why:
            return why
    if notebook and os.path.realpath(notebook) == target.real:
        return f"{target.text!r} is the open notebook"
    return ""


def protected_path(path: str) -> str:
    """Why a write to that absolute path asks in every mode, or ''."""
    folded = fold(path)
    for part in folded.split("/"):
        # As NTFS reads a name: without what follows a colon, without dots and blanks at its end.
        if part.partition(":")[0].rstrip(". ") in _PROTECTED_NAMES or _SHORT_GIT.fullmatch(part):
            return f"{path!r} is protected: {part!r} holds settings or code that others run"
    for shape in _PROTECTED_SHAPES:
        if shape.fullmatch(folded):
            return f"{path!r} is protected: it holds settings or code that others run"
    return ""


def secret(path: str) -> bool:
    """Whether reading a file of that name asks: `.env*`, `*.pem`, `id_*`, `.netrc`, AWS keys."""
    folded = fold(path)
    name = folded.rsplit("/", 1)[-1]
    if name in _PUBLIC_NAMES:
        return False
    if _SECRET_PLACES.fullmatch(folded):
        return True
    return any(fnmatch.fnmatchcase(name, shape) for shape in _SECRET_NAMES)


def key_name(word: str) -> bool:
    """Whether a word of a command names a key file: as `secret`, but not every `id_…` is one."""
    name = word.rsplit("/", 1)[-1]
    return secret(word) and (not name.startswith("id_") or _KEY_NAMES.fullmatch(name) is not None)


def system_path(path: str, roots: Sequence[str] = ()) -> bool:
    """Whether the path belongs to the machine, not to a project in `roots`."""
    return _SYSTEM.fullmatch(path) is not None and not within(path, roots)


def open_target(target: Target, mode: Literal["r", "d"] = "r") -> int:
    """A descriptor of exactly `target.real`: a regular file for "r", its folder for "d".

    Walks from `/` by directory descriptors and follows no link. Raises ChangedDuringCheck when a
    link is met, FileNotFoundError when it is gone, PermissionError when it is no regular file or
    has more than one name. The caller closes the descriptor.
    """
    parent = _walk(os.path.dirname(target.real))
    if mode == "d":
        return parent
    try:
        return _open_file(parent, target)
    finally:
        os.close(parent)


def write_target(target: Target, data: bytes, parents: bool = False) -> None:
    """Replaces the file's content in one step, keeping its mode; `parents` makes its folders.

    Raises like open_target; what was there stays whole unless the new content is.
    """
    parent = _walk(os.path.dirname(target.real), parents)
    name = os.path.basename(target.real)
    try:
        mode = _existing_mode(parent, name, target)
        temporary = f".{name[:80]}.{secrets.token_hex(8)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(temporary, flags, 0o600, dir_fd=parent)
        try:
            _fill(descriptor, data, mode)
            os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=parent)
            raise
        os.fsync(parent)
    finally:
        os.close(parent)


def _text_problem(text: str) -> Problem | None:
    if "\x00" in text or not text:
        return Problem("error", f"the path {text[:80]!r} is empty or holds NUL")
    unseen = hidden(text)
    if "\n" in text or "\t" in text or unseen:
        return Problem("ask", f"the path {text[:200]!r} holds characters that do not show")
    size = len(text.encode())
    if size > 4_096 or any(len(part.encode()) > 255 for part in text.split("/")):
        return Problem("error", f"the path {text[:40]!r}… is too long for a file name")
    if text.startswith("~") and text != "~" and not text.startswith("~/"):
        return Problem("ask", f"the path {text!r} names another account's home")
    return None


def _special(path: str) -> Problem | None:
    if within(path, ("/proc", "/sys")):
        return Problem("ask", f"the path {path!r} leads through the kernel's own file system")
    if within(path, ("/dev",)) and path != "/dev/null":
        return Problem("deny", f"the path {path!r} is a device")
    return None


def _kind(real: str) -> tuple[FileKind, int]:
    try:
        found = os.lstat(real)
    except OSError:
        return "missing", 1
    if stat.S_ISDIR(found.st_mode):
        return "folder", 1
    if stat.S_ISREG(found.st_mode):
        return "file", found.st_nlink
    return "device", 1


def _walk(folder: str, create: bool = False) -> int:
    flags = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    place = os.open("/", flags)
    for part in _parts(folder):
        try:
            inner = _enter(part, flags, place, create)
        except NotADirectoryError as error:
            raise ChangedDuringCheck(
                f"{folder!r}: {part!r} changed during the check; look at it again"
            ) from error
        finally:
            os.close(place)
        place = inner
    if not hasattr(os, "O_PATH"):
        return place
    opened = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=place)
    os.close(place)
    return opened


def _enter(part: str, flags: int, place: int, create: bool) -> int:
    try:
        return os.open(part, flags, dir_fd=place)
    except FileNotFoundError:
        if not create:
            raise
    with contextlib.suppress(FileExistsError):
        os.mkdir(part, dir_fd=place)
    return os.open(part, flags, dir_fd=place)


def _parts(folder: str) -> Iterator[str]:
    return (part for part in folder.split("/") if part)


def _open_file(parent: int, target: Target) -> int:
    name = os.path.basename(target.real)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = os.open(name, flags, dir_fd=parent)
    except OSError as error:
        if os.path.islink(target.real):
            raise ChangedDuringCheck(
                f"{target.text!r} changed during the check; look at it again"
            ) from error
        raise
    try:
        _check_regular(os.fstat(descriptor), target)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _check_regular(found: os.stat_result, target: Target) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise PermissionError(f"{target.text!r} is no regular file: it is not opened")
    if found.st_nlink > 1 and target.links == 1:
        raise ChangedDuringCheck(
            f"{target.text!r} has {found.st_nlink} names since the check; look at it again"
        )


def _existing_mode(parent: int, name: str, target: Target) -> int:
    try:
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        mask = os.umask(0o077)
        os.umask(mask)
        return 0o666 & ~mask
    if stat.S_ISLNK(found.st_mode):
        raise ChangedDuringCheck(f"{target.text!r} changed during the check; look at it again")
    _check_regular(found, target)
    return stat.S_IMODE(found.st_mode)


def _fill(descriptor: int, data: bytes, mode: int) -> None:
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fchmod(descriptor, mode)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
