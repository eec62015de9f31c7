"""The link between the hosts: found, checked and described for the ranks at every start."""
