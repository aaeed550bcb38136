"""A page of the program in a browser."""

import json
import re


class Page:
    """Reads and uses a page as a user would."""

    def __init__(self, browser, path):
        self.browser, self.path = browser, path

    def open(self, fragment=""):
        self.browser.open(self.path, fragment)
        self.browser.settle()
        return self

    def js(self, script):
        return self.browser.run(script)

    def text(self, selector):
        return self.js(f"document.querySelector({json.dumps(selector)})?.innerText ?? null")

    def bytes(self, selector):
        """The exact number of a size that is shown; None if the page calls it unknown."""
        value = self.js(f"document.querySelector({json.dumps(selector)})?.querySelector('data')?.value ?? null")
        return None if value is None else int(value)

    def box(self, selector):
        return self.js(f"""(() => {{ const b = document.querySelector({json.dumps(selector)}).getBoundingClientRect();
                           return [b.left, b.top, b.width, b.height]; }})()""")

    def state(self):
        """The view, from the link that keeps it. The link follows the view with a delay."""
        self.js("new Promise(done => setTimeout(done, 250))")
        text = self.js("location.hash").lstrip("#")
        return dict(pair.split("=", 1) for pair in text.split("&") if pair)

    def search(self, text):
        self.browser.key("/")
        self.browser.type(text)
        self.browser.wait_for("document.getElementById('found').textContent !== ''")
        self.browser.settle()
        found = self.text("#found")
        self.browser.key("Enter")
        return int(re.match(r"[\d,]+", found)[0].replace(",", "")), found

    def select_some_block(self):
        """Clicks into the map until a block is selected."""
        left, top, width, height = self.box(".map canvas")
        for part_y in range(19, 0, -1):
            for part_x in (10, 13, 7, 16):
                self.browser.click(left + 104 + (width - 114) * part_x / 20, top + height * part_y / 20)
                if self.text("#selection h2"):
                    return int(re.search(r"[\d,]+", self.text("#selection h2"))[0].replace(",", ""))
        raise AssertionError("no click into the map selected a block")

    def fact(self, name):
        return self.text(f'#selection [data-fact="{name}"]')
