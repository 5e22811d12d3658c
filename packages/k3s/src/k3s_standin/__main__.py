"""Entry of the zipapp."""

import contextlib
import sys

from k3s_standin.clients import run_at_once, words_of
from k3s_standin.errors import UsageError

with contextlib.suppress(UsageError):  # main reports it
    run_at_once(words_of(sys.argv))

from k3s_standin.cli import main

sys.exit(main(sys.argv))
