"""The Pulumi program that builds the environment, out of the parts in ``ccm_pulumi``.

Pulumi runs ``__main__.py`` as a script, which has no package, so its imports are absolute.
"""

from ccm_pulumi.former_providers import register

register(__name__)
