"""Effects: the high-risk acts found in a call, in words of what they do and to what.

It may not decide: an effect makes a call ask in every mode (features F12.2 and F12.3).
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from agent_kernel.guard.calls import Call, Context
from agent_kernel.guard.effects_git import git_effect
from agent_kernel.guard.effects_platform import platform_effect
from agent_kernel.guard.effects_sql import sql_effects
from agent_kernel.guard.options import split
from agent_kernel.guard.paths import secret, system_path
from agent_kernel.guard.shell_find import Found, find
from agent_kernel.guard.writes import all_written

MANY: Final = 20  # more files than this removed at once is a mass delete

_FOREVER = "; it cannot be undone"
_CI = re.compile(
    r"(?:.*/)?(?:\.github/(?:workflows|actions)(?:/.*)?|\.gitlab-ci\.ya?ml|Jenkinsfile\w*|"
    r"\.circleci(?:/.*)?|azure-pipelines[\w.-]*\.ya?ml|\.travis\.ya?ml|\.drone\.ya?ml|"
    r"bitbucket-pipelines\.ya?ml|\.buildkite(?:/.*)?|appveyor\.ya?ml|cloudbuild\.ya?ml)",
    re.IGNORECASE,
)
_PRODUCTION = re.compile(
    r"(?:.*[/._\-])?(?:prod|production|deploy|deployment)(?:[/._\-].*)?", re.IGNORECASE
)
_CONFIG = re.compile(r".*\.(?:ya?ml|json|toml|ini|conf|cfg|env|tf|tfvars|properties|hcl|xml)")
_NAMES_ONLY: Final = frozenset(
    "echo printf test [ ls find stat which type basename dirname realpath readlink file touch "
    "chmod du df tree".split()
)
_MUTATING_CURL = re.compile(r"-X\s*(?:POST|PUT|PATCH|DELETE)|--request", re.IGNORECASE)


def effects(found: Found, context: Context) -> list[str]:
    """The effects of a bash text, each once, in the order they are found."""
    seen: dict[str, None] = {}
    for argv in found.argvs:
        seen.update(dict.fromkeys(argv_effects(argv)))
    for path in all_written(found):
        seen.update(dict.fromkeys(write_effects(path)))
    return list(seen)


def argv_effects(argv: Sequence[str]) -> Iterator[str]:
    """The effects of one program with its words."""
    name = posixpath.basename(argv[0])
    words = list(argv[1:])
    handler = _HANDLERS.get(name)
    if handler:
        yield from filter(None, [handler(name, words)])
    yield from filter(None, [platform_effect(name, words)])
    for word in words:
        if name not in ("echo", "printf", "grep", "rg", "git"):
            yield from sql_effects(word)
    if name in ("python", "python3") and "-c" in words[:-1]:
        yield from python_effects(words[words.index("-c") + 1])
    if name not in _NAMES_ONLY:
        for word in words:
            piece = re.split(r"[=:@]", word)[-1]
            if secret(piece) and not word.startswith("-"):
                yield f"reads {piece!r}, which by its name holds keys"


def write_effects(path: str) -> Iterator[str]:
    """The effects of writing one path, by what the path is."""
    if _CI.fullmatch(path):
        yield f"changes {path!r}, which the build server runs"
    if _PRODUCTION.fullmatch(path) and _CONFIG.fullmatch(path):
        yield f"changes {path!r}, which by its name is production or deployment configuration"
    if system_path(path):
        yield f"changes {path!r}, which belongs to the machine"
    if "/.hoodie/" in f"/{path}/":
        yield f"changes {path!r}, a Hudi table's timeline{_FOREVER}"


def python_effects(code: str) -> list[str]:
    """The effects written in Python code: deletes, shell commands, SQL, overwritten tables."""
    found: dict[str, None] = {}
    try:
        tree = ast.parse(re.sub(r"(?m)^\s*[%!].*$", "", code))
    except (SyntaxError, ValueError, RecursionError):
        tree = ast.Module([], [])
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            found.update(dict.fromkeys(_call_effects(node)))
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.update(dict.fromkeys(sql_effects(node.value)))
    for line in re.findall(r"(?m)^\s*(?:!|%sx |%%bash|%system )(.*)$", code):
        found.update(dict.fromkeys(effects(find(line), Context())))
    return list(found)


def input_effects(call: Call) -> list[str]:
    """The SQL effects in any text of a tool's input, and what the tool's own name promises."""
    found: dict[str, None] = {}
    for text in _texts(call.input):
        found.update(dict.fromkeys(sql_effects(text)))
    verb = re.search(
        r"(?:^|_)(delete|drop|purge|truncate|publish|deploy|rollback|kill|pause|terminate|"
        r"send|upload|export)(?:_|$)",
        call.tool.casefold(),
    )
    if verb:
        found[f"calls {call.tool!r}, which by its name can {verb[1]} things"] = None
    return list(found)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


_PYTHON_CALLS: Final = {
    "shutil.rmtree": "deletes a folder and everything in it" + _FOREVER,
    "rmtree": "deletes a folder and everything in it" + _FOREVER,
    "saveAsTable": "overwrites a table" + _FOREVER,
    "insertInto": "overwrites a table" + _FOREVER,
    "smtplib.SMTP": "sends mail to others",
    "requests.post": "sends data to another service",
    "requests.put": "sends data to another service",
    "requests.delete": "deletes at another service" + _FOREVER,
    "httpx.post": "sends data to another service",
}
_SHELL_CALLS: Final = frozenset(
    "system popen run call check_call check_output Popen getoutput".split()
)


def _call_effects(node: ast.Call) -> Iterator[str]:
    name = _dotted(node.func)
    last = name.rsplit(".", 1)[-1]
    effect = _PYTHON_CALLS.get(name) or (_PYTHON_CALLS.get(last) if last == "rmtree" else None)
    if last in ("saveAsTable", "insertInto", "to_sql", "save", "mode", "parquet", "write_table"):
        words = [_constant(arg) for arg in (*node.args, *(k.value for k in node.keywords))]
        if last != "insertInto" and not {"overwrite", "replace"} & {str(w) for w in words}:
            effect = None
        elif last != "insertInto":
            effect = f"overwrites what {last}() names{_FOREVER}"
    if effect:
        yield f"{effect} ({name})" if effect == _PYTHON_CALLS.get(name) else effect
    if last in _SHELL_CALLS and node.args:
        yield from _shell_argument(node.args[0])


def _shell_argument(argument: ast.expr) -> Iterator[str]:
    if isinstance(argument, ast.List | ast.Tuple):
        words = [str(_constant(item) or "?") for item in argument.elts]
        if words:
            yield from effects(find(" ".join(map(_quote, words))), Context())
    elif isinstance(_constant(argument), str):
        yield from effects(find(str(_constant(argument))), Context())


def _quote(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}".lstrip(".")
    return node.id if isinstance(node, ast.Name) else ""


def _constant(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else None


# ---------------------------------------------------------------- programs


def _rm(name: str, words: list[str]) -> str:
    options = split(words)
    flags = {flag.name for flag in options.flags}
    named = ", ".join(map(repr, options.words[:5])) or "what it is given"
    deep = flags & {"-r", "-R"} or any(flag.startswith("--r") for flag in flags)
    if deep:
        return f"deletes {named} and everything below{_FOREVER}"
    if len(options.words) > MANY:
        return f"deletes {len(options.words)} files{_FOREVER}"
    if any(re.search(r"[*?{\[]", word) for word in options.words):
        return f"deletes every file that {named} matches{_FOREVER}"
    if any(re.search(r"(?:^|/)(?:data|dataset|datasets|warehouse)(?:/|$)", w) for w in words):
        return f"deletes {named} from a data folder{_FOREVER}"
    if not options.words:
        return f"deletes the files it is given{_FOREVER}"
    return ""


def _shred(name: str, words: list[str]) -> str:
    return f"destroys {', '.join(map(repr, split(words).words))}{_FOREVER}"


def _find_deletes(name: str, words: list[str]) -> str:
    if "-delete" not in words:
        return ""
    start = words[0] if words and not words[0].startswith("-") else "."
    return f"deletes every file it finds below {start!r}{_FOREVER}"


def _xargs(name: str, words: list[str]) -> str:
    inner = [posixpath.basename(word) for word in words]
    if any(word in ("rm", "unlink", "shred", "rmdir") for word in inner):
        return f"deletes every file that is piped into it{_FOREVER}"
    return ""


def _rsync(name: str, words: list[str]) -> str:
    if any(word.startswith(("--delete", "--remove-source")) for word in words):
        return f"deletes what the source does not have in {words[-1]!r}{_FOREVER}"
    return _copy_out(name, words)


def _copy_out(name: str, words: list[str]) -> str:
    away = [word for word in words if re.match(r"[\w.@\-]+:(?!//)|\w+://", word)]
    return f"copies files to or from {away[0]!r}" if away else ""


def _dd(name: str, words: list[str]) -> str:
    target = next((word[3:] for word in words if word.startswith("of=")), "")
    if target.startswith("/dev/") and target != "/dev/null":
        return f"overwrites the device {target!r}{_FOREVER}"
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
        return f"publishes to others with {' '.join([name, *words[:2]])!r}{_FOREVER}"
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
        return f"stops or deletes containers or their data: {name} {text[:60]!r}{_FOREVER}"
    return ""


def _date(name: str, words: list[str]) -> str:
    sets = any(re.match(r"-\w*s|--set", word) for word in words)
    return _system(name, words) if sets else ""


Handler = Callable[[str, list[str]], str]


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
