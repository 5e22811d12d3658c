"""The service controller: reconciles the load balancers of Services of type LoadBalancer, for any cloud.

``controller`` runs the queue and performs the decisions of ``policy``. ``hosts`` chooses the Nodes for load
balancers, and ``change_limits`` limits the rate of changes. ``syncer`` calls the cloud, and writes Services
and Events. ``transform`` trims Services for the cache.
"""
