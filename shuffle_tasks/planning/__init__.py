"""Pure planning: integers in, frozen values out; no I/O, no Zarr, no Dask."""
