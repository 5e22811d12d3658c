"""Compiles Python files: run by the image's Python, never imported; needs nothing but its library.

A tar archive of sources comes in through standard input, one of compiled files goes out through standard
output. These have a hash of their source in place of its time, and a flag that it is not compared.
"""

import ast
import importlib.util
import io
import marshal
import sys
import tarfile
from collections.abc import Iterator
from types import CodeType
from typing import Any

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
        + marshal.dumps(canonical(code))
    )


def canonical(code: CodeType) -> CodeType:
    """The same code with one object per string: its bytes don't depend on what this interpreter has loaded.

    A name that a loaded module has, too, is that module's string. An equal constant is then another string,
    which ``marshal`` writes separately.
    """
    strings = {name: sys.intern(name) for name in _names(code)}
    return _with(code, strings)


def _names(code: CodeType) -> Iterator[str]:
    yield from (code.co_name, code.co_qualname, code.co_filename)
    yield from (*code.co_names, *code.co_varnames, *code.co_cellvars, *code.co_freevars)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _with(value: Any, strings: dict[str, str]) -> Any:
    """A code object or one of its constants, with one object for each string."""
    match value:
        case str():
            return strings.setdefault(value, value)
        case tuple():
            return tuple(_with(item, strings) for item in value)
        case frozenset():
            return frozenset(_with(item, strings) for item in value)
        case CodeType():
            names = ("co_consts", "co_names", "co_name", "co_qualname", "co_filename")
            return value.replace(**{name: _with(getattr(value, name), strings) for name in names})
        case _:
            return value


def remove_docstrings(tree: ast.Module) -> None:
    """Takes them out as ``python -OO`` does; unlike there, asserts stay."""
    for node in ast.walk(tree):
        documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        if documented and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.copy_location(ast.Pass(), node.body[0])]


def main(prefix: str) -> None:
    """Compile the input, except invalid Python; paths with ``prefix`` keep their docstrings."""
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
