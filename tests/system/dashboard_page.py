"""A page of `gpuactors dashboard` as a browser reads it: its elements, texts and tables."""

import html.parser

VOID = {"meta", "link", "br"}


class Element:
    """An element with its attributes, and its elements and texts in their order."""

    def __init__(self, name, attributes):
        self.name = name
        self.attributes = attributes
        self.children = []

    def all(self, name, **attributes):
        """All elements of this name within, with these attributes (a last underscore is left out, others are -)."""
        wanted = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
        for child in self.children:
            if isinstance(child, Element):
                if child.name == name and all(child.attributes.get(key) == wanted[key] for key in wanted):
                    yield child
                yield from child.all(name, **attributes)

    def one(self, name, **attributes):
        found = list(self.all(name, **attributes))
        assert len(found) == 1, f"{len(found)} elements {name} with {attributes}"
        return found[0]

    def text(self):
        return "".join(child.text() if isinstance(child, Element) else child for child in self.children)

    def rows(self):
        """The rows of the only table within, as texts by the column's title; none without a table."""
        titles = [cell.text() for cell in self.all("th")]
        rows = [[cell.text() for cell in row.all("td")] for body in self.all("tbody") for row in body.all("tr")]
        assert all(len(row) == len(titles) for row in rows), (titles, rows)
        return [dict(zip(titles, row)) for row in rows]


class _Parser(html.parser.HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.open = [Element("", {})]

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            assert value is not None, f"<{tag}> has {name} without a value"
            assert name != "style" and not name.startswith("on"), f"<{tag}> has {name}, which the policy forbids"
        assert tag != "style", "a style within the page, which the policy forbids"
        assert len({name for name, _ in attrs}) == len(attrs), f"<{tag}> has an attribute twice: {attrs}"
        element = Element(tag, dict(attrs))
        self.open[-1].children.append(element)
        self.open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open[-1].name == tag, f"</{tag}> closes <{self.open[-1].name}>"
        assert tag not in VOID, f"</{tag}>, which has nothing in it"
        self.open.pop()

    def handle_data(self, data):
        # A script of the page itself would stand here.
        assert self.open[-1].name != "script" or not data, data
        self.open[-1].children.append(data)


def read(text):
    """The page, or a part of one; what is not well-formed, or what the policy of the page forbids, is an error."""
    parser = _Parser()
    parser.feed(text)
    parser.close()
    assert len(parser.open) == 1, f"<{parser.open[-1].name}> is not closed"
    return parser.open[0]
