"""Mutation testing by mutmut: small changes to the code, one by one, and whether the tests notice.

``judges`` says which tests judge which module; ``engine`` copies the tree and has mutmut change the copy;
``verdict`` counts what survived, without the changes that a table of reasons calls the same behaviour.
"""
