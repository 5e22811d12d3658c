"""Compiles Python files: run by the image's Python, never imported; needs nothing but its library.

A tar archive of sources comes in through standard input, one of compiled files goes out through standard
output. These hold a hash of their source in place of its time, and say that nobody need compare it.
"""

import ast
import importlib.util
import io
import marshal
import sys
import tarfile

UNCHECKED_HASH = (0b01).to_bytes(4, "little")


def compiled(path: str, source: bytes, *, docstrings: bool) -> bytes:
    """The compiled file of a source."""
    tree = ast.parse(source)
    if not docstrings:
        remove_docstrings(tree)
    code = compile(tree, f"/{path}", "exec", dont_inherit=True, optimize=0)
    return (
        importlib.util.MAGIC_NUMBER
        + UNCHECKED_HASH
        + importlib.util.source_hash(source)
        + marshal.dumps(code)
    )


def remove_docstrings(tree: ast.Module) -> None:
    """Takes them out as ``python -OO`` does; unlike there, asserts stay."""
    for node in ast.walk(tree):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if documented and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.copy_location(ast.Pass(), node.body[0])]


def main(prefix: str) -> None:
    """Compiles what comes in; what is no valid Python is left out, as ``compileall`` does.

    Args:
        prefix: Of the paths of files that keep their docstrings.
    """
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
                content = compiled(member.name, file.read(), docstrings=member.name.startswith(prefix))
            except SyntaxError:
                continue
            folder, _, name = member.name.rpartition("/")
            entry = tarfile.TarInfo(f"{folder}/__pycache__/{name.removesuffix('.py')}.{tag}.pyc")
            entry.size = len(content)
            target.addfile(entry, io.BytesIO(content))


if __name__ == "__main__":
    main(sys.argv[1])
