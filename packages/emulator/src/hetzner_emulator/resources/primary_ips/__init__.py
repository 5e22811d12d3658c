"""Primary IPs: the public addresses of servers, and of load balancers that are made with them."""
