"""Everything that is stored: objects, Zarr metadata and chunks, piles, records, the target."""
