"""What Ray's programs here write: a peer's rows, for `gpuactors-bench --peers`."""

import json


def write(name, rows, path, device=None):
    """Into the file `path`, or to standard output without one. With a device ("cuda", "host") the rows stand only beside
    ours on such a one."""
    text = json.dumps({"peer": name, **({"device": device} if device else {}), "rows": rows})
    if not path:
        print(text)
        return
    with open(path, "w", encoding="utf-8") as file:
        print(text, file=file)
