"""What tests ask a page about itself: contrast, names of controls, width."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page

LIMIT_S = 60.0

#: Texts whose contrast with what is behind them is below WCAG AA (4.5, large ones 3), each with its ratio.
_FAINT = """
() => {
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (text) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = text;
    pen.fillRect(0, 0, 1, 1);
    return [...pen.getImageData(0, 0, 1, 1).data];
  };
  const linear = (part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  const WEIGHTS = [0.2126, 0.7152, 0.0722];
  const light = (rgb) => WEIGHTS.reduce((sum, weight, place) => sum + weight * linear(rgb[place] / 255), 0);
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const found = rgba(getComputedStyle(one).backgroundColor);
      if (found[3] > 250) return found;
    }
    return [255, 255, 255, 255];
  };
  const faint = [];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    const text = texts.currentNode.textContent.trim().slice(0, 40);
    if (!text || !element.checkVisibility() || element.closest(":disabled, .unseen, option")) continue;
    const style = getComputedStyle(element);
    const [one, other] = [light(rgba(style.color)), light(behind(element))].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (other + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) faint.push(`${text}: ${ratio.toFixed(2)}`);
  }
  return faint;
}
"""
_CONTROLS = (
    "button",
    "link",
    "textbox",
    "searchbox",
    "combobox",
    "spinbutton",
    "application",
    "table",
    "region",
)


def await_true(page: Page, script: str) -> None:
    """Until an expression is true: Playwright's own way of waiting is one that the page does not allow."""
    deadline_s = time.monotonic() + LIMIT_S
    while not page.evaluate(script):
        assert time.monotonic() < deadline_s, f"it does not come true: {script}"
        page.wait_for_timeout(50)


def faint_texts(page: Page) -> Any:
    """Texts that are hard to read."""
    return page.evaluate(_FAINT)


def unnamed_controls(page: Page) -> list[str]:
    """Lines of the accessibility tree with a control or a table that has no name."""
    lines = page.locator("body").aria_snapshot().splitlines()
    wanted = "|".join(_CONTROLS)
    return [line for line in lines if re.match(rf"\s*- ({wanted})(:|$| \[)", line)]


def sideways(page: Page) -> int:
    """By how many pixels the page is wider than its window."""
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def focused(page: Page) -> str:
    """What has the focus: its text, or its label."""
    script = "(one) => one.getAttribute('aria-label') || one.innerText || one.id"
    return str(page.locator(":focus").evaluate(script)).strip()
