"""The service controller: it keeps every Service of type LoadBalancer real in the cloud.

Cloud-neutral. ``controller`` runs the queue. ``policy`` says what a Service asks for and ``hosts`` which
Nodes belong behind its load balancer (both pure); ``balancing`` has the load balancer made and ``cleanup``
has it removed; ``patches`` writes the Service and ``announcer`` its Events.
"""
