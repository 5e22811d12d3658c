"""Networks with subnets, routes and members."""
