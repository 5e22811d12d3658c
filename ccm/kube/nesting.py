"""JSON text that is nested more deeply than it can be read.

A user who may write an object chooses what its ``metadata.managedFields`` say: the API server stores what
it receives, nested up to 10,000 times, and sends it in one list with all other objects. Decoders give up
before that, even over what they pass over, so nothing of such a list could be read.
"""

import re

# Levels. Some times as many as Kubernetes' own objects have in a list, with all that is managed of them.
DEEPEST = 100
_NO_API_SERVERS = 20_000
# A bracket; or a string, which goes on to the end if it has none, with the empty pair of brackets that
# follows most strings in managedFields. No group is repeated: re would remember each turn of it.
_TOKEN = re.compile(rb'([\[{])|([\]}])|"[^"]*+(?:"[^"\[\]{}]*+(?:\{\}|\[\])?)?')


def shallow(text: bytes) -> bytes:
    """The same JSON text with null for most of what is nested more than :data:`DEEPEST` times."""
    parts: list[bytes] = []
    depth = kept = 0
    # As long as the text, and no quotation mark in a string.
    bare = text.replace(rb"\\", b"--").replace(rb"\"", b"--")
    for match in _TOKEN.finditer(bare):
        if match.lastindex == 1:
            if depth == DEEPEST:
                parts.append(text[kept : match.start()])
            depth += 1
            if depth > _NO_API_SERVERS:
                break  # it could go on for as long as the text is
        elif match.lastindex == 2:
            depth -= 1
            if depth == DEEPEST:
                parts.append(b"null")
                kept = match.end()
    return b"".join((*parts, text[kept:]))
