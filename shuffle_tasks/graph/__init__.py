"""The Dask side: workers, bounded submission, progress."""
