"""Getting pages from the network: the addresses that may be reached (`guard`), the clients, the browser's loader."""
