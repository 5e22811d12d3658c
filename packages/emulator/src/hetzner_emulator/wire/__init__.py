"""Parts of requests and responses: fields, labels, selectors, and pages."""
