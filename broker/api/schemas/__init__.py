"""Bodies of the HTTP API that are no messages of the contract; the server and the client share them."""
