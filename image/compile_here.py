"""Compiles Python files: run by the image's Python, never imported; needs nothing but its library.

A tar archive of sources comes in through standard input, one of compiled files goes out through standard
output. These hold a hash of their source in place of its time, and say that nobody need compare it.
"""

import importlib.util
import io
import marshal
import sys
import tarfile

UNCHECKED_HASH = (0b01).to_bytes(4, "little")


def compiled(path: str, source: bytes) -> bytes:
    """The compiled file of a source."""
    code = compile(source, f"/{path}", "exec", dont_inherit=True, optimize=0)
    return (
        importlib.util.MAGIC_NUMBER
        + UNCHECKED_HASH
        + importlib.util.source_hash(source)
        + marshal.dumps(code)
    )


def main() -> None:
    """Compiles what comes in; what is no valid Python is left out, as ``compileall`` does."""
    tag = sys.implementation.cache_tag
    with (
        tarfile.open(fileobj=sys.stdin.buffer, mode="r|") as sources,
        tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as target,
    ):
        for member in sources:
            file = sources.extractfile(member)
            if file is None:
                continue
            try:
                content = compiled(member.name, file.read())
            except SyntaxError:
                continue
            folder, _, name = member.name.rpartition("/")
            entry = tarfile.TarInfo(f"{folder}/__pycache__/{name.removesuffix('.py')}.{tag}.pyc")
            entry.size = len(content)
            target.addfile(entry, io.BytesIO(content))


if __name__ == "__main__":
    main()
