"""Commands: the table of read-only commands and of flags no rule grants by itself.

Data only: readonly.py and evaluate.py read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

Shape = Literal[
    "read",
    "free",
    "none",
    "pattern",
    "filter",
    "one",
    "sed",
    "find",
    "git",
    "cd",
    "date",
    "printf",
    "test",
    "exact",
]


@dataclass(frozen=True, slots=True)
class Entry:
    """What one command may be given and still only read.

    `shape` says what operands are: `read` files, `free` text, `pattern` a pattern then files,
    `filter` a jq filter then files, `one` at most one file. `never` flags are refused in every
    spelling (a trailing `*` covers longer names); with `only`, any other flag is refused.
    `values` are short letters and `long` the long options that take the next word; the values
    of `free` options are never files.
    """

    shape: Shape
    never: tuple[str, ...] = ()
    only: frozenset[str] | None = None
    values: str = ""
    long: tuple[str, ...] = ()
    free: tuple[str, ...] = ()


def _flags(text: str) -> frozenset[str]:
    return frozenset(text.split())


_LISTS = ("--files0-from", "--from-file", "--to-file")
_READ = Entry("read", _LISTS)
_GREP = Entry(
    "pattern",
    (*_LISTS, "-f", "--file"),
    values="eABCmdDf",
    long=(
        "--regexp",
        "--after-context",
        "--before-context",
        "--context",
        "--max-count",
        "--include",
        "--exclude",
        "--exclude-dir",
        "--label",
    ),
    free=(
        "-e",
        "--regexp",
        "-A",
        "-B",
        "-C",
        "-m",
        "-d",
        "-D",
        "--include",
        "--exclude",
        "--exclude-dir",
        "--label",
        "--max-count",
        "--context",
        "--after-context",
        "--before-context",
        "--color",
        "--colour",
    ),
)
_FREE = Entry("free")
_DELIMITED = replace(
    _READ,
    values="dfcb",
    long=("--delimiter", "--output-delimiter", "--fields"),
    free=("-d", "--delimiter", "--output-delimiter", "-f", "-c", "-b"),
)
_LINES = replace(_READ, values="nc", long=("--lines", "--bytes"), free=("-n", "-c"))
_EXACT = Entry("exact")

READ_ONLY: Final[Mapping[str, Entry]] = {
    **dict.fromkeys(
        "cat wc ls stat nl tac rev realpath readlink df du cmp diff comm fold expand "
        "od strings".split(),
        _READ,
    ),
    **dict.fromkeys(
        "md5sum sha1sum sha256sum sha512sum cksum".split(),
        Entry("read", (*_LISTS, "-c", "--check")),  # reads every file that another file names
    ),
    "head": _LINES,
    "tail": replace(_LINES, never=(*_LISTS, "-f", "-F", "--follow", "--retry")),
    "cut": _DELIMITED,
    "paste": replace(_DELIMITED, values="d", free=("-d", "--delimiters")),
    "join": replace(_READ, values="tjoe12a", free=("-t", "-o", "-e")),
    "tr": _FREE,
    "seq": _FREE,
    **dict.fromkeys(("grep", "egrep", "fgrep"), _GREP),
    "file": Entry(
        "read",
        tuple(
            "-C --compile -m --magic-file -f --files-from -z --uncompress* -Z -S --no-sandbox "
            "-p --preserve-date".split()
        ),
    ),
    "tree": Entry(
        "read",
        ("-o", "--output*", "-R", "--fromfile", "--fromtabfile", "--infofile"),
        # its flags take the next word, never the rest of their own: `-Lo 2 out` is -L 2 -o out
    ),
    "jq": Entry(
        "filter",
        (
            "-f",
            "--from-file",
            "-L",
            "--slurpfile",
            "--rawfile",
            "--argfile",
            "--run-tests",
            "--library-path",
        ),
    ),
    **dict.fromkeys(
        "pwd whoami id uname nproc arch true false : echo basename dirname groups uptime expr "
        "which type".split(),
        _FREE,
    ),
    "printf": Entry("printf"),
    **dict.fromkeys(("test", "["), Entry("test")),
    "date": Entry("date", only=_flags("-u -d -I -R"), values="d"),
    "hostname": Entry("none", only=_flags("-f -s -d -i -I -A")),
    "rg": Entry(
        "pattern",
        ("--pre*", "--hostname-bin", "-z", "--search-zip", "-f", "--file"),
        values="ABCEefgjMmtTrd",
        long=(
            "--glob",
            "--iglob",
            "--type",
            "--type-not",
            "--regexp",
            "--max-count",
            "--sort",
            "--context",
            "--after-context",
            "--before-context",
            "--max-depth",
            "--color",
            "--replace",
            "--max-columns",
            "--engine",
            "--type-add",
            "--ignore-file",
        ),
        free=(
            "-g",
            "--glob",
            "--iglob",
            "-t",
            "-T",
            "-e",
            "--regexp",
            "-A",
            "-B",
            "-C",
            "-m",
            "-r",
            "--replace",
            "-M",
            "-j",
            "-d",
            "--type",
            "--type-not",
            "--sort",
            "--color",
        ),
    ),
    "sort": Entry(
        "read", only=_flags("-n -r -u -k -t -h -V -f -b -s -c"), values="kt", free=("-k", "-t")
    ),
    "uniq": Entry("one", values="fsw", free=("-f", "-s", "-w")),
    "sed": Entry("sed", only=_flags("-n -E -r -s -u")),
    "find": Entry("find"),
    "cd": Entry("cd"),
    "git": Entry("git"),
    **dict.fromkeys("python python3 node npm bash gcc uv pip".split(), _EXACT),
}
EXACT: Final = frozenset(
    {(name, "--version") for name in "python python3 node npm git bash gcc uv pip".split()}
    | {("pip", "list"), ("pip", "show")}
)

# find: predicates without a value, with a value, and with a value that is a file.
FIND_PLAIN: Final = _flags("-empty -print -print0 -prune -not ! -a -and -o -or ( )")
FIND_VALUE: Final = _flags(
    "-name -iname -path -ipath -wholename -type -size -mtime -mmin -newer -maxdepth -mindepth "
    "-perm -user -group -regex -iregex -printf"
)

GIT_NEVER: Final = (
    "--output*",
    "--no-index",
    "--ext-diff",
    "--textconv",
    "-O",
    "--open-files-in-pager*",
    "--exec*",
    "--upload-pack*",
)


@dataclass(frozen=True, slots=True)
class Git:
    """One git subcommand: None as `only` takes any flag but GIT_NEVER; `first` are the words
    its first operand may be ("" for none at all); `operands` whether others may follow."""

    only: frozenset[str] | None = None
    first: frozenset[str] | None = None
    operands: bool = True
    needs: frozenset[str] = frozenset()
    values: str = ""


_ANY = Git(values="SGLnUM")
GIT: Final[Mapping[str, Git]] = {
    **dict.fromkeys(
        "status diff log show rev-parse blame ls-files ls-tree describe shortlog rev-list "
        "merge-base name-rev count-objects".split(),
        _ANY,
    ),
    "grep": Git(values="eABCmf"),
    "branch": Git(
        _flags("-a -r -v --list --show-current -l --all --remotes --verbose"), operands=False
    ),
    "tag": Git(_flags("-l --list -n"), operands=False),
    "remote": Git(_flags("-v --verbose"), frozenset({"", "get-url"})),
    "stash": Git(None, frozenset({"list"}), values="nSG"),
    "worktree": Git(_flags("-v --porcelain -z"), frozenset({"list"}), operands=False),
    "reflog": Git(None, frozenset({"", "show"}), values="nSG"),
    "config": Git(
        _flags(
            "--get --get-all --get-regexp --get-urlmatch --list -l --show-origin --show-scope "
            "--name-only --null -z --local --global --system --worktree --bool --int --path"
        ),
        needs=_flags("--get --get-all --get-regexp --get-urlmatch --list -l"),
    ),
    "cat-file": Git(_flags("-p -t -s -e"), needs=_flags("-p -t -s -e")),
}

# Keys that make git run a program when it only reads.
GIT_EXECUTES: Final = (
    "core.fsmonitor",
    "core.pager",
    "core.sshcommand",
    "core.hookspath",
    "core.worktree",
    "core.alternaterefscommand",
    "alias.*",
    "pager.*",
    "diff.external",
    "diff.*.command",
    "diff.*.textconv",
    "diff.*.external",
    "filter.*",
    "gpg.*",
    "credential.*",
    "include.*",
    "includeif.*",
    # a repository with missing objects fetches them by itself, by a program it names
    "extensions.partialclone",
    "remote.*.promisor",
    "remote.*.uploadpack",
    "remote.*.vcs",
    "protocol.*",
    "trailer.*",
    "log.showsignature",
)

INTERPRETERS: Final = frozenset(
    "python pythonw pypy perl ruby node nodejs deno bun lua luajit php awk gawk mawk nawk tclsh "
    "expect Rscript osascript pwsh".split()
)
CODE_HEADS: Final = frozenset(
    "make gmake ninja just rake ant gradle mvn vim vi view nvim ex ed emacs gdb m4 source .".split()
)
STATE_BUILTINS: Final = frozenset(
    "eval let declare typeset export read mapfile readarray enable complete compgen history alias "
    "unalias set shopt unset readonly local bind hash fc pushd popd source . getopts".split()
)
NETWORK: Final = frozenset(
    "curl wget ssh scp sftp rsync nc ncat netcat socat ping dig nslookup host telnet ftp "
    "aria2c axel http https xh lynx w3m links".split()
)
WRITERS: Final = frozenset(
    "cp mv install tee dd truncate split csplit touch mkdir rm ln rmdir unlink shred chmod "
    "chown chgrp sponge patch unzip mkfifo mknod".split()
)
BUILTINS: Final = frozenset("pwd true false : echo type printf test [ cd".split())
