"""Demo, more plans: a goal, the last error, questions, sub-agents, writing, help.

May not keep state: as in demo_plans.
"""

from __future__ import annotations

import re

import agent_kernel.providers.demo_plans as plans
from agent_kernel.core.messages import Json
from agent_kernel.providers.demo_data import TRACEBACK
from agent_kernel.providers.demo_makers import Intent
from agent_kernel.providers.demo_plans import Call, Make, Plan, Scene, failed, fence, keep
from agent_kernel.providers.keys import looked_at

_HINTS: dict[str, tuple[str, str]] = {
    "NameError": (
        "a name is used before it is defined: run the cell that defines it, or fix its spelling",
        "名称尚未定义：先运行定义它的单元，或改正拼写",
    ),
    "KeyError": ("a key or column is not there: list the keys first", "键或列不存在：先列出所有键"),
    "ModuleNotFoundError": (
        "a package is not installed in this environment",
        "此环境没有安装该包",
    ),
    "ImportError": ("a package lacks what is imported from it", "包里没有要导入的内容"),
    "FileNotFoundError": (
        "the path does not exist from this working directory",
        "当前目录下没有该路径",
    ),
    "TypeError": ("a value has another type than the call expects", "值的类型与调用不符"),
    "ValueError": (
        "a value has the right type but not an allowed content",
        "值的类型正确但内容不被接受",
    ),
    "IndexError": ("a position lies beyond the end", "位置超出范围"),
    "AttributeError": ("an object has no such attribute", "对象没有该属性"),
    "ZeroDivisionError": ("something is divided by zero", "除数为零"),
    "SyntaxError": (
        "Python cannot read the line the arrow points at",
        "Python 无法解析箭头所指的行",
    ),
}
_ERROR = re.compile(
    r"^([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Warning)): ?(.*)$", re.MULTILINE
)


def plan(scene: Scene, intent: Intent) -> Plan:
    """Make a plan: a todo list, a look at the files, the plan in words."""
    goal = intent.a
    titles = (
        scene.say(f"Look at what is there for: {goal}", f"查看现状：{goal}"),
        scene.say("Read the file that fits best", "阅读最相关的文件"),
        scene.say("Write down the steps", "写下步骤"),
    )
    words = scene.say(f"I plan: {goal}.", f"我来计划：{goal}。")
    yield [Call("todo", {"items": _items(titles, 0)}, words)]
    (listed,) = yield [Call("glob", {"pattern": "**/*"})]
    paths = [] if listed.failed else [p.strip() for p in (listed.text or "").splitlines()]
    best = _best(goal, [p for p in paths if re.fullmatch(r"[\w./ -]+\.\w{1,8}", p)])
    if best:
        (step,) = yield [Call("read", {"path": best, "limit": 100})]
        if not step.failed:
            keep(scene, best, step)
    yield [Call("todo", {"items": _items(titles, 3)})]
    steps = [
        scene.say(
            "Say what shall be true at the end, and how it is checked.", "说明最终目标及检查方法。"
        ),
        scene.say(
            f"Begin with `{best}`." if best else "Begin with a first file.",
            f"从 `{best}` 开始。" if best else "先建一个文件。",
        ),
        scene.say(
            "Change one thing at a time and run it after each change.",
            "每次只改一处，并在每次修改后运行。",
        ),
        scene.say("Compare the result with the goal.", "将结果与目标比较。"),
    ]
    lines = "\n".join(f"{n}. {text}" for n, text in enumerate(steps, 1))
    return scene.say(f"A plan for: {goal}", f"计划：{goal}") + f"\n\n{lines}"


def _items(titles: tuple[str, ...], done: int) -> list[Json]:
    return [
        {
            "id": str(n),
            "text": title,
            "status": "done" if n <= done else "active" if n == done + 1 else "pending",
        }
        for n, title in enumerate(titles, 1)
    ]


def _best(goal: str, paths: list[str]) -> str:
    words = set(re.findall(r"\w{3,}", goal.lower()))
    ranked = sorted(
        paths, key=lambda p: (-sum(word in p.lower() for word in words), "readme" not in p.lower())
    )
    return ranked[0] if ranked else ""


