"""Load balancers as haproxy: each in a namespace of its own, with a public and private addresses."""
