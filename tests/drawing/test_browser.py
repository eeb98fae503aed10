"""The tests of pages see what they are there to see: each test here makes a page that does what a report must never do."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser import Browser, Keys, Page, PageError

READY = "<script>document.documentElement.dataset.ready = 'true'</script>"


def made(folder: Path, body: str, head: str = "") -> Path:
    path = folder / "page.html"
    path.write_text(f"<!doctype html><html lang=en><meta charset=utf-8>{head}<title>t</title><body>{body}", "utf-8")
    return path


def opened(chromium: Browser, folder: Path, body: str, head: str = "") -> Page:
    page = chromium.open(made(folder, body, head), wait=False)
    page.settle()
    return page


def test_a_page_without_faults_is_well(chromium: Browser, tmp_path: Path) -> None:
    page = chromium.open(made(tmp_path, f"<p>fine</p>{READY}"))
    page.assert_well()
    assert page.text() == "fine"
    assert 0 < page.drawn_after() < 60


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ("<script>console.error('oh no')</script>", "oh no"),
        ("<script>console.warn('hm')</script>", "hm"),
        ("<script>missing.name</script>", "missing is not defined"),
        ("<script>Promise.reject(new Error('later'))</script>", "later"),
        ("<img src='http://127.0.0.1:9/a.png'>", "http://127.0.0.1:9/a.png"),
        ("<script>fetch('http://127.0.0.1:9/b').catch(() => 0)</script>", "http://127.0.0.1:9/b"),
        ("<script>new WebSocket('ws://127.0.0.1:9/c')</script>", "ws://127.0.0.1:9/c"),
        ("<script src='other.js'></script>", "other.js"),
        ("<link rel=stylesheet href='https://example.invalid/d.css'>", "example.invalid/d.css"),
    ],
)
def test_a_fault_is_seen(chromium: Browser, tmp_path: Path, body: str, seen: str) -> None:
    page = opened(chromium, tmp_path, body)
    page.wait_for(lambda: page.console() or page.requests() or page.errors(), "fault")
    with pytest.raises(AssertionError) as found:
        page.assert_well()
    assert seen in str(found.value)


@pytest.mark.parametrize(
    ("body", "seen"),
    [
        ("<script>1</script>", "script-src"),
        ("<p style='color: red'>red</p>", "style-src"),
        ("<img src='x' onerror='1'>", "img-src"),
    ],
)
def test_what_a_policy_stops_is_seen(chromium: Browser, tmp_path: Path, body: str, seen: str) -> None:
    policy = """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'none'; style-src 'none'; img-src data:">"""
    page = opened(chromium, tmp_path, body, policy)
    assert any(seen in violation for violation in page.violations())
    with pytest.raises(AssertionError, match=seen):
        page.assert_well()


def test_faults_of_the_page_before_are_not_those_of_the_next(chromium: Browser, tmp_path: Path) -> None:
    opened(chromium, tmp_path, "<script>console.error('oh no'); missing.name</script><img src='http://127.0.0.1:9/'>")
    chromium.open(made(tmp_path, READY)).assert_well()


def test_a_page_that_says_that_it_failed_is_not_taken_for_drawn(chromium: Browser, tmp_path: Path) -> None:
    with pytest.raises(PageError, match="failed"):
        chromium.open(made(tmp_path, "<script>document.documentElement.dataset.ready = 'failed'</script>"))


def test_a_page_that_never_says_that_it_is_drawn_is_not_waited_for_without_end(
    chromium: Browser, tmp_path: Path
) -> None:
    page = opened(chromium, tmp_path, "<p>still at it</p>")
    with pytest.raises(PageError, match="no ready mark"):
        page.wait_until_drawn(0.1)


@pytest.mark.parametrize(("width", "over"), [(400, 200), (1400, 0)])
def test_a_page_wider_than_the_window_is_seen(chromium: Browser, tmp_path: Path, width: int, over: int) -> None:
    style = "<style>body { margin: 0 } div { width: 600px }</style>"
    page = chromium.open(made(tmp_path, f"<div>wide</div>{READY}", style), width=width)
    assert page.run("return innerWidth") == width
    assert page.overflow() == over


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_told_what_the_person_prefers(chromium: Browser, tmp_path: Path, scheme: str) -> None:
    page = chromium.open(made(tmp_path, READY), scheme=scheme)
    assert page.run("return matchMedia('(prefers-color-scheme: dark)').matches") is (scheme == "dark")


def test_pointer_and_keys_reach_the_page(chromium: Browser, tmp_path: Path) -> None:
    body = """<style>div { margin-top: 2000px; width: 800px; height: 100px } button { outline: none }</style>
    <div tabindex=0></div><button>b</button><script>
    const seen = [], box = document.querySelector("div");
    for (const name of ["pointerdown", "pointermove", "pointerup", "click", "dblclick"])
      box.addEventListener(name, (e) => seen.push(name + " " + Math.round(e.offsetX)));
    addEventListener("keydown", (e) => seen.push(e.key));
    box.addEventListener("wheel", (e) => { seen.push("wheel " + e.deltaY); e.preventDefault(); }, {passive: false});
    document.documentElement.dataset.ready = "true";</script>"""
    page = chromium.open(made(tmp_path, body))

    def seen() -> list[str]:
        return list(page.run("return seen.splice(0)"))

    page.hover("div", 0.25)
    assert seen()[-1] == "pointermove 200"
    page.click("div", 0.75)
    assert seen()[-3:] == ["pointerdown 600", "pointerup 600", "click 600"]
    page.drag("div", 0.25, 0.75)
    moves = seen()
    assert moves.index("pointerdown 200") < moves.index("pointermove 400") < moves.index("pointerup 600")
    page.wheel("div", 120)
    assert "wheel 120" in seen()
    page.press(Keys.ARROW_LEFT, "+", Keys.ESCAPE)
    assert seen() == ["ArrowLeft", "+", "Escape"]
    assert [(stop["tag"], stop["visible"]) for stop in page.tab_stops()] == [("div", "true"), ("button", "false")]


def test_what_a_screen_reader_has_and_what_is_drawn(chromium: Browser, tmp_path: Path) -> None:
    body = f"""<canvas role=img aria-label="A curve" width=10 height=10></canvas><button aria-label="Zoom in">+</button>
    <canvas id=drawn width=10 height=10></canvas><script>document.getElementById("drawn").getContext("2d").fillRect(0, 0, 5, 5)</script>
    <table><tr><th>a<tr><td>1 </table>{READY}"""
    page = chromium.open(made(tmp_path, body))
    accessible = page.accessible()
    assert {"role": "button", "name": "Zoom in"} in accessible
    assert any(node["name"] == "A curve" and node["role"].startswith("im") for node in accessible)
    assert page.pixels("canvas") == 1
    assert page.pixels("#drawn") == 2
    assert page.table("table") == [["a"], ["1"]]
    shot = page.screenshot(tmp_path / "page.png")
    assert shot.read_bytes().startswith(b"\x89PNG")
