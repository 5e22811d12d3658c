"""What is published of a commit: packages, chart, images, and what proves where they come from."""
