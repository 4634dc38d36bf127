"""How fast the shuffle is, against peers in the same run, and where its time goes."""
