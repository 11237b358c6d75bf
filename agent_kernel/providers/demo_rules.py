"""Demo rules: which words mean what, English and Chinese; of two at one place the first wins.

May not hold code beyond its table: a pattern and the maker of its intent.
"""

from __future__ import annotations

import agent_kernel.providers.demo_makers as make
from agent_kernel.providers.demo_makers import BARE_PATH, NAME, OPS, QUOTE, Maker, word

_PATH = word("path", BARE_PATH)
_PATH_OR_NAME = rf"(?:{_PATH}|(?P<name>{NAME}))"
_IN = rf"(?:\s+(?:in|of|from)\s+(?:the\s+)?(?:file\s+)?{_PATH_OR_NAME})?"
_OP = rf"(?P<op>{'|'.join(OPS.values())})"
_UNIT = r"(?P<unit>s|sec|secs|seconds?|m|min|mins|minutes?|秒钟?|分钟?)"
_NUMBERS = r"(?P<a>[-(]*\s*\d[\d\s.,_+\-*/%^()×÷]*[\d)])"
_VERB = (
    r"(?:read|show|list|find|search|grep|run|execute|plan|compute|calculate|count|describe|plot|"
    r"draw|replace|change|wait|sleep|explain|write|save|ask|total|sum|tell|open|print|use|with)"
)
# Where a clause ends: punctuation, or a word that begins the next thing to do.
_END = (
    rf"(?=\s*(?:[,;，；。！？!?\n]|\.(?:\s|$)|$)|\s+(?:and|then|and then)\s+(?:then\s+)?{_VERB}\b"
    r"|\s*(?:然后|再|接着|并且|最后)|\s+in the background|\s*在后台)"
)
_FILLER = r"(?:\s+(?:me|the|a|file|files?|content|contents|of|look|at|first|lines|whole))*"
_MEASURE = rf"(?P<b>(?:\s+(?!by\b|per\b|for\b|grouped\b){QUOTE}?\w+{QUOTE}?){{0,4}}?)"
_COUNTED = r"(?P<a>rows|lines|words|characters|records|columns|files)"
_OLD = word("a", r"[^\s,;]+")
_NEW = word("b", r"[^\s,;]+")
_OLD_ZH = word("a", r"\S+?")
_NEW_ZH = word("b", r"[^\s，。；,;]+")
_BY = word("by", NAME)
_BY_ZH = word("by", r"[^\s，。,]+?")
_EACH_ZH = word("by", r"[^\s，。的]+?")
_FOLDER = word("path", r"[A-Za-z0-9_./-]*[A-Za-z0-9_/-]")
_TEXT = word("a", r"[^\n,;]+?")
_TEXT_ZH = word("a", r"[^\s，。；]+")
_COLUMN = word("a", NAME)
_FOUND = word("a", r"(?:the|it|this|them|my)?\s*\w*\s*\w*")


def rule(maker: Maker, *parts: str) -> tuple[str, Maker]:
    """Return one row of the table: the pattern of all parts, and its maker."""
    return "".join(parts), maker


