"""Mutation testing by mutmut: ``judges`` says which tests judge which module, ``engine`` runs mutmut."""
