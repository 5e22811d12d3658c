"""The service controller: it keeps every Service of type LoadBalancer real in the cloud.

Cloud-neutral. ``controller`` runs the queue and performs what ``policy`` decides, ``hosts`` says which Nodes
belong behind a load balancer (both pure), and ``change_limits`` how often each may change. ``syncer`` has the
load balancer made, changed or removed, and writes the Service and its Events. ``transform`` trims Services.
"""
