#!/usr/bin/env python3
"""Builds the book: docs/SUMMARY.md and its pages, as target/book/index.html.

mdBook makes pages of one directory only, so the pages and the files that they link to are copied to
target/book-source first, in the same places. Fails if a link of the book leads nowhere.
"""

import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
SOURCE = ROOT / "target/book-source"
PAGES = SOURCE / "pages"
BOOK = ROOT / "target/book"
LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")


def local(page, target):
    """The file in the repository that a page links to; `None` for an address of a site."""
    return None if urlsplit(target).scheme else (page.parent / unquote(target)).resolve()


def pages():
    """The pages of the summary, in order."""
    summary = DOCS / "SUMMARY.md"
    return [local(summary, target) for target in LINK.findall(summary.read_text())]


def stage():
    shutil.rmtree(SOURCE, ignore_errors=True)
    shutil.rmtree(BOOK, ignore_errors=True)
    copied = set(pages())
    for page in pages():
        copied |= {local(page, target) for target in LINK.findall(page.read_text())} - {None}
    for file in sorted(copied):
        place = PAGES / file.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        if file.is_dir():
            shutil.copytree(file, place, dirs_exist_ok=True)
        else:
            shutil.copy(file, place)
    # The book shows the summary beside each page, not as a page.
    readme = PAGES / "README.md"
    readme.write_text(readme.read_text().replace("](docs/SUMMARY.md)", "](toc.html)"))
    summary = (DOCS / "SUMMARY.md").read_text()
    from_root = re.sub(r"\]\((?:\.\./)?", lambda up: "](" if up[0] != "](" else "](docs/", summary)
    (PAGES / "SUMMARY.md").write_text(from_root)
    shutil.copy(DOCS / "book.toml", SOURCE)


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.targets = []

    def handle_starttag(self, tag, attributes):
        self.targets += [value for name, value in attributes if name in ("href", "src") and value]


def dead_links():
    for page in sorted(BOOK.rglob("*.html")):
        links = Links()
        links.feed(page.read_text())
        # 404.html is shown at any address.
        for target in links.targets if page.name != "404.html" else []:
            parts = urlsplit(target)
            if not parts.scheme and parts.path and not (page.parent / unquote(parts.path)).exists():
                yield f"{page.relative_to(BOOK)}: {target} leads nowhere"


def main():
    mdbook = ROOT / ".deps/bin/mdbook"
    stage()
    subprocess.run([mdbook, "build", SOURCE, "--dest-dir", BOOK], check=True)
    dead = list(dead_links())
    if dead:
        sys.exit("\n".join(dead))
    print(f"{BOOK.relative_to(ROOT)}/index.html: {len(pages())} pages")


if __name__ == "__main__":
    main()
