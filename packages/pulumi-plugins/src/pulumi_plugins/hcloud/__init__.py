"""Resources of pulumi_hcloud, through the Hetzner Cloud API."""
