"""The service controller: it keeps every Service of type LoadBalancer real in the cloud.

Cloud-neutral. ``policy`` decides (pure), ``patches`` writes the Service, ``targets``
says which nodes belong behind a load balancer, ``controller`` runs the queue.
"""
