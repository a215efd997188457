"""Write the address of the course everywhere it stands.

    python scripts/address.py [https://github.com/OWNER/NAME [REF]]

The address stands in _config.yml. From there it goes into the setup cell and into every notebook's
copy of it, the links to Colab, README.md, CONTRIBUTING.md and CITATION.cff. Without arguments the
present address is written again, which mends a copy of the setup cell that has drifted.
"""

import re
import sys
from pathlib import Path

import nbformat
import yaml

ROOT = Path(__file__).resolve().parents[1]
TEXTS = ("_config.yml", "README.md", "CONTRIBUTING.md", "CITATION.cff", "scripts/setup_cell.py")
ADDRESS = re.compile(r"https://github\.com/([\w.-]+)/([\w.-]+?)(?:\.git)?/?")


def current(root=ROOT):
    """Return (url, ref), as _config.yml has them."""
    repository = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))["repository"]
    return repository["url"].rstrip("/"), repository.get("branch", "main")


def slug(url):
    """Return "owner/name". Raises ValueError for an address that Colab cannot open."""
    found = ADDRESS.fullmatch(url)
    if not found:
        raise ValueError(f"{url!r} is not of the form https://github.com/OWNER/NAME "
                         "(Colab opens notebooks from GitHub)")
    return "/".join(found.groups())


def colab(path, root=ROOT):
    """Return the link that opens a notebook in Colab; ``path`` is relative to the root."""
    url, ref = current(root)
    return f"https://colab.research.google.com/github/{slug(url)}/blob/{ref}/{path}"


def replace(text, old, new):
    """Return ``text`` with the address ``old`` replaced by ``new``, both (url, ref)."""
    (old_slug, old_ref), (new_slug, new_ref) = ((slug(url), ref) for url, ref in (old, new))
    here = re.escape(old_slug) + r"(?![\w-])"
    text = re.sub(rf"({here}/(?:blob|tree|raw)/){re.escape(old_ref)}/", rf"\g<1>{new_ref}/", text)
    text = re.sub(rf"(?m)^(\s*branch: ){re.escape(old_ref)}$", rf"\g<1>{new_ref}", text)
    text = re.sub(rf"(--branch=){re.escape(old_ref)}(?= )", rf"\g<1>{new_ref}", text)
    return re.sub(here, new_slug, text)


def write(path, text):
    """Write a text file if that changes it, with \\n line ends."""
    if path.exists() and path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8", newline="\n")


def rewrite(root, url, ref):
    """Replace the present address by (url, ref) in every file below ``root`` that bears it."""
    old, new = current(root), (f"https://github.com/{slug(url)}", ref)
    for path in [root / name for name in TEXTS] + sorted((root / "chapters").rglob("*.md")):
        if path.exists():
            write(path, replace(path.read_text(encoding="utf-8"), old, new))
    setup = (root / "scripts" / "setup_cell.py").read_text(encoding="utf-8").rstrip("\n")
    for path in sorted((root / "chapters").rglob("*.ipynb")):
        nb = nbformat.read(path, as_version=4)
        for cell in nb.cells:
            if cell.cell_type == "markdown":
                cell.source = replace(cell.source, old, new)
            elif cell.source.startswith("# @title Setup"):
                cell.source = setup
        write(path, nbformat.writes(nb) + "\n")


def main(arguments):
    """Rewrite the address, or say what is wrong with it."""
    url, ref = current()
    try:
        rewrite(ROOT, *(arguments + [url, ref][len(arguments):]))
    except ValueError as error:
        raise SystemExit(str(error)) from error
    print("The course lives at {} ({})".format(*current()))


if __name__ == "__main__":
    main(sys.argv[1:])
