"""Pulumi's CLI, found or built, and the states that it writes.

``cli`` finds the command and says which plugins it uses; ``states`` looks at what Pulumi has written.
"""
