"""What Ray's programs here write: a peer's rows, for `gpuactors-bench --peers`."""

import json


def write(name, rows, path):
    """Into the file `path`, or to standard output without one."""
    text = json.dumps({"peer": name, "rows": rows})
    if not path:
        print(text)
        return
    with open(path, "w", encoding="utf-8") as file:
        print(text, file=file)
