"""The service controller: reconciles the load balancers of Services of type LoadBalancer, for any cloud.

``controller`` runs the queue and performs what ``policy`` decides, ``hosts`` says which Nodes belong behind a
load balancer (both pure), and ``change_limits`` how often each may change. ``syncer`` has the load balancer
created, changed or removed, and writes the Service and its Events. ``transform`` trims Services.
"""
