"""Primary IPs, the public addresses of servers."""
