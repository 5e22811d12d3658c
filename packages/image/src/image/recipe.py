"""What is in the image and how it starts."""

SUITE = "trixie"
PYTHON = "3.13"
ROOTS = ("base-files", "ca-certificates", f"libpython{PYTHON}-stdlib", "netbase", f"python{PYTHON}-minimal")
"""The Debian packages in the image. The build adds the dependencies of these packages."""

LEFT_OUT = {
    "awk": "scripts that configure packages",
    "debconf": "asks questions while a package is configured",
    "libdb5.3t64": "for dbm",
    "libncursesw6": "for curses",
    "libreadline8t64": "edits lines at an interactive prompt",
    "libsqlite3-0": "for sqlite3",
    "libtinfo6": "for curses",
    "media-types": "maps file name extensions to media types",
    "openssl": "contains the command `openssl`. Python's ssl module requires only the OpenSSL library",
    "openssl-provider-legacy": "obsolete ciphers",
    "tzdata": "contains time zones. The CCM uses only UTC",
}
"""Dependencies that the image doesn't contain, and the purpose of each dependency."""

REPOSITORY = "localhost/ccm-from-scratch"
USER = 65532
SITE = "opt/ccm/site"
APPLICATION = "opt/ccm/app"
SBOM = "opt/ccm/sbom.cdx.json"
AUTHORITIES = "etc/ssl/certs"
CERTIFICATES = f"{AUTHORITIES}/ca-certificates.crt"
OPENSSL = "usr/lib/ssl/certs"
"""OpenSSL's default folder for certificates. In Debian, the package ``openssl`` creates a link at this path,
but the image doesn't contain that package."""
STDLIB = f"usr/lib/python{PYTHON}"
PROGRAM = f"usr/bin/python{PYTHON}"
EPOCH = 1767225600
"""The modification time of all files: 2026-01-01, in seconds since 1970. If SOURCE_DATE_EPOCH isn't set, the
image's creation time is also 2026-01-01."""

_MODULES_LEFT_OUT = frozenset(
    {
        "curses",
        "dbm",
        "ensurepip",
        "idlelib",
        "lib2to3",
        "pydoc_data",
        "sqlite3",
        "test",
        "tkinter",
        "turtledemo",
        "unittest",
    }
)
"""Modules of Python's standard library that the CCM never imports."""

_EXTENSIONS_LEFT_OUT = ("_curses", "_curses_panel", "_dbm", "_sqlite3", "readline")
"""Python extension modules that the build omits, because the image doesn't contain their libraries."""

_FOLDERS_LEFT_OUT = (
    "usr/sbin",
    "usr/share/base-files",
    "usr/share/ca-certificates",
    "usr/lib/binfmt.d",
    "usr/lib/valgrind",
    "var/backups",
    "var/cache",
    "var/log",
    "var/mail",
    "var/spool",
    "boot",
    "dev",
    "home",
    "media",
    "mnt",
    "opt",
    "srv",
    "etc/dpkg",
    "etc/init.d",
    "etc/kernel",
    "etc/update-motd.d",
)


def settings() -> dict[str, object]:
    """How the container starts, as in an OCI image configuration's ``config``."""
    return {
        "User": f"{USER}:{USER}",
        "WorkingDir": "/",
        "Entrypoint": [f"/{PROGRAM}", "-m", "ccm"],
        "Env": [
            "PATH=/usr/bin:/bin",
            f"PYTHONPATH=/{APPLICATION}:/{SITE}",
            "PYTHONDONTWRITEBYTECODE=1",
            "PYTHONUNBUFFERED=1",
        ],
    }


def is_kept(path: str) -> bool:
    """Whether a file of a Debian package, by its path from the root, belongs in the image."""
    parts = path.split("/")
    if parts[:2] == ["usr", "bin"]:
        return path == PROGRAM
    if path.startswith(f"{STDLIB}/"):
        return not _is_left_out_of_python(parts[3:])
    if parts[:2] == ["usr", "share"]:
        return _is_license(parts[2:])
    if len(parts) > 3 and parts[3] in {"gconv", "audit", "ossl-modules", "engines-3"}:  # of C libraries
        return False
    return not any(path == folder or path.startswith(f"{folder}/") for folder in _FOLDERS_LEFT_OUT)


def _is_left_out_of_python(parts: list[str]) -> bool:
    if parts[0] == "lib-dynload" and len(parts) > 1:
        return parts[1].split(".")[0] in _EXTENSIONS_LEFT_OUT
    return parts[0] in _MODULES_LEFT_OUT or "__pycache__" in parts


def _is_license(parts: list[str]) -> bool:
    """Packages of one source may have a link to the documentation of one of them."""
    return parts[0] == "common-licenses" or (
        parts[0] == "doc" and (len(parts) == 2 or parts[-1] == "copyright")
    )


def is_dead_weight(path: str) -> bool:
    """Whether a file of the dependencies, by path relative to their folder, is never used.

    The ``kubernetes`` package has 70 MB of generated models and API classes, loaded one by one when asked
    for. Only ccm/kube/transport.py imports the package, and asks for none. Their packages' ``__init__`` stay.
    Notes of the installer (RECORD and the like) name this machine's paths.
    """
    parts = path.split("/")
    if parts[0] == "bin" or {"tests", "test"} & set(parts[:-1]) or "__pycache__" in parts:
        return True
    if parts[0].endswith(".dist-info") and parts[-1] in {"RECORD", "INSTALLER", "REQUESTED"}:
        return True
    generated = parts[0] == "kubernetes" and ("models" in parts[:-1] or "api" in parts[:-1])
    return (generated and parts[-1] != "__init__.py") or parts[-1].endswith(
        (".pyi", ".pyx", ".pxd", ".c", ".h", ".lock")
    )
