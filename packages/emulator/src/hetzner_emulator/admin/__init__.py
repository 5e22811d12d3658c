"""What people and tests ask of the sandbox and the real cloud does not have, and its page."""
