"""Shortens JSON text that is nested too deeply for a decoder.

A user with write access to an object can put deeply nested JSON into its ``metadata.managedFields``. The API
server accepts 10,000 levels, and returns the object in a list with all other objects. Decoders fail at fewer
levels, even in fields that they skip. Without :func:`shallow`, the whole list would be undecodable.
"""

import re

# Maximum number of levels: several times the depth of a list of Kubernetes' own objects with managedFields.
DEEPEST = 100
_NO_API_SERVERS = 20_000
# Matches a bracket, or a string (an unterminated one up to the end) with the empty pair of brackets that
# follows most strings in managedFields. No group is repeated, because re would store each repetition.
_TOKEN = re.compile(rb'([\[{])|([\]}])|"[^"]*+(?:"[^"\[\]{}]*+(?:\{\}|\[\])?)?')


def shallow(text: bytes) -> bytes:
    """Replace most values that are nested more than :data:`DEEPEST` times with null."""
    parts: list[bytes] = []
    depth = kept = 0
    # This copy has the same length as the text, and its strings contain no quotation marks.
    bare = text.replace(rb"\\", b"--").replace(rb"\"", b"--")
    for match in _TOKEN.finditer(bare):
        if match.lastindex == 1:
            if depth == DEEPEST:
                parts.append(text[kept : match.start()])
            depth += 1
            if depth > _NO_API_SERVERS:
                break  # the rest may have just as many levels
        elif match.lastindex == 2:
            depth -= 1
            if depth == DEEPEST:
                parts.append(b"null")
                kept = match.end()
    return b"".join((*parts, text[kept:]))
