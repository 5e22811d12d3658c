"""DNS zones and the resource record sets in them; records, which no name server answers from."""
