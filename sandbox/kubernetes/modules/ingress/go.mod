module ingress

go 1.26.0