def error(scene: Scene, intent: Intent) -> Plan:
    """Explain the last error of the notebook."""
    shown = ""
    words = scene.say("I look for the last error.", "我查找最近的错误。")
    if "notebook" in scene.transcript.tools:
        (step,) = yield [Call("notebook", {"action": "list"}, words)]
        shown = "" if step.failed else step.text or ""
        words = ""
    (step,) = yield [Call("python", {"code": TRACEBACK}, words)]
    text = "" if step.failed else step.text or ""
    found = _ERROR.findall(text) or _ERROR.findall(shown)
    if not found:
        return scene.say("I find no error: none was raised in this kernel.", "没有找到错误。")
    name, message = found[-1]
    short = name.rsplit(".", 1)[-1]
    en, zh = _HINTS.get(short, ("read the last line of the traceback first", "先看回溯的最后一行"))
    places = re.findall(r'File "([^"]+)", line (\d+)', text)
    where = f" ({places[-1][0].rsplit('/', 1)[-1]}:{places[-1][1]})" if places else ""
    return scene.say(
        f"The last error is {short}: {message}{where}. That means: {en}.",
        f"最近的错误是 {short}：{message}{where}。含义：{zh}。",
    )


def ask(scene: Scene, intent: Intent) -> Plan:
    """Put a question to the person and repeat the answer."""
    (step,) = yield [Call("ask", {"question": intent.a})]
    if step.failed:
        return failed(scene, scene.say("The question", "提问"), step)
    return scene.say(f"You answered: {step.text}", f"你的回答：{step.text}")


def agent(scene: Scene, intent: Intent) -> Plan:
    """Start a sub-agent with its own prompt."""
    words = scene.say("I start a sub-agent.", "我启动一个子代理。")
    wanted: Json = {"prompt": intent.a, "description": intent.a[:40]}
    (step,) = yield [Call("agent", wanted, words)]
    if step.failed:
        return failed(scene, scene.say("The sub-agent", "子代理"), step)
    if "async_launched" in (step.text or ""):
        return plans.started(scene, intent.a[:40], step)
    return scene.say("The sub-agent answered:", "子代理回答：") + f"\n\n{fence(step.text or '')}"


def write(scene: Scene, intent: Intent) -> Plan:
    """Write given words, or what was found so far, to a file."""
    content = intent.a or "\n\n".join(scene.said) or scene.transcript.last_answer
    if not content:
        return scene.say("There is nothing to write yet.", "还没有可写的内容。")
    words = scene.say(f"I write `{intent.path}`.", f"我写入 `{intent.path}`。")
    wanted = {"path": intent.path, "content": content.rstrip() + "\n"}
    (step,) = yield [Call("write", wanted, words)]
    if step.failed:
        return failed(scene, scene.say(f"Writing `{intent.path}`", f"写入 `{intent.path}` "), step)
    return scene.say(f"`{intent.path}` is written.", f"`{intent.path}` 已写入。")


_EXAMPLES = (
    ("help", "帮助"),
    ("list files in data", "列出文件"),
    ("show README.md", "查看 README.md"),
    ("find TODO", '查找 "TODO"'),
    ("run `git status`", "运行 `git status`"),
    ("plan a report on the sales", "计划 写一份报告"),
    ("compute 12*7, or: how many rows in data/sales.csv, or: total by region", "计算 12*7"),
    ("describe df", "描述 df"),
    ("plot amount by region in data/sales.csv", "画 amount 按 region"),
    ('replace "draft" with "final" in notes.md', '把 "draft" 替换成 "final"'),
    ("wait 5 s in the background", "后台等待 5 秒"),
    ("explain the last error", "解释最近的错误"),
)


def help_text(scene: Scene) -> str:
    """Return what the demo is, what it can do, and how a real model is chosen."""
    lines = "\n".join(f"- {scene.say(en, zh)}" for en, zh in _EXAMPLES)
    return scene.say(
        "I am the demo provider: fixed rules, no language model. I read a few words and make real "
        f"tool calls. I can do these:\n\n{lines}\n\nFor a language model set {looked_at()} (one is "
        "enough), or use `%agent model local`.",
        "我是演示提供者：固定规则，没有语言模型。我只认识少量词语，但会真正调用工具。我能做：\n\n"
        f"{lines}\n\n要使用语言模型，请设置 {looked_at()}（其一即可），"
        "或使用 `%agent model local`。",
    )


def unknown_text(scene: Scene) -> str:
    """Return the words for a prompt no rule knows."""
    return scene.say(
        "That is beyond my rules: I cannot answer it without a language model.\n\n",
        "这超出了我的规则：没有语言模型我无法回答。\n\n",
    ) + help_text(scene)


def helping(scene: Scene, intent: Intent) -> Plan:
    """Say what the demo can do."""
    yield from ()
    return help_text(scene)


MAKES: dict[str, Make] = {
    "help": helping,
    "list": plans.listing,
    "show": plans.show,
    "find": plans.find,
    "run": plans.run,
    "plan": plan,
    "compute": plans.compute,
    "code": plans.code,
    "count": plans.count,
    "group": plans.group,
    "describe": plans.describe,
    "plot": plans.plot,
    "replace": plans.replace,
    "wait": plans.wait,
    "error": error,
    "ask": ask,
    "agent": agent,
    "write": write,
}
