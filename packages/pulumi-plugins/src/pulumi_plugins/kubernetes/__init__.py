"""Resources of pulumi_kubernetes: any object of any kind, generically."""
