"""The CCM's container image for every kind of server, made of pinned packages without root or Docker.

What goes in is data: Debian packages by hash (``debian.lock``), Python packages by hash
(``ccm/requirements.lock``) and the files of ``ccm``. The same input is the same bytes on every machine.
"""
