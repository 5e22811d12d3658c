"""The command: flags, logs, health and metrics server, leader election, start order.

``command.main`` is what ``python -m ccm`` calls; ``manager`` is the sequence in which things start and stop;
``controllers`` is the table of what runs.
"""
