"""What stands in requests and answers, without any cloud: fields, labels, selectors, pages."""
