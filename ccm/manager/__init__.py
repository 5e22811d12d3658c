"""The command ``python -m ccm``: flags, logs, health and metrics server, leader election, start order.

The command calls ``command.main``. ``manager`` starts and stops all parts in order. ``controllers`` contains
the table of controllers.
"""
