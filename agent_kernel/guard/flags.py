"""Flags: the flags and words that write or run, so that no prefix rule grants them by itself.

Data only: bash_grant.py reads it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from agent_kernel.guard.commands import GIT_NEVER

# Of a command no table knows. A trailing `*` covers longer names.
UNKNOWN_FORBIDDEN: Final = tuple(
    "-o --output* --pre* --exec* -exec* --to-command* --upload-pack* --receive-pack* --ext-diff "
    "--textconv --open-files-in-pager*".split()
)
# Its long options that by their name hold a program, a module or code.
UNKNOWN_LONG: Final = re.compile(
    r"--(?:[\w-]+-)?(?:command|cmd|cmdline|program|prog|shell|pager|editor|hook|wrapper|plugin|"
    r"plugins|eval|preview|preload|executable|loader|runner|interpreter)(?:-[\w-]+)?"
)


def _more(text: str) -> tuple[str, ...]:
    return (*UNKNOWN_FORBIDDEN, *text.split())


_TAR = tuple(
    "-I -F -T -P -g --to-command* --checkpoint-action* --use-compress-program* --info-script* "
    "--new-volume-script* --rsh-command* --rmt-command* --files-from* --absolute-names* "
    "--transform* --xform* --index-file* --listed-incremental* --volno-file* --remove-files "
    "--recursive-unlink".split()
)
_VIM = _more("-c --cmd* -S -u -U -s -w -W -q -i -V")
_COMPILER = _more("-wrapper* -B* -fplugin* -specs* --specs* -Xclang* -load* -T")
_NPM = _more("--node-options* --userconfig* --globalconfig* --prefix* --git* --viewer* --browser*")
_FD = ("-x", "--exec*", "-X")

FORBIDDEN: Final[Mapping[str, tuple[str, ...]]] = {
    "find": ("-exec*", "-ok*", "-delete", "-fprint*", "-fls"),
    "sed": ("-i", "--in-place*", "-e", "--expression", "-f", "--file"),
    "sort": tuple(
        "-o --output* -T --temporary-directory --compress-program* --files0-from".split()
    ),
    **dict.fromkeys(("fd", "fdfind"), _FD),
    **dict.fromkeys(("tar", "bsdtar", "gtar"), _TAR),
    "curl": ("-o", "--output*", "-O", "--remote-name*", "-K", "--config"),
    "wget": ("-o", "--output-file*", "-O", "--output-document*", "--use-askpass*"),
    "less": tuple("-o -O -k -t -T --log-file* --LOG-FILE* --lesskey* --tag*".split()),
    "iconv": ("-o", "--output*"),
    "git": (*GIT_NEVER, "--receive-pack*", "-x"),
    "split": _more("--filter*"),
    "zip": _more("-TT* -T --unzip-command* --test"),
    "unzip": _more("-:"),
    "man": _more("-P -H -C --pager* --html* --config-file* --preprocessor*"),
    **dict.fromkeys(("make", "gmake"), _more("-E --eval* -f --file* --makefile*")),
    **dict.fromkeys("gcc g++ cc c++ clang clang++ gfortran".split(), _COMPILER),
    **dict.fromkeys("vi vim nvim view ex vimdiff".split(), _VIM),
    **dict.fromkeys(("npm", "pnpm", "yarn", "npx"), _NPM),
    **dict.fromkeys(("gdb", "lldb"), _more("-x -ex -ix -iex -eval* -command* -init* -s -S -O")),
    "tcpdump": _more("-z -w -V -F"),
    "nmap": _more("--script* -iL -iR -oN -oX -oG -oA"),
    "cpio": _more("--rsh-command* -F -I -O"),
    "install": _more("--strip-program*"),
    "sdiff": _more("--diff-program*"),
    "diff3": _more("--diff-program*"),
    "cargo": _more("--config* -Z"),
    "ctags": _more("-f --options* -L"),
    "mypy": _more("--python-executable* --install-types"),
    "ssh-keygen": _more("-D -s"),
    "ssh-add": _more("-s"),
    "fzf": _more("--bind* --preview* --become*"),
    "bat": _more("--pager* --config-file*"),
    "delta": _more("--pager* --config*"),
    "patch": _more("-e --ed -d --directory*"),
    "psql": _more("-f --file* -L --log-file*"),
    "journalctl": _more("--vacuum* --rotate --flush --cursor-file*"),
    "ps": _more("-E"),
}
# Long options with one dash that only look like a cluster holding `o`.
ONE_DASH: Final = frozenset(
    "-count -cover -color -colour -config -force -host -json -mod -no -port -short -shuffle "
    "-timeout -verbose -version -project -module -function -options -stop -follow -nologo".split()
)
# Words beyond a rule's own that run a program, by the command that reads them.
_EDITED = re.compile(r"[+].*", re.DOTALL)
_META = re.compile(r".*(?:\\!|\\[gow]\b|\\copy\b|\bprogram\b).*", re.DOTALL | re.IGNORECASE)
WORDS: Final[Mapping[str, re.Pattern[str]]] = {
    **dict.fromkeys(("make", "gmake"), re.compile(r"[\w.]+\s*[:+?!]*=.*", re.DOTALL)),
    **dict.fromkeys("less more vi vim nvim view ex vimdiff".split(), _EDITED),
    **dict.fromkeys(("tar", "bsdtar", "gtar"), re.compile(r"(?!-)[^/]+:.*", re.DOTALL)),
    **dict.fromkeys("gcc g++ cc c++ clang clang++ ld ar strings".split(), re.compile(r"@.+")),
    "sqlite3": re.compile(
        r"(?is)\s*\.(?:sh|sy|o|lo|e|ex|im|re|ba|sa|cd|log|arch|cl)\w*\b.*|"
        r".*\b(?:load_extension|writefile|edit|fts3_tokenizer)\s*\(.*"
    ),
    **dict.fromkeys(("psql", "mysql", "mariadb"), _META),
    "socat": re.compile(r"(?is)(?:exec|system|shell|open|create|gopen)\w*:.*"),
    "ps": re.compile(r"[a-zA-Z]*e[a-zA-Z]*"),  # shows every process's environment
}
WORDS_OF_ANY: Final = re.compile(r"!.+", re.DOTALL)  # how editors, aliases and pagers say "run"
# Commands whose second operand is written over.
SECOND_IS_OUTPUT: Final = frozenset(("uniq", "xxd"))
# Programs that take the words of the program they run from their input, where no rule sees them.
FROM_INPUT: Final = frozenset(("xargs", "parallel"))
