"""Effects of programs: what one program does to files, machines and other people.

It reads a program's name and words; it may not decide.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import Final

from agent_kernel.guard.effects_git import git_effect
from agent_kernel.guard.options import split

MANY: Final = 20  # more files than this removed at once is a mass delete
FOREVER: Final = "; it cannot be undone"

Handler = Callable[[str, list[str]], str]


def program_effect(name: str, words: list[str]) -> str:
    """What the program does with these words, naming the object, or ''."""
    handler = _HANDLERS.get(name)
    return handler(name, words) if handler else ""


def _rm(name: str, words: list[str]) -> str:
    options = split(words)
    flags = {flag.name for flag in options.flags}
    named = ", ".join(map(repr, options.words[:5])) or "what it is given"
    deep = flags & {"-r", "-R"} or any(flag.startswith("--r") for flag in flags)
    if deep:
        return f"deletes {named} and everything below{FOREVER}"
    if len(options.words) > MANY:
        return f"deletes {len(options.words)} files{FOREVER}"
    if any(re.search(r"[*?{\[]", word) for word in options.words):
        return f"deletes every file that {named} matches{FOREVER}"
    if any(re.search(r"(?:^|/)(?:data|dataset|datasets|warehouse)(?:/|$)", w) for w in words):
        return f"deletes {named} from a data folder{FOREVER}"
    if not options.words:
        return f"deletes the files it is given{FOREVER}"
    return ""


def _shred(name: str, words: list[str]) -> str:
    return f"destroys {', '.join(map(repr, split(words).words))}{FOREVER}"


def _find_deletes(name: str, words: list[str]) -> str:
    if "-delete" not in words:
        return ""
    start = words[0] if words and not words[0].startswith("-") else "."
    return f"deletes every file it finds below {start!r}{FOREVER}"


def _xargs(name: str, words: list[str]) -> str:
    inner = [posixpath.basename(word) for word in words]
    if any(word in ("rm", "unlink", "shred", "rmdir") for word in inner):
        return f"deletes every file that is piped into it{FOREVER}"
    return ""


def _rsync(name: str, words: list[str]) -> str:
    if any(word.startswith(("--delete", "--remove-source")) for word in words):
        return f"deletes what the source does not have in {words[-1]!r}{FOREVER}"
    return _copy_out(name, words)


def _copy_out(name: str, words: list[str]) -> str:
    away = [word for word in words if re.match(r"[\w.@\-]+:(?!//)|\w+://", word)]
    return f"copies files to or from {away[0]!r}" if away else ""


def _dd(name: str, words: list[str]) -> str:
    target = next((word[3:] for word in words if word.startswith("of=")), "")
    if target.startswith("/dev/") and target != "/dev/null":
        return f"overwrites the device {target!r}{FOREVER}"
    return ""


def _truncate(name: str, words: list[str]) -> str:
    return f"cuts {', '.join(map(repr, split(words, 'sr').words))}: the lost part cannot be undone"


def _curl(name: str, words: list[str]) -> str:
    options = split(words, "XdFTHuoAebmrwK" if name == "curl" else "OoPUT")
    data = ("-d", "-F", "-T", "--data", "--form", "--upload-file", "--json", "--post", "--body")
    named = [flag.name for flag in options.flags]
    sends = any(flag in data or flag.startswith(("--data", "--post", "--form")) for flag in named)
    verb = next(
        (str(f.value) for f in options.flags if f.name in ("-X", "--request", "--method")), ""
    )
    if "--request" in words:
        verb = words[min(words.index("--request") + 1, len(words) - 1)]
    if sends or verb.upper() in ("POST", "PUT", "PATCH", "DELETE"):
        address = next((word for word in words if "://" in word or "." in word), "another service")
        return f"sends {verb or 'data'} to {address!r}, which others see"
    return ""


def _system(name: str, words: list[str]) -> str:
    return f"changes the machine's shared state with {' '.join([name, *words[:3]])!r}"


def _package(name: str, words: list[str]) -> str:
    verbs = (
        "install",
        "remove",
        "purge",
        "upgrade",
        "uninstall",
        "erase",
        "dist-upgrade",
        "autoremove",
        "-S",
        "-R",
        "add",
        "del",
    )
    verb = next((word for word in words if word in verbs), "")
    return _system(name, words) if verb else ""


def _kill(name: str, words: list[str]) -> str:
    if words[:1] in (["-l"], ["-0"]):
        return ""
    return f"stops processes: {' '.join([name, *words[:4]])!r}"


def _crontab(name: str, words: list[str]) -> str:
    return "" if words == ["-l"] else _system(name, words)


def _chmod(name: str, words: list[str]) -> str:
    deep = any(re.fullmatch(r"-\w*R\w*|--recursive", word) for word in words)
    return _system(name, words) if deep else ""


def _publish(name: str, words: list[str]) -> str:
    if any(word in ("publish", "upload", "login", "unpublish", "deprecate") for word in words[:2]):
        return f"publishes to others with {' '.join([name, *words[:2]])!r}{FOREVER}"
    if name in ("npm", "pnpm", "yarn") and {"-g", "--global"} & set(words) and words[:1] != ["ls"]:
        return _system(name, words)
    return ""


def _gh(name: str, words: list[str]) -> str:
    looking = {"view", "list", "status", "diff", "checks", "browse", "search"}
    if name == "gh" and words[:2] == ["auth", "token"]:
        return "reads a key: 'gh auth token'"
    if name == "gh" and words[:1] == ["api"]:
        changes = any(re.match(r"-[XfF]|--method|--field|--raw-field|--input", w) for w in words)
        return f"changes things on the server: {' '.join(words[:3])!r}" if changes else ""
    acts = [word for word in words if not word.startswith("-")][:2]
    if len(acts) == 2 and acts[1] not in looking and acts[0] not in ("search", "status", "help"):
        return f"acts on the server, where others see it: {' '.join([name, *acts])!r}"
    return ""


def _mail(name: str, words: list[str]) -> str:
    return f"sends a message to others with {name!r}"


def _connect(name: str, words: list[str]) -> str:
    target = next((word for word in words if not word.startswith("-")), "another machine")
    return f"acts on {target!r}, another machine"


def _key(name: str, words: list[str]) -> str:
    text = " ".join([name, *words])
    if re.search(
        r"gpg2? .*--export-secret|security find-.*password|^pass show|vault (?:read|kv get)|"
        r"ssh-add|secret-tool lookup|^env$|^printenv(?: \S*(?:KEY|TOKEN|SECRET|PASS)\S*)?$",
        text,
    ):
        return f"reads keys or secrets: {text[:80]!r}"
    return ""


def _docker(name: str, words: list[str]) -> str:
    text = " ".join(words)
    if re.search(r"\b(?:push|login)\b", text):
        return f"publishes an image: {name} {text[:60]!r}"
    if re.search(r"\b(?:prune|rm|rmi|kill|stop|restart|down|volume rm)\b", text):
        return f"stops or deletes containers or their data: {name} {text[:60]!r}{FOREVER}"
    return ""


def _date(name: str, words: list[str]) -> str:
    sets = any(re.match(r"-(?!I)\w*s|--set", word) for word in words)
    return _system(name, words) if sets else ""


def _named(handler: Handler, names: str) -> dict[str, Handler]:
    return dict.fromkeys(names.split(), handler)


_HANDLERS: Final[dict[str, Handler]] = {
    **_named(_rm, "rm del"),
    **_named(_shred, "shred srm wipe"),
    **_named(_find_deletes, "find"),
    **_named(_xargs, "xargs parallel"),
    **_named(_rsync, "rsync"),
    **_named(_copy_out, "scp rclone"),
    **_named(_dd, "dd"),
    **_named(_truncate, "truncate"),
    **_named(_curl, "curl wget http https xh"),
    **_named(
        _system,
        "sudo su doas systemctl service launchctl useradd userdel usermod groupadd passwd mount "
        "umount mkfs fdisk parted shutdown reboot halt poweroff iptables nft ufw sysctl chown "
        "visudo insmod rmmod modprobe update-alternatives chsh swapoff mkswap",
    ),
    **_named(
        _package,
        "apt apt-get aptitude yum dnf zypper pacman brew apk snap flatpak port emerge dpkg rpm",
    ),
    **_named(_kill, "kill pkill killall skill"),
    **_named(_crontab, "crontab"),
    **_named(_chmod, "chmod"),
    **_named(_publish, "npm pnpm yarn twine cargo gem poetry flit hatch uv"),
    **_named(_gh, "gh glab hub"),
    **_named(_mail, "mail mailx sendmail mutt slack telegram-send swaks"),
    **_named(_connect, "ssh sftp ftp telnet nc ncat netcat"),
    **_named(_key, "gpg gpg2 security pass vault ssh-add secret-tool env printenv"),
    **_named(_docker, "docker podman docker-compose nerdctl"),
    **_named(_date, "date"),
    "git": git_effect,
}
