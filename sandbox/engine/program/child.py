"""The child process that runs the Pulumi program; what ``pulumi-language-python-exec`` is for the genuine
CLI.

It is started early, loads the SDK, and then reads one line of JSON from stdin that tells where the
engine is and what to run. When the engine dies, stdin ends, and so does the program.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import runpy
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from sandbox.parent import FAILED, end_with, own_stdin, read_line

ENGINE_GONE = "Resource monitor has terminated"
RAISED = 32  # what the genuine language host returns for an exception that it has already told


def _own_traceback(error: BaseException, program: Path) -> str:
    """The traceback from the program's first own line on."""
    frames = traceback.extract_tb(error.__traceback__)
    root = str(program if program.is_dir() else program.parent)
    first = next((number for number, frame in enumerate(frames) if frame.filename.startswith(root)), 0)
    lines = traceback.format_list(frames[first:]) + traceback.format_exception_only(error)
    return "".join(["Program failed with an unhandled exception:\n", *lines])


def _run(settings: dict[str, Any]) -> int:
    import pulumi  # noqa: PLC0415  already loaded by main, before the settings came
    from pulumi import runtime  # noqa: PLC0415

    runtime.set_all_config(settings["config"], settings["secret_keys"])
    runtime.configure(runtime.Settings(**settings["settings"]))
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.set_default_executor(ThreadPoolExecutor(max_workers=max(settings["settings"]["parallel"], 1) * 4))
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    program = Path(settings["program"])
    sys.argv = [str(program)]
    if program.is_file():
        sys.path.insert(0, str(program.parent))

    def body() -> None:
        runpy.run_path(str(program), run_name="__main__")

    try:
        loop.run_until_complete(runtime.run_in_stack(body))
    except pulumi.RunError as error:
        if ENGINE_GONE not in str(error):
            pulumi.log.error(str(error))
        return FAILED
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else FAILED if error.code else 0
    except BaseException as error:  # noqa: BLE001  whatever the program raises is told
        if ENGINE_GONE not in str(error):
            pulumi.log.error(_own_traceback(error, program))
        return RAISED
    return 0


def main() -> None:
    """Load the SDK, wait for the settings, run the program, and leave at once with its status."""
    pipe = own_stdin()
    import pulumi  # noqa: F401, PLC0415  loads while the engine still prepares itself

    line = read_line(pipe)
    end_with(pipe)
    status = _run(json.loads(line))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    main()
