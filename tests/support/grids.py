"""The tables of a page that are shown in pages of rows."""

from __future__ import annotations

from browser import Page


def rows_of(page: Page, table: str) -> list[dict[str, str]]:
    """The rows of a table on all of its pages, each by the names of its figures."""
    script = """
    return [...document.querySelectorAll(arguments[0] + " tbody tr")].map((row) => ({row: row.dataset.row, ...Object.fromEntries(
      [...row.querySelectorAll("td[data-key]")].map((cell) => [cell.dataset.key, cell.dataset.value]))}));"""
    found: list[dict[str, str]] = []
    for _ in range(1000):
        found += page.run(script, table)
        following = """
        const next = document.querySelector(arguments[0]).parentElement.previousElementSibling.querySelector("button[aria-label='Next page']");
        if (!next || next.disabled || next.hidden) return false;
        next.click();
        return true;"""
        if not page.run(following, table):
            break
    return found
