"""The command: flags, logs, health and metrics server, leader election, start order.

``python -m ccm`` calls ``command.main``; ``manager`` starts and stops everything in order; ``controllers`` is
the table of controllers.
"""
