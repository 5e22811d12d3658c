"""The documentation as a site with navigation and search, for a browser."""
