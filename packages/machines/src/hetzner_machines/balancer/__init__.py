"""Load balancers as haproxy: each in a namespace, with a public and private addresses."""
