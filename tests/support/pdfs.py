"""Small PDFs, made by hand: pages of text, a title, a password.

    pdf(["Capybaras swim.", "They also sleep."], title="Capybaras")
    pdf(["secret"], encrypted=True)      # opens with a password that nobody knows
"""

from __future__ import annotations

from collections.abc import Sequence


def pdf(pages: Sequence[str], *, title: str = "", encrypted: bool = False) -> bytes:
    """A PDF with a page for each text, its lines in Helvetica; Latin-1 only."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    objects.append(f"<< /Title ({_escaped(title)}) >>".encode("latin-1"))
    kids = []
    for text in pages:
        content = _content(text)
        number = len(objects) + 1
        kids.append(f"{number} 0 R")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {number + 1} 0 R "
            f"/Resources << /Font << /F1 3 0 R >> >> >>".encode()
        )
        objects.append(b"<< /Length %d >>\nstream\n%b\nendstream" % (len(content), content))
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(pages)} >>".encode()
    return _file(objects, _ENCRYPT if encrypted else "")


_ENCRYPT = f"/ID [<{'00' * 16}> <{'00' * 16}>] /Encrypt << /Filter /Standard /V 2 /R 3 /Length 128 /P -44 " \
           f"/O <{'5a' * 32}> /U <{'a5' * 32}> >>"  # fmt: skip
"""No password gives these checksums, not even the empty one that a reader tries by itself."""


def _content(text: str) -> bytes:
    lines = " ".join(f"({_escaped(line)}) Tj 0 -14 Td" for line in text.split("\n"))
    return f"BT /F1 12 Tf 72 720 Td {lines} ET".encode("latin-1")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")


def _file(objects: Sequence[bytes], trailer: str) -> bytes:
    parts, places, at = [b"%PDF-1.7\n"], [], 9
    for number, body in enumerate(objects, start=1):
        places.append(at)
        parts.append(b"%d 0 obj\n%b\nendobj\n" % (number, body))
        at += len(parts[-1])
    parts.append(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    parts += [b"%010d 00000 n \n" % place for place in places]
    last = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R /Info 4 0 R {trailer} >>\nstartxref\n{at}\n%%EOF\n"
    return b"".join([*parts, last.encode()])
