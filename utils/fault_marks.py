"""The Rows of ``utils.fault_table`` as text and as HTML: ● seen in every program, ○ in some.

· is in none, and blank where a probe could not be asked.
"""

import html as escaping

UPWARDS = "writing-mode: vertical-rl; transform: rotate(180deg); text-align: left"
LINE = '<tr><th scope="row" style="text-align: left">{}</th>{}</tr>'


def silent(rows):
    """Return the names of the probes that saw none of these faults."""
    names = dict.fromkeys(name for row in rows for name in row.seen)
    return [name for name in names if not any(row.seen.get(name) for row in rows)]


def markdown(rows):
    """Return the table as text: ● seen in every program, ○ in some, · in none, blank not asked.

    Without the columns of those that are ``silent``.
    """
    hushed = silent(rows)
    names = dict.fromkeys(name for row in rows for name in row.seen if name not in hushed)
    lines = [["fault", *names], ["---"] * (len(names) + 1)]
    for row in rows:
        marks = [_mark(row.seen.get(name)) for name in names]
        lines.append([row.fault, *marks])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def html(rows):
    """Return the table of Rows as HTML: ● seen in every program, ○ in some, · in none.

    Blank where a probe could not be asked; without the columns of those that are ``silent``.
    """
    hushed = silent(rows)
    names = dict.fromkeys(name for row in rows for name in row.seen if name not in hushed)
    head = "".join(f'<th scope="col"><span style="{UPWARDS}">{escaping.escape(name)}</span></th>'
                   for name in names)
    body = "".join(LINE.format(escaping.escape(row.fault), "".join(
        f'<td style="text-align: center">{_mark(row.seen.get(name))}</td>' for name in names))
        for row in rows)
    return ('<table class="dataframe"><thead><tr style="vertical-align: bottom">'
            f'<th scope="col" style="text-align: left">fault</th>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table>")


def _mark(share):
    return " " if share is None else "●" if share == 1 else "○" if share else "·"
