"""A page in a browser, watched."""

from __future__ import annotations

from pathlib import Path
from typing import Any


class Watched:
    """A page with everything it said and asked for."""

    def __init__(self, browser: Any, scheme: str = "light", width: int = 1200, scripts: bool = True) -> None:
        self.scripts = scripts
        self.context = browser.new_context(
            color_scheme=scheme, viewport={"width": width, "height": 900}, java_script_enabled=scripts
        )
        self.page = self.context.new_page()
        self.messages: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.messages.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self.asked.append(request.url))

    def open(self, path: Path) -> Any:
        self.page.goto(path.as_uri())
        if path.name.startswith("ln2016") and self.scripts:
            self.page.wait_for_function("document.querySelectorAll('.panel .main-svg').length >= 6")  # 3 a panel
        return self.page

    def traces(self, panel: int = 0) -> list[dict[str, Any]]:
        found = self.page.evaluate(
            "i => document.querySelectorAll('.panel:not(.empty)')[i].data.map(t => "
            "({arm: t.meta.arm, role: t.meta.role, visible: t.visible !== false, colour: t.line.color}))",
            panel,
        )
        return list(found)
