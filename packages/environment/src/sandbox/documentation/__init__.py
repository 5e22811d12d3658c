"""The documentation as a site: what stands in the tree's pages, with navigation and search, for a browser."""
