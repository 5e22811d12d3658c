module whoami

go 1.26.0
