"""Hetzner Cloud load balancers as the ``load_balancers`` capability of a cloud.

Annotations are read (``annotations``), turned into the wanted load balancer
(``desired``), compared with the actual one (``plan``) and the resulting named steps
are run (``apply``). Certificates, targets, ownership and status are files of their own.
"""
