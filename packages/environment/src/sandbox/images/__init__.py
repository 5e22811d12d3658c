"""Container images that a person brings: read, kept for machines to come, sent to those that run.

``archive`` reads what ``docker save`` and its like write, ``engines`` asks those programs for an image by
name, ``send`` puts it on machines. What is kept for later machines is ``hetzner_machines.airgap``'s.
``registry`` takes what is pushed, and gives it to machines that ask for it.
"""
