"""What a fabric should deliver: bus bandwidth per collective and algorithm from link rates with stated efficiencies."""
