"""What a host must be for a fabric beyond its rails: each module finds one kind of trouble."""
