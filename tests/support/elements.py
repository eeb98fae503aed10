"""The elements of a page of HTML."""

from __future__ import annotations

from collections import defaultdict
from html.parser import HTMLParser

Attributes = dict[str, str | None]


class Elements(HTMLParser):
    """The tags of a page with their attributes, and the texts in the elements of each name."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, Attributes]] = []
        self.texts: defaultdict[str, list[str]] = defaultdict(list)
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def all(self, tag: str) -> list[Attributes]:
        return [attributes for name, attributes in self.tags if name == tag]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)
        self.texts[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        self.text += data
        for tag in set(self.open):
            self.texts[tag][-1] += data
