"""Pulumi for the sandbox: its CLI, found or built, and plugins for where the official ones can't be had.

The engine is Pulumi's own. ``cli`` finds the command and says which plugins it uses; ``providers`` are the
plugins hcloud and kubernetes, which serve the sandbox alone;
``states`` looks at what Pulumi has written.
"""
