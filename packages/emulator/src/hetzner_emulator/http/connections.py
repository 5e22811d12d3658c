"""A log filter for connections that send no valid HTTP, or close early."""

import logging

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError


class ShortClientErrors(logging.Filter):
    """Log one line for a client that sends no valid HTTP or closes early; aiohttp logs a stack trace."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Shorten the record, which is always logged."""
        error = record.exc_info[1] if record.exc_info else None
        # A client can't cause "refused": the emulator itself sent that request.
        left = isinstance(error, ConnectionError) and not isinstance(error, ConnectionRefusedError)
        if left or isinstance(error, HttpProcessingError | web.RequestPayloadError):
            record.exc_info, record.exc_text = None, None
            record.levelno, record.levelname = logging.INFO, logging.getLevelName(logging.INFO)
            text = "closed the connection" if left else "sent no valid HTTP"
            record.msg, record.args = "a client %s (%s)", (text, type(error).__name__)
        return True
