#!/usr/bin/env python3
"""Writes expected.json: what Jinja makes of the templates of this folder and of the expressions in expressions.

Run with jinja2 (`pip install jinja2`); the file is kept, so that tests need no Python package. The templates are
written for these tests, in the forms that families of models have. Jinja is set up as transformers set it up."""

import datetime
import json
import pathlib

import jinja2
import jinja2.ext
import jinja2.sandbox

HERE = pathlib.Path(__file__).parent
NOW = datetime.datetime(2024, 7, 5, 9, 5, 7)


class Generation(jinja2.ext.Extension):
    """{% generation %}: what stands in it is rendered as a function of its own."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("run"), [], [], body).set_lineno(line)

    def run(self, caller):
        return caller()


class Dict:
    """What `dict` is in templates: not the type itself."""

    def __call__(self, *values, **named):
        return dict(*values, **named)


class Namespace(jinja2.utils.Namespace):
    def __init__(*values, **named):
        self, values = values[0], values[1:]
        attributes = dict(*values, **named)
        if any(name.startswith("_") for name in attributes):
            raise jinja2.exceptions.SecurityError("a name of a namespace begins with _")
        jinja2.utils.Namespace.__init__(self, attributes)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = NOW.strftime
    made.globals["dict"] = Dict()
    made.globals["namespace"] = Namespace
    return made


JINJA = environment()


def render(template, variables):
    """The text, or None for an error and its text if the template raised it itself."""
    try:
        return JINJA.from_string(template).render(**variables), None
    except jinja2.exceptions.TemplateError as error:
        return None, error.message if type(error) is jinja2.exceptions.TemplateError else ""
    except Exception:
        return None, ""


def tool(name, text, properties, required):
    parameters = {"type": "object", "properties": properties, "required": required}
    return {"type": "function", "function": {"name": name, "description": text, "parameters": parameters}}


WEATHER = tool(
    "get_weather",
    "The weather of a place, as <it> is \"now\" & here",
    {
        "place": {"type": "string", "description": "Where: a town, e.g. Zürich"},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": None},
        "days": {"type": "integer", "minimum": 1, "maximum": 1.5e3},
        "hours": {"type": "array", "items": {"type": "integer"}, "description": "which hours"},
    },
    ["place"],
)
CLOCK = tool("clock", "What time it is", {}, [])
USER = {"role": "user", "content": "Hello, who are you?"}
SYSTEM = {"role": "system", "content": "  You are brief.\n"}
ASSISTANT = {"role": "assistant", "content": "I am a program.  "}
AGAIN = {"role": "user", "content": "Grüße, 你好 & <b>\"quotes\"</b> it's\n\nfine \U0001f600"}
CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [
        {"type": "function", "id": "abc123def", "function": {"name": "get_weather", "arguments": {"place": "Zürich", "days": 2}}}
    ],
}
CALLS = {
    "role": "assistant",
    "content": None,
    "tool_calls": CALL["tool_calls"]
    + [{"type": "function", "id": "xyz789uvw", "function": {"name": "clock", "arguments": {}}}],
}
ANSWER = {"role": "tool", "name": "get_weather", "tool_call_id": "abc123def", "content": "{\"degrees\": 21.5}"}
SECOND = {"role": "tool", "name": "clock", "tool_call_id": "xyz789uvw", "content": "noon"}
THOUGHT = {"role": "assistant", "content": "<think>\nIs it 4?\n</think>\n\nIt is 4.", "reasoning_content": "Is it 4?"}
PARTS = {
    "role": "user",
    "content": [{"type": "text", "text": "What is this?"}, {"type": "image", "url": "x"}, {"type": "text", "text": " And this?"}],
}

CONVERSATIONS = {
    "one": [USER],
    "system": [SYSTEM, USER],
    "turns": [SYSTEM, USER, ASSISTANT, AGAIN],
    "no system": [USER, ASSISTANT, AGAIN, ASSISTANT],
    "two users": [USER, AGAIN],
    "call": [SYSTEM, USER, CALL, ANSWER],
    "calls": [USER, CALLS, ANSWER, SECOND],
    "answered": [USER, CALL, ANSWER, ASSISTANT, AGAIN],
    "thought": [USER, THOUGHT, AGAIN],
    "parts": [SYSTEM, PARTS],
    "none": [],
    "late system": [USER, SYSTEM],
    "empty": [{"role": "user", "content": ""}, {"role": "assistant", "content": " \n "}],
}


def conversations():
    for name, messages in CONVERSATIONS.items():
        for prompt in (False, True):
            for tools in (None, [WEATHER, CLOCK]):
                if tools is None or name in ("system", "turns", "call", "calls", "answered"):
                    yield f"{name}{', prompt' if prompt else ''}{', tools' if tools else ''}", dict(
                        messages=messages,
                        add_generation_prompt=prompt,
                        tools=tools,
                        bos_token="<s>",
                        eos_token="</s>",
                    )


VARIABLES = {
    "n": 7,
    "zero": 0,
    "negative": -3,
    "half": 0.5,
    "large": 1e22,
    "s": "Hello World",
    "blank": "  \t padded\n ",
    "word": "ünïcode 你好 😀",
    "quoted": "it's \"so\" \\ <&>",
    "lines": "one\n\ntwo\r\nthree",
    "empty": "",
    "list": [3, 1, 2],
    "words": ["b", "A", "c", "a"],
    "nested": [[1, [2, 3]], [], ["x"]],
    "d": {"b": 1, "a": [True, None, 2.5], "items": "of my own", "C": {"k": "v"}},
    "people": [{"name": "Ann", "age": 30}, {"name": "bob", "age": 25}, {"name": "Cid"}, {"name": "ann", "age": 30}],
    "yes": True,
    "no": False,
    "nothing": None,
}


def main():
    templates = []
    for path in sorted((HERE / "templates").iterdir()):
        text = path.read_text()
        cases = []
        for name, variables in conversations():
            output, raised = render(text, variables)
            cases.append({"name": name, **({"output": output} if output is not None else {"raised": raised})})
        templates.append({"name": path.name, "cases": cases})
    expressions = []
    for line in (HERE / "expressions").read_text().splitlines():
        if line and not line.startswith("##"):
            template = json.loads(f'"{line[1:]}"') if line.startswith("\\") else line
            output, raised = render(template, VARIABLES)
            expressions.append(
                {"template": template, **({"output": output} if output is not None else {"raised": raised})}
            )
    everything = {
        "now": int(NOW.replace(tzinfo=datetime.timezone.utc).timestamp()),
        "variables": VARIABLES,
        "conversations": dict(conversations()),
        "templates": templates,
        "expressions": expressions,
    }
    (HERE / "expected.json").write_text(json.dumps(everything, indent=1, ensure_ascii=False) + "\n")
    errors = sum("raised" in case for case in expressions)
    print(f"{len(templates)} templates, {len(expressions)} expressions, {errors} of them errors")


if __name__ == "__main__":
    main()
