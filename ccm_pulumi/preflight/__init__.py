"""Everything that is checked before the first resource: settings, token, capacity and cost."""
