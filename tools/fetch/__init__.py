"""Getting pages from the network: which addresses may be reached, the fetch itself, the cache of pages."""
