"""The table of faults and probes for a page: narrow columns, their names written upwards."""

import html as escaping

from utils.fault_table import mark, silent

UPWARDS = "writing-mode: vertical-rl; transform: rotate(180deg); text-align: left"
LINE = '<tr><th scope="row" style="text-align: left">{}</th>{}</tr>'


def html(rows):
    """Return the table of Rows as HTML: ● seen in every program, ○ in some, · in none.

    Blank where a probe could not be asked; without the columns of those that are ``silent``.
    """
    hushed = silent(rows)
    names = dict.fromkeys(name for row in rows for name in row.seen if name not in hushed)
    head = "".join(f'<th scope="col"><span style="{UPWARDS}">{escaping.escape(name)}</span></th>'
                   for name in names)
    body = "".join(LINE.format(escaping.escape(row.fault), "".join(
        f'<td style="text-align: center">{mark(row.seen.get(name))}</td>' for name in names))
        for row in rows)
    return ('<table class="dataframe"><thead><tr style="vertical-align: bottom">'
            f'<th scope="col" style="text-align: left">fault</th>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table>")