RULES: tuple[tuple[str, Maker], ...] = (
    rule(make.simple("code"), r"```(?:python|py)\s*\n(?P<a>[\s\S]*?)```"),
    # plan
    rule(
        make.simple("plan"),
        r"\b(?:make (?:a|me a) |write (?:a|me a) )?plan\b(?:\s+(?:for|to|how to|out))?[\s:]+",
        r"(?P<a>[^\n]+)",
    ),
    rule(
        make.simple("plan"), r"(?:制定|做|写)?(?:一个|个)?(?:计划|规划)\s*[:：]?\s*(?P<a>[^\n。]+)"
    ),
    # explain the last error
    rule(
        make.fixed("error"),
        r"\b(?:explain|why|what)\b[^.?!\n]{0,60}\b(?:errors?|exception|traceback|failed|failure)\b",
    ),
    rule(make.fixed("error"), r"(?:解释|说明|为什么)[^。\n]{0,30}?(?:错误|报错|异常|出错|失败)"),
    # sub-agents and questions
    rule(
        make.simple("agent"),
        r"\b(?:have|let|ask|start|use)\s+(?:a|an|one)\s+(?:sub-?agent|helper agent)\s+(?:to\s+)?",
        r"(?P<a>[^\n]+)",
    ),
    rule(make.simple("agent"), r"(?:让|用|启动)一?个?子代理\s*(?P<a>[^\n]+)"),
    rule(make.simple("ask"), r"\bask me\s+(?P<a>[^\n.]+\??)"),
    rule(make.simple("ask"), r"(?:问我|询问我)\s*(?P<a>[^\n。]+)"),
    # wait
    rule(
        make.wait,
        rf"\b(?:wait|sleep)\s+(?:for\s+)?(?P<a>\d+(?:\.\d+)?)\s*{_UNIT}\b",
        r"(?:,?\s+in the background)?",
    ),
    rule(make.wait, rf"(?:在?后台)?等待?\s*(?P<a>\d+(?:\.\d+)?)\s*{_UNIT}"),
    # replace
    rule(
        make.substitute,
        r"\b(?:replace|change|rename|substitute)\s+(?:the\s+(?:text|word|line|title)\s+)?",
        rf"{_OLD}\s+(?:with|to|by|into|->)\s+{_NEW}",
        rf"(?:\s+(?:in|inside|of)\s+(?:the\s+)?(?:file\s+)?{_PATH})?",
    ),
    rule(
        make.substitute,
        rf"(?:(?:在\s*)?{_PATH}\s*(?:文件)?\s*(?:中|里|里面)的?\s*)?(?:把|将)\s*",
        rf"{_OLD_ZH}\s*(?:替换|改|换)(?:成|为)\s*{_NEW_ZH}",
    ),
    # count and compute
    rule(
        make.group,
        rf"\b{_OP}\b{_MEASURE}\s+(?:by|per|for each|for every|grouped by|of each|in each)\s+",
        rf"(?:the\s+|each\s+)?{_BY}{_IN}",
    ),
    rule(
        make.most,
        rf"\bwhich\s+{_BY}\s+(?:has|had|have|sold|made|got)\s+(?:the\s+)?{_OP}\b",
        rf"(?P<b>(?:\s+(?!in\b|of\b|from\b)\w+){{0,3}}){_IN}",
    ),
    rule(
        make.group,
        rf"按(?:照)?\s*{_BY_ZH}\s*(?:列)?\s*{_OP}\s*的?\s*",
        rf"(?P<b>{QUOTE}?[A-Za-z_]\w*{QUOTE}?)?",
    ),
    rule(make.group, rf"每个?\s*{_EACH_ZH}\s*的\s*(?P<b>[A-Za-z_]\w*)?\s*的?\s*{_OP}"),
    rule(
        make.count,
        rf"\b(?:how many|count(?: the)?)\s+{_COUNTED}\b(?:\s+(?:are|does|do|has|have|is|there))*",
        rf"(?:\s+(?:in|of))?(?:\s+(?:the\s+)?(?:file\s+)?{_PATH_OR_NAME})?",
    ),
    rule(make.count, rf"{_PATH}?\s*(?:中|里)?\s*有?(?:多少|几)个?(?P<a>行|列|字|词|文件)"),
    rule(
        make.compute,
        r"\b(?:compute|calculate|evaluate|what(?:'s| is)|how much is|work out)\s+",
        _NUMBERS,
    ),
    rule(make.compute, r"(?:计算|算一下|算)\s*", _NUMBERS),
    rule(make.compute, _NUMBERS, r"\s*(?:等于多少|是多少|=\s*\?)"),
    # list files
    rule(
        make.listing,
        r"\b(?:list|show|what|which|find)\b[^.,;\n/]{0,30}?\bfiles\b",
        rf"(?:[^,;\n]*?\b(?:in|under)\s+(?:the\s+)?{_FOLDER})?",
        r"(?:\s+(?:like|matching|named)\s+\S+)?",
    ),
    rule(make.listing, r"(?:列出|显示|有哪些)[^。，\n]{0,12}?文件", rf"(?:\s*在\s*{_FOLDER})?"),
    # show a file
    rule(
        make.show, rf"\b(?:read|show|open|cat|display|print|view|load|look at)\b{_FILLER}\s+{_PATH}"
    ),
    rule(make.show, rf"(?:读取|阅读|查看|打开|显示|看一下|看看|读)\s*(?:文件)?\s*{_PATH}"),
    # find a text
    rule(
        make.find,
        r"\b(?:find|search(?: for)?|grep(?: for)?|look for|where is)\s+",
        rf"(?:the\s+(?:text|word|string)\s+)?{_TEXT}",
        rf"(?:\s+in\s+(?:the\s+)?(?:file\s+)?{_PATH}|{_END})",
    ),
    rule(make.find, rf"(?:查找|搜索|寻找)\s*{_TEXT_ZH}(?:\s*在\s*{_PATH})?"),
    # run a command
    rule(
        make.run,
        r"\b(?:run|execute)\s+(?:the\s+)?(?:shell\s+)?(?:command\s*:?\s+)?",
        rf"(?:`(?P<a_q>[^`\n]+)`|(?P<a>[^\n]+?){_END})",
    ),
    rule(
        make.run,
        r"(?:在?后台)?(?:运行|执行)\s*(?:shell\s*)?(?:命令)?\s*[:：]?\s*",
        r"(?:[`「“](?P<a_q>[^`」”\n]+)[`」”]|(?P<a>[^\n，。；]+))",
    ),
    # describe and plot
    rule(
        make.describe,
        r"\b(?:describe|summari[sz]e|inspect|profile|explore)\s+(?:the\s+)?",
        rf"(?:(?:variable|dataframe|data frame|table|data|file)\s+)?{_PATH_OR_NAME}",
    ),
    rule(make.describe, rf"(?:描述|概述|总结)\s*(?:变量|数据|表)?\s*{_PATH_OR_NAME}"),
    rule(
        make.plot,
        r"\b(?:plot|chart|graph|draw|visuali[sz]e|histogram of)\s+(?:a\s+)?",
        r"(?:(?:bar|line|pie)?\s*(?:chart|plot|graph|histogram|picture)\s+(?:of|for)\s+)?",
        rf"(?:the\s+)?(?:column\s+)?{_COLUMN}",
        rf"(?:\s+(?:by|against|over|per)\s+{_BY})?{_IN}",
    ),
    rule(
        make.plot,
        rf"(?:画出?|绘制)\s*(?:柱状图|直方图|图)?\s*{_COLUMN}",
        rf"(?:\s*按\s*{_BY})?(?:\s*(?:来自|在)\s*{_PATH_OR_NAME})?",
    ),
    # write
    rule(
        make.write,
        rf"\b(?:write|save|store)\s+{_FOUND}\s+",
        rf"(?:to|into|in)\s+(?:the\s+)?(?:file\s+)?{_PATH}",
    ),
    # help
    rule(
        make.fixed("help"),
        r"\A\s*(?:(?:help|hi|hello|hey|what can you do|who are you)\b|\?",
        r"|帮助|你好|你能做什么|你是谁)",
    ),
)
